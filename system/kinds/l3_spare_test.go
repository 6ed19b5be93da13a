package kinds

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// spareFor returns the GPU memory that leaves room for reserving so many tokens in the spare memory, in addition to
// activations and the longest prompt.
func spareFor(t *testing.T, longest, tokens int, sets ...string) string {
	cfg := rigOf(t, sets...).cfg
	m := &cfg.Model
	free := m.ActivationBytes(max(cfg.Batching.MaxBatchTokens, longest+1)) + units.Bytes(longest+tokens+cfg.Batching.PageTokens)*m.KVBytesPerToken()
	return fmt.Sprintf("gpu.memory_capacity=%q", cfg.GPU.MemoryReserve+(m.WeightBytes()+free)/units.Bytes(m.TensorParallel)+1)
}

// TestRequestOnEachSide: of two requests one is in the DIMMs, the other in the GPUs' spare memory, which has room for one. With
// one sub-batch a layer is by hand: vectors of the first go down, the ranks attend, and its results come up; meanwhile the GPUs
// attend for the second; then a block of two rows. 'l3sim gpu iteration' and 'l3sim pim attention' print the parts. If a step
// verifies k tokens, all accepted here, there are k times as many vectors and rows, and both sides attend with k queries.
func TestRequestOnEachSide(t *testing.T) {
	const layers, output = 96, 30
	for _, c := range []struct {
		near, home int // prompts
		k          int
		gpus       bool // attend for longer than the ranks
	}{
		{1500, 1200, 1, false}, {9000, 400, 3, true}, {4000, 900, 1, true}, {1500, 1200, 2, false},
	}[:deep.Of(2, 4, 4)] {
		requests := []traces.Request{{ID: 0, Input: c.near, Output: output}, {ID: 1, Input: c.home, Output: output}}
		sets := []string{oneBatch, allAtOnce, "memory.spare=decode", fmt.Sprint("serving.verified_tokens=", c.k), "serving.acceptance=1"}
		sets = append(sets, spareFor(t, c.near, c.near+output+c.k-1, sets...))
		node := rigOf(t, sets...)
		cfg := node.cfg
		g, s := gpu.NewModelCost(&cfg.GPU.Spec, &cfg.Model), &cfg.DRAM.Spec
		g.Verify(c.k)
		ps := func(w gpu.Work) units.Duration { return units.FromSeconds(w.Seconds) }
		links := units.Bandwidth(cfg.Model.TensorParallel) * cfg.PCIe.Bandwidth()
		steps := 0
		r, _ := drive(t, sets, requests, keep, func(r *loop, x driven) {
			sub := &x.batch.Sub[0]
			if steps == 0 && len(sub.Near)+len(sub.Decode) == 0 { // prompts: only the first one's keys and values stay on the GPUs
				for _, p := range sub.Prefill {
					if p.Near != (p.Request == 0) {
						t.Fatalf("chunk %+v", p)
					}
				}
				return
			}
			if len(sub.Near) != 1 || len(sub.Decode) != 1 || sub.Near[0].Request != 0 {
				t.Fatalf("%d near and %d in the DIMMs", len(sub.Near), len(sub.Decode))
			}
			steps++
			near, home := c.near+c.k*steps, c.home+c.k*steps
			down := max(links.TransferTime(units.Bytes(c.k)*3*96*256), refreshed(int64(c.k)*3*6*4*4))
			up := max(links.TransferTime(units.Bytes(c.k)*96*256), refreshed(int64(c.k)*6*4*4))
			ranks := cfg.PCIe.Latency + units.Duration(s.CWL)*s.TCK + down + refreshed(6*4) +
				refreshed(node.CommandTables.Kernels.Table.Alone(home)+5*node.CommandTables.Kernels.Table.InSequence(home)) +
				2*122*units.Nanosecond + cfg.PCIe.Latency + units.Duration(s.CL)*s.TCK + up
			a := g.Attention()
			gpus := ps(a.Decoding(gpu.DecodeBatch{Requests: 1, Tokens: int64(near), Longest: near, KVHeads: 96}))
			if (gpus > ranks) != c.gpus {
				t.Fatalf("GPUs attend for %v, ranks take %v", gpus, ranks)
			}
			rows := 2 * c.k
			want := ps(g.Embedding(rows)) + layers*ps(g.QKV(rows)) + ps(g.LMHead(rows)) + layers*(max(gpus, ranks)+ps(g.ProjectionFFN(rows)))
			if x.took != want {
				t.Fatalf("contexts %d and %d: %v, by hand %v", near, home, x.took, want)
			}
			if kind := r.Engine.(*l3).Flow.Iteration.Totals().ByKind[flow.OpWindow]; kind != layers*gpus {
				t.Fatalf("the GPUs attend for %v, by hand %v", kind, layers*gpus)
			}
		})
		if steps != (output-1+c.k-1)/c.k || r.Batcher.UsedUnits() != 0 || r.Batcher.SpareTokens != output-1 {
			t.Errorf("%d steps, %d tokens in the spare memory, %d units left", steps, r.Batcher.SpareTokens, r.Batcher.UsedUnits())
		}
	}
}

