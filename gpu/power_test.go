package gpu

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/units"
)

// plainPower has a limit of 600 W, of which 100 are drawn whatever runs. Halving the
// excess takes the square root of the clock.
var plainPower = PowerSpec{Limit: 600, Base: 100, PerByte: 10, PerFLOP: 2, Throttle: 0.5}

// TestSlowdown: by hand. 1 s with 800 J of its own draws 900 W at full clock: 1.5 times the
// limit, so that the clock falls to 1/√1.5, and with it what follows it.
func TestSlowdown(t *testing.T) {
	slow := math.Sqrt(1.5)
	for _, c := range []struct {
		name                      string
		work                      Work
		throttle                  float64
		slowdown, seconds, joules float64
	}{
		{"below the limit", Work{2, 2, 800}, 0.5, 1, 2, 1000},
		{"at the limit", Work{1, 1, 500}, 0.5, 1, 1, 600},
		{"all follows the clock", Work{1, 1, 800}, 0.5, slow, slow, 600 * slow},
		{"half does", Work{1, 0.5, 800}, 0.5, (1 + slow) / 2, (1 + slow) / 2, 300 * (1 + slow)},
		{"nothing does", Work{1, 0, 800}, 0.5, 1, 1, 600},
		{"the limit is not felt", Work{1, 1, 800}, 0, 1, 1, 600},
		{"clock and power fall alike", Work{2, 2, 1600}, 1, 1.5, 3, 1800},
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

// TestWorkOfKernels: bytes and executed operations take energy; arithmetic follows the
// clock, overheads do not, and where memory binds the share of the squares does.
func TestWorkOfKernels(t *testing.T) {
	s := Spec{Power: plainPower}
	for _, c := range []struct {
		name string
		cost Cost
		want Work
	}{
		{"arithmetic", Cost{FLOPs: 1e12, Executed: 3e12, Compute: 4, Overhead: 1, Seconds: 5}, Work{5, 4, 6}},
		{"memory", Cost{Bytes: 2e12, Memory: 4, Overhead: 1, Seconds: 5}, Work{5, 0, 20}},
		{"chain", Cost{Bytes: 1e12, Latency: 4, Overhead: 1, Seconds: 5}, Work{5, 4, 10}},
		{"both", Cost{Bytes: 1e12, Executed: 1e12, Compute: 3, Memory: 6, Overhead: 1, Seconds: 7}, Work{7, 6 * 9. / 45, 12}},
		{"launch alone", Cost{Overhead: 2, Seconds: 2}, Work{2, 0, 0}},
		{"nothing", Cost{}, Work{}},
	} {
		got := s.work(c.cost)
		if math.Abs(got.Seconds-c.want.Seconds)+math.Abs(got.Clocked-c.want.Clocked)+math.Abs(got.Dynamic-c.want.Dynamic) > 1e-9 {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	if a, b := (Work{1, 2, 3}), (Work{10, 20, 30}); a.Plus(b) != (Work{11, 22, 33}) || a.Times(3) != (Work{3, 6, 9}) {
		t.Errorf("sum %+v, three times %+v", a.Plus(b), a.Times(3))
	}
}

// TestPowerLaws: on every preset work is never faster for the limit, draws between the base
// and the limit, and takes no less time nor energy with a kernel more; a part of it that
// goes on alone is no slower than the slowest.
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

// TestMeasuredAlone: by hand. Measuring alone adds its overhead, and the writing back of
// half of what is read, up to half of the L2, at the kernel's own rate.
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

// TestMeasuredAloneLaw: on every preset what measuring adds is never negative, and a kernel
// that reads more is measured no faster.
func TestMeasuredAloneLaw(t *testing.T) {
	forPresets(t, func(t *rapid.T, s *Spec) {
		k := drawKernel(t)
		c := k.cost(s, k.sizes)
		if m := s.MeasuredAlone(c); m.Seconds < c.Seconds || m.Bytes != c.Bytes || m.FLOPs != c.FLOPs {
			t.Fatalf("%s %v: %+v alone, %+v in a graph", k.name, k.sizes, m, c)
		}
	})
}
