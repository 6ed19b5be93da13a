package ranks

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/scheduler"
)

// TestWholeIsPlace: one loop over requests with equal heads sets the same groups as adding them one by one.
func TestWholeIsPlace(t *testing.T) {
	deep.Heavy(t)
	nodes := map[string]*bench{}
	for _, model := range []string{"gpt-89b", "llama-3-8b"} {
		for _, p := range []string{"dense", "window"} {
			nodes[model+", "+p] = benchOf(t, "run.model="+model, "policy.name="+p)
		}
	}
	names := slices.Sorted(maps.Keys(nodes))
	deep.Cases(t, deep.Of(5, 1, 1), func(t *rapid.T) {
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
		x := d.Attends.Decode(requests, 0, 7)
		c := d.whole(x)
		if c == nil {
			t.Fatal("heads that are alike are added one by one")
		}
		got, want := make([]GroupCost, 4), make([]GroupCost, 4)
		d.attendWhole(got, requests, c)
		for i := range requests {
			d.place(&want[requests[i].Offset], x, i, 0, -1)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, one by one %+v", got, want)
		}
	})
}

// TestHeadsGoRound: a request's heads are spread evenly over all channels in blocks of two; their
// starts are evenly spread over requests at any stride.
func TestHeadsGoRound(t *testing.T) {
	d := &Devices{headMap: headMap{perChannel: 2, channels: 4}}
	for stride := int32(1); stride <= 16; stride++ {
		var first [4]int
		for i := range int32(400) {
			begins := d.ChannelOf(i*stride, 0)
			first[begins]++
			for h := range 8 {
				if got := d.ChannelOf(i*stride, h); got != (begins+h/2)%4 {
					t.Fatalf("request %d: head %d is on channel %d, head 0 on %d", i*stride, h, got, begins)
				}
			}
		}
		for channel, n := range first {
			if n < 60 || n > 140 {
				t.Errorf("of every %d-th of 400 requests %d begin on channel %d", stride, n, channel)
			}
		}
	}
}

