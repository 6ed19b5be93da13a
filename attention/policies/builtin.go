package policies

import (
	"github.com/l3sim/l3sim/attention/policy"
	"sync"
)

// builtin are the policies of this package, in the order of lists.
var builtin = []policy.Policy{dense, window, streaming, h2o, quest, lserve, duo, hgca, csattention, dsa}

// Builtin returns the list of the policies of this package.
var Builtin = sync.OnceValue(func() *policy.List {
	l, _ := (&policy.List{}).With(builtin...) // cannot fail, see TestBuiltin
	return l
})

// New returns the section of a policy of this package with all defaults.
func New(name string) policy.Spec { return Builtin().New(name) }
