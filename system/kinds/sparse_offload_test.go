package kinds

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/pcie"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// indexedModel is a small model with latents of 72 elements, whose indexer chooses 500 tokens.
var indexedModel = []string{
	"run.model=llama-3-8b", "model.layers=6", "model.kv_heads=1", "model.head_dim=72", "model.latent_dim=64", "model.nope_dim=16", "model.value_dim=16",
	"model.index_heads=4", "model.index_dim=16", "model.index_top_k=500", "policy.name=dsa", `gpu.preset="a100-sxm-80gb"`,
}

// sparseOf returns a replica of sparse-offload on one GPU, with the small model with an indexer.
func sparseOf(t interface{ Fatal(...any) }, sets ...string) (*rig, *sparseOffload) {
	n := rigOf(t, slices.Concat(indexedModel, []string{"run.system=sparse-offload", "node.gpus=1", "model.tensor_parallel=1"}, sets)...)
	return n, n.replica(nil).Engine.(*sparseOffload)
}

// steps returns requests that decode at these contexts.
func steps(contexts ...int) (sub scheduler.SubBatch) {
	for i, n := range contexts {
		sub.Decode = append(sub.Decode, scheduler.Decoding{Request: int32(i), Base: int64(n), Prompt: int32(n - 1)})
	}
	return sub
}