// TestUnevenHeads: if heads do not divide over the channels, a rankset takes as long as the busiest channel,
// counted head by head; only heads that choose pages add the clocks of a choice.
func TestUnevenHeads(t *testing.T) {
	n := benchOf(t, "policy.name=lserve", "policy.lserve.budget=128", "policy.lserve.page=32", "policy.lserve.static_sparsity=0.6", "policy.lserve.stream_device=home",
		"policy.lserve.select_device=bank", "model.layers=1")
	rapid.Check(t, func(t *rapid.T) {
		d := devicesOf(n)
		d.Fixed = rapid.Bool().Draw(t, "fixed")
		sub := scheduler.SubBatch{}
		for i := range rapid.IntRange(1, 9).Draw(t, "requests") {
			context := rapid.SampledFrom([]int64{2, 40, 300, 1200, 2001, 2400, 4000}).Draw(t, "context") // each fourth chooses
			sub.Decode = append(sub.Decode, scheduler.Decoding{Request: int32(i), Offset: int32(i % 2), Base: context, Prompt: 1})
		}
		if d.Rest > 0 && !d.Fixed {
			d.Rotate(&scheduler.Batch{Sub: []scheduler.SubBatch{sub, {}}})
		}
		groups := make([]GroupCost, 4)
		d.FillGroups(groups, &sub, d.Attends.Decode(sub.Decode, 0, 0), 0)
		for offset := range int32(2) {
			clocks, heads := make([]int64, d.channels), make([]int64, d.channels)
			for i, r := range sub.Decode {
				if r.Offset != offset {
					continue
				}
				x := d.Attends.Decode(sub.Decode, 0, 0)
				chooses, _ := d.chooses(x, i)
				channel := d.Begins(r.Request)
				for k := range x.Attend {
					head := d.headClocks(&x.Attend[k], i)
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
			g := &groups[offset]
			if over := g.Clocks + g.Drain - busiest; over < 0 || over > 400 || busiest == 0 && over > 0 { // the first head's start
				t.Fatalf("offset %d: %d clocks, of channels %v", offset, g.Clocks+g.Drain, clocks)
			}
			if g.Requests > 0 && g.Vectors.All != int64(96*g.Requests) {
				t.Fatalf("offset %d: vectors of %d heads for %d requests", offset, g.Vectors.All, g.Requests)
			}
		}
	})
}

// TestPlaceByHand: of a request's classes at home, the first one on a channel also chooses, and the group's first head overlaps no other. A class that
// attends to nothing has no part.
func TestPlaceByHand(t *testing.T) {
	d := devicesOf(benchOf(t, "run.model=llama-3-8b", "policy.name=quest", "policy.quest.select_device=bank"))
	x := &policy.Step{
		Attend: []policy.Class{{Heads: 9, Tokens: []int{700}}, {Device: policy.GPU, Heads: 5, Tokens: []int{800}}, {Heads: 6, Tokens: []int{300}}, {Heads: 2, Tokens: []int{0}}, {Heads: 3, Tokens: []int{50}}},
		Choose: []policy.Choice{{Device: "bank", Heads: 9, Scored: []int{100}, Ranked: []int{100}}},
	}
	for _, single := range []bool{true, false} {
		for channel := -1; channel < d.channels; channel++ {
			for _, before := range []bool{false, true} { // the group has a request
				d.single = single
				const first = 3
				var want GroupCost
				if before {
					want = GroupCost{Requests: 1, Clocks: 1000, Drain: 7, Heads: []int64{1000}}
				}
				got := want
				got.Heads = append([]int64{}, want.Heads...)
				chooses, from := d.bounds.Select(100), first
				for _, c := range []struct{ heads, tokens int }{{9, 700}, {6, 300}, {3, 50}} {
					n := (c.heads + d.channels - 1) / d.channels
					if channel >= 0 {
						n = 0
						for h := range c.heads {
							if (from+h)%d.channels == channel {
								n++
							}
						}
					}
					from += c.heads
					v := &want.Vectors
					v.heads, v.fresh, v.All, v.freshAll = v.heads+int64(n), v.fresh+int64(n), v.All+int64(c.heads), v.freshAll+int64(c.heads)
					if n == 0 {
						chooses = 0 // the first class chooses, on other channels
						continue
					}
					head := d.Sequence.At(c.tokens)
					if len(want.Heads) == 0 {
						want.Drain = d.Table.Alone(c.tokens) - head
					}
					want.Clocks += int64(n) * (head + chooses)
					for i := range n {
						if single || i == 0 {
							want.Heads = append(want.Heads, head+chooses)
						}
					}
					chooses = 0
				}
				want.Requests++
				if d.place(&got, x, 0, first, channel); !reflect.DeepEqual(got, want) {
					t.Errorf("channel %d, single %v, before %v: %+v, by hand %+v", channel, single, before, got, want)
				}
			}
		}
	}
	var g GroupCost
	if d.place(&g, &policy.Step{Attend: []policy.Class{{Heads: 9, Tokens: []int{0}}, {Device: policy.GPU, Heads: 9, Tokens: []int{9}}}}, 0, 0, -1); g.Requests != 0 || g.Heads != nil {
		t.Errorf("%+v attends to nothing", g)
	}
}

// TestBusiestChannelByHand: a rankset takes as long as its busiest channel, and its imbalance is that minus the mean: for dealt heads whose first class also
// chooses, and for heads with tokens of their own, in blocks.
func TestBusiestChannelByHand(t *testing.T) {
	d := devicesOf(benchOf(t, "run.model=llama-3-8b", "policy.name=quest", "policy.quest.select_device=bank"))
	requests := []scheduler.Decoding{{Request: 0, Offset: 0}, {Request: 1, Offset: 1}, {Request: 2, Offset: 0}, {Request: 3, Offset: 0}}
	d.single, d.first, d.perChannel = true, []int32{1, 2, 3, 3}, 2
	dealt := &policy.Step{
		Attend: []policy.Class{{Heads: 3, Tokens: []int{700, 5000, 2000, 0}}, {Heads: 2, Tokens: []int{300, 600, 1, 0}}, {Device: policy.GPU, Heads: 3, Tokens: []int{9, 9, 9, 9}}},
		Choose: []policy.Choice{{Device: "bank", Heads: 3, Scored: []int{50_000, 100, 50_000, 0}, Ranked: []int{50_000, 100, 50_000, 0}}},
	}
	each := policy.Class{Heads: 4, Tokens: []int{500, 700, 400, 0}, PerHead: []int{100, 900, 0, 1000, 700, 700, 700, 700, 400, 1, 1200, 1, 5, 5, 5, 5}}
	for name, x := range map[string]*policy.Step{"dealt": dealt, "by head": {Attend: []policy.Class{each}}} {
		groups := make([]GroupCost, 3)
		d.attend(groups, requests, x)
		for offset := range groups {
			clocks, sum, attending := make([]int64, d.channels), int64(0), 0
			add := func(channel int, c int64) { clocks[channel%d.channels], sum = clocks[channel%d.channels]+c, sum+c }
			for i, r := range requests {
				if int(r.Offset) != offset || x.Attend[0].Tokens[i] == 0 {
					continue
				}
				attending++
				channel, c := int(d.first[i])-1, &x.Attend[0]
				if c.PerHead != nil {
					for h := range 4 {
						add(channel+h/2, d.Sequence.At(c.PerHead[4*i+h]))
					}
					continue
				}
				for k := range 5 {
					of := &x.Attend[k/3]
					head := d.Sequence.At(of.Tokens[i])
					if k < 3 {
						head += d.bounds.Select(dealt.Choose[0].Scored[i])
					}
					add(channel+k, head)
				}
			}
			g, busiest := &groups[offset], slices.Max(clocks)
			idle := d.Clock.Time(busiest) - d.Clock.Time(sum/int64(d.channels))
			if g.Requests != attending || g.Clocks != busiest || g.Idle != idle || (len(g.Heads) > 0) != (attending > 0) {
				t.Errorf("%s, offset %d: %d requests in %d clocks, idle for %v; by hand %d in %d of %v, %v", name, offset, g.Requests, g.Clocks, g.Idle, attending, busiest, clocks, idle)
			}
			// Heads of 1,000, 1,200 and one token are on the busier of two channels of offset 0, in this order.
			if first := d.Table.Drain(1000); name == "by head" && offset == 0 && (g.Drain != first || first == d.Table.Drain(1200) || first == d.Table.Drain(1)) {
				t.Errorf("%s, offset %d: a drain of %d, by hand %d", name, offset, g.Drain, first)
			}
			if v := g.Vectors; name == "by head" && v != (vectors{heads: int64(2 * attending), All: int64(4 * attending), fresh: int64(2 * attending), freshAll: int64(4 * attending)}) {
				t.Errorf("%s, offset %d: %+v", name, offset, v)
			}
		}
	}
}
