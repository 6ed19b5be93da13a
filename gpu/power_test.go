package gpu

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// plainPower has a limit of 600 W, of which 100 W are always drawn. Halving the excess takes the square root of the clock.
var plainPower = PowerSpec{Limit: 600, Base: 100, PerByte: 10, PerFLOP: 2, Throttle: 0.5}

// TestSlowdown: by hand. 1 s with 800 J of its own draws 900 W at full clock: 1.5 times the limit. The clock falls to 1/√1.5, and clocked
// time grows accordingly.
func TestSlowdown(t *testing.T) {
	slow := math.Sqrt(1.5)
	for _, c := range []struct {
		name                      string
		work                      Work
		throttle                  float64
		slowdown, seconds, joules float64
	}{
		{"below the limit", Work{Seconds: 2, Clocked: 2, Dynamic: 800}, 0.5, 1, 2, 1000},
		{"at the limit", Work{Seconds: 1, Clocked: 1, Dynamic: 500}, 0.5, 1, 1, 600},
		{"all follows the clock", Work{Seconds: 1, Clocked: 1, Dynamic: 800}, 0.5, slow, slow, 600 * slow},
		{"half does", Work{Seconds: 1, Clocked: 0.5, Dynamic: 800}, 0.5, (1 + slow) / 2, (1 + slow) / 2, 300 * (1 + slow)},
		{"nothing does", Work{Seconds: 1, Clocked: 0, Dynamic: 800}, 0.5, 1, 1, 600},
		{"the limit is not felt", Work{Seconds: 1, Clocked: 1, Dynamic: 800}, 0, 1, 1, 600},
		{"clock and power fall alike", Work{Seconds: 2, Clocked: 2, Dynamic: 1600}, 1, 1.5, 3, 1800},
		{"nothing", Work{}, 0.5, 1, 0, 0},
	} {
		s := Spec{Power: plainPower}
		s.Power.Throttle = c.throttle
		seconds, joules := s.Sustained(c.work)
		if got := s.Slowdown(c.work); !near(got, c.slowdown) || !near(seconds, c.seconds) || !near(joules, c.joules) {
			t.Errorf("%s: slowdown %g, %g s, %g J, want %g, %g, %g", c.name, got, seconds, joules, c.slowdown, c.seconds, c.joules)
		}
	}
}

