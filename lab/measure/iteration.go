package measure

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/llm"
)

// Models returns the shape of the model that a file of iterations names, or an *input.Error for an
// unknown name. The caller may change the result.
type Models func(name string) (*llm.Model, error)

// whole says that samples of a kind are no single kernels.
func (k Kind) whole() bool {
	return slices.Contains([]Kind{DecodeIteration, PrefillIteration, MixedIteration, IterationEnergy, Power}, k)
}

// iteration reads a row of a file of whole iterations: its time, and its energy if the file has it.
func (r *row) iteration(models Models) []Sample {
	s := Sample{
		File: r.name, Line: r.line, batch: r.integer("batch", 0, 1<<20), context: r.integer("context", 0, maxSize),
		chunk: r.integer("chunk", 0, maxSize), finished: r.integer("finished", 0, maxSize),
	}
	switch kind := r.text("kind"); kind {
	case "decode", "prefill", "mixed":
		s.kind = Kind(kind + "_iteration")
		if r.err == nil && ((kind != "prefill") != (s.batch > 0 && s.context > 0) || (kind != "decode") != (s.chunk > 0)) {
			r.fail("kind", kind, "decode with batch and context, prefill with chunk, or mixed with all three")
		}
	default:
		r.fail("kind", kind, "decode, prefill or mixed")
	}
	s.suite, s.prefill = r.suite("suite", "the one asked for"), r.suite("prefill_kernels", "the suite's")
	s.Seconds = r.positive("ms") * 1e-3
	tp := r.integer("tp", 1, 1<<12)
	if r.err != nil {
		return nil
	}
	m, err := models(r.text("model"))
	if err != nil {
		r.err = &input.Error{File: r.name, Line: r.line, Err: err}
		if bad, ok := err.(*input.Error); ok && bad.File == "" {
			r.err = input.Edit(err, func(bad *input.Error) { bad.File, bad.Line = r.name, r.line })
		}
		return nil
	}
	m.TensorParallel = tp
	if !m.SplitsOver(tp) {
		r.fail("tp", r.text("tp"), fmt.Sprintf("%s, for %s", m.Splits(), m.Name))
		return nil
	}
	s.model = m
	if !r.has("joules") || r.text("joules") == "" {
		return []Sample{s}
	}
	energy := s
	energy.kind, energy.Seconds = IterationEnergy, r.positive("joules")
	return []Sample{s, energy}
}

// suite reads a column that may name a suite.
func (r *row) suite(column, without string) gpu.Suite {
	if !r.has(column) || r.text(column) == "" {
		return ""
	}
	suite := gpu.Suite(r.text(column))
	if suite != gpu.SuiteServer && suite != gpu.SuitePyTorch {
		r.fail(column, string(suite), "server, pytorch, or nothing for "+without)
	}
	return suite
}

func (s *Sample) shapeOf() gpu.Shape {
	x := gpu.Shape{Decode: gpu.UniformBatch(s.batch, s.context), Chunk: s.chunk, Finished: s.finished}
	if s.chunk > 0 {
		x.Prefills = 1
	}
	return x
}

// iteration returns the seconds of a sample's iteration and the joules of all its GPUs.
func (t *Target) iteration(s *Sample) (seconds, joules float64) {
	g := t.GPU
	g.Collective.Method = cmp.Or(t.Method, gpu.AllReduceNCCL)
	g.Suite = cmp.Or(s.suite, g.Suite)
	if s.prefill == gpu.SuitePyTorch && g.PyTorch.Prefill.Model != "" {
		g.Prefill, g.Extend = g.PyTorch.Prefill, gpu.ExtendSpec{}
	}
	seconds, joules = g.Sustained(gpu.NewModelCost(&g, s.model).Iteration(s.shapeOf()))
	return seconds, joules * float64(s.model.TensorParallel)
}