// runs returns how long a batch of these sub-batches takes.
func (e *sparseOffload) runs(t interface{ Fatal(...any) }, subs ...scheduler.SubBatch) units.Duration {
	end, err := e.Run(&scheduler.Batch{Sub: subs}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return end
}

// TestSparseOffloadByHand: requests of 10,000 and 20,000 tokens choose 500 each, 0.3 of which are not in the buffer; one of 4,096 fits it.
func TestSparseOffloadByHand(t *testing.T) {
	_, e := sparseOf(t, "sparse_offload.hit_rate=0.7", "sparse_offload.fetch_blocks=4")
	sub := steps(10000, 20000, 4096)
	end := e.runs(t, sub)
	rows := pcie.Rows{Count: 300, Bytes: 144, Region: (10000 + 20000 + 4096) * 144, Grid: pcie.Grid{Blocks: 4, Threads: 1024}, Cold: true}
	g := pcie.MeasuredGather()
	fetch := g.LookUp + g.Time(&rows, e.link, 1)
	if f := e.fetch[0][0]; f.Rows != rows || f.took != fetch {
		t.Errorf("a fetch of %+v in %v, by hand %+v in %v", f.Rows, f.took, rows, fetch)
	}
	// In the order of the kernels: selection, the fetch, attention.
	l, layers := e.Staged.Layers[0], units.Duration(6)
	want := e.Staged.Entry + layers*(l.Chooses+fetch+l.Attention) + (layers-1)*e.Staged.Block + e.Staged.Exit
	if end != want || l.Chooses == 0 {
		t.Errorf("an iteration of %v, by hand %v", end, want)
	}
	if e.Rows != 6*300 || e.Moved != 6*300*144 {
		t.Errorf("%d rows of %v in all", e.Rows, e.Moved)
	}
	if up := e.Flow.Work.Time[flow.OfUp]; up != layers*fetch {
		t.Errorf("the link is busy for %v, by hand %v", up, layers*fetch)
	}
	// New rows of three requests go down in the background.
	if down, want := e.Flow.Work.Time[flow.OfDown], flow.TransferTime(e.gpuLink, 6*3*144); down != want {
		t.Errorf("new rows take %v, by hand %v", down, want)
	}
}

// TestSparseOffloadCountsLayers: of the layers GISGIS, four attend to 500 chosen tokens each, in runs that lie apart.
func TestSparseOffloadCountsLayers(t *testing.T) {
	_, e := sparseOf(t, "sparse_offload.hit_rate=0", "model.layer_pattern=GIS")
	e.runs(t, steps(10000))
	if e.Rows != 4*500 || e.Moved != 4*500*144 {
		t.Errorf("%d rows of %v in all, by hand 2,000", e.Rows, e.Moved)
	}
}

// TestSparseTwoByHand: two sub-batches of one request each. If the fetch is shorter than the other's kernels, the iteration is that of the
// kernels, slowed by the fetches' share of the GPU, and the joins.
func TestSparseTwoByHand(t *testing.T) {
	_, e := sparseOf(t, "sparse_offload.schedule=two", "pcie.join=3us", "sparse_offload.fetch_blocks=8", "model.hidden=8192", "model.ffn_hidden=28672")
	end := e.runs(t, steps(10000), steps(10000))
	f, g := e.fetch[0][0], &e.Staged
	own := g.Layers[0]
	slower := own.Next - e.chooses(t, 10000)
	if want := 3*units.Microsecond + units.FromSeconds(f.reads.Seconds()*8*32/(16.8*108)); slower != want {
		t.Errorf("a block is longer by %v, by hand %v", slower, want)
	}
	// The first sub-batch ends its block after the second one's fetch has ended, except in the first layer.
	kernels := 2 * (g.Entry + 6*own.Attention + 5*(g.Block+own.Next) + g.Exit)
	if end < kernels || end > kernels+f.took {
		t.Errorf("an iteration of %v, kernels of %v and a fetch of %v", end, kernels, f.took)
	}
	// One sub-batch alone runs in order.
	alone := e.runs(t, steps(10000), scheduler.SubBatch{})
	_, in := sparseOf(t, "pcie.join=3us", "model.hidden=8192", "model.ffn_hidden=28672")
	if want := in.runs(t, steps(10000)); alone != want {
		t.Errorf("one sub-batch takes %v, in order %v", alone, want)
	}
}

// chooses returns the time of selection in a layer for a request.
func (e *sparseOffload) chooses(t *testing.T, context int) units.Duration {
	sub := steps(context)
	x := e.Attends.Decode(sub.Decode, 0, 0)
	return units.FromSeconds(e.Choices(x).Seconds)
}

// TestSparseOffloadIsGPUOnly: with a buffer that holds everything, iterations equal those of gpu-only to the
// picosecond.
func TestSparseOffloadIsGPUOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		model := slices.Concat(indexedModel, []string{"model.layer_pattern=" + rapid.SampledFrom([]string{"I", "GIS", "IS"}).Draw(t, "pattern")})
		if rapid.Bool().Draw(t, "quest") {
			model = []string{"run.model=llama-3-8b", "model.layers=6", "policy.name=quest", `gpu.preset="a100-sxm-80gb"`}
		}
		all := slices.Concat(model, []string{"node.gpus=2", "model.tensor_parallel=2"})
		one := rigOf(t, slices.Concat(all, []string{"run.system=gpu-only"})...).replica(nil).Engine.(*gpuOnly)
		two := rigOf(t, slices.Concat(all, []string{"sparse_offload.buffer_rows=1000000", "run.system=sparse-offload", "gpu.memory_capacity=4TB"})...).replica(nil).Engine.(*sparseOffload)
		sub := steps(rapid.SliceOfN(rapid.IntRange(2, 200_000), 1, 5).Draw(t, "contexts")...)
		for range rapid.IntRange(0, 2).Draw(t, "prompts") {
			sub.Prefill = append(sub.Prefill, scheduler.Chunk{Tokens: rapid.IntRange(1, 3000).Draw(t, "chunk"), Last: true})
		}
		want, err := one.Run(&scheduler.Batch{Sub: []scheduler.SubBatch{sub}}, 0)
		if got := two.runs(t, sub); err != nil || got != max(want, two.Flow.Work.Time[flow.OfDown]) { // new rows go down in the background
			t.Fatalf("%v, on the GPUs alone %v; %v", got, want, err)
		}
		if two.Moved != 0 {
			t.Fatalf("%v fetched", two.Moved)
		}
	})
}