// TestWorkOfKernels: bytes and executed operations take energy. Arithmetic scales with the clock, overheads do not, and if memory binds,
// the share of the squares does.
func TestWorkOfKernels(t *testing.T) {
	s := Spec{Power: plainPower}
	for _, c := range []struct {
		name string
		cost Cost
		want Work
	}{
		{"arithmetic", Cost{FLOPs: 1e12, Executed: 3e12, Compute: 4, Overhead: 1, Seconds: 5}, Work{Seconds: 5, Clocked: 4, Dynamic: 6}},
		{"memory", Cost{Bytes: 2e12, Memory: 4, Overhead: 1, Seconds: 5}, Work{Seconds: 5, Clocked: 0, Dynamic: 20}},
		{"chain", Cost{Bytes: 1e12, Latency: 4, Overhead: 1, Seconds: 5}, Work{Seconds: 5, Clocked: 4, Dynamic: 10}},
		{"both", Cost{Bytes: 1e12, Executed: 1e12, Compute: 3, Memory: 6, Overhead: 1, Seconds: 7}, Work{Seconds: 7, Clocked: 6 * 9. / 45, Dynamic: 12}},
		{"launch alone", Cost{Overhead: 2, Seconds: 2}, Work{Seconds: 2, Clocked: 0, Dynamic: 0}},
		{"nothing", Cost{}, Work{}},
	} {
		got := s.work(c.cost)
		if math.Abs(got.Seconds-c.want.Seconds)+math.Abs(got.Clocked-c.want.Clocked)+math.Abs(got.Dynamic-c.want.Dynamic) > 1e-9 {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	if a, b := (Work{Seconds: 1, Clocked: 2, Dynamic: 3}), (Work{Seconds: 10, Clocked: 20, Dynamic: 30}); a.Plus(b) != (Work{Seconds: 11, Clocked: 22, Dynamic: 33}) || a.Times(3) != (Work{Seconds: 3, Clocked: 6, Dynamic: 9}) {
		t.Errorf("sum %+v, three times %+v", a.Plus(b), a.Times(3))
	}
}

// TestPowerLaws: on every preset, the limit never makes work faster, and power is between base and limit. One more kernel takes neither
// less time nor less energy. The whole is slowed at most as much as its most power-hungry part would be alone.
func TestPowerLaws(t *testing.T) {
	forPresets(t, func(t *rapid.T, s *Spec) {
		var w Work
		least, most := math.Inf(1), 0.0
		for range rapid.IntRange(1, 4).Draw(t, "kernels") {
			k := drawKernel(t)
			one := s.work(k.cost(s, k.sizes)).Times(rapid.IntRange(1, 100).Draw(t, "times"))
			if one.Clocked < 0 || one.Clocked > one.Seconds*(1+1e-12) || one.Dynamic < 0 {
				t.Fatalf("%s %v: %+v", k.name, k.sizes, one)
			}
			before, energy := s.Sustained(w)
			w = w.Plus(one)
			after, more := s.Sustained(w)
			if after < before*(1-1e-12) || more < energy*(1-1e-12) {
				t.Fatalf("%s %v more: %g s and %g J, before %g and %g", k.name, k.sizes, after, more, before, energy)
			}
			power := s.Power.Base + one.Dynamic/one.Seconds
			least, most = min(least, power), max(most, power)
		}
		slow := s.Slowdown(w)
		seconds, joules := s.Sustained(w)
		if slow < 1 || !near(seconds, slow*w.Seconds) || joules > s.Power.Limit*seconds*(1+1e-12) || joules < min(s.Power.Base, s.Power.Limit)*seconds*(1-1e-12) {
			t.Fatalf("%+v: slowdown %g, %g s, %g J", w, slow, seconds, joules)
		}
		if highest := max(1, math.Pow(most/s.Power.Limit, s.Power.Throttle)); slow > highest*(1+1e-12) {
			t.Fatalf("%+v of up to %g W: slowdown %g, over %g", w, most, slow, highest)
		}
		if most <= s.Power.Limit && slow != 1 {
			t.Fatalf("%+v below the limit: slowdown %g", w, slow)
		}
		if a, b := s.Slowdown(w), s.Slowdown(w.Times(7)); !near(a, b) {
			t.Fatalf("slowdown %g, seven times as long %g", a, b)
		}
	})
}

// TestMeasuredAlone: by hand. Measuring a kernel alone adds its overhead, and the write-back of half of the bytes read, up to half of the
// L2, at the kernel's own rate.
func TestMeasuredAlone(t *testing.T) {
	s := Spec{Alone: AloneSpec{Overhead: 4 * units.Microsecond, L2: 50e6, FlushShare: 0.5, SmallOverhead: units.Microsecond, SmallFlushShare: 1}}
	for bytes, want := range map[float64]float64{10e6: 1e-6 + 4e-6 + 15e-6, 50e6: 1e-6 + 4e-6 + 75e-6, 200e6: 1e-6 + 4e-6 + 225e-6} {
		c := Cost{Bytes: bytes, Memory: bytes / 1e12, Overhead: 1e-6}.combine(0)
		if got := s.MeasuredAlone(c).Seconds; !near(got, want) {
			t.Errorf("%g bytes: %g s, want %g", bytes, got, want)
		}
		if got, small := s.SmallAlone(c).Seconds, 2e-6+(bytes+min(bytes, 50e6))/1e12; !near(got, small) {
			t.Errorf("%g bytes of a small kernel: %g s, want %g", bytes, got, small)
		}
	}
	if got := s.MeasuredAlone(Cost{Compute: 1e-3, Latency: 2e-3}.combine(0)).Seconds; !near(got, 2.004e-3) {
		t.Errorf("without bytes: %g s", got)
	}
	if got := s.MeasuredAlone(Cost{}); got != (Cost{}) {
		t.Errorf("nothing: %+v", got)
	}
}

// TestMeasuredAloneLaw: on every preset the addition is never negative, and a kernel that reads more is never measured faster.
func TestMeasuredAloneLaw(t *testing.T) {
	forPresets(t, func(t *rapid.T, s *Spec) {
		k := drawKernel(t)
		c := k.cost(s, k.sizes)
		if m := s.MeasuredAlone(c); m.Seconds < c.Seconds || m.Bytes != c.Bytes || m.FLOPs != c.FLOPs {
			t.Fatalf("%s %v: %+v alone, %+v in a graph", k.name, k.sizes, m, c)
		}
	})
}

// TestProductsDrawTheLimit: without power measurements, pj_per_flop is set so that a large product draws the limit within 1%, as on
// measured GPUs and as published for the A100. AttAcc's a100-paper keeps its value.
func TestProductsDrawTheLimit(t *testing.T) {
	for _, name := range presetNames(t, "gpus") {
		s := loadPreset(t, name)
		seconds, joules := s.KernelSustained(s.GEMMCost(8192, 8192, 8192, 16))
		if watts := joules / seconds; name != "a100-paper" && math.Abs(watts/s.Power.Limit-1) > 0.01 {
			t.Errorf("%s: a product draws %.1f W of %.0f", name, watts, s.Power.Limit)
		}
		least := *s
		least.Power.PerFLOP *= 0.9 // the power cap would hide a value that is too high
		if seconds, joules = least.KernelSustained(least.GEMMCost(8192, 8192, 8192, 16)); s.Power.Throttle == 0 && joules/seconds > 0.95*s.Power.Limit {
			t.Errorf("%s: with a tenth less an operation it still draws %.1f W of %.0f", name, joules/seconds, s.Power.Limit)
		}
	}
}

// TestPromptBand: the energy of prompts on an A100, both with the earlier 0.7 pJ for each operation and with the 1.407 pJ measured on the
// H100, is within the band, which is at most a tenth wider.
func TestPromptBand(t *testing.T) {
	s := loadPreset(t, "a100-sxm-80gb")
	band, widest := s.Power.PromptBand, 0.0
	for _, name := range []string{"gpt-175b", "llama-3-8b", "opt-66b"} {
		m := *loadModel(t, name)
		for _, tokens := range []int{512, 2048, 8192} {
			joules := func(perFLOP float64) float64 {
				spec := *s
				spec.Power.PerFLOP = perFLOP
				_, j := spec.Sustained(NewModelCost(&spec, &m).Iteration(Shape{Prefills: 1, Chunk: tokens}))
				return j
			}
			low, mid, high := joules(0.7), joules(s.Power.PerFLOP), joules(1.407)
			if low < (1-band)*mid || high > (1+band)*mid {
				t.Errorf("%s, %d tokens: %.3f and %.3f of %.4g J, the band is %g", name, tokens, low/mid, high/mid, mid, band)
			}
			widest = max(widest, 1-low/mid, high/mid-1)
		}
	}
	if widest < 0.9*band {
		t.Errorf("a band of %.3f would do", widest)
	}
}

// TestEdgesOfPower: the smallest and largest legal watts and shares.
func TestEdgesOfPower(t *testing.T) {
	for key, set := range map[string]func(p *PowerSpec, v float64){
		"idle_w": func(p *PowerSpec, v float64) { p.Idle = v }, "active_idle_w": func(p *PowerSpec, v float64) { p.ActiveIdle = v }, "base_w": func(p *PowerSpec, v float64) { p.Base = v },
		"pj_per_byte": func(p *PowerSpec, v float64) { p.PerByte = v }, "pj_per_flop": func(p *PowerSpec, v float64) { p.PerFLOP = v }, "limit_w": func(p *PowerSpec, v float64) { p.Limit = v },
		"prompt_band": func(p *PowerSpec, v float64) { p.PromptBand = v }, "throttle": func(p *PowerSpec, v float64) { p.Throttle = v },
	} {
		low, high := 0.0, 1e6
		if key == "prompt_band" || key == "throttle" {
			high = 1
		}
		for v, legal := range map[float64]bool{low: key != "limit_w", high: true, low - 0.01: false, high + 0.5: false} {
			p := PowerSpec{Limit: 1}
			set(&p, v)
			if faults := input.Faults(&p); (len(faults) == 0) != legal || !legal && faults[0].Key != key {
				t.Errorf("%s = %v: %v", key, v, faults)
			}
		}
	}
}
