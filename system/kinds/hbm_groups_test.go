package kinds

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// sharing returns the keys of one replica of a system with a cache of prefixes and memory for all.
func sharing(system string, sets ...string) []string {
	return append([]string{"run.system=" + system, "run.model=llama-3-8b", "node.gpus=1", "node.channels=4", "cache.prefix=true"}, sets...)
}

// TestGroupsBesideUnits: an iteration of units in HBM takes no longer if the GPUs may read shared tokens for groups, whatever its
// requests share. The units then only read the rest of each context.
func TestGroupsBesideUnits(t *testing.T) {
	var used int
	iteration := func(t *rapid.T) {
		n := rigOf(t, sharing("hbm-pim", "hbm_pim.model="+rapid.SampledFrom([]string{FactorModel, CommandsModel}).Draw(t, "model"))...)
		b := &scheduler.Batch{Step: int64(rapid.IntRange(0, 100).Draw(t, "step")), Grouped: 1}
		for range rapid.IntRange(1, 2).Draw(t, "sub-batches") {
			b.Sub = append(b.Sub, *drawSharing(t))
		}
		plain, e := n.hbm(), n.hbm()
		read, _ := plain.layOut(b, false)
		want, err := plain.Try(1000)
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.Run(b, 1000)
		if err != nil || got > want {
			t.Fatalf("an iteration ends at %v, without groups at %v; %v", got, want, err)
		}
		spared := int64(0)
		for s := range b.Sub {
			best := bestGroups(&e.GPUs, &b.Sub[s], b.Step, func(rest gpu.DecodeBatch, kernel, merge gpu.Work) float64 {
				return max(plain.took(rest, 4).Seconds(), kernel.Seconds) + merge.Seconds
			})
			if len(e.groups[s].Groups) != best {
				t.Fatalf("sub-batch %d: %d groups, want %d of %+v", s, len(e.groups[s].Groups), best, b.Sub[s].Shared)
			}
			for _, g := range e.groups[s].Groups {
				read -= int64(g.Requests*g.Tokens) * 32 * 8 * 4 // layers, heads, and query heads per head
				spared += int64((g.Requests - 1) * g.Tokens)
			}
		}
		switch {
		case e.Attends.Spared > 0 && (e.Attends.Spared != spared || e.Work.Tokens != read || got == want):
			t.Fatalf("%d tokens spared, want %d; units read %d, want %d", e.Attends.Spared, spared, e.Work.Tokens, read)
		case e.Attends.Spared > 0:
			used++
		}
	}
	deep.Until(t, func() bool { return used > 0 }, func(t *rapid.T) {
		for range 5 { // so that the few cases that use groups occur
			iteration(t)
		}
	})
}

