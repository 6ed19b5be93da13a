package kinds

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
)

// builtin is the systems of this module.
var builtin = []System{l3System, gpuOnlySystem, hbmPIMSystem, rankPIMSystem, cpuOffloadSystem, gpuCPUSystem, sparseOffloadSystem}

// Loader loads configurations of the systems and the policies of this module.
var Loader = sync.OnceValue(func() *configs.Loader { return newLoader(policies.Builtin(), builtin) })

// newLoader returns the loader of configurations with the given systems and policies. The loader holds the systems.
func newLoader(known *policy.List, all []System) *configs.Loader {
	each := make([]configs.System, len(all))
	for i := range all {
		s := &all[i]
		each[i] = configs.System{
			Name: s.Name, Others: s.Others, Section: s.Section, Zero: s.Zero, Defaults: s.Defaults, Value: s,
			Check: func(cfg *configs.Config, c *input.Check) { s.check(all, cfg, c) },
		}
	}
	return configs.New(known, each...)
}

// Of returns the system of a validated configuration, nil if its loader is not of this package.
func Of(cfg *configs.Config) *System {
	if known := cfg.System(); known != nil {
		s, _ := known.Value.(*System)
		return s
	}
	return nil
}

// In returns the systems that configurations of a loader of this package may name.
func In(ld *configs.Loader) (all []*System) {
	for _, known := range ld.Systems() {
		if s, ok := known.Value.(*System); ok {
			all = append(all, s)
		}
	}
	return all
}

// Extend returns the loader of this module's systems and more, with the given policies. An invalid system returns an
// error that names it: its name or section is taken, a key has no default or an invalid one, or it has no Assemble.
func Extend(known *policy.List, more ...System) (*configs.Loader, error) {
	all := slices.Clone(builtin)
	for _, s := range more {
		if err := s.fault(all); err != nil {
			return nil, fmt.Errorf("system %q: %w", s.Name, err)
		}
		all = append(all, s)
	}
	ld := newLoader(known, all)
	if _, err := ld.Load(configs.Options{}); err != nil {
		return nil, err // names the defaults of the system
	}
	return ld, nil
}

// letters are allowed in names of sections, which are bare keys of TOML; names of systems may also have a "+".
const letters = "abcdefghijklmnopqrstuvwxyz0123456789_-"

// fault returns why a system cannot be added to others, apart from its defaults, which a loader reads.
func (s *System) fault(others []System) error {
	taken := func(same func(o *System) bool) bool {
		return slices.ContainsFunc(others, func(o System) bool { return same(&o) })
	}
	switch {
	case s.Name == "" || strings.Trim(s.Name, letters+"+") != "" || s.Name == "all":
		return fmt.Errorf(`expected a name of small letters, digits, -, _ and +, and not "all"`)
	case taken(func(o *System) bool { return o.Name == s.Name }):
		return fmt.Errorf("there is a system of this name")
	case s.Memory == nil || s.Assemble == nil:
		return fmt.Errorf("expected Memory and Assemble")
	case s.Section == "" && (s.Zero != nil || s.Defaults != ""):
		return fmt.Errorf("expected Section, the name of the section of Zero and Defaults")
	case s.Section == "":
		return nil
	case strings.Trim(s.Section, letters) != "":
		return fmt.Errorf("its Section %q: expected small letters, digits, - and _", s.Section)
	}
	keys := schema.Of[configs.Config]()
	if keys.IsSection(s.Section) || keys.Key(s.Section) != nil || taken(func(o *System) bool { return o.Section == s.Section }) {
		return fmt.Errorf("its Section %q: there is a section of this name", s.Section)
	}
	if err := schema.Fault(reflect.TypeOf(s.Zero)); err != nil {
		return fmt.Errorf("its Zero: %w", err)
	}
	if taken(func(o *System) bool { return reflect.TypeOf(o.Zero) == reflect.TypeOf(s.Zero) }) {
		return fmt.Errorf("its Zero: expected a type of its own, not %T of another system", s.Zero)
	}
	return nil
}
