package system

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/scheduler"
)

// hbmOf returns the engine of a replica of hbm-pim.
func hbmOf(t interface{ Fatal(...any) }, cfg *configs.Config) *hbmPIM {
	return mustNode(t, cfg).assemble(0, nil, false, nil).engine.(*hbmPIM)
}

// TestGroupsBesideUnits: an iteration of units in HBM takes no longer where the GPUs may read for groups, whatever requests of its
// sub-batches share; the units then read the rest of each context alone.
func TestGroupsBesideUnits(t *testing.T) {
	var used int
	iteration := func(t *rapid.T) {
		cfg := onceIn(t, "hbm-pim", "hbm_pim.model="+rapid.SampledFrom([]string{FactorModel, CommandsModel}).Draw(t, "model"))
		b := &scheduler.Batch{Step: int64(rapid.IntRange(0, 100).Draw(t, "step")), Grouped: 1}
		for range rapid.IntRange(1, 2).Draw(t, "sub-batches") {
			b.Sub = append(b.Sub, *drawSharing(t))
		}
		plain, e := hbmOf(t, cfg), hbmOf(t, cfg)
		read, _ := plain.layOut(b, false)
		want, err := plain.try(1000)
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.Run(b, 1000)
		if err != nil || got > want {
			t.Fatalf("an iteration ends at %v, without groups at %v; %v", got, want, err)
		}
		spared := int64(0)
		for s := range b.Sub {
			best := bestGroups(&e.gpuSide, &b.Sub[s], b.Step, func(rest gpu.DecodeBatch, kernel, merge gpu.Work) float64 {
				return max(plain.took(rest, 4).Seconds(), kernel.Seconds) + merge.Seconds
			})
			if len(e.groups[s].groups) != best {
				t.Fatalf("sub-batch %d: %d groups, want %d of %+v", s, len(e.groups[s].groups), best, b.Sub[s].Shared)
			}
			for _, g := range e.groups[s].groups {
				read -= int64(g.Requests*g.Tokens) * 32 * 8 * 4 // layers, heads, and query heads of each
				spared += int64((g.Requests - 1) * g.Tokens)
			}
		}
		switch {
		case e.spared > 0 && (e.spared != spared || e.work.tokens != read || got == want):
			t.Fatalf("%d tokens spared, want %d; units read %d, want %d", e.spared, spared, e.work.tokens, read)
		case e.spared > 0:
			used++
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		for range 5 { // so that few cases use groups, too
			iteration(t)
		}
	})
	if used == 0 {
		t.Error("groups were never used")
	}
}

// drawSharing draws decoding requests of a sub-batch, the tree of what they share, and prompts.
func drawSharing(t *rapid.T) *scheduler.SubBatch {
	sub := &scheduler.SubBatch{Decode: make([]scheduler.Decoding, rapid.IntRange(2, 40).Draw(t, "requests"))}
	least := make([]int, len(sub.Decode))
	var split func(from, to int)
	split = func(from, to int) { // requests from to to-1 share a stretch, and parts of them further ones
		if to-from < 2 || rapid.IntRange(0, 3).Draw(t, "leaf") == 0 {
			return
		}
		x := scheduler.Shared{Tokens: 512 * rapid.IntRange(1, 30).Draw(t, "blocks")}
		for i := from; i < to; i++ {
			x.Requests = append(x.Requests, int32(i))
			least[i] += x.Tokens
		}
		sub.Shared = append(sub.Shared, x)
		middle := rapid.IntRange(from, to-1).Draw(t, "middle")
		split(from, middle)
		split(middle, to-1) // the last one ends here
	}
	split(0, len(sub.Decode))
	for i := range sub.Decode {
		sub.Decode[i].Base = int64(least[i] + rapid.IntRange(1, 9000).Draw(t, "own"))
	}
	for range rapid.IntRange(0, 2).Draw(t, "prompts") {
		sub.Prefill = append(sub.Prefill, scheduler.Chunk{Tokens: rapid.IntRange(1, 3000).Draw(t, "chunk"), Finished: rapid.IntRange(0, 9000).Draw(t, "finished")})
	}
	return sub
}

