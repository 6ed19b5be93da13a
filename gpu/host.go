package gpu

import (
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// HostSpec is the host's work in each iteration of a server: scheduling, inputs, launches, sampling. The zero value takes no time.
type HostSpec struct {
	// Exposed is the part of each iteration for which the GPUs always wait: the work between the last sampled token and the next launch.
	Exposed units.Duration `toml:"exposed"`
	// Step and Sequence are the host's work for each iteration, and for each request in it, while the GPUs run. The GPUs wait if it takes
	// longer than their kernels.
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

// Visible returns how long the GPUs wait for the host after an iteration that takes them gpus time for the given number of requests.
func (h *HostSpec) Visible(gpus units.Duration, requests int) units.Duration {
	if *h == (HostSpec{}) || requests == 0 {
		return 0
	}
	return h.Exposed + max(0, h.Step+units.Duration(requests)*h.Sequence-gpus)
}
