package ranks

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/scheduler"
)

// dealtNodes have 8, 4 and 12 KV heads on 16, 16 and 8 channels, and half of 8 on 8, whole and striped.
func dealtNodes(t *testing.T) map[string]*bench {
	nodes := map[string]*bench{}
	for model, sets := range map[string][]string{
		"8 on 16": {"run.model=llama-3-70b", "model.tensor_parallel=8"},
		"4 on 16": {"run.model=qwen2-7b", "model.tensor_parallel=8"},
		"12 on 8": {"run.model=gpt-89b", "model.heads=24", "model.kv_heads=12", "model.tensor_parallel=4"},
		"4 of 8":  {"run.model=llama-3-70b", "policy.name=duo"},
	} {
		for _, stripe := range []string{scheduler.StripeNone, scheduler.StripeChannels, scheduler.StripeRanksets} {
			nodes[model+", "+stripe] = benchOf(t, append(sets, "model.layers=1", "comm.stripe="+stripe)...)
		}
	}
	return nodes
}

// drawSub draws a sub-batch of decoding requests.
func drawSub(t *rapid.T) (sub scheduler.SubBatch) {
	for i := range rapid.IntRange(1, 20).Draw(t, "requests") {
		context := rapid.SampledFrom([]int64{2, 40, 600, 1200, 4000, 9000, 20_000}).Draw(t, "context")
		sub.Decode = append(sub.Decode, scheduler.Decoding{Request: int32(i), Offset: int32(rapid.IntRange(0, 1).Draw(t, "offset")), Base: context, Prompt: 1})
	}
	return sub
}

// TestDealtHeads: if heads do not divide over the channels, a rankset takes as long as the busiest channel, with heads
// and their parts counted one by one; at least the mean channel, and at most a channel with the most heads of each
// request. Each vector of each head goes down once.
func TestDealtHeads(t *testing.T) {
	deep.Heavy(t)
	nodes := dealtNodes(t)
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { checkDealt(t, nodes[name]) })
		})
	}
}

func checkDealt(t *rapid.T, n *bench) {
	d, sub := devicesOf(n), drawSub(t)
	d.Fixed = rapid.Bool().Draw(t, "fixed")
	x, heads := d.Attends.Decode(sub.Decode, 0, 0), 0 // on ranks
	for i := range x.Attend {
		if x.Attend[i].Device == policy.Home {
			heads += x.Attend[i].Heads
		}
	}
	if d.Rest != heads%d.channels {
		t.Fatalf("%d heads on %d channels leave %d", heads, d.channels, d.Rest)
	}
	if !d.Fixed {
		d.Rotate(&scheduler.Batch{Sub: []scheduler.SubBatch{sub, {}}})
	}
	groups := make([]GroupCost, n.cfg.Node.Ranksets)
	d.FillGroups(groups, &sub, x, 0)
	clocks, most := make([][]int64, len(groups)), make([]int64, len(groups))
	for i := range clocks {
		clocks[i] = make([]int64, d.channels)
	}
	all := int64(0)
	for _, r := range sub.Decode {
		context := r.Context(0)
		for part := range max(d.Stripe.Parts, 1) {
			tokens, lane, fresh := context, int(r.Offset), true
			if d.Stripe.Parts > 0 {
				tokens, fresh = d.Stripe.part(context, part), (context-1)/512%d.Stripe.Parts == part
				lane = d.lane(r.Request, r.Offset, part, len(groups))
			}
			if tokens == 0 {
				continue
			}
			s := &d.Sequence
			if !fresh {
				s = &d.Stored
			}
			on := make([]int64, d.channels)
			for head := range heads {
				channel := d.Begins(r.Request) + head
				if d.Stripe.Parts > 0 && !d.Stripe.lanes {
					channel += part
				}
				on[channel%d.channels] += s.At(tokens)
				all++
			}
			for channel := range on {
				clocks[lane][channel] += on[channel]
			}
			most[lane] += slices.Max(on)
		}
	}
	for lane := range groups {
		g, busiest, sum := &groups[lane], slices.Max(clocks[lane]), int64(0)
		for _, c := range clocks[lane] {
			sum += c
		}
		if g.Clocks != busiest || busiest > most[lane] || busiest*int64(d.channels) < sum {
			t.Fatalf("rankset %d: %d clocks, of channels %v, at most %d", lane, g.Clocks, clocks[lane], most[lane])
		}
		if heads := int64(0); busiest > 0 {
			for _, h := range g.Heads {
				heads += h
			}
			if heads*int64(d.HeadsEach()) != g.Clocks {
				t.Fatalf("rankset %d: heads of %d clocks, %d in all", lane, heads, g.Clocks)
			}
		}
		all -= g.Vectors.All
		idle := d.Clock.Time(busiest) - d.Clock.Time(sum/int64(d.channels))
		if g.Idle != max(idle, 0) {
			t.Fatalf("rankset %d: the mean channel waits %v, want %v", lane, g.Idle, idle)
		}
	}
	if all != 0 {
		t.Fatalf("%d heads move nothing", all)
	}
}

