package measure

import (
	"fmt"
	"strings"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/llm"
)

// Kinds of a framework's module of attention of one layer: products, norms, the cache, an indexer's kernels, attention. They are judged
// as sums of kernels; no fit is made to them.
const (
	LatentLayer  Kind = "latent_layer"
	IndexedLayer Kind = "indexed_layer" // with an indexer, or with the choice of another layer's
)

// layerWidths are the element types of the products of such modules: bits of weights and of activations, and weights that share a byte of scales.
var layerWidths = map[string][3]int{wholeType: {16, 16, 0}, "fp8_block": {8, 8, gpu.FP8Block}, "nvfp4": {4, 8, gpu.NVFP4Block}}

// sharesChoice marks kernels of layers that take the choice of another layer's indexer.
const sharesChoice = "skip_indexer"

// layer reads the row of a module of attention: the heads of one GPU, equal requests.
func (r *row) layer(models Models) []Sample {
	s := Sample{kind: LatentLayer, File: r.name, Line: r.line, where: InGraph, batch: r.integer("batch", 1, 1<<20), Seconds: r.positive("us") * 1e-6}
	widths, cache, heads := layerWidths[r.element("gemm", []string{wholeType, "fp8_block", "nvfp4"})], r.element("kv_dtype", cacheTypes), r.integer("heads", 1, 1<<16)
	if r.has("context") {
		s.context = r.integer("context", 1, 1<<30)
	} else {
		s.chunk, s.finished = r.integer("length", 1, 1<<30), r.integer("prefix", 0, 1<<30)
	}
	if r.has("kernel") {
		s.source = r.text("kernel")
	}
	if r.err != nil {
		return nil
	}
	name := strings.ToLower(r.text("model"))
	if strings.HasPrefix(name, "glm-5") { // attention of all of these is alike
		name = "glm-5-fp8"
	}
	m, err := models(name)
	if err != nil {
		r.err = input.Edit(err, func(bad *input.Error) { bad.File, bad.Line = r.name, r.line })
		return nil
	}
	if m.LatentDim == 0 {
		r.fail("model", r.text("model"), "a model with latent attention")
		return nil
	}
	m.Layers, m.DenseLayers, m.Heads, m.TensorParallel = 1, 0, heads, 1
	m.WeightBits, m.ActivationBits, m.WeightBlock = widths[0], widths[1], widths[2]
	if cache != wholeType {
		m.KVFormat = llm.FP8
	}
	if m.IndexTopK > 0 {
		s.kind, m.LayerPattern = IndexedLayer, "I"
		if strings.Contains(s.source, sharesChoice) {
			m.LayerPattern = "S"
		}
	}
	s.model = m
	s.row = fmt.Sprintf("%s gemm=%s kv_dtype=%s heads=%d batch=%d context=%d prefix=%d length=%d", r.text("model"), r.text("gemm"), cache, heads, s.batch, s.context, s.finished, s.chunk)
	return []Sample{s}
}

// moduleLaunches are the host's times to launch the kernels of a prompt's module one by one, by a part of the kernel's name: SGLang's modules of
// prompts were timed without graphs. No run has them. Fitted by launchesOf.
var moduleLaunches = []struct {
	kernel  string
	seconds float64
}{{"dsa_dense_mha", 0.7732e-3}, {"dsa_skip_indexer", 0.5366e-3}, {"dsa_indexer", 1.489e-3}}

// launched returns the time to launch a row's kernels, 0 if they ran in a graph.
func (s *Sample) launched() float64 {
	for _, l := range moduleLaunches {
		if s.chunk > 0 && strings.Contains(s.source, l.kernel) {
			return l.seconds
		}
	}
	return 0
}

// layerCost returns the time of a module of attention.
func layerCost(g *gpu.Spec, s *Sample) gpu.Cost {
	return gpu.Cost{Seconds: max(layerKernels(g, s), s.launched())}
}

// layerKernels returns the sum of a module's kernels.
func layerKernels(g *gpu.Spec, s *Sample) float64 {
	x, kind := gpu.Shape{Decode: gpu.UniformBatch(s.batch, s.context)}, byte(llm.Global)
	if s.chunk > 0 {
		x = gpu.Shape{Prefills: s.batch, Chunk: s.chunk, Finished: s.finished}
	}
	if s.kind == IndexedLayer {
		kind = s.model.LayerPattern[0]
	}
	return gpu.NewModelCost(g, s.model).AttentionModule(x, kind)
}
