package gpu

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/units"
)

// ringOf returns protocols with simple numbers: flags at 10 us + 1 us a GPU and 10 GB/s, chunks at 20 us + 2 us and 100 GB/s, with a last
// step that takes half.
func ringOf(scale float64) Protocols {
	return Protocols{
		FlaggedLatency: 10 * units.Microsecond, FlaggedPerGPU: units.Microsecond, FlaggedBandwidth: units.Bandwidth(10e9 * scale),
		Latency: 20 * units.Microsecond, LatencyPerGPU: 2 * units.Microsecond, Bandwidth: units.Bandwidth(100e9 * scale), LastStep: 0.5,
	}
}

// TestCollectivesByHand: each GPU sends (T − 1)/T of its buffer, in an all-reduce twice as much, and chunks of a ring take one more step.
func TestCollectivesByHand(t *testing.T) {
	var s Spec
	s.Collective.Protocols = ringOf(1)
	for _, c := range []struct {
		op        int
		gpus      int
		bytes, us float64
	}{
		{allGather, 4, 4000, 14 + 3000/10e3}, {allGather, 4, 4e6, 28 + 3.5e6/100e3}, {reduceScatter, 2, 2e6, 24 + 1.5e6/100e3}, {allReduce, 4, 4e6, 28 + 6.5e6/100e3},
		{allToAll, 8, 8e6, 36 + 7.5e6/100e3}, {allGather, 1, 4e6, 0}, {allGather, 4, 0, 0},
	} {
		x := &Collectives[c.op]
		if got := 1e6 * s.CollectiveCost(x, c.gpus, c.bytes).Seconds; math.Abs(got-c.us) > 1e-9*c.us {
			t.Errorf("%s of %v bytes on %d: %v us, want %v", x.Section, c.bytes, c.gpus, got, c.us)
		}
		own := s
		*x.In(&own.Collectives) = ringOf(2) // a kernel of the fit's own
		if got, want := own.CollectiveCost(x, c.gpus, c.bytes).Memory, s.CollectiveCost(x, c.gpus, c.bytes).Memory/2; c.bytes != 4e6 && got != want || own.CollectiveCost(x, 3, 9e9) == s.CollectiveCost(x, 3, 9e9) {
			t.Errorf("%s of its own: %v s, want %v", x.Section, got, want)
		}
	}
}

// TestSwitchByHand: the switch sums if that is faster than a ring, and direct kernels still run below their limit.
func TestSwitchByHand(t *testing.T) {
	s := Spec{Collective: AllReduceSpec{Model: AllReduceMeasured, Method: AllReduceDirect, Protocols: ringOf(1)}}
	s.Switch = SwitchSpec{Latency: 15 * units.Microsecond, LatencyPerGPU: 3 * units.Microsecond, Bandwidth: 100e9}
	sum := func(gpus, bytes float64) float64 { return 15 + 3*gpus + (1+1/gpus)*bytes/100e3 }
	for _, c := range []struct {
		gpus  int
		bytes units.Bytes
		us    float64
	}{{4, 4e6, sum(4, 4e6)}, {8, 8e6, sum(8, 8e6)}, {4, 4000, 14 + 6000/10e3}, {2, 40e6, 24 + 50e6/100e3}} {
		if got := 1e6 * s.allReduce(c.gpus, c.bytes); math.Abs(got-c.us) > 1e-9*c.us {
			t.Errorf("%d bytes on %d: %v us, want %v", c.bytes, c.gpus, got, c.us)
		}
	}
	s.Collective.SmallLimit, s.Collective.SmallLatency, s.Collective.SmallBandwidth, s.Collective.SecondShotBandwidth = 4e6, units.Microsecond, 1000e9, 1e9
	if got := 1e6 * s.allReduce(4, 4e6); math.Abs(got-13) > 1e-9 {
		t.Errorf("direct: %v us", got)
	}
	s.Collective.Method = AllReduceNCCL
	ring := s.allReduce(4, 4e6)
	if s.Collectives.AllReduce = ringOf(2); s.allReduce(4, 4e6) != 28e-6+6.5e6/200e9 || ring != 28e-6+6.5e6/100e9 {
		t.Errorf("NCCL takes %v s, and %v by itself", ring, s.allReduce(4, 4e6))
	}
}