// bestGroups returns how many of the stretches that a sub-batch shares are best read once, by definition: of their kernel, of the rest of
// each context, and of a merge of one partial output for each stretch of a request and one for its rest.
func bestGroups(d *gpuSide, sub *scheduler.SubBatch, step int64, took func(rest gpu.DecodeBatch, kernel, merge gpu.Work) float64) (best int) {
	shortest := 0.0
	for n := range len(sub.Shared) + 1 {
		var groups []gpu.Shared
		var rest gpu.DecodeBatch
		requests, parts := 0, 0
		for i := range sub.Decode {
			context, within := sub.Decode[i].Context(step), 0
			for _, x := range sub.Shared[:n] {
				if slices.Contains(x.Requests, int32(i)) {
					context -= x.Tokens
					within++
				}
			}
			if rest.Add(context); within > 0 {
				requests, parts = requests+1, parts+1+within
			}
		}
		for _, x := range sub.Shared[:n] {
			groups = append(groups, gpu.Shared{Requests: len(x.Requests), Tokens: x.Tokens})
		}
		rest.KVHeads = d.model.KVHeads
		if t := took(rest, d.gpu.Kernel(d.gpu.SharedCost(groups)), d.gpu.MergeParts(requests, parts)); n == 0 || t < shortest {
			shortest, best = t, n
		}
	}
	return best
}

// TestGroupsTakeNoLonger: whatever requests share and prompts beside them, attention in groups and the whole
// iteration take no longer than without, nor more energy. Stretches that are taken are some of those that spare most.
func TestGroupsTakeNoLonger(t *testing.T) {
	var used int
	check := func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"a100-sxm-80gb", "a100-paper", "h100-sxm", "h200-sxm"}).Draw(t, "gpu")
		cfg := onceIn(t, "gpu-only", "gpu.preset="+name, "run.model="+rapid.SampledFrom([]string{"llama-3-8b", "llama-2-7b"}).Draw(t, "model"))
		sub := drawSharing(t)
		step := int64(rapid.IntRange(0, 200).Draw(t, "step"))
		plain, grouped := newGPUSide(hardwareOf(cfg)), newGPUSide(hardwareOf(cfg))
		plain.decodeRuns(sub.Decode, step)
		g := *plain.stageRuns(sub)
		want := plain.whole(&g)
		batch, spared := &scheduler.Batch{Grouped: 1}, int64(0)
		for _, batch.Step = range []int64{step, 0, step} { // stretches are chosen in one step, and used in others
			grouped.decodeRuns(sub.Decode, batch.Step)
			spared = grouped.spared
			o := grouped.stageGroups(sub, batch, grouped.stageRuns(sub))
			if batch.Step == step && (grouped.whole(o) > want || o.joules.prefill+o.joules.decode > g.joules.prefill+g.joules.decode) {
				t.Fatalf("%v and %+v in groups %+v, %v and %+v without", grouped.whole(o), o.joules, grouped.grouping, want, g.joules)
			}
			if o := grouped.whole(o); batch.Step == step && (o == want) != (grouped.spared == spared) {
				t.Fatalf("%v in groups, %v without; %d tokens spared", o, want, grouped.spared-spared)
			}
		}
		x := &grouped.grouping
		best := bestGroups(&plain, sub, step, func(rest gpu.DecodeBatch, kernel, merge gpu.Work) float64 {
			return plain.gpu.DecodeBatch(rest).Seconds + kernel.Seconds + merge.Seconds
		})
		if len(x.groups) != best {
			t.Fatalf("%d groups, want %d of %+v", len(x.groups), best, sub.Shared)
		}
		for i, s := range x.groups {
			if s.Tokens != sub.Shared[i].Tokens || s.Requests != len(sub.Shared[i].Requests) {
				t.Fatalf("groups %v of %+v", x.groups, sub.Shared)
			}
		}
		if grouped.spared > spared {
			used++
		}
	}
	rapid.Check(t, check)
	if used == 0 {
		t.Error("groups were never used")
	}
	// Eight requests that share little by little more: at some length the stretch begins to pay for its kernel and the merge.
	d := newGPUSide(hardwareOf(onceIn(t, "gpu-only")))
	sub := &scheduler.SubBatch{Decode: make([]scheduler.Decoding, 8), Shared: []scheduler.Shared{{Requests: []int32{0, 1, 2, 3, 4, 5, 6, 7}}}}
	took := func(rest gpu.DecodeBatch, kernel, merge gpu.Work) float64 {
		return d.gpu.DecodeBatch(rest).Seconds + kernel.Seconds + merge.Seconds
	}
	b, counts := &scheduler.Batch{}, [2]int{}
	for tokens := 512; tokens <= 8192; tokens += 64 {
		sub.Shared[0].Tokens = tokens
		for i := range sub.Decode {
			sub.Decode[i].Base = int64(tokens + 100 + i)
		}
		b.Grouped++
		d.decodeRuns(sub.Decode, 0)
		d.stageGroups(sub, b, d.stageRuns(sub))
		if n, want := len(d.grouping.groups), bestGroups(&d, sub, 0, took); n != want {
			t.Errorf("%d tokens: %d groups, want %d", tokens, n, want)
		}
		counts[len(d.grouping.groups)]++
	}
	if counts[0] == 0 || counts[1] == 0 {
		t.Errorf("of none and one group there are %v", counts)
	}
}