// TestSparseOffloadMonotone: for one batch, more hits, a larger buffer, a faster link or less translation never lengthen an iteration.
func TestSparseOffloadMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schedule := rapid.SampledFrom([]string{InOrder, Two}).Draw(t, "schedule")
		hits, buffer, lanes := rapid.Float64Range(0, 1).Draw(t, "hit rate"), rapid.IntRange(500, 60_000).Draw(t, "buffer"), rapid.SampledFrom([]int{2, 4, 8}).Draw(t, "lanes")
		at := func(hits float64, buffer, lanes int, translation float64) *sparseOffload {
			_, e := sparseOf(t, "sparse_offload.schedule="+schedule, fmt.Sprint("sparse_offload.hit_rate=", hits), fmt.Sprint("sparse_offload.buffer_rows=", buffer), fmt.Sprint("pcie.lanes=", lanes),
				fmt.Sprint("sparse_offload.translation=", translation))
			return e
		}
		subs := []scheduler.SubBatch{steps(rapid.SliceOfN(rapid.IntRange(2, 100_000), 1, 20).Draw(t, "contexts")...)}
		if schedule == Two {
			subs = append(subs, steps(rapid.SliceOfN(rapid.IntRange(2, 100_000), 0, 20).Draw(t, "others")...))
		}
		base := at(hits, buffer, lanes, 1).runs(t, subs...)
		for name, e := range map[string]*sparseOffload{"hits": at(hits+(1-hits)/2, buffer, lanes, 1), "buffer": at(hits, 2*buffer, lanes, 1), "lanes": at(hits, buffer, 2*lanes, 1), "translation": at(hits, buffer, lanes, 0.3)} {
			if got := e.runs(t, subs...); got > base {
				t.Fatalf("%s: %v, before %v", name, got, base)
			}
		}
	})
}

// TestSharedRate: each of several GPUs fetches at its share of the rate, which half of the lanes carry; a single GPU has all of it.
func TestSharedRate(t *testing.T) {
	link := func(sets ...string) units.Bandwidth {
		n := rigOf(t, slices.Concat(indexedModel, []string{"run.system=sparse-offload"}, sets)...)
		return n.replica(nil).Engine.(*sparseOffload).link
	}
	one, half := []string{"node.gpus=1", "model.tensor_parallel=1"}, "sparse_offload.shared_rate=0.5"
	if all, shared := link(one...), link(append(one, half)...); shared != all {
		t.Errorf("one GPU fetches at %v, alone at %v", shared, all)
	}
	four := []string{"node.gpus=4", "model.tensor_parallel=4"}
	all, shared := link(four...), link(append(four, half)...)
	if shared != all/2 || shared != link(append(four, "pcie.lanes=8")...) {
		t.Errorf("each of four GPUs fetches at %v, alone at %v", shared, all)
	}
	replicas := []string{"node.gpus=4", "model.tensor_parallel=1"} // they fetch at once, too
	if all, shared := link(replicas...), link(append(replicas, half)...); shared != all/2 {
		t.Errorf("each of four replicas fetches at %v, alone at %v", shared, all)
	}
}

// TestBuffersBesideActivations: the largest buffer that is accepted is the largest that fits beside weights and the activations of the smallest
// chunk.
func TestBuffersBesideActivations(t *testing.T) {
	sets := slices.Concat(indexedModel, []string{"run.system=sparse-offload", "node.gpus=1", "model.tensor_parallel=1", "gpu.memory_capacity=8GB"})
	n := rigOf(t, sets...)
	weights, activations := n.cfg.Model.WeightBytes(), n.cfg.Model.ActivationBytes(n.cfg.Scheduler.ChunkMultiple)
	free := n.cfg.GPUMemory(1) - weights - activations
	need := func(rows int) units.Bytes { return units.Bytes(math.Ceil(float64(rows)*144/164)) * 6 * 164 }
	most := sort.Search(policy.MaxTokens, func(rows int) bool { return need(rows+1) > free })
	if most < 4096 || most == policy.MaxTokens || activations < 6*164 {
		t.Fatalf("%d rows of %v, %v of activations", most, free, activations)
	}
	for rows, fits := range map[int]bool{most: true, most + 1: false} {
		_, err := Loader().Load(configs.Options{Sets: append(sets, fmt.Sprint("sparse_offload.buffer_rows=", rows))})
		if (err == nil) != fits {
			t.Errorf("%d rows: %v", rows, err)
		}
	}
}

