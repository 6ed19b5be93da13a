package system

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/scheduler"
)

// TestRowsReadOfLists: a list of pages reads its tokens in the rows that pages at random touch, or that a profile
// says, where these hold as many and the context has as many; query heads that choose for themselves read what any
// of them chose.
func TestRowsReadOfLists(t *testing.T) {
	d := devicesOf(nodeOf(t, "run.model=llama-3-8b", "policy.name=lserve"))
	const context = 16*512 - 30 // the newest page has 34 tokens
	for name, c := range map[string]struct {
		class              policy.Class
		tokens, rows, last int
	}{
		"everything": {policy.Class{Tokens: []int{context}, Paged: policy.Paged{Page: 64}}, context, 16, 482},
		"in order":   {policy.Class{Tokens: []int{1000}}, 1000, 2, 488},
		// 15 of 127 pages: a row of eight is missed with a chance of (112 ... 105)/(127 ... 120) = 0.3557.
		"random":     {policy.Class{Tokens: []int{15*64 + 34}, Paged: policy.Paged{Page: 64}}, 15*64 + 34, 1 + 11, 34}, // 127/8 · 0.6443 = 10.2
		"whole rows": {policy.Class{Tokens: []int{3*512 + 482}, Paged: policy.Paged{Page: 512}}, 3*512 + 482, 4, 482},
		"a profile":  {policy.Class{Tokens: []int{15*64 + 34}, Paged: policy.Paged{Page: 64}, OnDIMMs: policy.OnDIMMs{Rows: []int{7}, Read: []int{0}}}, 15*64 + 34, 7, 34},
		"too few":    {policy.Class{Tokens: []int{15*64 + 34}, Paged: policy.Paged{Page: 64}, OnDIMMs: policy.OnDIMMs{Rows: []int{1}, Read: []int{0}}}, 15*64 + 34, 2, 34},
		"too many":   {policy.Class{Tokens: []int{15*64 + 34}, Paged: policy.Paged{Page: 64}, OnDIMMs: policy.OnDIMMs{Rows: []int{99}, Read: []int{0}}}, 15*64 + 34, 16, 34},
		// Four heads choose 127 · (1 − (1 − 15/127)^4) = 50.2 pages.
		"four heads": {policy.Class{Tokens: []int{15*64 + 34}, Paged: policy.Paged{Page: 64, PerQueryHead: true}}, 51*64 + 34, 1 + 16, 34},
		"measured":   {policy.Class{Tokens: []int{15*64 + 34}, Paged: policy.Paged{Page: 64, PerQueryHead: true}, OnDIMMs: policy.OnDIMMs{Rows: []int{9}, Read: []int{1300}}}, 20*64 + 34, 9, 34},
	} {
		if c.rows > 16 {
			c.rows = 16
		}
		if tokens, rows, last := d.list(&c.class, 0, context); tokens != c.tokens || rows != c.rows || last != c.last {
			t.Errorf("%s: %d tokens in %d rows, %d in the last, want %d, %d, %d", name, tokens, rows, last, c.tokens, c.rows, c.last)
		}
	}
}

// TestUnevenHeads: where heads do not divide over the channels a rankset takes as long as the channel with the most
// clocks, counted head by head; the choice of pages comes with each head that chooses and with no other.
func TestUnevenHeads(t *testing.T) {
	n := nodeOf(t, "policy.name=lserve", "policy.lserve.budget=128", "policy.lserve.page=32", "policy.lserve.static_sparsity=0.6", "policy.lserve.stream_device=home",
		"policy.lserve.select_device=bank", "model.layers=1")
	rapid.Check(t, func(t *rapid.T) {
		e := l3Of(n)
		d := e.ranks
		d.fixed = rapid.Bool().Draw(t, "fixed")
		sub := scheduler.SubBatch{}
		for i := range rapid.IntRange(1, 9).Draw(t, "requests") {
			context := rapid.SampledFrom([]int64{2, 40, 300, 1200, 2001, 2400, 4000}).Draw(t, "context") // each fourth chooses
			sub.Decode = append(sub.Decode, scheduler.Decoding{Request: int32(i), Offset: int32(i % 2), Base: context, Prompt: 1})
		}
		c := &e.costs
		e.fill(c, &scheduler.Batch{Sub: []scheduler.SubBatch{sub, {}}})
		for offset := range int32(2) {
			clocks, heads := make([]int64, d.channels), make([]int64, d.channels)
			for i, r := range sub.Decode {
				if r.Offset != offset {
					continue
				}
				x := d.decode(sub.Decode, 0, 0)
				chooses, _ := d.chooses(x, i)
				channel := d.begins(r.Request)
				for k := range x.Attend {
					head, _ := d.headClocks(&x.Attend[k], i)
					for range x.Attend[k].Heads {
						clocks[channel] += head
						if k == 0 { // 38 of 96 heads choose
							clocks[channel] += chooses
						}
						heads[channel]++
						channel = (channel + 1) % d.channels
					}
				}
			}
			busiest := slices.Max(clocks)
			g := &c.sub[0].groups[offset]
			if over := g.clocks + g.drain - busiest; over < 0 || over > 400 || busiest == 0 && over > 0 { // the first head's start
				t.Fatalf("offset %d: %d clocks, of channels %v", offset, g.clocks+g.drain, clocks)
			}
			if g.requests > 0 && g.vectors.all != int64(96*g.requests) {
				t.Fatalf("offset %d: vectors of %d heads for %d requests", offset, g.vectors.all, g.requests)
			}
		}
	})
}

// TestWholeIsPlace: one loop over requests whose heads are alike sets the groups that adding them one by one does.
func TestWholeIsPlace(t *testing.T) {
	fewCases(t)
	nodes := map[string]*Node{}
	for _, model := range []string{"gpt-89b", "llama-3-8b"} {
		for _, p := range []string{"dense", "window"} {
			nodes[model+", "+p] = nodeOf(t, "run.model="+model, "policy.name="+p)
		}
	}
	names := slices.Sorted(maps.Keys(nodes))
	rapid.Check(t, func(t *rapid.T) {
		node := nodes[rapid.SampledFrom(names).Draw(t, "node")]
		d := devicesOf(node)
		var requests []scheduler.Decoding
		for range rapid.IntRange(0, 12).Draw(t, "requests") {
			prompt := rapid.IntRange(1, 3000).Draw(t, "prompt")
			requests = append(requests, scheduler.Decoding{
				Request: int32(len(requests)), Offset: int32(rapid.IntRange(0, 3).Draw(t, "offset")), Prompt: int32(prompt),
				Base: int64(prompt + rapid.IntRange(0, 100_000).Draw(t, "emitted")),
			})
		}
		x := d.decode(requests, 0, 7)
		c := d.whole(x)
		if c == nil {
			t.Fatal("heads that are alike are added one by one")
		}
		got, want := make([]groupCost, 4), make([]groupCost, 4)
		d.attendWhole(got, requests, c)
		for i := range requests {
			d.place(&want[requests[i].Offset], x, i, 0, -1)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, one by one %+v", got, want)
		}
	})
}
