package kinds

import (
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/ranks"
	"github.com/l3sim/l3sim/units"

	"github.com/l3sim/l3sim/internal/deep"
)

// TestHostsPartOfAttention: the host writes a descriptor for each head after the vectors, and
// notices the end by polling. If no GPU work hides it, an iteration takes exactly that much longer
// in every layer; keys of 0 cost nothing.
func TestHostsPartOfAttention(t *testing.T) {
	deep.Heavy(t)
	took := func(sets ...string) units.Duration {
		var last units.Duration
		drive(t, append(sets, oneBatch, allAtOnce), equal(1, 300, 3), keep, func(_ *loop, d driven) { last = d.took })
		return last
	}
	const off, heads, layers = "pim.descriptor=\"0B\"", 6, 96
	free := took(off, `pim.host_access="0ns"`)
	for _, c := range []struct {
		sets []string
		want units.Duration // a layer
	}{
		{nil, 2*122*units.Nanosecond + refreshed(heads*4)},
		{[]string{`pim.descriptor="65B"`, `pim.host_access="0ps"`}, refreshed(heads * 2 * 4)},
		{[]string{off, `pim.host_access="3us"`}, 6 * units.Microsecond},
	} {
		if got := took(c.sets...) - free; got != layers*c.want {
			t.Errorf("%v: the host takes %v, want %d times %v", c.sets, got, layers, c.want)
		}
	}
	rank := func(sets ...string) units.Duration {
		end, err := rigOf(t, append(sets, "run.system=rank-pim")...).replica(equal(1, 300, 3)).run(unwatched)
		if err != nil {
			t.Fatal(err)
		}
		return end
	}
	if got := rank() - rank(`pim.host_access="0ps"`); got != 2*layers*2*122*units.Nanosecond {
		t.Errorf("rank-pim: the host takes %v of two decode steps", got)
	}
}

// TestNarrowTimes: the units of L3 and of HBM-PIM as built take as long for 8 bits, except for row switches; with
// twice the multipliers half as long. Each system uses its own units' settings.
func TestNarrowTimes(t *testing.T) {
	deep.Only(t)
	const context = 32768
	head := func(sets ...string) float64 {
		return float64(rigOf(t, append(sets, "run.model=llama-2-7b")...).devices().Sequence.At(context))
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
		n := rigOf(t, append(sets, "run.system=hbm-pim", "run.model=llama-2-7b", "model.kv_scales=tensor")...)
		e := n.hbm()
		return float64(e.took(e.one(64*context), e.reads) - e.took(e.one(32*context), e.reads))
	}
	wide := units()
	for _, c := range []struct {
		sets []string
		want float64
	}{{[]string{"model.kv_bits=8"}, 1}, {[]string{"model.kv_bits=8", "hbm_pim.elements_per_read=2"}, 2}, {[]string{"model.kv_bits=4", "hbm_pim.elements_per_read=2"}, 2}, {[]string{"model.kv_format=int4", "hbm_pim.elements_per_read=2"}, 2},
		{[]string{"model.kv_bits=4", "hbm_pim.elements_per_read=4", "hbm_pim.model=factor"}, 4}} {
		if r := wide / units(c.sets...); r < 0.97*c.want || r > 1.001*c.want {
			t.Errorf("hbm-pim, %v: %.3f times as fast, want %v", c.sets, r, c.want)
		}
	}
}

// TestPromptBesideAPrefix: if the ranks attend over a prompt's prefix, the GPUs attend over the rest and merge. The ranks' time
// also cuts the prompt, and each of its tokens is a separate head for them.
func TestPromptBesideAPrefix(t *testing.T) {
	const layers, heads, tokens, prefix = 32, 8, 476, 1024
	n := rigOf(t, sharing("l3", "cache.prefix_attention=dimm")...)
	e, chunk := n.l3(), scheduler.Chunk{Tokens: tokens, Finished: prefix, Prefix: prefix, Last: true}
	attention := e.ModelCost.Attention()
	alone := e.PromptAttention(&attention, &scheduler.Chunk{Tokens: tokens, Last: true}, 0)
	attention = e.ModelCost.Attention()
	got, merge := e.PromptAttention(&attention, &chunk, 0), units.FromSeconds(e.ModelCost.Merge(tokens).Seconds)
	if got.Took(1) != alone.Took(1)+merge || merge == 0 {
		t.Errorf("attention on the GPUs takes %v, want %v and %v", got.Took(1), alone.Took(1), merge)
	}
	sub := &scheduler.SubBatch{Prefill: []scheduler.Chunk{chunk}}
	clock, head := e.ranks.Clock, n.CommandTables.Kernels.Stored.At(prefix)
	if more := e.GPU(sub, 0) - e.GPUs.GPU(sub, 0); more != layers*clock.Time(tokens*heads/4*head) {
		t.Errorf("%v for the ranks in a prompt's time", more)
	}
	groups := make([]ranks.GroupCost, 4)
	e.ranks.Reuse(groups, &chunk)
	g := &groups[0]
	parts := int64(0)
	for _, head := range g.Heads { // a transfer can interrupt between heads
		parts += heads / 4 * head
	}
	if drain := n.CommandTables.Kernels.Stored.Table.Alone(prefix) - n.CommandTables.Kernels.Stored.At(prefix); len(g.Heads) != tokens || parts+drain != g.Clocks+g.Drain {
		t.Errorf("%d heads of %d clocks, %d with the last one's drain of %d", len(g.Heads), parts, g.Clocks+g.Drain, drain)
	}
}

// TestPaddingHalvesTheLinks: keys and values of 80 elements take bursts for 128 on the channels. If the links could carry more in
// both directions than the channels, they serve one direction at a time.
func TestPaddingHalvesTheLinks(t *testing.T) {
	narrow := []string{"model.hidden=5120", "model.heads=64", "model.kv_heads=64", "model.layers=2"}
	if c := &rigOf(t, append(narrow, "model.head_dim=80")...).l3().costs; !c.halfDuplex {
		t.Error("links of 199 GB/s down and up are 318 and 199 on channels of 410")
	}
	if rigOf(t, narrow...).l3().costs.halfDuplex {
		t.Error("links of 199 GB/s each way are more than channels of 410 can carry")
	}
	for _, links := range []string{"pcie.efficiency=0.79", "pcie.generation=6"} {
		if _, err := rigOf(t, append(narrow, "model.head_dim=72", links)...).replica(equal(20, 700, 40)).run(unwatched); err != nil {
			t.Error(err)
		}
	}
}