// TestSparseOffloadMemory: whole runs stay within both memories and leave both empty.
func TestSparseOffloadMemory(t *testing.T) {
	for _, sets := range [][]string{{}, {"sparse_offload.schedule=two"}, {"sparse_offload.policy=chunked-prefill", "memory.admission=current"}, {"batching.max_num_seqs=3"}} {
		n, _ := sparseOf(t, slices.Concat([]string{"node.memory_capacity=20MiB", "sparse_offload.buffer_rows=512"}, sets)...)
		l := n.replica(uneven(60))
		most := int64(0)
		visits, both := 0, 0
		_, err := l.run(func(b *scheduler.Batch, _, _ units.Duration) {
			visits++
			if err := l.Batcher.Ledger.Check(); err != nil {
				t.Fatal(err)
			}
			most = max(most, l.Batcher.Ledger.Used())
			tokens := 0
			if len(b.Sub) == 2 && len(b.Sub[1].Decode) > 0 {
				both++
			}
			for i := range b.Sub {
				tokens += b.Sub[i].Tokens()
			}
			if !l.Batcher.GPU.Fits(tokens, 0) {
				t.Fatal("activations do not fit")
			}
		})
		if err != nil || l.Batcher.Ledger.Used() != 0 || most == 0 || l.Batcher.InSystem() != 0 || (both > 0) != slices.Contains(sets, "sparse_offload.schedule=two") {
			t.Errorf("%v: %d iterations, %d pages at most, %d at the end; %v", sets, visits, most, l.Batcher.Ledger.Used(), err)
		}
		// The link has carried each row once.
		e := l.Engine.(*sparseOffload)
		if e.Moved != units.Bytes(e.Rows)*144 {
			t.Errorf("%v for %d rows", e.Moved, e.Rows)
		}
	}
}

// TestSparseOffloadBuffers: a request's data in both memories, by hand: latents of 144 B and index keys of 20 B in each of 6 layers.
func TestSparseOffloadBuffers(t *testing.T) {
	n, e := sparseOf(t, "sparse_offload.buffer_rows=1000")
	g := bufferMemory(n.Hardware, e.Attends.Policy, 1000)
	if want := int(math.Ceil(1000 * 144 / 164.)); g.Window != want || math.Abs(g.Share-20/164.) > 1e-12 || g.PromptShare != 0 {
		t.Errorf("%d tokens and %v of all, by hand %d and %v", g.Window, g.Share, want, 20/164.)
	}
	page := gpus.PageBytes(n.Hardware)
	if page != 16*144 || n.Memory.Unit != page || n.Memory.More != 0 {
		t.Errorf("pages of %v, %+v", page, n.Memory)
	}
	r, ok := n.replica(nil).Batcher.Ledger.Reserve(memory.Prompted(160), nil, 0, nil)
	if l := n.replica(nil).Batcher.Ledger; !ok || l.HeldBy(&r) != 6*10 {
		t.Errorf("160 tokens take %d pages, by hand 60", l.HeldBy(&r))
	}
	// All layers of latents on each of four GPUs: four copies on the host, or one.
	for name, more := range map[string]int{PerRank: 3, PerNode: 0} {
		n := rigOf(t, slices.Concat(indexedModel, []string{"run.system=sparse-offload", "node.gpus=4", "model.tensor_parallel=4", "sparse_offload.host_copies=" + name})...)
		if m := n.Memory; m.More != more || m.Capacity != int64(n.cfg.Node.MemoryCapacity/(16*144)/units.Bytes(1+more)) {
			t.Errorf("%s: %+v", name, m)
		}
	}
	// A layer that attends to everything stays on the GPUs.
	n, e = sparseOf(t, "sparse_offload.buffer_rows=1000", "model.layer_pattern=GIS")
	l := n.replica(nil).Batcher.Ledger
	if r, ok = l.Reserve(memory.Prompted(160), nil, 0, nil); !ok || l.HeldBy(&r) != 4*10 {
		t.Errorf("160 tokens take %d pages, by hand 40 of the layers that choose", l.HeldBy(&r))
	}
	all := 6*144 + 2*20.
	if g := bufferMemory(n.Hardware, e.Attends.Policy, 1000); g.Window != int(math.Ceil(1000*4*144/all)) || math.Abs(g.Share-(2*20+2*144)/all) > 1e-12 {
		t.Errorf("%d tokens and %v of all", g.Window, g.Share)
	}
}

