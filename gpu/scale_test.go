package gpu_test

import (
	"math"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/energy"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/input"
)

// TestScale: each second of an iteration scales with one factor, that of its kind; energy of traffic and arithmetic does not.
func TestScale(t *testing.T) {
	own := map[gpu.Group]string{gpu.Embedding: "small_kernels", gpu.SmallKernels: "small_kernels", gpu.QKVProduct: "products",
		gpu.PrefillAttention: "prefill_attention", gpu.DecodeAttention: "decode_attention", gpu.ProjectionProduct: "products", gpu.AllReduce: "all_reduce"}
	for _, name := range []string{"a100-paper", "a100-sxm-80gb", "h200-sxm"} {
		for _, model := range []string{"llama-3-70b", "mixtral-8x7b"} {
			s, _, err := configs.LoadGPU("--gpu", name)
			if err != nil {
				t.Fatal(err)
			}
			m, err := configs.LoadModel("--model", model, s, 8)
			if err != nil {
				t.Fatal(err)
			}
			m.TensorParallel = 4
			shape := gpu.Shape{Decode: gpu.UniformBatch(9, 700), Prefills: 2, Chunk: 512, Finished: 100}
			plain := gpu.NewModelCost(s, m).IterationParts(shape)
			sum := gpu.Parts{}
			for key, factor := range scales(&s.Scale) {
				before := *factor
				*factor = "2"
				parts := gpu.NewModelCost(s, m).IterationParts(shape)
				*factor = before
				for g := range gpu.Groups {
					more := parts[g].Seconds - plain[g].Seconds
					sum[g].Seconds += more
					want := 0.0
					if own[g] == key {
						want = plain[g].Seconds
					}
					if own[g] != "" && math.Abs(more-want) > 1e-9*plain[g].Seconds || parts[g].Dynamic != plain[g].Dynamic {
						t.Errorf("%s, %s: with twice the time of %s, %s takes %g s more, want %g; joules %g, before %g",
							name, model, key, g, more, want, parts[g].Dynamic, plain[g].Dynamic)
					}
				}
			}
			for g := range gpu.Groups {
				if math.Abs(sum[g].Seconds-plain[g].Seconds) > 1e-9*plain[g].Seconds {
					t.Errorf("%s, %s: all factors together make %s %g s longer, want %g", name, model, g, sum[g].Seconds, plain[g].Seconds)
				}
			}
		}
	}
}

func scales(s *gpu.ScaleSpec) map[string]*energy.Constant {
	return map[string]*energy.Constant{"products": &s.Products, "prefill_attention": &s.Prefill, "decode_attention": &s.Decode, "all_reduce": &s.AllReduce, "small_kernels": &s.SmallKernels}
}

// TestScaleOfAttention: attention outside of an iteration's groups also has factors.
func TestScaleOfAttention(t *testing.T) {
	s, _, err := configs.LoadGPU("--gpu", "a100-sxm-80gb")
	if err != nil {
		t.Fatal(err)
	}
	m, err := configs.LoadModel("--model", "llama-3-8b", s, 8)
	if err != nil {
		t.Fatal(err)
	}
	batch := gpu.UniformBatch(4, 900)
	pages := batch
	pages.Page = 16
	for name, c := range map[string]struct {
		key string
		of  func(c *gpu.ModelCost) gpu.Work
	}{
		"prompt":     {"prefill_attention", func(c *gpu.ModelCost) gpu.Work { return c.PrefillAttention(300, 40) }},
		"one prompt": {"prefill_attention", func(c *gpu.ModelCost) gpu.Work { a := c.Attention(); return a.Prompts(1, 300, 40, 0) }},
		"prompts":    {"prefill_attention", func(c *gpu.ModelCost) gpu.Work { a := c.Attention(); return a.Prompts(3, 300, 40, 0) }},
		"decode":     {"decode_attention", func(c *gpu.ModelCost) gpu.Work { return c.DecodeBatch(batch) }},
		"decoding":   {"decode_attention", func(c *gpu.ModelCost) gpu.Work { a := c.Attention(); return a.Decoding(batch) }},
		"pages":      {"decode_attention", func(c *gpu.ModelCost) gpu.Work { return c.DecodeBatch(pages) }},
		"shared": {"decode_attention", func(c *gpu.ModelCost) gpu.Work {
			return c.Kernel(c.SharedCost([]gpu.Shared{{Requests: 3, Tokens: 500}}))
		}},
		"choice": {"decode_attention", func(c *gpu.ModelCost) gpu.Work {
			return c.Select(gpu.Selection{PageScores: gpu.PageScores{Pages: gpu.UniformBatch(4, 60)}, Ranked: gpu.UniformBatch(4, 60), Keep: 8})
		}},
		"merge": {"small_kernels", func(c *gpu.ModelCost) gpu.Work { return c.Merge(7) }},
	} {
		plain := c.of(gpu.NewModelCost(s, m))
		for key, factor := range scales(&s.Scale) {
			before, want := *factor, plain.Seconds
			if *factor = "3"; key == c.key {
				want *= 3
			}
			if got := c.of(gpu.NewModelCost(s, m)).Seconds; plain.Seconds == 0 || math.Abs(got-want) > 1e-9*want {
				t.Errorf("%s with three times the time of %s: %g s, want %g", name, key, got, want)
			}
			*factor = before
		}
	}
}

// TestScaleRules: a factor and its band are positive.
func TestScaleRules(t *testing.T) {
	for _, bad := range []energy.Constant{"0", "1 [0, 2] assumption", "200"} {
		s, _, err := configs.LoadGPU("--gpu", "h200-sxm")
		if err != nil {
			t.Fatal(err)
		}
		own := *s
		own.Scale.AllReduce = bad
		if err := input.Validate(&own); err == nil || !strings.Contains(err.Error(), "scale.all_reduce") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
