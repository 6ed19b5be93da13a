package gpu

import (
	"cmp"

	"github.com/l3sim/l3sim/energy"
	"github.com/l3sim/l3sim/input"
)

// ScaleSpec has factors on the times of kernels in iterations, by kind. 1 is the model's time. The ends of a band are the 10th and 90th
// percentile of the real time relative to the model's; 'l3sim sweep --bands' draws from it. Traffic, arithmetic and their energy are
// unchanged.
type ScaleSpec struct {
	Products     energy.Constant `toml:"products,optional"`          // factor on the time of products, including experts
	Prefill      energy.Constant `toml:"prefill_attention,optional"` // factor on the time of attention of prompts
	Decode       energy.Constant `toml:"decode_attention,optional"`  // factor on the time of decode attention and its selection
	AllReduce    energy.Constant `toml:"all_reduce,optional"`        // factor on the time of all-reduces
	SmallKernels energy.Constant `toml:"small_kernels,optional"`     // factor on the time of norms, activations, copies and other passes over activations
}

// AssumedScale is the factor of kernels with unmeasured error, as in ScaleDefaults.
const AssumedScale energy.Constant = "1 [0.774, 1.292] assumption"

// ScaleDefaults are the defaults of the section [gpu.scale].
const ScaleDefaults = `
[gpu.scale]
products = "1 [0.774, 1.292] assumption"          # not measured: a spread of 20%, twice the widest that lab/docs/validation.md records; throughput, what l3sim sweep --bands draws
prefill_attention = "1 [0.774, 1.292] assumption" # the same; TTFT
decode_attention = "1 [0.774, 1.292] assumption"  # the same; TBT
all_reduce = "1 [0.774, 1.292] assumption"        # the same; TBT of several GPUs
small_kernels = "1 [0.774, 1.292] assumption"     # the same; TBT of small batches
`

// Check has the rules of the section [gpu.scale].
func (s *ScaleSpec) Check(c *input.Check) {
	for _, k := range []struct {
		key string
		v   energy.Constant
	}{{"products", s.Products}, {"prefill_attention", s.Prefill}, {"decode_attention", s.Decode}, {"all_reduce", s.AllReduce}, {"small_kernels", s.SmallKernels}} {
		e := k.v.Estimate()
		c.That(e.Low >= 0.01 && e.High <= 100, k.key, k.v, "a factor whose band lies in 0.01 to 100")
	}
}

// factors are the numbers of a ScaleSpec.
type factors struct{ products, prefill, decode, allReduce, small float64 }

// factors returns 1 for a factor that is missing, as in a GPU described outside a configuration.
func (s *ScaleSpec) factors() factors {
	of := func(c energy.Constant) float64 { return cmp.Or(c.Estimate().Value, 1) }
	return factors{of(s.Products), of(s.Prefill), of(s.Decode), of(s.AllReduce), of(s.SmallKernels)}
}

// scaled returns the work with its time multiplied by factor.
func (w Work) scaled(factor float64) Work {
	return Work{float64(w.Seconds * factor), float64(w.Clocked * factor), w.Dynamic}
}

// product returns a product in an iteration, and nothing if a size is zero.
func (c *ModelCost) product(m, n, k int, w widths) Work {
	cost := c.spec.productCost(m, n, k, w)
	if t, _ := c.spec.typed(w); t != nil {
		cost.Overhead, cost.Seconds = cost.Overhead-t.Arrange.Seconds(), cost.Seconds-t.Arrange.Seconds()
	}
	return c.spec.work(cost).scaled(c.scale.products)
}

// mixed returns a product in the mean layer: in the share kept of the layers, the weights have the model's own width.
func (c *ModelCost) mixed(m, n, k int, w widths, kept float64) Work {
	narrow := c.product(m, n, k, w)
	if kept == 0 {
		return narrow
	}
	return narrow.mean(c.product(m, n, k, c.uniform), kept)
}

// mean returns the mean of two works, weighting v with share.
func (w Work) mean(v Work, share float64) Work {
	of := func(a, b float64) float64 { return float64((1-share)*a) + float64(share*b) }
	return Work{of(w.Seconds, v.Seconds), of(w.Clocked, v.Clocked), of(w.Dynamic, v.Dynamic)}
}

// small returns a kernel that passes over activations.
func (c *ModelCost) small(cost Cost) Work { return c.spec.work(cost).scaled(c.scale.small) }

// prefills returns attention of prompts.
func (c *ModelCost) prefills(cost Cost) Work {
	return c.waits(c.spec.work(cost).scaled(c.scale.prefill))
}