// drawSharing draws the decoding requests of a sub-batch, the tree of what they share, and prompts.
func drawSharing(t *rapid.T) *scheduler.SubBatch {
	sub := &scheduler.SubBatch{Decode: make([]scheduler.Decoding, rapid.IntRange(2, 40).Draw(t, "requests"))}
	least := make([]int, len(sub.Decode))
	var split func(from, to int)
	split = func(from, to int) { // requests from to to-1 share a run of blocks, and parts of them share more
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

// bestGroups returns by definition how many of a sub-batch's shared runs are best read once. It adds their kernel, the rest of each
// context, and a merge of one partial output for each run of a request and one for its rest.
func bestGroups(d *gpus.GPUs, sub *scheduler.SubBatch, step int64, took func(rest gpu.DecodeBatch, kernel, merge gpu.Work) float64) (best int) {
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
		rest.KVHeads = d.Model.KVHeads
		if t := took(rest, d.ModelCost.Kernel(d.ModelCost.SharedCost(groups)), d.ModelCost.MergeParts(requests, parts)); n == 0 || t < shortest {
			shortest, best = t, n
		}
	}
	return best
}

// restOf returns the tokens of all contexts in a step that groups do not read.
func restOf(sub *scheduler.SubBatch, step int64, groups []gpu.Shared) (tokens int64) {
	for _, d := range sub.Decode {
		tokens += int64(d.Context(step))
	}
	for _, g := range groups {
		tokens -= int64(g.Requests * g.Tokens)
	}
	return tokens
}

// TestGroupsTakeNoLonger: whatever requests share and whatever prompts there are, attention in groups and the whole
// iteration take no longer than without groups, and no more energy. The runs taken are some of those that save most.
func TestGroupsTakeNoLonger(t *testing.T) {
	var used int
	check := func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"a100-sxm-80gb", "a100-paper", "h100-sxm", "h200-sxm"}).Draw(t, "gpu")
		n := rigOf(t, sharing("gpu-only", "gpu.preset="+name, "run.model="+rapid.SampledFrom([]string{"llama-3-8b", "llama-2-7b"}).Draw(t, "model"))...)
		sub := drawSharing(t)
		step := int64(rapid.IntRange(0, 200).Draw(t, "step"))
		plain, grouped := gpus.New(n.Hardware), gpus.New(n.Hardware)
		plain.DecodeRuns(sub.Decode, step)
		g := *plain.StageRuns(sub)
		want := plain.Whole(&g)
		batch, spared := &scheduler.Batch{Grouped: 1}, int64(0)
		for _, batch.Step = range []int64{step, 0, step} { // runs are chosen in one step and used in others
			grouped.DecodeRuns(sub.Decode, batch.Step)
			spared = grouped.Attends.Spared
			o := grouped.StageGroups(sub, batch, grouped.StageRuns(sub))
			if got, want := grouped.Grouping.Rest.Tokens, restOf(sub, batch.Step, grouped.Grouping.Groups); len(grouped.Grouping.Groups) > 0 && got != want {
				t.Fatalf("step %d: groups leave %d tokens, want %d", batch.Step, got, want)
			}
			if batch.Step == step && (grouped.Whole(o) > want || o.Joules.Prefill+o.Joules.Decode > g.Joules.Prefill+g.Joules.Decode) {
				t.Fatalf("%v and %+v in groups %+v, %v and %+v without", grouped.Whole(o), o.Joules, grouped.Grouping, want, g.Joules)
			}
			if o := grouped.Whole(o); batch.Step == step && (o == want) != (grouped.Attends.Spared == spared) {
				t.Fatalf("%v in groups, %v without; %d tokens spared", o, want, grouped.Attends.Spared-spared)
			}
		}
		x := &grouped.Grouping
		best := bestGroups(&plain, sub, step, func(rest gpu.DecodeBatch, kernel, merge gpu.Work) float64 {
			return plain.ModelCost.DecodeBatch(rest).Seconds + kernel.Seconds + merge.Seconds
		})
		if len(x.Groups) != best {
			t.Fatalf("%d groups, want %d of %+v", len(x.Groups), best, sub.Shared)
		}
		for i, s := range x.Groups {
			if s.Tokens != sub.Shared[i].Tokens || s.Requests != len(sub.Shared[i].Requests) {
				t.Fatalf("groups %v of %+v", x.Groups, sub.Shared)
			}
		}
		if grouped.Attends.Spared > spared {
			used++
		}
	}
	deep.Until(t, func() bool { return used > 0 }, check)
	// Eight requests share more and more: from some length on, the shared run pays for its kernel and the merge.
	d := gpus.New(rigOf(t, sharing("gpu-only")...).Hardware)
	sub := &scheduler.SubBatch{Decode: make([]scheduler.Decoding, 8), Shared: []scheduler.Shared{{Requests: []int32{0, 1, 2, 3, 4, 5, 6, 7}}}}
	took := func(rest gpu.DecodeBatch, kernel, merge gpu.Work) float64 {
		return d.ModelCost.DecodeBatch(rest).Seconds + kernel.Seconds + merge.Seconds
	}
	b, counts := &scheduler.Batch{}, [2]int{}
	for tokens := 512; tokens <= 8192; tokens += 64 {
		sub.Shared[0].Tokens = tokens
		for i := range sub.Decode {
			sub.Decode[i].Base = int64(tokens + 100 + i)
		}
		b.Grouped++
		d.DecodeRuns(sub.Decode, 0)
		d.StageGroups(sub, b, d.StageRuns(sub))
		if n, want := len(d.Grouping.Groups), bestGroups(&d, sub, 0, took); n != want {
			t.Errorf("%d tokens: %d groups, want %d", tokens, n, want)
		}
		counts[len(d.Grouping.Groups)]++
	}
	if counts[0] == 0 || counts[1] == 0 {
		t.Errorf("of none and one group there are %v", counts)
	}
}

