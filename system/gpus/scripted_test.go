package gpus

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// scripted is a policy whose steps and chunks a test sets, run by run. It records its calls.
type scripted struct {
	policy.Costs
	steps   []policy.Step
	prompts []policy.Prompt
	asked   []policy.Request
	chunk   [2]int
	last    bool
}

func (s *scripted) Decode(requests []policy.Request, run int) *policy.Step {
	s.asked = append(s.asked[:0], requests...)
	return &s.steps[run]
}

func (s *scripted) Prompt(run, chunk, finished int, last bool) *policy.Prompt {
	s.chunk, s.last = [2]int{chunk, finished}, last
	return &s.prompts[run]
}

// script returns GPUs with Llama 3 8B, whose 32 layers form a run of 20 and one of 12.
func script(t *testing.T, s *scripted, sets ...string) GPUs {
	d := New(gpusOf(t, append([]string{"run.model=llama-3-8b"}, sets...)...))
	d.Attends.SetRuns([]int{20, 12}, []int{0, 1})
	d.Attends.Policy, d.farther = s, make([][]farther, 2)
	d.Decoding, d.attended, d.decoded, d.Staged.Layers = make([]Decoding, 2), make([]attended, 2), make([]lastDecoded, 2), make([]layerCost, 2)
	return d
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-12+1e-9*math.Abs(b) }

// TestDecodeRunsByHand: a kernel attends for each class of heads that attends to anything, and counts only the requests that do. Selection
// on the GPUs and all passes are added. Requests of the spare memory add the same once more.
func TestDecodeRunsByHand(t *testing.T) {
	p := &scripted{steps: []policy.Step{
		{
			Attend: []policy.Class{
				{Heads: 5, Tokens: []int{100, 0, 300}}, {Heads: 1},
				{Device: policy.GPU, Heads: 2, Tokens: []int{7, 9, 8}, Weights: true, Paged: policy.Paged{Page: 16, PerQueryHead: true}},
			},
			Choose: []policy.Choice{{Heads: 8, Scored: []int{6, 0, 18}, Ranked: []int{12, 0, 36}, Keep: 4, Lists: 2, PerQueryHead: true}, {Device: "ranks", Heads: 8, Scored: []int{9000}, Ranked: []int{9000}, Keep: 2}},
			Passes: []policy.Pass{{Device: policy.Home, Kernels: 2, Bytes: 3e6, FLOPs: 1e6}, {Device: policy.GPU, Kernels: 1, Bytes: 5e6, FLOPs: 2e6}},
			Merged: 3,
		},
		{Attend: []policy.Class{{Heads: 8, Tokens: []int{1, 2, 3}}}},
	}}
	d := script(t, p)
	for run := range d.Decoding { // values of an earlier step
		d.Decoding[run] = Decoding{Shared: &gpu.Cost{}, Chooses: gpu.Work{Seconds: 1}, Merge: gpu.Work{Seconds: 1}, Beside: gpu.Work{Seconds: 1}}
	}
	requests := []scheduler.Decoding{{Base: 90, Prompt: 50}, {Base: 3, Prompt: 1}, {Base: 290, Prompt: 280}}
	for range 2 {
		d.DecodeRuns(requests, 10)
	}
	if want := (policy.Request{Prompt: 50, Context: 100}); p.asked[0] != want {
		t.Errorf("asked about %+v, want %+v", p.asked[0], want)
	}
	many := []gpu.DecodeBatch{{Requests: 2, Tokens: 400, Longest: 300, KVHeads: 5}, {Requests: 3, Tokens: 24, Longest: 9, KVHeads: 2, Page: 16, PerQueryHead: true, Weights: true}}
	few := []gpu.DecodeBatch{{Requests: 3, Tokens: 6, Longest: 3, KVHeads: 8}}
	choice := d.ModelCost.Select(gpu.Selection{
		PageScores: gpu.PageScores{Pages: gpu.DecodeBatch{Requests: 2, Tokens: 24, Longest: 18, KVHeads: 8}, PerQueryHead: true, Lists: 2},
		Ranked:     gpu.DecodeBatch{Requests: 2, Tokens: 48, Longest: 36, KVHeads: 8}, Keep: 4,
	})
	beside := choice.Plus(d.ModelCost.Pass(1, 5e6, 2e6)).Plus(d.ModelCost.Pass(2, 3e6, 1e6))
	for run, want := range []Decoding{{Batches: many, Beside: beside, Merge: d.ModelCost.Merge(3)}, {Batches: few}} {
		if got := d.Decoding[run]; !reflect.DeepEqual(got, want) {
			t.Errorf("run %d: %+v, by hand %+v", run, got, want)
		}
	}
	if want := (flow.Tally{Steps: 6, Contexts: 2 * (100 + 13 + 300), Tokens: []int64{2 * (5*400 + 2*24), 2 * 8 * 6}}); !reflect.DeepEqual(d.Attends.Counted, want) {
		t.Errorf("%+v is counted, by hand %+v", d.Attends.Counted, want)
	}
	if got := d.Beside(&p.steps[0]); !reflect.DeepEqual(got, many[1:]) {
		t.Errorf("%+v attend on the GPUs of two devices, by hand %+v", got, many[1:])
	}
	if got := d.DecodeHere(few, requests, 10); !reflect.DeepEqual(got, append(few[:1:1], many...)) {
		t.Errorf("%+v are added", got)
	}

	spare := script(t, p)
	d.Spare = &spare
	d.DecodeRuns(requests, 10)
	d.Batches = append(d.Batches[:2], few...)
	for i, count := range []bool{false, true} {
		d.DecodeSpare(requests, 2, 0, 10, count)
		want := Decoding{Batches: append(few[:1:1], many...), Beside: beside.Plus(beside), Merge: d.ModelCost.Merge(3).Plus(d.ModelCost.Merge(3))}
		if i == 1 {
			want.Batches = append(want.Batches, many...)
			want.Beside, want.Merge = want.Beside.Plus(beside), want.Merge.Plus(d.ModelCost.Merge(3))
		}
		if got := d.Decoding[0]; !reflect.DeepEqual(got, want) {
			t.Errorf("with those of the spare memory, %+v, by hand %+v", got, want)
		}
		if spare.Attends.Counted.Steps != int64(3*i) {
			t.Errorf("%d steps of the spare memory are counted, by hand %d", spare.Attends.Counted.Steps, 3*i)
		}
	}
}

