package configs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/l3sim/l3sim/internal/schema"
)

// WriteTOML writes every key of the configuration in the order of the struct.
// Read as an overlay, alone, the text gives an equal Config.
func (c *Config) WriteTOML(w io.Writer) error {
	lines := map[string][]byte{} // by section, as keys within a section stand behind its own
	for _, k := range c.loader.keys.Keys {
		value, ok := schema.Literal(k.Get(c).Interface())
		if !ok {
			return fmt.Errorf("configuration: %s cannot be written", k.Name)
		}
		section, key := schema.Split(k.Name)
		lines[section] = fmt.Appendf(lines[section], "%s = %s\n", key, value)
	}
	text := lines[""]
	for _, section := range c.loader.keys.Sections() {
		if outer, _ := schema.Split(section); outer == "" {
			text = append(text, '\n')
		}
		text = append(fmt.Appendf(text, "[%s]\n", section), lines[section]...)
	}
	_, err := w.Write(text)
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
