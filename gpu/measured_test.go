package gpu

import (
	"slices"
	"testing"
)

// TestBeyond: kernels within the measured range return "", those beyond it the reason, and those of AttAcc's model, which is not fitted,
// "".
func TestBeyond(t *testing.T) {
	s := *loadPreset(t, "h200-sxm")
	s.Measured = MeasuredSpec{ProductRows: 10, ProductWidth: 20, DecodeRequests: 30, DecodeContext: 40, PrefillTokens: 50, AllReduceGPUs: 2, AllReduceBytes: 100, SmallRows: 60, ExpertTokens: 70, ExpertWidth: 80}
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
		{s.AllReduceBeyond(1, 1000), ""}, {s.AllReduceBeyond(2, 100), ""}, {s.AllReduceBeyond(2, 101), "101 bytes of an all-reduce: measured up to 100"},
		{s.AllReduceBeyond(3, 1), "3 GPUs of an all-reduce: measured up to 2"}, {plain.AllReduceBeyond(8, 1e6) + plain.smallBeyond(1e6), ""},
		{s.expertsBeyond(70, 80), ""}, {s.expertsBeyond(71, 80), "71 tokens of experts: measured up to 70"},
		{s.expertsBeyond(70, 81), "81 inner columns of an expert: measured up to 80"}, {plain.expertsBeyond(1e6, 1e6), ""},
		{s.smallBeyond(60), ""}, {s.smallBeyond(61), "61 rows of a small kernel: measured up to 60"},
		{plain.GEMMBeyond(1e6, 1e6, 1e6) + plain.DecodeBeyond(UniformBatch(1e6, 1e6)) + plain.PrefillBeyond(1e6, 1e6), ""},
		{a6000.DecodeBeyond(UniformBatch(1, 1)), "requests that decode: not measured on this GPU"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
	// In an iteration, each group reports for itself: 8 decoding requests and one prompt of 4 tokens are 12 rows.
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
	// q, k and v of 32 + 2 · 8 heads are 6,144 wide, wider than the projection of 32 heads' output.
	s.Measured.ProductRows = 12
	for width, want := range map[int]string{6144: "", 6143: "6144 columns or inner elements of a product: measured up to 6143"} {
		s.Measured.ProductWidth = width
		if why := NewModelCost(&s, &m).Beyond(Shape{Decode: UniformBatch(8, 41), Prefills: 1, Chunk: 4}); why[QKVProduct] != want || why[ProjectionProduct] != "" {
			t.Errorf("up to %d: %q and %q, want %q and none", width, why[QKVProduct], why[ProjectionProduct], want)
		}
	}
}

// TestExtrapolatedSeconds: the seconds that Layers and Head return as beyond are those of the groups that Beyond names, over all layers, by
// kind; none if it names none.
func TestExtrapolatedSeconds(t *testing.T) {
	m := *loadModel(t, "llama-3-8b")
	m.TensorParallel = 2
	const tokens, layers = 12, 32
	for _, c := range []struct {
		limit  func(*MeasuredSpec)
		layers []Kind
		head   []Kind
	}{
		{func(*MeasuredSpec) {}, nil, nil},
		{func(r *MeasuredSpec) { r.ProductRows = 11 }, []Kind{Products}, []Kind{Products}},
		{func(r *MeasuredSpec) { r.ProductWidth = 64000 }, nil, []Kind{Products}}, // half the vocabulary is 64128
		{func(r *MeasuredSpec) { r.AllReduceGPUs = 1 }, []Kind{AllReduces}, []Kind{AllReduces}},
		{func(r *MeasuredSpec) { r.AllReduceBytes = 12*4096*2 - 1 }, []Kind{AllReduces}, nil},
		{func(r *MeasuredSpec) { r.SmallRows = 11 }, []Kind{SmallOnes}, []Kind{SmallOnes}},
	} {
		s := *loadPreset(t, "h200-sxm")
		s.Measured = MeasuredSpec{ProductRows: 100, ProductWidth: 1e6, AllReduceGPUs: 4, AllReduceBytes: 1e9, SmallRows: 100}
		c.limit(&s.Measured)
		cost := NewModelCost(&s, &m)
		entry, block, exit := cost.TaskParts(tokens, tokens)
		var want, head Extrapolated
		for g := range Groups { // groups of layers: QKV of each and the rest of each; the exit has the last rest, and the head
			kind, p := kindOf[g], cost.head(tokens)[g].Seconds
			head[kind] += p
			want[kind] += entry[g].Seconds + (layers-1)*block[g].Seconds + exit[g].Seconds - p
		}
		keep := func(x *Extrapolated, kinds []Kind) {
			for k := range x {
				if !slices.Contains(kinds, Kind(k)) {
					x[k] = 0
				}
			}
		}
		keep(&want, c.layers)
		keep(&head, c.head)
		_, _, _, far := cost.Layers(tokens)
		_, farHead := cost.Head(tokens)
		for _, x := range []struct {
			got  *Extrapolated
			want Extrapolated
		}{{far, want}, {farHead, head}} {
			if (x.got == nil) != (x.want == Extrapolated{}) {
				t.Fatalf("got %v, want %v", x.got, x.want)
			}
			for k := range x.want {
				if x.got != nil && !near(x.got[k], x.want[k]) {
					t.Errorf("%s: %g s, want %g", Kind(k), x.got[k], x.want[k])
				}
			}
		}
	}
}