// TestStagesSayWhatIsExtrapolated: a stage gives the time of attention in all layers for requests beyond the measured range, and 0 within it.
func TestStagesSayWhatIsExtrapolated(t *testing.T) {
	sets := []string{"run.model=llama-3-8b", "gpu.preset=h200-sxm"}
	for _, key := range []string{"product_rows", "prefill_tokens", "all_reduce_gpus", "small_rows"} {
		sets = append(sets, "gpu.measured."+key+"=1000000")
	}
	sub := &scheduler.SubBatch{Decode: []scheduler.Decoding{{Base: 5000}, {Base: 300}}}
	for context, beyond := range map[int]bool{5000: false, 4999: true} {
		d := New(gpusOf(t, sets...))
		d.measured.DecodeContext, d.measured.DecodeRequests = context, 2
		d.DecodeRuns(sub.Decode, 0)
		g := d.StageRuns(sub)
		got, want := units.Duration(0), units.Duration(0)
		if g.Extrapolated != nil {
			got = g.Extrapolated[gpu.DecodeKernels]
		}
		if beyond {
			want = g.attention()
		}
		if got < want-64 || got > want+64 || beyond == (want == 0) { // rounded in each layer or once
			t.Errorf("measured to %d: %v of attention is extrapolated, by hand %v", context, got, want)
		}
	}
}

// TestChosenPromptsByHand: in a model with an indexer, a chunk first scores its tokens, then attends over the rows chosen for them. An
// iteration's parts have both, and the ranking of the scores.
func TestChosenPromptsByHand(t *testing.T) {
	d := New(gpusOf(t, "run.model=deepseek-v3.2", "gpu.preset=h200-sxm", "node.gpus=8", "model.tensor_parallel=8"))
	chosen := llm.Chosen{Tokens: 64, Longest: 2048, Rows: 64 * 2048}
	scores := llm.Indexing{Requests: 1, Queries: 64, Keys: 9000, Longest: 9000, Pairs: 64 * 9000, Keep: 2048}
	unranked := scores
	unranked.Keep = 0
	c := d.ModelCost
	a, b := c.Attention(), c.Attention()
	d.Attends.Policy = &scripted{prompts: []policy.Prompt{{Chosen: chosen, Index: scores}}, steps: []policy.Step{{}}}
	got := d.PromptAttention(&a, &scheduler.Chunk{Tokens: 64, Finished: 8936}, 0)
	if want := b.Chosen(chosen, scores); !near(got.Seconds, want.Seconds) || got.Seconds == 0 {
		t.Errorf("a chunk takes %v s, by hand %v s", got.Seconds, want.Seconds)
	}
	parts := d.attentionParts(&scheduler.SubBatch{Prefill: []scheduler.Chunk{{Tokens: 64, Finished: 8936}}}, 0)
	all, read := c.Index(scores).Seconds, c.Index(unranked).Seconds
	if !near(parts[PartScores], read) || !near(parts[PartChoice], all-read) || all <= read || !near(parts[PartPrefillAttention], c.Chosen(chosen).Seconds) {
		t.Errorf("scores take %v s, the choice %v s, attention %v s; by hand %v, %v and %v s", parts[PartScores], parts[PartChoice], parts[PartPrefillAttention], read, all-read, c.Chosen(chosen).Seconds)
	}
}