// TestExchangeByHand: 16 tokens of each of 8 GPUs, with 8 of 64 experts each, are 128 messages a GPU, 7 of 8 to other GPUs, and two on each
// lane. The GPU that receives the most sets the time.
func TestExchangeByHand(t *testing.T) {
	if got := MessageBytes(7168, 8); got != 7168+56*4+16 {
		t.Errorf("%v bytes of FP8", got)
	}
	if got := MessageBytes(7168, 16); got != 2*7168+16 {
		t.Errorf("%v bytes of 16 bits", got)
	}
	var s Spec
	e := ExchangeSpec{Overhead: 9 * units.Microsecond, ExpertTime: 10 * units.Nanosecond, Bandwidth: 100e9, LaneBandwidth: 1e9, Ridge: 1}
	x := Exchange{GPUs: 8, Experts: 64, Pairs: 128, PairBytes: 1000}
	for most, us := range map[float64]float64{0: 9.64 + 0.875*128_000/100e3 + 2000/1e3, 256: 9.64 + 0.875*256_000/100e3 + 4000/1e3} {
		x.Most = most
		if got := 1e6 * s.ExchangeCost(&e, x).Seconds; math.Abs(got-us) > 1e-9*us {
			t.Errorf("%v pairs received: %v us, want %v", most, got, us)
		}
	}
	x.GPUs = 1
	if s.ExchangeCost(&e, x) != (Cost{}) {
		t.Error("one GPU sends")
	}
}

// TestOwnCollectives: with data-parallel attention, a layer gathers and scatters, or exchanges tokens with their experts, by the fit's own
// kernels; the times by kind show that.
func TestOwnCollectives(t *testing.T) {
	s := loadPreset(t, "h200-sxm")
	s.Collective.Skew = 0
	s.Collectives = CollectiveTables{AllGather: ringOf(1), ReduceScatter: ringOf(2)}
	divided := NewModelCost(s, parallelModel(8, llm.Parallel{AttentionParallel: "data"}))
	f := &divided.feedForwards[0]
	n := float64(801 * 7168 * 2)
	gather, scatter := 36e-6+(7.0/8+0.5/8)*n/100e9, 36e-6+(7.0/8+0.5/8)*n/200e9
	if got := divided.joinNetworks(f, 801).Seconds; !near(got, gather+scatter) {
		t.Errorf("gathering and scattering take %v s, want %v and %v", got, gather, scatter)
	}
	kinds := func(c *ModelCost) map[string]float64 {
		of := map[string]float64{}
		for _, k := range c.KernelTimes(Shape{Decode: UniformBatch(801, 300)}) {
			of[k.Kind] = k.Seconds
		}
		return of
	}
	layers := float64(divided.model.Layers)
	if of := kinds(divided); !near(of["all_gather"], layers*gather) || !near(of["reduce_scatter"], layers*scatter) || of["collectives"] > 0 || of["all_reduce"] <= 0 {
		t.Errorf("%v", of)
	}
	both := NewModelCost(s, parallelModel(8, llm.Parallel{AttentionParallel: "data", ExpertParallel: true}))
	if of := kinds(both); of["all_to_all"] <= 0 {
		t.Errorf("%v", of)
	}
	s.Collectives.AllToAll = ringOf(1)
	elements := 101 * 7 * (1 - math.Pow(7.0/8, 6)) * 7168
	want := 2 * (36e-6 + (1+0.5/7)*elements*2/100e9)
	if got := both.joinNetworks(&both.feedForwards[0], 801).Seconds; !near(got, want) {
		t.Errorf("all to all takes %v s, want %v", got, want)
	}
	if of := kinds(both); of["nccl_all_to_all"] <= 0 || of["all_to_all"] > 0 {
		t.Errorf("%v", of)
	}
	way := ExchangeSpec{Overhead: 9 * units.Microsecond, Bandwidth: 100e9, LaneBandwidth: 1e18}
	s.Collectives.Dispatch, s.Collectives.Combine = way, way
	s.Collectives.Combine.Overhead = 20 * units.Microsecond
	most := float64(both.feedForwards[0].dealt.load(6, 801).Pairs)
	if most <= 101*6 {
		t.Errorf("%v pairs at the busiest GPU", most)
	}
	one := 7.0 / 8 * most * (2*7168 + 16) / 100e9
	if got := both.joinNetworks(&both.feedForwards[0], 801).Seconds; !near(got, 29e-6+2*one) {
		t.Errorf("dispatch and combine take %v s, want %v", got, 29e-6+2*one)
	}
	if of := kinds(both); of["combine"] <= of["dispatch"] || of["dispatch"] <= 0 {
		t.Errorf("%v", of)
	}
}
