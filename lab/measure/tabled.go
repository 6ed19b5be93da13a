package measure

import (
	"slices"

	"github.com/l3sim/l3sim/gpu"
)

// tabled is a kind of kernels for which AIConfigurator has separate tables, with its own section in a fit. Its rows are held out one by
// one; all-reduces are measured in other files, too.
type tabled struct {
	kind       Kind
	section    string
	cost       func(g *gpu.Spec, s *Sample) gpu.Cost
	parameters []parameter
	forms      []func(*gpu.Spec) // variants with parameters that a fit does not move; each sets the whole section
}

// tabledKinds are those of collectives and of indexers.
var tabledKinds = slices.Concat(allReduceKinds(), collectiveKinds(), exchangeKinds(), indexKinds())

// tabledOf returns a kind's tabled, nil for another kind.
func tabledOf(kind Kind) *tabled {
	i := slices.IndexFunc(tabledKinds, func(k tabled) bool { return k.kind == kind })
	if i < 0 {
		return nil
	}
	return &tabledKinds[i]
}

// single says that rows of a kind are held out one by one.
func (s *Sample) single() bool {
	return s.kind.latent() || tabledOf(s.kind) != nil && (s.kind != AllReduce || s.row != "")
}