// TestChoicesAddUp: two selections on the GPUs take the sum of their times; those of ranks take
// none there.
func TestChoicesAddUp(t *testing.T) {
	d := script(t, &scripted{}, "gpu.preset=h200-sxm")
	a := policy.Choice{Heads: 8, Scored: []int{6000, 0}, Ranked: []int{12_000, 0}, Keep: 40}
	b := policy.Choice{Heads: 8, Scored: []int{900, 700}, Ranked: []int{900, 700}, Keep: 30}
	ranks := a
	ranks.Device = "ranks"
	of := func(c ...policy.Choice) float64 { return d.Choices(&policy.Step{Choose: c}).Seconds }
	if one, two := of(a), of(b); one == 0 || two == 0 || !near(of(a, ranks, b), one+two) || of(ranks) != 0 || one == two {
		t.Errorf("choices take %v and %v s, together %v s", of(a), of(b), of(a, ranks, b))
	}
}

// TestPassesOfADevice: of a step's passes a device's own are its kernels, and no others.
func TestPassesOfADevice(t *testing.T) {
	d := script(t, &scripted{}, "gpu.preset=h200-sxm")
	x := &policy.Step{Passes: []policy.Pass{{Device: policy.GPU, Kernels: 1, Bytes: 1 << 30}, {Device: policy.Home, Kernels: 2, Bytes: 1 << 32, FLOPs: 1 << 40}, {Device: policy.GPU, Kernels: 3, Bytes: 1 << 20}}}
	for on, passes := range map[policy.Device][]int{policy.GPU: {0, 2}, policy.Home: {1}} {
		var want gpu.Work
		for _, i := range passes {
			p := x.Passes[i]
			want = want.Plus(d.ModelCost.Pass(p.Kernels, float64(p.Bytes), float64(p.FLOPs)))
		}
		if got := d.Passes(x, on); got != want || (want.Seconds > 0) != (len(passes) > 0) {
			t.Errorf("on %v: %+v, by hand %+v", on, got, want)
		}
	}
}

// TestGPUsVerifyDrafts: if a step verifies four tokens, the GPUs' kernels attend with the queries of four, as those of a model whose cost was
// computed for four.
func TestGPUsVerifyDrafts(t *testing.T) {
	b := gpu.UniformBatch(64, 500)
	seconds := map[int]float64{}
	for _, verified := range []int{1, 4} {
		h := gpusOf(t, "run.model=llama-3-8b", "serving.acceptance=0.5", fmt.Sprint("serving.verified_tokens=", verified))
		d, own := New(h), gpu.NewModelCost(&h.Config.GPU.Spec, &h.Config.Model)
		own.Verify(verified)
		seconds[verified] = d.ModelCost.DecodeBatch(b).Seconds
		if want := own.DecodeBatch(b).Seconds; seconds[verified] != want {
			t.Errorf("%d tokens: %v s, by hand %v s", verified, seconds[verified], want)
		}
	}
	if seconds[4] <= seconds[1] {
		t.Errorf("four tokens take %v s, one %v s", seconds[4], seconds[1])
	}
}