// TestSpareIsRefused: combinations that the GPUs do not support for requests in spare memory give an error that
// names both keys.
func TestSpareIsRefused(t *testing.T) {
	for _, c := range []struct{ sets, want string }{
		{"run.system=gpu-only", `"off" with run.system = gpu-only`},
		{"cache.prefix=true", "cache.prefix = true"},
		{"predictor.kind=learned", `predictor.kind = "learned"`},
		{"policy.name=window", "policy.name = window"},
		{"policy.name=quest policy.quest.select_device=bank", `policy.quest.select_device = "bank"`},
		{"policy.name=lserve policy.lserve.page=128 policy.lserve.budget=1024 policy.lserve.layout=quad", `policy.lserve.layout = "quad"`},
	} {
		_, err := Loader().Load(configs.Options{Sets: append(strings.Fields(c.sets), "memory.spare=decode")})
		var e *input.Error
		if !errors.As(err, &e) || e.Key != "memory.spare" || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.sets, err)
		}
	}
	if _, err := Loader().Load(configs.Options{Sets: []string{"memory.spare=decoded"}}); err == nil || !strings.Contains(err.Error(), `did you mean "decode"`) {
		t.Error(err)
	}
}

// TestSpareCostsAsGPUOnly: requests in the spare memory take as much GPU time and memory as with gpu-only, including kernels that
// choose.
func TestSpareCostsAsGPUOnly(t *testing.T) {
	deep.Heavy(t)
	requests := []scheduler.Decoding{{Request: 0, Base: 9000, Prompt: 8000}, {Request: 1, Base: 5000, Prompt: 200}, {Request: 2, Base: 30, Prompt: 20}}
	for _, sets := range [][]string{{}, {"model.kv_bits=8"}, {"model.kv_bits=4"}, {"policy.name=quest"}, {"policy.name=lserve"}, {"policy.name=duo"}} {
		both := rigOf(t, append(sets, "memory.spare=decode")...)
		alone := rigOf(t, append(sets, "run.system=gpu-only")...)
		e, g := both.l3(), alone.replica(nil).Engine.(*gpuOnly)
		g.DecodeRuns(requests, 0)
		want := g.GPUTime(&scheduler.SubBatch{Decode: requests})
		if got := e.GPU(&scheduler.SubBatch{Near: requests}, 0); got != want {
			t.Errorf("%v: %v, gpu-only takes %v", sets, got, want)
		}
		there, here := gpus.Memories(alone.Hardware).Ledger, gpus.SpareLedger(both.Hardware)
		for _, n := range []memory.Length{{Prompt: 8000, Tokens: 9000}, {Prompt: 20, Tokens: 30}} {
			a, _ := there.Reserve(n, nil, 0, nil)
			b, ok := here.Reserve(n, nil, 0, nil)
			if !ok || there.HeldBy(&a) != here.HeldBy(&b) || there.Used() != here.Used() {
				t.Errorf("%v: %+v has %d pages, with gpu-only %d", sets, n, here.HeldBy(&b), there.HeldBy(&a))
			}
		}
	}
}
