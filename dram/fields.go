package dram

import (
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/schema"
)

// Set sets the field of s that the configuration key names ("tRFC", "rows",
// "power.IDD0") from its text, in which quotes are optional. Call input.Validate after
// the last one.
func (s *Spec) Set(key, value string) error {
	return schema.Of[Spec]().Set(s, key, value)
}

// Set sets the field that the configuration key names, of the part ("tRFC",
// "dram.tRFC") or of the policy ("page", "policy.page"), from its text. Call
// Validate after the last one.
func (s *Setup) Set(key, value string) error {
	part, policy := schema.Of[Spec](), schema.Of[Policy]()
	ofPart, isPart := strings.CutPrefix(key, "dram.")
	ofPolicy, isPolicy := strings.CutPrefix(key, "policy.")
	switch {
	case isPart, !isPolicy && part.Key(key) != nil:
		return part.Set(s.Spec, ofPart, value)
	case isPolicy, policy.Key(key) != nil:
		return policy.Set(s.Policy, ofPolicy, value)
	}
	return &input.Error{Key: key, Expected: "a key of the part or of the policy",
		Nearest: input.Nearest(key, append(part.Names(), policy.Names()...))}
}
