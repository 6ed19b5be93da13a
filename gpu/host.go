package gpu

import (
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// HostSpec is what a server's host does in each iteration: scheduling, inputs, launches, sampling. The zero value takes no time.
type HostSpec struct {
	// Exposed is the part of each iteration for which the GPUs always wait: what has to come after the last sampled token and before
	// the next launch.
	Exposed units.Duration `toml:"exposed"`
	// Step and Sequence are the work of an iteration, and of each request in it, that the host does while the GPUs run. The GPUs wait
	// for what takes longer than their kernels.
	Step     units.Duration `toml:"step"`
	Sequence units.Duration `toml:"sequence"`
}

// Check has the rules of the section.
func (h *HostSpec) Check(c *input.Check) {
	for _, t := range []struct {
		key string
		v   units.Duration
	}{{"exposed", h.Exposed}, {"step", h.Step}, {"sequence", h.Sequence}} {
		c.That(t.v >= 0 && t.v <= units.Second, t.key, t.v, "0ps to 1s")
	}
}

// Visible returns for how long the GPUs wait for the host after an iteration that takes them so long with so many requests.
func (h *HostSpec) Visible(gpus units.Duration, requests int) units.Duration {
	if *h == (HostSpec{}) || requests == 0 {
		return 0
	}
	return h.Exposed + max(0, h.Step+units.Duration(requests)*h.Sequence-gpus)
}