// TestAlikeRunsByHand: a run that equals an earlier one is not computed or counted again; its layers are added to the
// earlier one.
func TestAlikeRunsByHand(t *testing.T) {
	p := &scripted{steps: []policy.Step{{Attend: []policy.Class{{Heads: 8, Tokens: []int{100, 300}}}}, {Attend: []policy.Class{{Heads: 8, Tokens: []int{7, 9}}}}}}
	d := script(t, p)
	d.Attends.SetRuns([]int{20, 12}, []int{0, 0})
	for range 3 {
		d.DecodeRuns([]scheduler.Decoding{{Base: 90}, {Base: 290}}, 10)
	}
	if want := (flow.Tally{Steps: 6, Contexts: 3 * 400, Tokens: []int64{3 * 8 * 400, 0}}); !reflect.DeepEqual(d.Attends.Counted, want) {
		t.Errorf("%+v is counted, by hand %+v", d.Attends.Counted, want)
	}
	if n := len(d.Batches); n != 1 {
		t.Errorf("%d batches, by hand 1: the second run is like the first", n)
	}
	if n := d.Attends.LayersLike(0); n != 32 {
		t.Errorf("%d layers are like the first, by hand 32", n)
	}
}

// TestPartNames: each group of an iteration has its own name, in the order of the groups.
func TestPartNames(t *testing.T) {
	names := map[IterationPart]string{PartProducts: "products", PartSmall: "small kernels", PartAllReduce: "all-reduce", PartPrefillAttention: "prefill attention",
		PartDecodeAttention: "decode attention", PartScores: "page scores", PartChoice: "choice", PartPasses: "passes", PartMerge: "merge"}
	for i, p := range IterationParts() {
		if int(p) != i || p.String() != names[p] {
			t.Errorf("group %d is %d, %q; want %q", i, p, p, names[p])
		}
	}
	if len(IterationParts()) != len(names) {
		t.Errorf("%d groups, want %d", len(IterationParts()), len(names))
	}
}

// TestPromptByHand: a chunk attends over the earlier tokens on the GPUs. Tokens that left them are not included if the chunk attends to these
// at home; nor is a prefix that stays at home, with whose part the outputs are merged. Passes are added. More tokens than were measured are
// noted.
func TestPromptByHand(t *testing.T) {
	p := &scripted{prompts: []policy.Prompt{{}, {
		Pieces: []policy.Piece{{Heads: 3, Count: 1, Tokens: 500, Behind: 1000}, {Heads: 5, Count: 4, Tokens: 64, Behind: 700}},
		Passes: []policy.Pass{{Kernels: 2, Bytes: 3e6, FLOPs: 1e6}, {Kernels: 1, Bytes: 5e6, FLOPs: 2e6}}, Away: 90,
	}}}
	for _, c := range []struct {
		appends, stays bool
		prefix, behind int // less
	}{{false, false, 32, 0}, {true, false, 32, 90}, {false, true, 32, 32}, {true, true, 32, 122}, {true, true, 0, 90}} {
		d := script(t, p)
		d.Appends, d.Attends.PrefixStays = c.appends, c.stays
		a := d.ModelCost.Attention()
		want := a.Prompts(1, 500, 1000-c.behind, 3).Plus(a.Prompts(4, 64, 700-c.behind, 5)).Plus(d.ModelCost.Pass(2, 3e6, 1e6)).Plus(d.ModelCost.Pass(1, 5e6, 2e6))
		if c.stays && c.prefix > 0 {
			want = want.Plus(d.ModelCost.Merge(512))
		}
		for over := range 3 { // pieces of 1,500 and 764 tokens
			d.measured.PrefillTokens = []int{1500, 1499, 763}[over] - c.behind
			d.farther[1] = d.farther[1][:0]
			b := d.ModelCost.Attention()
			got := d.PromptAttention(&b, &scheduler.Chunk{Tokens: 512, Finished: 1000, Prefix: c.prefix, Last: true}, 1)
			if !near(got.Seconds, want.Seconds) || !near(got.Dynamic, want.Dynamic) || got.time < units.FromSeconds(want.Seconds)-5 || got.time > units.FromSeconds(want.Seconds)+5 {
				t.Errorf("%+v: %+v, by hand %+v", c, got, want)
			}
			d.addFarther()
			a := d.ModelCost.Attention()
			beyond := 0.0
			first, second := a.Prompts(1, 500, 1000-c.behind, 3).Seconds, a.Prompts(4, 64, 700-c.behind, 5).Seconds
			if over > 0 {
				beyond += 12 * first
			}
			if over > 1 {
				beyond += 12 * second
			}
			if (d.attention == nil) != (over == 0) || over > 0 && !near(d.attention[gpu.PrefillKernels], beyond) {
				t.Errorf("%+v: %v beyond what was measured, by hand %v s", c, d.attention, beyond)
			}
		}
		if p.chunk != [2]int{512, 1000} || !p.last {
			t.Errorf("asked about %v, last %v", p.chunk, p.last)
		}
	}
}

