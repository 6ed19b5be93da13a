package dram

import (
	"slices"
	"strconv"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/schema"
)

// Set sets the field of s that the configuration key names ("tRFC", "rows", "power.IDD0"), or
// a timing of its standard's own ("tPPD"), from its text, in which quotes are optional. Call
// input.Validate after the last one.
func (s *Spec) Set(key, value string) error {
	keys := schema.Of[Spec]()
	table := s.table()
	if keys.Key(key) != nil || table == nil {
		return keys.Set(s, key, value)
	}
	if !slices.Contains(table.TimingNames(), key) {
		return &input.Error{Key: key, Expected: "a key of the part", Nearest: input.Nearest(key, append(keys.Names(), table.TimingNames()...))}
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 || n > 1<<20 {
		return &input.Error{Key: key, Value: value, Expected: "a whole number of clocks"}
	}
	s.Timings = s.Timings.with(key, n)
	return nil
}
