package ranks

import (
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/pim/machine"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// TestHomesByHand: six heads on four channels, two on some. With parts of 16 tokens dealt over the channels, head k has unit u on channel (u + k) mod 4.
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
	// Of unit 0, channels 0 and 1 have two heads each, 2 and 3 one; of unit 1, channels 1 and 2 have
	// two.
	for _, c := range []struct{ heads, from, tokens, want int }{{6, 0, 10, 20}, {6, 0, 32, 64}, {6, 8, 16, 32}, {6, 0, 64, 96}, {6, 64, 1, 2}, {1, 0, 40, 16}, {1, 10, 40, 16}, {1, 10, 8, 6}} {
		if got := h.onChannel(c.heads, c.from, c.tokens); got != int64(c.want) {
			t.Errorf("striped, %+v: %d tokens on a channel", c, got)
		}
	}
	// If all heads of a layer divide, channel 0 is used: of two heads it has unit 0 of one and unit 3 of the other.
	h.Attends = &flow.Attends{Heads: 8}
	for _, c := range []struct{ heads, from, tokens, want int }{{8, 0, 32, 64}, {8, 16, 5, 10}, {2, 0, 16, 16}, {2, 16, 32, 0}, {2, 48, 10, 10}, {2, 8, 50, 18}, {2, 64, 64, 32}} {
		if got := h.onChannel(c.heads, c.from, c.tokens); got != int64(c.want) {
			t.Errorf("striped, some of eight heads, %+v: %d tokens on a channel", c, got)
		}
	}
	h.Attends = &flow.Attends{Heads: 6}
	for tokens, want := range map[int]int{1: 1, 16: 1, 17: 2, 64: 4, 1000: 4} {
		if lanes, all := h.placed(6, tokens); lanes != want || all != int64(6*want) {
			t.Errorf("%d tokens: %d lanes, %d parts", tokens, lanes, all)
		}
	}
	h.stripe.lanes = true
	if got := h.onChannel(6, 0, 32); got != 64 {
		t.Errorf("%d tokens on a channel of a rankset", got)
	}
	// Lists of pages have two bytes for each of 10 pages of two heads, or of their query heads, one list for each token that chooses. Bounds have
	// 100.
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

// TestTrafficByHand: traffic of groups is added up; vectors count only if a group has requests.
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

// TestPredictionsOfRuns: attention of all layers is the sum over runs of equal layers, each with its own busiest rankset.
func TestPredictionsOfRuns(t *testing.T) {
	d := devicesOf(benchOf(t, "run.model=llama-3-8b", "policy.name=quest"))
	s := &scheduler.SubBatch{Decode: []scheduler.Decoding{{Base: 30_000, Prompt: 29_000}, {Base: 9000, Prompt: 8000, Offset: 1}}}
	if len(d.Attends.Runs) < 2 {
		t.Fatal(d.Attends.Runs)
	}
	var want, all units.Duration
	var first units.Duration
	for run, layers := range d.Attends.Runs {
		busiest, _, _ := d.predict(s, d.Attends.Decode(s.Decode, run, 0))
		each := d.Clock.Time(busiest)
		want += units.Duration(layers) * each
		all += units.Duration(layers) * d.layerPIM(s, d.Attends.Decode(s.Decode, run, 0), run, 512)
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

// TestTalliesByHand: the ranks' work for a step in five layers: heads, counted by length or looked up if long, and scored bounds, in a list for each of
// three tokens.
func TestTalliesByHand(t *testing.T) {
	d := devicesOf(benchOf(t, "run.model=llama-3-8b", "policy.name=quest", "policy.quest.select_device=bank"))
	scored := func(c policy.Choice) machine.Activity {
		var sum machine.Activity
		d.TallyStep(&policy.Step{Choose: []policy.Choice{c}}, 5)
		d.SettleHeads(&sum)
		return sum
	}
	for _, c := range []struct {
		choice policy.Choice
		want   machine.Activity
	}{
		{policy.Choice{Device: "bank", Heads: 2, Scored: []int{100, 0}, Lists: 3}, machine.Activity{}.Plus(d.bounds.Activity(100), 30)},
		{policy.Choice{Device: "bank", Heads: 2, Scored: []int{100, 300}}, machine.Activity{}.Plus(d.bounds.Activity(100), 10).Plus(d.bounds.Activity(300), 10)},
		{policy.Choice{Heads: 2, Scored: []int{100}}, machine.Activity{}}, {policy.Choice{Device: "bank", Heads: 2, Scored: []int{0}}, machine.Activity{}},
	} {
		if got := scored(c.choice); got != c.want || got.Activates < 0 {
			t.Errorf("%+v: %+v, by hand %+v", c.choice, got, c.want)
		}
	}
	var sum machine.Activity
	classes := []policy.Class{{Heads: 3, Tokens: []int{700, 0, 200_000, 700}}, {Heads: 2, Tokens: []int{9, 9, 9, 9}, PerHead: []int{1, 2, 3, 4, 5, 6, 7, 8}}, {Device: policy.GPU, Heads: 8, Tokens: []int{50, 50, 50, 50}}}
	d.TallyStep(&policy.Step{Attend: classes}, 5)
	d.SettleHeads(&sum)
	want := machine.Activity{}.Plus(d.Table.Activity(700), 2*3*5).Plus(d.Table.Activity(200_000), 3*5)
	for n := range 8 {
		want = want.Plus(d.Table.Activity(n+1), 5)
	}
	for name, x := range map[string][2]float64{"activates": {sum.Activates, want.Activates}, "unit reads": {sum.UnitReads, want.UnitReads}, "writes": {sum.Writes, want.Writes}, "clocks": {sum.Clocks, want.Clocks}} {
		if x[1] == 0 || x[0]/x[1] < 1-1e-9 || x[0]/x[1] > 1+1e-9 {
			t.Errorf("%s: %v, by hand %v", name, x[0], x[1])
		}
	}
	sum = machine.Activity{}
	if d.SettleHeads(&sum); sum != (machine.Activity{}) {
		t.Errorf("%+v is counted twice", sum)
	}
}

// TestTalliesOfPages: eight heads of a layer read 15 pages of 64 tokens and 34 tokens of the newest, in 12 rows; in order the tokens would fill two.
// Each further row opens one row of keys and one of values in 16 banks. Contexts read whole are read in order.
func TestTalliesOfPages(t *testing.T) {
	d := devicesOf(benchOf(t, "run.model=llama-3-8b", "policy.name=quest"))
	const context = 16*512 - 30
	tally := func(c policy.Class) (sum machine.Activity) {
		d.TallyStep(&policy.Step{Attend: []policy.Class{c}}, 5)
		d.SettleHeads(&sum)
		return sum
	}
	d.Attends.Requests = []policy.Request{{Prompt: context - 1, Context: context}}
	for name, c := range map[string]struct {
		class   policy.Class
		tokens  int
		further float64
	}{
		"pages":      {policy.Class{Heads: 8, Tokens: []int{15*64 + 34}, Paged: policy.Paged{Page: 64}}, 15*64 + 34, 10},
		"all pages":  {policy.Class{Heads: 8, Tokens: []int{context}, Paged: policy.Paged{Page: 64}}, context, 0},
		"a profile":  {policy.Class{Heads: 8, Tokens: []int{15*64 + 34}, Paged: policy.Paged{Page: 64}, OnDIMMs: policy.OnDIMMs{Rows: []int{7}, Read: []int{0}}}, 15*64 + 34, 5},
		"four heads": {policy.Class{Heads: 8, Tokens: []int{15*64 + 34}, Paged: policy.Paged{Page: 64, PerQueryHead: true}}, 51*64 + 34, 9}, // of 16 rows, 7 in order
	} {
		got, want := tally(c.class), machine.Activity{}.Plus(d.Table.Activity(c.tokens), 40)
		if more := got.Activates - want.Activates; more != 40*c.further*2*16 {
			t.Errorf("%s: %v activations beyond those of tokens in order, by hand %v", name, more, 40*c.further*2*16)
		}
		if got.UnitReads != want.UnitReads || got.Reads != want.Reads || got.Writes != want.Writes {
			t.Errorf("%s: %+v, by hand %+v", name, got, want)
		}
		if later := got.Clocks - want.Clocks; later != 40*float64(d.Table.ListAlone(c.tokens, int(c.further)+(c.tokens+511)/512)-d.Table.Alone(c.tokens)) {
			t.Errorf("%s: %v clocks more", name, later)
		}
	}
}

// TestFullestChannel: if heads begin on channel 0, head h has unit u of 16 tokens on channel (h + u) mod 4.
func TestFullestChannel(t *testing.T) {
	d := new(Devices)
	d.channels, d.Stripe = 4, stripe{Parts: 4, tokens: 16}
	for _, heads := range []int{1, 2, 3, 5, 6} {
		for _, c := range [][2]int{{0, 1}, {0, 16}, {0, 40}, {10, 16}, {16, 16}, {30, 50}, {64, 128}, {33, 5}} {
			var on [4]int
			for token := c[0]; token < c[0]+c[1]; token++ {
				for head := range heads {
					on[(head+token/16)%4]++
				}
			}
			want := 0
			for channel, n := range on {
				if n > on[want] {
					want = channel
				}
			}
			if got := d.fullest(heads, c[0], c[1]); got != want {
				t.Errorf("%d heads, %d tokens from %d: channel %d, by hand %d of %v", heads, c[1], c[0], got, want, on)
			}
		}
	}
	if d.fullest(8, 0, 16) != -1 {
		t.Error("one channel has most where all have as many")
	}
	if d.Stripe.lanes = true; d.fullest(3, 0, 16) != -1 {
		t.Error("one channel has most where parts are ranksets")
	}
}
