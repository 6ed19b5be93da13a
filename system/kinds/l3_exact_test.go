package kinds

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/batching"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
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
		{"run.model=gemma-3-27b"},
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
			checkBeyond(t, e, sets, &sub, rng)
			moved := 1 + rng.IntN(9000)
			if sum, is := e.PIM(&sub, 3, 0)+e.Moves(moved), e.PIM(&sub, 3, moved); sum != is {
				t.Errorf("%v: %v on the PIM, %v by parts", sets, is, sum)
			}
		}
	}
}

// checkBeyond: from Beyond on the GPUs' time of a sub-batch exceeds a time and Moves, and not from far below it if the time is that of a
// chunk.
func checkBeyond(t *testing.T, e *l3, sets []string, sub *scheduler.SubBatch, rng *rand.Rand) {
	t.Helper()
	left, moved := 1+rng.IntN(100_000)>>rng.IntN(10), rng.IntN(3)*rng.IntN(700)<<rng.IntN(7)-1
	c := scheduler.Chunk{Tokens: left, Finished: rng.IntN(200_000) >> rng.IntN(14), Last: true}
	excess := func(n int) units.Duration {
		c, grown := c, *sub
		c.Tokens = n
		grown.Prefill = append(slices.Clone(sub.Prefill), c)
		took := e.GPU(&grown, 3)
		if moved >= 0 {
			took -= e.Moves(moved + n)
		}
		return took
	}
	limit := excess(1 + rng.IntN(left))
	if rng.IntN(3) == 0 {
		limit = 0
	}
	from := e.Beyond(sub, &c, limit, moved)
	if from < 1 || from > left+1 {
		t.Fatalf("%v: beyond %d tokens of %d", sets, from, left)
	}
	for range 6 {
		n := from
		if rng.IntN(3) > 0 {
			n += rng.IntN(left+1) >> rng.IntN(12)
		}
		if n <= left && excess(n) <= limit {
			t.Errorf("%v: %d tokens after %d take %v less moves of %d, at most %v, but the time is surely exceeded from %d on", sets, n, c.Finished, excess(n), moved+n, limit, from)
		}
	}
}

// TestBeyondIsClose: Beyond excludes all but the chunks of a long prompt that take little more time than there is.
func TestBeyondIsClose(t *testing.T) {
	e := rigOf(t, "run.model=llama-3-8b").l3()
	for _, finished := range []int{0, 5000, 100_000} {
		c := scheduler.Chunk{Tokens: 512, Finished: finished, Last: true}
		limit := e.GPU(&scheduler.SubBatch{Prefill: []scheduler.Chunk{c}}, 3) - e.Moves(512)
		if c.Tokens = 90_000; finished > 0 {
			c.Tokens = 1 << 19
		}
		if from := e.Beyond(&scheduler.SubBatch{}, &c, limit, 0); from <= 512 || from > 1024 {
			t.Errorf("after %d tokens: surely too long from %d tokens on, 512 are just enough", finished, from)
		}
		if from := e.Beyond(&scheduler.SubBatch{}, &c, limit, -1); from > 1024 {
			t.Errorf("after %d tokens without moves: surely too long from %d tokens on", finished, from)
		}
	}
}

// TestMovesGrow: the bounds of Moves hold for all numbers of tokens below theirs.
func TestMovesGrow(t *testing.T) {
	for _, sets := range [][]string{{"run.model=llama-3-8b"}, {"run.model=llama-3-8b", "comm.stripe=channels"}, {"run.model=gpt-oss-120b"}} {
		e, rng := rigOf(t, sets...).l3(), rand.New(rand.NewPCG(3, 9))
		for range 300 {
			n := 1 + rng.IntN(300_000)>>rng.IntN(18)
			bounds := e.movesUpTo(n)
			if b := bounds[len(bounds)-1]; b.tokens < n || float64(e.Moves(n)) > b.most {
				t.Fatalf("%v: %d tokens move in %v, bound of %d: %v", sets, n, e.Moves(n), b.tokens, b.most)
			}
		}
	}
}
