package kinds

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/batching"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// checkElsewhere refuses what is not modelled with prompts prefilled elsewhere; all is the systems that the configuration could name.
func (s *System) checkElsewhere(all []System, cfg *configs.Config, c *input.Check) {
	key, value := "serving.prefill", cfg.Serving.Prefill
	c.That(s.receives, key, value, "%q with %s = %s: what keys and values that come from other servers cost units, CPUs and their memory is not modelled; they come with %s = %s",
		scheduler.PrefillHere, input.Key("run.system"), s.Name, input.Key("run.system"), namesOf(all, func(s *System) bool { return s.receives }))
	c.That(!cfg.Cache.Prefix, key, value, "%q with %s = true: prompts that come whole find nothing in a cache", scheduler.PrefillHere, input.Key("cache.prefix"))
}

// prefilled returns the link over which prompts arrive; nil if they run here.
func prefilled(h *flow.Hardware) *batching.Link {
	s := &h.Config.Serving
	if s.Prefill != scheduler.PrefillElsewhere {
		return nil
	}
	p := flow.PolicyOf(h)
	return &batching.Link{Latency: s.PrefillLatency, Transfer: func(tokens int) units.Duration {
		return flow.TransferTime(s.PrefillBandwidth, storedBytes(p, tokens))
	}}
}

// storedBytes returns the bytes that a prompt leaves in all layers, in one copy: keys and values, and a policy's own
// data.
func storedBytes(p policy.Costs, tokens int) (sum units.Bytes) {
	for run, layers := range p.Runs() {
		held, _ := p.Memory(run)
		for i := range held {
			x := &held[i]
			sum += units.Bytes(int64(layers) * int64(x.Heads) * x.Bytes * int64(x.Tokens(tokens, tokens)))
		}
	}
	return sum
}