// TestNearPromptsByHand: prompts of the spare memory attend as its policy says.
func TestNearPromptsByHand(t *testing.T) {
	home := &scripted{prompts: []policy.Prompt{{Pieces: []policy.Piece{{Heads: 8, Count: 1, Tokens: 100}}}}}
	other := &scripted{prompts: []policy.Prompt{{Pieces: []policy.Piece{{Heads: 8, Count: 1, Tokens: 100, Behind: 3000}}}}}
	d, spare := script(t, home), script(t, other)
	d.Spare = &spare
	for _, isNear := range []bool{false, true} {
		behind := 0
		if isNear {
			behind = 3000
		}
		a := d.ModelCost.Attention()
		want := a.Prompts(1, 100, behind, 8)
		prefill, _, _ := d.LayerAttention(&scheduler.SubBatch{Prefill: []scheduler.Chunk{{Tokens: 100, Near: isNear}}}, 0, &Decoding{})
		if prefill.Work != want {
			t.Errorf("near %v: %+v, by hand %+v", isNear, prefill, want)
		}
	}
}

// TestDecodeBeyondByHand: batches with more requests or longer contexts than were measured are noted, for all layers of the
// run.
func TestDecodeBeyondByHand(t *testing.T) {
	d := script(t, &scripted{})
	d.measured.DecodeRequests, d.measured.DecodeContext = 10, 500
	batches := []gpu.DecodeBatch{gpu.UniformBatch(10, 500), gpu.UniformBatch(11, 500), gpu.UniformBatch(10, 501)}
	d.LayerAttention(&scheduler.SubBatch{}, 1, &Decoding{Batches: batches[:1]})
	if d.addFarther(); d.attention != nil {
		t.Errorf("%v is beyond what was measured", d.attention)
	}
	d.LayerAttention(&scheduler.SubBatch{}, 1, &Decoding{Batches: batches})
	d.addFarther()
	a := d.ModelCost.Attention()
	if want := 12 * (a.Decoding(batches[1]).Seconds + a.Decoding(batches[2]).Seconds); d.attention == nil || !near(d.attention[gpu.DecodeKernels], want) {
		t.Errorf("%v is beyond what was measured, by hand %v s", d.attention, want)
	}
}