// TestGroupReads: 12 requests share 8,192 of about 9,217 tokens. An iteration in which all decode replaces one kernel over all contexts
// in each layer by three: one over the 8,192 tokens for all requests, one over the 1,024 and more of each, and a merge. Units in HBM
// attend over the rest beside the kernel.
func TestGroupReads(t *testing.T) {
	const requests, shared, layers = 12, 8192, 32
	all := make([]traces.Request, requests)
	for i := range all {
		all[i] = traces.Request{ID: i, Input: shared + 2*traces.BlockTokens + 8*i + 1, Output: 4}
		for b := range shared / traces.BlockTokens {
			all[i].Hashes = append(all[i].Hashes, uint64(b))
		}
		for b := range 3 {
			all[i].Hashes = append(all[i].Hashes, uint64(1000*(i+1)+b))
		}
	}
	for _, system := range []string{"gpu-only", "hbm-pim"} {
		took := map[bool][]units.Duration{}
		for _, grouped := range []bool{false, true} {
			r := rigOf(t, sharing(system, fmt.Sprint("cache.group_reads=", grouped), "gpu.power.throttle=0", "hbm_pim.sub_batches=never")...).replica(all)
			if _, err := r.run(func(b *scheduler.Batch, start, end units.Duration) {
				if b.Decoding() == requests {
					took[grouped] = append(took[grouped], end-start)
				}
			}); err != nil {
				t.Fatal(err)
			}
			spared := r.Engine.Side().Attends.Spared
			if want := int64(3 * (requests - 1) * shared); len(took[grouped]) != 3 || grouped && spared != want || !grouped && spared != 0 {
				t.Errorf("%s, group reads %v: %d iterations, %d tokens spared, want %d", system, grouped, len(took[grouped]), spared, want)
			}
		}
		n := rigOf(t, sharing(system)...)
		cfg := n.cfg
		cost := gpu.NewModelCost(&cfg.GPU.Spec, &cfg.Model)
		attend := func(b gpu.DecodeBatch) units.Duration { return units.FromSeconds(cost.DecodeBatch(b).Seconds) }
		merge := units.FromSeconds(cost.MergeParts(requests, 2*requests).Seconds)
		once := units.FromSeconds(cost.Kernel(cfg.GPU.SharedAttentionCost([]gpu.Shared{{Requests: requests, Tokens: shared}}, gpu.Heads{Query: 32, KV: 8, Dim: 128, ElementBits: 16})).Seconds)
		for step := range 3 {
			var all, rest gpu.DecodeBatch
			for i := range requests {
				all.Add(shared + 1024 + 8*i + 2 + step)
				rest.Add(1024 + 8*i + 2 + step)
			}
			want := layers * (attend(all) - attend(rest) - once - merge)
			if system == "hbm-pim" {
				all.KVHeads, rest.KVHeads = 8, 8
				e := n.hbm()
				want = layers * (e.took(all, 4) - max(e.took(rest, 4), once) - merge)
			}
			if got := took[false][step] - took[true][step]; got != want || want < 0 {
				t.Errorf("%s, step %d: %v less, want %v", system, step, got, want)
			}
		}
	}
}
