package configs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/l3sim/l3sim/internal/schema"
)

// WriteTOML writes every key of the configuration in the order of the struct.
// Read as an overlay, alone, the text gives an equal Config.
func (c *Config) WriteTOML(w io.Writer) error {
	var text bytes.Buffer
	for _, section := range append([]string{""}, c.loader.keys.Sections()...) { // those within a section behind its own keys
		if outer, _ := schema.Split(section); section != "" && outer == "" {
			fmt.Fprintln(&text)
		}
		if section != "" {
			fmt.Fprintf(&text, "[%s]\n", section)
		}
		for _, k := range c.loader.keys.Keys {
			if in, key := schema.Split(k.Name); in == section {
				value, ok := schema.Literal(k.Get(c).Interface())
				if !ok {
					return fmt.Errorf("configuration: %s cannot be written", k.Name)
				}
				fmt.Fprintf(&text, "%s = %s\n", key, value)
			}
		}
	}
	_, err := text.WriteTo(w)
	return err
}

// SHA256 returns the hexadecimal SHA-256 of what WriteTOML writes: equal for two
// configurations exactly where they are equal in every key.
func (c *Config) SHA256() (string, error) {
	hash := sha256.New()
	if err := c.WriteTOML(hash); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
