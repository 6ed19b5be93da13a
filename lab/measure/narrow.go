package measure

import (
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// narrowFormats are the values of a column kind besides fp16. FP8 has one scale a tensor. The integers have a scale of four
// bytes for each token's key and value, INT4 also a zero of four bytes. Products have FP8 alone.
var narrowFormats = []string{"fp8", "int8", "int4"}

// format reads the column kind, if a file has it, and makes the sample one of a narrow kernel.
func (r *row) format(s *Sample) {
	if !r.has("kind") || r.text("kind") == "fp16" {
		return
	}
	known := narrowFormats
	if s.kind == GEMM {
		known = known[:1]
	}
	s.op = r.text("kind")
	if !slices.Contains(known, s.op) && r.err == nil {
		r.err = &input.Error{File: r.name, Line: r.line, Key: "kind", Value: strconv.Quote(s.op),
			Expected: "one of fp16, " + strings.Join(known, ", "), Nearest: input.Alike(s.op, known)}
	}
	if s.kind == GEMM {
		s.kind = NarrowGEMM
		return
	}
	s.kind, s.heads.KVBits = NarrowDecode, 8
	switch s.op {
	case "fp8":
		s.heads.KVFloat = true
	case "int8":
		s.heads.KVScaleBytes = 4
	case "int4":
		s.heads.KVBits, s.heads.KVScaleBytes = 4, 8
	}
}

// narrowParameters are the additional parameters of decode attention over narrow keys and values.
func narrowParameters() []parameter {
	spec := func(t *Target) *gpu.NarrowKVSpec { return &t.GPU.NarrowKV }
	return []parameter{
		duration("element_time_fp8", 1e-6, 4e-5, 0.01, func(t *Target) *units.Duration { return &spec(t).FP8 }),
		duration("element_time_int8", 1e-6, 6e-5, 0.01, func(t *Target) *units.Duration { return &spec(t).Int8 }),
		duration("element_time_int4", 1e-6, 7e-5, 0.01, func(t *Target) *units.Duration { return &spec(t).Int4 }),
	}
}