// TestSparseOffloadApart: three requests lie on two GPUs, two of them on one, which fetches for these alone; the host has one copy.
func TestSparseOffloadApart(t *testing.T) {
	n := rigOf(t, slices.Concat(indexedModel, []string{"run.system=sparse-offload", "node.gpus=2", "model.tensor_parallel=2", "model.attention_parallel=data", "sparse_offload.hit_rate=0.4"})...)
	e := n.replica(nil).Engine.(*sparseOffload)
	e.runs(t, steps(9000, 9000, 9000))
	if f := e.fetch[0][0]; f.Count != 600 || f.Region != 2*9000*144 || n.Memory.More != 0 {
		t.Errorf("%d rows out of %v, %+v", f.Count, f.Region, n.Memory)
	}
}

// TestSparseOffloadPages: a chosen page of keys and one of values are one row each, with the heads of one
// GPU.
func TestSparseOffloadPages(t *testing.T) {
	e := rigOf(t, "run.system=sparse-offload", "run.model=llama-3-8b", "policy.name=quest", "policy.quest.budget=1024", "sparse_offload.hit_rate=0.5", "node.gpus=2", "model.tensor_parallel=2").replica(nil).Engine.(*sparseOffload)
	e.runs(t, steps(10000))
	first, rest := e.fetch[0][0], e.fetch[0][1]
	if first.took != 0 || e.chosen[0] {
		t.Errorf("layers that attend to everything fetch %+v", first)
	}
	if rest.Count != 2*4*32 || rest.Bytes != 16*256 || rest.Region != 10000*4*512 {
		t.Errorf("%d rows of %v out of %v, by hand 256 of 4 KiB: half of 64 pages, four heads, keys and values", rest.Count, rest.Bytes, rest.Region)
	}
}

// TestRandomShareByHand: 256 B take 10 ns at 25.6 GB/s. Four activations in 21.25 ns and 47 ns for 16 banks keep the bus full.
func TestRandomShareByHand(t *testing.T) {
	n, _ := sparseOf(t)
	s := n.cfg.DRAM.Spec
	if got := randomShare(&s, 1); got != 1 {
		t.Errorf("%v of a channel of one rank", got)
	}
	s.TFAW = 128 // 80 ns for four: 20 ns each
	if got := randomShare(&s, 1); math.Abs(got-0.5) > 1e-9 {
		t.Errorf("%v with a window of 128 clocks", got)
	}
	if got := randomShare(&s, 2); got != 1 {
		t.Errorf("%v with a window of 128 clocks and two ranks", got)
	}
	s.TFAW, s.TRC = 4, 1024 // 640 ns of 16 banks: 40 ns each
	if got := randomShare(&s, 1); math.Abs(got-0.25) > 1e-9 {
		t.Errorf("%v with cycles of 1,024 clocks", got)
	}
}

