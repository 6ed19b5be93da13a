package ranks

import (
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// TestHomesByHand: six heads on four channels, two of some. With parts of 16 tokens on the channels in turn, head k has unit u on channel (u + k) mod 4.
func TestHomesByHand(t *testing.T) {
	h := &Homes{Attends: &flow.Attends{Heads: 6}, channels: 4, group: 3, bound: 100}
	for _, c := range []struct{ heads, tokens, want int }{{6, 10, 20}, {4, 10, 10}, {1, 10, 10}, {9, 5, 15}} {
		if got := h.onChannel(c.heads, 7, c.tokens); got != int64(c.want) {
			t.Errorf("%+v: %d tokens on a channel", c, got)
		}
	}
	if lanes, all := h.placed(6, 1000); lanes != 1 || all != 6 {
		t.Errorf("%d lanes, %d parts", lanes, all)
	}
	h.stripe = stripe{Parts: 4, tokens: 16}
	// Of unit 0 channels 0 and 1 have two heads each, 2 and 3 one; of unit 1 channels 1 and 2 have two.
	for _, c := range []struct{ heads, from, tokens, want int }{{6, 0, 10, 20}, {6, 0, 32, 64}, {6, 8, 16, 32}, {6, 0, 64, 96}, {6, 64, 1, 2}, {1, 0, 40, 16}, {1, 10, 40, 16}, {1, 10, 8, 6}} {
		if got := h.onChannel(c.heads, c.from, c.tokens); got != int64(c.want) {
			t.Errorf("striped, %+v: %d tokens on a channel", c, got)
		}
	}
	for tokens, want := range map[int]int{1: 1, 16: 1, 17: 2, 64: 4, 1000: 4} {
		if lanes, all := h.placed(6, tokens); lanes != want || all != int64(6*want) {
			t.Errorf("%d tokens: %d lanes, %d parts", tokens, lanes, all)
		}
	}
	h.stripe.lanes = true
	if got := h.onChannel(6, 0, 32); got != 64 {
		t.Errorf("%d tokens on a channel of a rankset", got)
	}
	// Lists of pages have two bytes for each of 10 pages of two heads, or of their query heads, and each token that chooses has one. Bounds have 100.
	for _, c := range []struct {
		choose []policy.Choice
		bounds policy.Bounds
		want   units.Bytes
	}{
		{nil, policy.Bounds{}, 0}, {[]policy.Choice{{Heads: 2, Keep: 10, Ranked: []int{5}}}, policy.Bounds{}, 40}, {[]policy.Choice{{Heads: 2, Keep: 10, Ranked: []int{5}, PerQueryHead: true}}, policy.Bounds{}, 120},
		{[]policy.Choice{{Heads: 2, Keep: 10, Ranked: []int{5}, Lists: 3}}, policy.Bounds{}, 120}, {[]policy.Choice{{Heads: 2, Keep: 10, Ranked: []int{0}}}, policy.Bounds{}, 0}, {[]policy.Choice{{Heads: 2, Keep: 10, Ranked: []int{5}, Device: "bank"}}, policy.Bounds{}, 0},
		{[]policy.Choice{{Heads: 2, Keep: 10, Ranked: []int{5}}, {Heads: 1, Keep: 3, Ranked: []int{5}}}, policy.Bounds{}, 46}, {nil, policy.Bounds{Heads: 2, Down: []int{7}}, 1400}, {nil, policy.Bounds{Down: []int{7}}, 0},
	} {
		if got := h.lists(&policy.Step{Choose: c.choose, Bounds: c.bounds}); got != c.want {
			t.Errorf("%+v, %+v: %v, by hand %v", c.choose, c.bounds, got, c.want)
		}
	}
}

// TestTrafficByHand: what groups move is added up; vectors count where a group has requests.
func TestTrafficByHand(t *testing.T) {
	a, b := GroupCost{Requests: 2}, GroupCost{}
	for i, g := range []*GroupCost{&a, &b} {
		n := int64(1 + 10*i)
		g.Vectors.All, g.Vectors.Down = 3*n, units.Bytes(5*n)
		g.Prefix.Tokens, g.Prefix.bytes = 7*n, units.Bytes(11*n)
		g.Prompt.Tokens, g.Prompt.Bytes = 13*n, units.Bytes(17*n)
		g.Leaving.Tokens, g.Leaving.Bytes = 19*n, units.Bytes(23*n)
	}
	if got, want := TrafficOf([]GroupCost{a, b}), (traffic{requests: 2, heads: 3, lists: 5, fetched: 7 * 12, tokens: 12 * (13 + 19), bytes: 12 * (11 + 17 + 23)}); got != want {
		t.Errorf("%+v, by hand %+v", got, want)
	}
}

// TestPredictionsOfRuns: attention of all layers is the sum over the runs of layers that attend alike, each with its own busiest rankset.
func TestPredictionsOfRuns(t *testing.T) {
	d := devicesOf(benchOf(t, "run.model=llama-3-8b", "policy.name=quest"))
	s := &scheduler.SubBatch{Decode: []scheduler.Decoding{{Base: 30_000, Prompt: 29_000}, {Base: 9000, Prompt: 8000, Offset: 1}}}
	if len(d.Runs) < 2 {
		t.Fatal(d.Runs)
	}
	var want, all units.Duration
	var first units.Duration
	for run, layers := range d.Runs {
		busiest, _, _ := d.predict(s, d.Decode(s.Decode, run, 0))
		each := d.Clock.Time(busiest)
		want += units.Duration(layers) * each
		all += units.Duration(layers) * d.layerPIM(s, d.Decode(s.Decode, run, 0), run, 512)
		if run == 0 {
			first = each
		} else if each == first {
			t.Errorf("run %d takes as long as the first", run)
		}
	}
	if got := d.Attention(s, 0); got != want {
		t.Errorf("%v, by hand %v", got, want)
	}
	if got := d.PIM(s, 0, 512); got != all {
		t.Errorf("%v, by hand %v", got, all)
	}
}
