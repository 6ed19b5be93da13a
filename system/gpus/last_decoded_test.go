package gpus

import (
	"testing"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/scheduler"
	"pgregory.net/rapid"
)

// TestLastDecoded: whatever GPUs decoded before, in any run, a batch takes the same time as on GPUs that decoded nothing.
func TestLastDecoded(t *testing.T) {
	for _, preset := range []string{"a100-sxm-80gb", "h100-sxm"} {
		known := New(gpusOf(t, "run.model=gpt-oss-120b", "gpu.preset="+preset))
		rapid.Check(t, func(t *rapid.T) {
			run := rapid.IntRange(0, 1).Draw(t, "run")
			n, tokens := rapid.IntRange(1, 3).Draw(t, "requests"), rapid.SampledFrom([]int{1, 128, 129, 200000}).Draw(t, "tokens")
			batch := gpu.DecodeBatch{Requests: n, Tokens: int64(n * tokens), Longest: tokens, Windowed: rapid.Bool().Draw(t, "windowed")}
			decode := Decoding{Batches: []gpu.DecodeBatch{batch}}
			if rapid.Bool().Draw(t, "two") {
				decode.Batches = append(decode.Batches, gpu.DecodeBatch{Requests: 1, Tokens: 77, Longest: 77, KVHeads: 4})
			}
			sub := scheduler.SubBatch{Decode: make([]scheduler.Decoding, n)}
			if rapid.Bool().Draw(t, "prompt") {
				sub.Prefill = []scheduler.Chunk{{Tokens: 100, Finished: 50}}
			}
			fresh := New(known.hw)
			known.farther[run], known.attention = known.farther[run][:0], nil
			p, d, all := known.LayerAttention(&sub, run, &decode)
			fp, fd, fall := fresh.LayerAttention(&sub, run, &decode)
			if len(sub.Prefill) == 0 && len(decode.Batches) == 1 {
				a := known.ModelCost.Attention()
				if want := a.Decoding(batch).Seconds; !near(d.Seconds, want) || want == 0 {
					t.Errorf("%+v takes %v s, its kernel %v s", batch, d.Seconds, want)
				}
			}
			if p != fp || d != fd || all != fall || len(known.farther[run]) != len(fresh.farther[run]) {
				t.Errorf("%+v on %s in run %d: %+v, %+v and %+v; on new GPUs %+v, %+v and %+v", decode, preset, run, p, d, all, fp, fd, fall)
			}
		})
	}
}