// TestDealtAsOne: equal requests that fill the channels evenly take as long as one request with their heads, if that
// divides: 2 requests of 8 heads as one of 16.
func TestDealtAsOne(t *testing.T) {
	sets := []string{"run.model=llama-3-70b", "model.tensor_parallel=8", "model.layers=1"}
	of := func(requests int, sets ...string) *GroupCost {
		d, sub := devicesOf(benchOf(t, sets...)), scheduler.SubBatch{}
		for i := range requests {
			sub.Decode = append(sub.Decode, scheduler.Decoding{Request: int32(i), Base: 3000, Prompt: 1})
		}
		if d.Rest > 0 {
			d.Rotate(&scheduler.Batch{Sub: []scheduler.SubBatch{sub, {}}})
		}
		groups := make([]GroupCost, 4)
		d.FillGroups(groups, &sub, d.Attends.Decode(sub.Decode, 0, 0), 0)
		return &groups[0]
	}
	one, two, three := of(1, sets...), of(2, sets...), of(3, sets...)
	whole := of(1, append(sets, "model.heads=128", "model.kv_heads=16")...)
	if two.Compute != whole.Compute || two.Idle != 0 || one.Compute != whole.Compute || one.Idle == 0 || three.Clocks != 2*one.Clocks {
		t.Errorf("1, 2 and 3 requests of 8 heads take %v, %v and %v, one of 16 %v", one.Compute, two.Compute, three.Compute, whole.Compute)
	}
	if two.Vectors.All != whole.Vectors.All || two.Vectors.heads != whole.Vectors.heads {
		t.Errorf("vectors of %+v, want %+v", two.Vectors, whole.Vectors)
	}
}

// TestDealtPrediction: predictions take the busiest channel; more requests never take less. Requests have 4 or 8 heads on 8 or 16
// channels, and every second one begins where the one before it ends.
func TestDealtPrediction(t *testing.T) {
	for _, c := range []struct {
		heads int64
		sets  []string
	}{
		{8, []string{"model.tensor_parallel=8"}},
		{4, []string{"policy.name=duo"}},
		{8, []string{"policy.name=duo", "model.heads=128", "model.kv_heads=16", "model.tensor_parallel=8"}},
	} {
		d := devicesOf(benchOf(t, append(c.sets, "run.model=llama-3-70b", "model.layers=1")...))
		b := &scheduler.Batch{Sub: make([]scheduler.SubBatch, 2)}
		sub := &b.Sub[0]
		before := d.PIM(sub, 0, 0)
		for i := range 12 {
			sub.Decode = append(sub.Decode, scheduler.Decoding{Request: int32(i), Base: 5000, Prompt: 1})
			d.Rotate(b)
			now := d.PIM(sub, 0, 0)
			if now < before {
				t.Errorf("%v: %d requests are predicted to take %v, one less %v", c.sets, i+1, now, before)
			}
			before = now
			n, busiest := int64(i+1), int64(i+2)/2 // a head of every second request
			traffic := d.Moves(i+1, &vectors{heads: busiest, fresh: busiest, All: c.heads * n, freshAll: c.heads * n})
			pim := d.layerPIM(sub, d.Attends.Decode(sub.Decode, 0, 0), 0, 0)
			if want := d.Latency + traffic.Down.Took() + d.Clock.Time(busiest*d.Sequence.At(sub.Decode[0].Context(0))) + d.UpLatency + traffic.Up; pim != want {
				t.Errorf("%v: %d requests are predicted to take %v, by hand %v", c.sets, n, pim, want)
			}
		}
	}
}