// TestSparseOffloadShares: two GPUs share the host's channels if these are slower than their links.
func TestSparseOffloadShares(t *testing.T) {
	for channels, want := range map[string]float64{"1": 25.6e9 / 2 / 0.909, "16": 16 * 16e9 / 8 * 128 / 130 * 0.79} {
		e := rigOf(t, slices.Concat(indexedModel, []string{"run.system=sparse-offload", "node.gpus=2", "model.tensor_parallel=2", "node.channels=" + channels, "pcie.gpus_per_uplink=1"})...).replica(nil).Engine.(*sparseOffload)
		if math.Abs(float64(e.link)/want-1) > 1e-9 {
			t.Errorf("%s channels: %v a GPU, by hand %v", channels, e.link, want)
		}
		if want := 8 * 32 / (16.8 * 108); math.Abs(e.taken-want) > 1e-12 { // of each GPU, which fetches for itself
			t.Errorf("a fetch takes %v of a GPU, by hand %v", e.taken, want)
		}
	}
}

// TestSparseOffloadRefuses: combinations that do not fit are refused with the numbers.
func TestSparseOffloadRefuses(t *testing.T) {
	for _, c := range []struct{ sets, want string }{
		{"policy.name=dense run.model=llama-3-8b", `policy.name = "dense": expected a policy that chooses rows with run.system = sparse-offload: all 512MiB of a context of 131072 tokens`},
		{"policy.name=hgca run.model=llama-3-8b", "the host's CPUs have a part in it, which fetches leave out; it runs with run.system = l3, gpu+cpu"},
		{"policy.name=csattention run.model=llama-3-8b", "the host's CPUs have a part in it, which fetches leave out"},
		{"sparse_offload.buffer_rows=499", "sparse_offload.buffer_rows = 499: expected at least 500: the tokens that a step of dsa attends to"},
		{"sparse_offload.buffer_rows=500", ""},
		{"sparse_offload.buffer_rows=16000000 model.layers=80", "the rows of one request take"},
		{"sparse_offload.hit_rate=1.1", "sparse_offload.hit_rate = 1.1: expected"},
		{"sparse_offload.schedule=tow", "one of in-order, two"},
		{"sparse_offload.host_copies=gpu", "one of node, rank"},
		{"sparse_offload.fetch_blocks=0", "sparse_offload.fetch_blocks = 0"},
		{"sparse_offload.translation=-0.1", "sparse_offload.translation = -0.1"},
		{"sparse_offload.shared_rate=0", "sparse_offload.shared_rate = 0"},
		{"sparse_offload.shared_rate=1.1", "sparse_offload.shared_rate = 1.1"},
		{"node.memory_capacity=10B", "those of a token on each replica take"},
		{"policy.name=quest run.model=llama-3-8b policy.quest.select_device=buffer", "policy.quest.select_device"},
		{"policy.name=quest run.model=llama-3-8b policy.quest.budget=8192", "expected at least 8192"},
		{"run.system=gpu+cpu", "latent attention runs with"},
		{"policy.name=quest run.model=llama-3-8b run.system=gpu+cpu gpu_cpu.attend=gpus", `gpu_cpu.attend = "gpus": expected "host" with policy.name = quest: pages are not known before the layer that chooses them; run.system = sparse-offload fetches them`},
		{"policy.name=lserve run.model=llama-3-8b run.system=gpu+cpu", ""},
	} {
		sets := strings.Fields(c.sets)
		if !strings.Contains(c.sets, "run.model") {
			sets = slices.Concat(indexedModel, sets)
		}
		_, err := Loader().Load(configs.Options{Sets: slices.Concat([]string{"run.system=sparse-offload"}, sets)})
		if got := fmt.Sprint(err); c.want == "" && err != nil || !strings.Contains(got, c.want) && c.want != "" {
			t.Errorf("%s\n%s\nwant %q", c.sets, got, c.want)
		}
	}
	// A host without room for a request serves none.
	n, _ := sparseOf(t, "node.memory_capacity=1MiB")
	l := n.replica([]traces.Request{{Input: 5000, Output: 10}})
	if l.Batcher.Add(0) {
		t.Error("a request of 5,009 tokens is admitted to 1 MiB")
	}
	if r := l.Batcher.Rejection(0); r.KVTokens != 5009 || r.MostKVTokens != 1200 { // 455 pages, 75 of each layer
		t.Errorf("%+v", r)
	}
}
