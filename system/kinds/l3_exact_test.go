package kinds

import (
	"math/rand/v2"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/batching"
	"github.com/l3sim/l3sim/system/flow"
)

// TestExactRunsPredictWhole: an exact run cuts prompts by predictions of whole iterations, other runs
// by their parts.
func TestExactRunsPredictWhole(t *testing.T) {
	r := rigOf(t, "run.model=llama-3-8b")
	for _, exact := range []bool{false, true} {
		n := &Setup{Hardware: r.Hardware, Running: flow.Running{Exact: exact}}
		if _, parts := r.l3().predictor(n).(batching.Exact); parts == exact {
			t.Errorf("exact %v: predictions by parts %v", exact, parts)
		}
	}
}

// TestPartsOfPredictions: for any sub-batch, T_GPU is at least the time of its tokens alone, and T_PIM that of its requests plus the other
// sub-batch's prompts, for each kind of model, GPU and policy. T_GPU is most of a prompt's time.
func TestPartsOfPredictions(t *testing.T) {
	cases := [][]string{
		{"run.model=llama-3-8b"}, {"run.model=gpt-oss-120b"}, {"run.model=qwen3-30b-a3b", "gpu.preset=h100-sxm"}, {"run.model=opt-30b", "model.tensor_parallel=4", "node.gpus=4"},
		{"run.model=llama-3-8b", "policy.name=quest"}, {"run.model=llama-3-8b", "policy.name=duo"}, {"run.model=llama-3-8b", "comm.stripe=channels"},
		{"run.model=llama-3-8b", "gpu.power.limit_w=150", "gpu.power.throttle=0.5"}, {"run.model=llama-3-8b", "memory.spare=wait"},
	}
	for n, sets := range cases {
		if !deep.Case(n, 3) {
			continue
		}
		r := rigOf(t, sets...)
		e, rng := r.l3(), rand.New(rand.NewPCG(uint64(n), 5))
		prompt := scheduler.SubBatch{Prefill: []scheduler.Chunk{{Tokens: 512, Last: true}}}
		if is := e.GPU(&prompt, 3); !e.Exceeds(&scheduler.SubBatch{}, &prompt.Prefill[0], is/2) {
			t.Errorf("%v: %v of a prompt of 512 tokens on the GPUs does not surely exceed half of it", sets, is)
		}
		for range 40 {
			var sub scheduler.SubBatch
			for range rng.IntN(6) {
				sub.Decode = append(sub.Decode, scheduler.Decoding{Offset: int32(rng.IntN(r.cfg.Node.Ranksets)), Base: 1 + rng.Int64N(20000), Last: 1 << 20, Prompt: 1})
			}
			for range rng.IntN(3) {
				sub.Prefill = append(sub.Prefill, scheduler.Chunk{Tokens: 1 + rng.IntN(3000)>>rng.IntN(8), Finished: 512 * rng.IntN(60), Last: true, Near: sub.Prefill != nil && e.Spare != nil})
			}
			if tokens := sub.Tokens(); tokens > 0 {
				is, c, rest := e.GPU(&sub, 3), scheduler.Chunk{}, sub
				if n := len(sub.Prefill); n > 0 {
					c, rest.Prefill = sub.Prefill[n-1], sub.Prefill[:n-1]
				}
				if e.Exceeds(&rest, &c, is) {
					t.Errorf("%v: %v of %d tokens on the GPUs surely exceeds itself", sets, is, tokens)
				}
			}
			moved := 1 + rng.IntN(9000)
			if sum, is := e.PIM(&sub, 3, 0)+e.Moves(moved), e.PIM(&sub, 3, moved); sum != is {
				t.Errorf("%v: %v on the PIM, %v by parts", sets, is, sum)
			}
		}
	}
}