// TestStageRunsByHand: all work of the GPUs in an iteration counts towards the power limit, which slows all of it equally.
func TestStageRunsByHand(t *testing.T) {
	p := &scripted{prompts: []policy.Prompt{{Pieces: []policy.Piece{{Heads: 8, Count: 1, Tokens: 2000, Behind: 100}}}, {Pieces: []policy.Piece{{Heads: 8, Count: 1, Tokens: 2000}}}}}
	limited := 0
	for mask := range 32 {
		d := script(t, p, "gpu.preset=h200-sxm")
		has := func(bit int, w gpu.Work) gpu.Work { return w.Times(mask >> bit & 1) }
		sub := &scheduler.SubBatch{Decode: make([]scheduler.Decoding, 30)}
		if mask&1 != 0 {
			sub.Prefill = []scheduler.Chunk{{Tokens: 2000, Finished: 100, Last: true}}
		}
		var attention, prompts, decodes gpu.Work
		var layers [2][4]float64 // seconds: attention, prompts, merge, choice
		for run, n := range d.Attends.Runs {
			x := &d.Decoding[run]
			x.Merge, x.Chooses = has(1, gpu.Work{Seconds: 20e-6, Clocked: 10e-6, Dynamic: 0.03}).Times(run+1), has(2, gpu.Work{Seconds: 30e-6, Clocked: 3e-6, Dynamic: 0.01}).Times(run+1)
			x.Beside = has(3, gpu.Work{Seconds: 40e-6, Clocked: 20e-6, Dynamic: 0.02})
			if mask>>4 != 0 {
				x.Batches = []gpu.DecodeBatch{gpu.UniformBatch(30, 2000*(run+1))}
			}
			prefill, decoded, all := d.LayerAttention(sub, run, x)
			attention = attention.Plus(all.Work.Plus(x.Merge).Plus(x.Chooses).Times(n))
			prompts, decodes = prompts.Plus(prefill.Times(n)), decodes.Plus(decoded.Work.Plus(x.Merge).Plus(x.Chooses).Times(n))
			layers[run] = [4]float64{all.Seconds, prefill.Seconds, x.Merge.Seconds, x.Chooses.Seconds}
		}
		g := d.StageRuns(sub)
		dense, head := d.Dense.At(sub.Tokens()), d.ModelCost.LMHead(30+mask&1)
		total := dense.all.Plus(attention).Plus(head)
		seconds, joules := d.hw.Config.GPU.Sustained(total)
		slow := seconds / total.Seconds
		if slow > 1 {
			limited++
		}
		want := map[string][2]float64{
			"entry": {g.Entry.Seconds(), dense.entry.Seconds * slow}, "block": {g.Block.Seconds(), dense.Block.Seconds * slow}, "exit": {g.Exit.Seconds(), (dense.end.Seconds + head.Seconds) * slow},
			"pace": {g.Slow, slow}, "whole": {d.Whole(g).Seconds(), seconds},
		}
		energy := d.joules(sub, joules, total.Seconds, attention.Seconds, prompts.Seconds, decodes.Seconds)
		want["joules of prompts"], want["joules of decoding"] = [2]float64{g.Joules.Prefill, energy.Prefill}, [2]float64{g.Joules.Decode, energy.Decode}
		for run, l := range g.Layers {
			for i, took := range []units.Duration{l.Attention, l.Prompts, l.Merge, l.Chooses} {
				want[[]string{"attention", "prompts", "merge", "choice"}[i]+" of run "+string(rune('0'+run))] = [2]float64{took.Seconds(), layers[run][i] * slow}
			}
			if int(l.Count) != d.Attends.Runs[run] {
				t.Errorf("run %d has %d layers", run, l.Count)
			}
		}
		for of, x := range want {
			if !(math.Abs(x[0]-x[1]) <= 1e-10+1e-8*x[1]) { // nor NaN
				t.Errorf("%05b, %s: %v, by hand %v", mask, of, x[0], x[1])
			}
		}
	}
	if limited == 0 || limited == 32 {
		t.Errorf("the power limit is felt %d times of 32", limited)
	}
}

// TestIdleByHand: GPUs that do anything for decoding requests, in any run, are not idle.
func TestIdleByHand(t *testing.T) {
	work := gpu.Work{Seconds: 1e-9}
	for run := range 2 {
		for i, x := range []Decoding{{}, {Batches: make([]gpu.DecodeBatch, 1)}, {Shared: &gpu.Cost{}}, {Beside: work}, {Merge: work}, {Chooses: work}} {
			d := GPUs{Attends: &flow.Attends{Kinds: []int{0, 1}}, Decoding: make([]Decoding, 2)}
			if d.Decoding[run] = x; d.idle() != (i == 0) {
				t.Errorf("%+v in run %d: idle %v", x, run, d.idle())
			}
			if d.Attends.Kinds = []int{0}; d.idle() != (i == 0 || run == 1) { // the second run has no work of its own
				t.Errorf("%+v in run %d that is like the first: idle %v", x, run, d.idle())
			}
		}
	}
}

// TestKindsOfRuns: of three runs, the second like the first, the second kind is the third run.
func TestKindsOfRuns(t *testing.T) {
	d := script(t, &scripted{})
	d.Attends.SetRuns([]int{10, 10, 12}, []int{0, 0, 2})
	d.Decoding, d.farther = make([]Decoding, 3), make([][]farther, 3)
	for run := range d.Decoding {
		d.Decoding[run].Beside = gpu.Work{Seconds: float64(3 + run)}
	}
	for kind, want := range []float64{3, 5} {
		if d.attend(&scheduler.SubBatch{Decode: make([]scheduler.Decoding, 1)}, kind); d.attended[kind].decoding.Seconds != want {
			t.Errorf("kind %d takes %v s, by hand %v", kind, d.attended[kind].decoding.Seconds, want)
		}
	}
	if a := d.Attends; !reflect.DeepEqual(a.Runs, []int{10, 10, 12}) || !reflect.DeepEqual(a.Alike, []int{0, 0, 2}) || !reflect.DeepEqual(a.Kinds, []int{0, 2}) || a.LayersLike(0) != 20 || a.LayersLike(2) != 12 {
		t.Errorf("%v layers, %v alike, kinds %v", a.Runs, a.Alike, a.Kinds)
	}
}
