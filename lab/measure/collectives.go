package measure

import (
	"fmt"
	"strings"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/units"
)

// Kinds of collectives of NCCL, and of transfers of tokens to their experts and back (DeepEP's low-latency
// kernels).
const (
	AllGather     Kind = "all_gather"
	ReduceScatter Kind = "reduce_scatter"
	NCCLAllReduce Kind = "nccl_all_reduce"
	NCCLAllToAll  Kind = "nccl_all_to_all"
	Dispatch      Kind = "dispatch"
	Combine       Kind = "combine"
)

// collectiveOps are the names of collectives in tables of NCCL's tests, in the order of gpu.Collectives.
var collectiveOps = []string{"all_gather", "reduce_scatter", "all_reduce", "alltoall"}

var collectiveNames = []Kind{AllGather, ReduceScatter, NCCLAllReduce, NCCLAllToAll}

// judgedBytes is the smallest collective that is judged: smaller ones all take the time of a
// launch.
const judgedBytes = 64 * units.KiB

// nodeGPUs is the number of GPUs of a node in DeepEP's tables.
const nodeGPUs = 8

// allReduceRow reads an all-reduce of a framework: those in a graph, and TensorRT-LLM's. It skips others, which were
// launched one by one.
func (r *row) allReduceRow(s *Sample) (kept bool) {
	variant := r.text("variant")
	r.element("dtype", []string{wholeType})
	elements := r.integer("elements", 1, 1<<40)
	s.gpus, s.bytes, s.where = r.integer("gpus", 2, 1<<16), units.Bytes(2*elements), InGraph
	s.row = fmt.Sprintf("gpus=%d elements=%d dtype=%s variant=%s", s.gpus, elements, r.text("dtype"), variant)
	return variant == "trtllm" || strings.HasSuffix(variant, "_graph")
}

// collectiveRow reads a row of NCCL's tests, whose size is the elements in a GPU's larger buffer.
func (r *row) collectiveRow(s *Sample) {
	widths := map[string]int{"half": 2, "int8": 1}
	op, dtype := r.element("op", collectiveOps), r.element("dtype", []string{"half", "int8"})
	elements := r.integer("elements", 1, 1<<40)
	s.gpus, s.bytes, s.where = r.integer("gpus", 2, 1<<16), units.Bytes(widths[dtype]*elements), InGraph
	for i, name := range collectiveOps {
		if name == op {
			s.kind = collectiveNames[i]
		}
	}
	s.row = fmt.Sprintf("op=%s gpus=%d elements=%d dtype=%s", op, s.gpus, elements, dtype)
}

// exchangeRows reads a row of transfers of tokens to their experts and back, between GPUs of one
// node.
func (r *row) exchangeRows(s Sample) []Sample {
	if r.integer("nodes", 1, 1<<10) != 1 {
		return nil
	}
	s.where, s.gpus = InGraph, nodeGPUs
	s.ffn.Hidden = r.integer("hidden", 1, 1<<20)
	s.shares = routing{tokens: r.integer("tokens", 1, 1<<20), experts: r.integer("experts", 1, 1<<14), active: r.integer("topk", 1, 1<<14)}
	s.row = fmt.Sprintf("nodes=1 hidden=%d tokens=%d topk=%d experts=%d", s.ffn.Hidden, s.shares.tokens, s.shares.active, s.shares.experts)
	there, back := s, s
	there.kind, there.Seconds = Dispatch, r.positive("dispatch_us")*1e-6
	back.kind, back.Seconds = Combine, r.positive("combine_us")*1e-6
	return []Sample{there, back}
}

// exchange returns the transfer of a row's tokens with elements of a number of bits.
func (s *Sample) exchange(bits int) gpu.Exchange {
	return gpu.Exchange{GPUs: s.gpus, Experts: s.shares.experts, Pairs: float64(s.shares.tokens * s.shares.active), PairBytes: gpu.MessageBytes(s.ffn.Hidden, bits)}
}

func protocolParameters(spec func(t *Target) *gpu.Protocols) []parameter {
	return []parameter{
		duration("flagged_latency", 0.1, 8, 200, func(t *Target) *units.Duration { return &spec(t).FlaggedLatency }),
		duration("flagged_latency_per_gpu", 0.001, 1, 50, func(t *Target) *units.Duration { return &spec(t).FlaggedPerGPU }),
		rate("flagged_bandwidth", 1, 150, 2000, func(t *Target) *units.Bandwidth { return &spec(t).FlaggedBandwidth }),
		duration("latency", 0.01, 10, 200, func(t *Target) *units.Duration { return &spec(t).Latency }),
		duration("latency_per_gpu", 0.001, 1, 50, func(t *Target) *units.Duration { return &spec(t).LatencyPerGPU }),
		rate("bandwidth", 1, 200, 2000, func(t *Target) *units.Bandwidth { return &spec(t).Bandwidth }),
		number("last_step", 0.001, 0.5, 1, func(t *Target) *float64 { return &spec(t).LastStep }),
	}
}