// TestDealtVectors: with half of 8 heads at home, on 16 channels, a group moves only their vectors.
func TestDealtVectors(t *testing.T) {
	d := devicesOf(benchOf(t, "run.model=llama-3-70b", "model.tensor_parallel=8", "policy.name=duo", "pcie.gpus_per_uplink=2")) // so that links bind
	half, all := vectors{}, vectors{}
	half.take(1, 4)
	all.take(1, 8)
	if got, want := d.Moves(1, &half), d.transfersOf(1, &half); *got != want || *d.Moves(1, &all) == want {
		t.Errorf("half of the heads move in %+v, want %+v", *got, want)
	}
}

// TestDealtPrefix: a prompt's tokens attend over a prefix with the 2 of 12 heads on the fullest of 8 channels, each with all 12.
func TestDealtPrefix(t *testing.T) {
	d := devicesOf(benchOf(t, "run.model=gpt-89b", "model.heads=24", "model.kv_heads=12", "model.tensor_parallel=4", "cache.prefix=true", "cache.capacity=1GiB"))
	d.Attends.PrefixStays = true
	groups, sum := make([]GroupCost, 4), int64(0)
	d.Reuse(groups, &scheduler.Chunk{Prefix: 1024, Finished: 1024, Tokens: 5})
	for _, head := range groups[0].Heads {
		sum += head
	}
	if g := &groups[0]; sum != g.Clocks || g.Clocks != 2*5*d.Stored.At(1024) || g.Vectors.All != 12*5 {
		t.Errorf("heads of %d clocks, %d in all, %d moved", sum, g.Clocks, g.Vectors.All)
	}
}

// TestReplicasShareLinks: two GPUs hold each of 4 KV heads of 28 query heads. A step's key and value go down once, over the
// links of the GPUs with 3 query heads, not 4; outputs wait for those with 4; a prefix comes up to both.
func TestReplicasShareLinks(t *testing.T) {
	sets := []string{"run.model=qwen2-7b", "cache.prefix=true", "cache.capacity=1GiB", "model.tensor_parallel="}
	both, once := benchOf(t, append(sets[:3:3], sets[3]+"8")...), benchOf(t, append(sets[:3:3], sets[3]+"4")...)
	d, o := devicesOf(both), devicesOf(once)
	down, up := d.Attends.VectorsOf(8*4, 8*4)
	if wantDown, wantUp := 8*256*(28+2*4), 8*256*32; int(down) != wantDown || int(up) != wantUp {
		t.Errorf("vectors of 8 requests: %d and %d bytes, want %d and %d", down, up, wantDown, wantUp)
	}
	var f, g fetch
	d.fetch(&f, 1024)
	d.packPrefix(&f)
	o.fetch(&g, 1024)
	o.packPrefix(&g)
	if f.bytes != g.bytes || f.Up != g.Up { // twice the bytes on twice the links
		t.Errorf("a prefix of %d bytes comes up in %v, to one GPU a head %d in %v", f.bytes, f.Up, g.bytes, g.Up)
	}
}
