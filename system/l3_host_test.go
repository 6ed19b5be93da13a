package system

import (
	"testing"

	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"

	"github.com/l3sim/l3sim/internal/lab/deep"
)

// TestHostsPartOfAttention: the host writes a descriptor for each head behind the
// vectors, and notices the end by polling. Without GPUs' work to hide it an iteration
// takes just as much longer, in every layer; knobs of 0 charge nothing.
func TestHostsPartOfAttention(t *testing.T) {
	took := func(sets ...string) units.Duration {
		var last units.Duration
		drive(t, append(sets, oneBatch, allAtOnce), equal(1, 300, 3), keep, func(_ *replica, d driven) { last = d.took })
		return last
	}
	const off, heads, layers = "pim.descriptor=\"0B\"", 6, 96
	free := took(off, `pim.host_access="0ns"`)
	for _, c := range []struct {
		sets []string
		want units.Duration // a layer
	}{
		{nil, 2*122*units.Nanosecond + refreshedTime(heads*4)},
		{[]string{`pim.descriptor="65B"`, `pim.host_access="0ps"`}, refreshedTime(heads * 2 * 4)},
		{[]string{off, `pim.host_access="3us"`}, 6 * units.Microsecond},
	} {
		if got := took(c.sets...) - free; got != layers*c.want {
			t.Errorf("%v: the host takes %v, want %d times %v", c.sets, got, layers, c.want)
		}
	}
	rank := func(sets ...string) units.Duration {
		trace := &traces.Trace{Requests: equal(1, 300, 3)}
		return mustRun(t, nodeOf(t, append(sets, "run.system=rank-pim")...), trace, false).end
	}
	if got := rank() - rank(`pim.host_access="0ps"`); got != 2*layers*2*122*units.Nanosecond {
		t.Errorf("rank-pim: the host takes %v of two decode steps", got)
	}
}

// l3Of returns a replica of a node of L3 without requests.
func l3Of(n *Node) *l3 { return n.assemble(0, nil, false, nil).engine.(*l3) }

// TestNarrowTimes: the units of L3 and of HBM-PIM as built take as long for 8 bits, but for row switches; with twice
// the multipliers half as long. Each takes what its units are given.
func TestNarrowTimes(t *testing.T) {
	deep.Only(t)
	const context = 32768
	head := func(sets ...string) float64 {
		return float64(devicesOf(nodeOf(t, append(sets, "run.model=llama-2-7b")...)).sequence.at(context))
	}
	for _, c := range []struct {
		sets      []string
		low, high float64
	}{
		{[]string{"model.kv_bits=8"}, 0.97, 1}, {[]string{"model.kv_bits=8", "model.kv_scales=tensor"}, 1.05, 1.1}, {[]string{"model.kv_bits=8", "pim.multipliers=8"}, 1.66, 1.71},
		{[]string{"model.kv_bits=8", "pim.multipliers=8", "pim.scales=buffer"}, 1.98, 2.01}, {[]string{"model.kv_bits=4", "pim.multipliers=8"}, 1.7, 1.76},
		{[]string{"model.kv_bits=4", "pim.multipliers=8", "model.kv_scales=tensor"}, 2.1, 2.2},
		{[]string{"run.system=rank-pim", "model.kv_bits=8"}, 0.97, 1}, {[]string{"run.system=rank-pim", "model.kv_bits=8", "pim.multipliers=8"}, 1.9, 1.95},
		{[]string{"run.system=rank-pim", "model.kv_bits=4", "pim.multipliers=16"}, 3.6, 3.8},
	} {
		wide := head()
		if c.sets[0] == "run.system=rank-pim" {
			wide = head(c.sets[0])
		}
		if r := wide / head(c.sets...); r < c.low || r > c.high {
			t.Errorf("%v: %.3f times as fast as 16 bits, want %v to %v", c.sets, r, c.low, c.high)
		}
	}
	units := func(sets ...string) float64 {
		n := nodeOf(t, append(sets, "run.system=hbm-pim", "run.model=llama-2-7b", "model.kv_scales=tensor")...)
		e := n.assemble(0, nil, false, nil).engine.(*hbmPIM)
		return float64(e.took(e.one(64*context), e.reads) - e.took(e.one(32*context), e.reads))
	}
	wide := units()
	for _, c := range []struct {
		sets []string
		want float64
	}{{[]string{"model.kv_bits=8"}, 1}, {[]string{"model.kv_bits=8", "hbm_pim.elements_per_read=2"}, 2}, {[]string{"model.kv_bits=4", "hbm_pim.elements_per_read=2"}, 2},
		{[]string{"model.kv_bits=4", "hbm_pim.elements_per_read=4", "hbm_pim.model=factor"}, 4}} {
		if r := wide / units(c.sets...); r < 0.97*c.want || r > 1.001*c.want {
			t.Errorf("hbm-pim, %v: %.3f times as fast, want %v", c.sets, r, c.want)
		}
	}
}
