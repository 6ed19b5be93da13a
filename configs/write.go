package configs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/BurntSushi/toml"
)

// WriteTOML writes every key of the configuration in the order of the struct.
// Read as an overlay, alone, the text gives an equal Config.
func (c *Config) WriteTOML(w io.Writer) error {
	var text bytes.Buffer
	encoder := toml.NewEncoder(&text)
	encoder.Indent = ""
	if err := encoder.Encode(c); err != nil {
		return fmt.Errorf("configuration: %w", err)
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
