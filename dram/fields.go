package dram

import (
	"github.com/l3sim/l3sim/internal/schema"
)

// Set sets the field of s that the configuration key names ("tRFC", "rows",
// "power.IDD0") from its text, in which quotes are optional. Call input.Validate after
// the last one.
func (s *Spec) Set(key, value string) error {
	return schema.Of[Spec]().Set(s, key, value)
}
