package system

import (
	"slices"
	"sync"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/system/kinds"
)

// CallersSystems are the systems of package system_test, which is outside of this package like a caller's
// program.
var CallersSystems []kinds.System

// everything loads configurations of the built-in systems and of CallersSystems. Tests of every system run on all of them:
// laws, timelines, extreme values, rejected requests, planted violations.
var everything = sync.OnceValue(func() *configs.Loader {
	ld, err := Extend(Extension{Systems: CallersSystems})
	if err != nil {
		panic(err)
	}
	return ld
})

// densely returns all systems that run dense attention: others need a policy that chooses (TestPoliciesRun).
func densely() (all []*kinds.System) {
	for _, s := range Systems(everything()) {
		if slices.Contains(s.Policies(), "dense") {
			all = append(all, s)
		}
	}
	return all
}

// everyName returns the names of all systems that run dense attention.
func everyName() []string {
	return list.Map(densely(), func(s *kinds.System) string { return s.Name })
}

// systemOf returns the system of a name.
func systemOf(name string) *kinds.System {
	all := Systems(everything())
	return all[slices.IndexFunc(all, func(s *kinds.System) bool { return s.Name == name })]
}
