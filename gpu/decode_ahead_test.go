package gpu

import (
	"testing"

	"pgregory.net/rapid"
)

// TestDecodeAhead: costs computed for several steps at once equal those of each batch alone, bit by bit, whatever was computed before: a
// few streams of requests alternate, continue, repeat, go back or end.
func TestDecodeAhead(t *testing.T) {
	for _, name := range []string{"h200-sxm", "a100-sxm-80gb", "a100-paper"} {
		m := loadModel(t, "llama-3-8b")
		for _, sharp := range []bool{false, true} {
			s := *loadPreset(t, name)
			if s.Decode.Ridge = max(s.Decode.Ridge, 1.5); sharp {
				s.Decode.Ridge = 0
			}
			t.Run(name, func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					c := NewModelCost(&s, m)
					ahead := 0
					streams := make([]DecodeBatch, 3)
					draw := func(i int) {
						n := rapid.IntRange(0, 3).Draw(t, "requests")
						streams[i] = DecodeBatch{Requests: n, Tokens: int64(n * rapid.IntRange(1, 3).Draw(t, "mean")), Longest: 4 * n, KVHeads: rapid.SampledFrom([]int{0, 4}).Draw(t, "heads")}
						streams[i].Page = rapid.SampledFrom([]int{0, 0, 0, 16}).Draw(t, "page")
						streams[i].Weights = rapid.IntRange(0, 3).Draw(t, "weights") == 0
					}
					for i := range streams {
						draw(i)
					}
					for range 60 {
						i := rapid.IntRange(0, len(streams)-1).Draw(t, "stream")
						b := &streams[i]
						switch rapid.SampledFrom([]string{"on", "on", "on", "on", "on", "again", "back", "other"}).Draw(t, "step") {
						case "on":
							*b = b.after(1)
						case "back":
							*b = b.after(-min(2, b.Longest))
						case "other":
							draw(i)
						}
						b.Tokens = max(b.Tokens, 0)
						if got, want := c.DecodeBatchCost(*b), c.batchCost(*b); got != want {
							t.Fatalf("%+v costs %+v, by itself %+v", *b, got, want)
						}
						ahead = max(ahead, c.ahead(b).known)
					}
					if one := (sharp || s.Decode.Model == AttAcc); one && ahead > 1 {
						t.Fatal("a maximum and a sum are computed ahead")
					}
				})
			})
		}
	}
	// A stream that continues is computed ahead from its second step on.
	c := NewModelCost(loadPreset(t, "a100-sxm-80gb"), loadModel(t, "llama-3-8b"))
	for step, want := range []int{1, 4, 4, 4, 4, 4} {
		b := UniformBatch(3, 1000).after(step)
		if c.DecodeBatchCost(b); c.ahead(&b).known != want {
			t.Errorf("step %d: %d steps are known, want %d", step, c.ahead(&b).known, want)
		}
	}
}

// BenchmarkDecodeAhead: a batch that continues, as in a run.
func BenchmarkDecodeAhead(b *testing.B) {
	c := NewModelCost(loadPreset(b, "a100-sxm-80gb"), loadModel(b, "llama-3-8b"))
	batch := UniformBatch(64, 4096)
	b.ReportAllocs()
	for b.Loop() {
		batch.Tokens, batch.Longest = batch.Tokens+int64(batch.Requests), batch.Longest+1
		a := c.Attention()
		a.Decoding(batch)
	}
}