// protocolNames are the names of those parameters.
var protocolNames = func() (names []string) {
	for _, p := range protocolParameters(func(*Target) *gpu.Protocols { return nil }) {
		names = append(names, p.name)
	}
	return names
}()

// switchParameters are those of all-reduces summed in the switch, which only tables of AIConfigurator tell from rings.
func switchParameters() []parameter {
	spec := func(t *Target) *gpu.SwitchSpec { return &t.GPU.Switch }
	return []parameter{
		duration("all_reduce_switch.latency", 0.1, 8, 200, func(t *Target) *units.Duration { return &spec(t).Latency }),
		duration("all_reduce_switch.latency_per_gpu", 0.001, 0.2, 50, func(t *Target) *units.Duration { return &spec(t).LatencyPerGPU }),
		rate("all_reduce_switch.bandwidth", 1, 250, 2000, func(t *Target) *units.Bandwidth { return &spec(t).Bandwidth }),
	}
}

// allReduceKinds returns the frameworks' all-reduces, by direct kernels, rings or a switch.
func allReduceKinds() []tabled {
	return []tabled{{
		kind: AllReduce, section: "gpu.all_reduce",
		cost:       func(g *gpu.Spec, s *Sample) gpu.Cost { return g.MethodCost(s.op, s.gpus, s.bytes) },
		parameters: allReduceParameters(),
		forms:      allReduceForms(),
	}}
}

func collectiveKinds() (all []tabled) {
	for i := range gpu.Collectives {
		x := &gpu.Collectives[i]
		all = append(all, tabled{
			kind: collectiveNames[i], section: "gpu.collectives." + x.Section,
			cost:       func(g *gpu.Spec, s *Sample) gpu.Cost { return g.CollectiveCost(x, s.gpus, float64(s.bytes)) },
			parameters: protocolParameters(func(t *Target) *gpu.Protocols { return x.In(&t.GPU.Collectives) }),
			forms:      []func(*gpu.Spec){func(g *gpu.Spec) { *x.In(&g.Collectives) = gpu.Protocols{FlaggedBandwidth: 1e9, Bandwidth: 1e9} }},
		})
	}
	return all
}

func exchangeKinds() []tabled {
	of := func(kind Kind, bits int, in func(*gpu.Spec) *gpu.ExchangeSpec) tabled {
		spec := func(t *Target) *gpu.ExchangeSpec { return in(&t.GPU) }
		return tabled{
			kind: kind, section: "gpu.collectives." + string(kind),
			cost: func(g *gpu.Spec, s *Sample) gpu.Cost { return g.ExchangeCost(in(g), s.exchange(bits)) },
			parameters: []parameter{
				duration("overhead", 0.1, 8, 200, func(t *Target) *units.Duration { return &spec(t).Overhead }),
				duration("expert_time", 1e-4, 0.01, 1, func(t *Target) *units.Duration { return &spec(t).ExpertTime }),
				rate("bandwidth", 1, 250, 2000, func(t *Target) *units.Bandwidth { return &spec(t).Bandwidth }),
				rate("lane_bandwidth", 0.1, 5, 1000, func(t *Target) *units.Bandwidth { return &spec(t).LaneBandwidth }),
				number("ridge", lowRidge, startRidge, highRidge, func(t *Target) *float64 { return &spec(t).Ridge }),
			},
			forms: []func(*gpu.Spec){func(g *gpu.Spec) { *in(g) = gpu.ExchangeSpec{Bandwidth: 1e9, LaneBandwidth: 1e9, Ridge: startRidge} }},
		}
	}
	return []tabled{
		of(Dispatch, 8, func(g *gpu.Spec) *gpu.ExchangeSpec { return &g.Collectives.Dispatch }),
		of(Combine, 16, func(g *gpu.Spec) *gpu.ExchangeSpec { return &g.Collectives.Combine }),
	}
}

// allReduceForms are the possible size limits of direct kernels, in addition to plain NCCL.
func allReduceForms() (all []func(*gpu.Spec)) {
	for _, limit := range []units.Bytes{8 * units.MiB, 64 * units.MiB} {
		all = append(all, func(g *gpu.Spec) {
			g.Collective.Method, g.Collective.SmallLimit = gpu.AllReduceDirect, limit
			g.Switch = gpu.SwitchSpec{Bandwidth: 1e9}
			if own := g.Collectives.AllReduce; own != (gpu.Protocols{}) {
				g.Collective.Protocols = own
			}
		})
	}
	return all
}
