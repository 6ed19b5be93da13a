package gpu

import "testing"

// TestBeyond: kernels within the measured range say nothing, those one beyond it what is beyond, and those of AttAcc's
// model, which is not fitted, nothing.
func TestBeyond(t *testing.T) {
	s := *loadPreset(t, "h200-sxm")
	s.Measured = MeasuredSpec{ProductRows: 10, ProductWidth: 20, DecodeRequests: 30, DecodeContext: 40, PrefillTokens: 50}
	plain, a6000 := *loadPreset(t, "a100-paper"), *loadPreset(t, "rtx-a6000")
	for _, c := range []struct{ got, want string }{
		{s.GEMMBeyond(10, 20, 20), ""},
		{s.GEMMBeyond(11, 20, 20), "11 rows of a product: measured up to 10"},
		{s.GEMMBeyond(10, 21, 20), "21 columns or inner elements of a product: measured up to 20"},
		{s.GEMMBeyond(10, 20, 22), "22 columns or inner elements of a product: measured up to 20"},
		{s.DecodeBeyond(UniformBatch(30, 40)), ""},
		{s.DecodeBeyond(UniformBatch(31, 40)), "31 requests that decode: measured up to 30"},
		{s.DecodeBeyond(DecodeBatch{Requests: 2, Tokens: 42, Longest: 41}), "41 tokens of a context: measured up to 40"},
		{s.PrefillBeyond(20, 30), ""}, {s.PrefillBeyond(20, 31), "51 tokens of a prompt: measured up to 50"},
		{plain.GEMMBeyond(1e6, 1e6, 1e6) + plain.DecodeBeyond(UniformBatch(1e6, 1e6)) + plain.PrefillBeyond(1e6, 1e6), ""},
		{a6000.DecodeBeyond(UniformBatch(1, 1)), "requests that decode: not measured on this GPU"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
	// Of an iteration each group says it for itself: 8 requests that decode and one prompt of 4 tokens are 12 rows.
	m := *loadModel(t, "llama-3-8b")
	m.TensorParallel = 1
	s.Measured.ProductWidth = 28672
	why := NewModelCost(&s, &m).Beyond(Shape{Decode: UniformBatch(8, 41), Prefills: 1, Chunk: 4})
	for g, want := range map[Group]string{
		QKVProduct: "12 rows of a product: measured up to 10", ProjectionProduct: "12 rows of a product: measured up to 10", FeedForward: "12 rows of a product: measured up to 10",
		LMHead: "128256 columns or inner elements of a product: measured up to 28672", DecodeAttention: "41 tokens of a context: measured up to 40",
		PrefillAttention: "", SmallKernels: "", AllReduce: "", Embedding: "",
	} {
		if why[g] != want {
			t.Errorf("%s: %q, want %q", g, why[g], want)
		}
	}
}
