package measure

import (
	"strings"
	"testing"

	"github.com/l3sim/l3sim/units"
)

// TestLayersOfTables: each layer of a dense table that a model here has is a product of its dimensions, or a small kernel; others are left
// out.
func TestLayersOfTables(t *testing.T) {
	m, err := tableModel("llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	text := "layer,tokens,time_us\n"
	for _, layer := range strings.Fields("qkv_proj embedding o_proj gate_up_proj final_layernorm down_proj lm_head qk_norm sampler layernorm rotary_emb act_fn") {
		text += layer + ",8,5\n"
	}
	samples, err := parseTable("dense.csv", denseTable, strings.NewReader(text), m)
	if err != nil {
		t.Fatal(err)
	}
	want := []Sample{{kind: GEMM, n: 6144, k: 4096}, {kind: GEMM, n: 4096, k: 4096}, {kind: GEMM, n: 28672, k: 4096}, {kind: GEMM, n: 4096, k: 14336}, {kind: GEMM, n: 128256, k: 4096}, {kind: Small, op: choiceOp}, {kind: Small}}
	if len(samples) != len(want) {
		t.Fatalf("%+v", samples)
	}
	for i, w := range want {
		if s := samples[i]; s.kind != w.kind || s.m != 8 || w.kind == GEMM && (s.n != w.n || s.k != w.k) || s.op != w.op {
			t.Errorf("sample %d: %+v, want %+v", i, s, w)
		}
	}
}

// TestTiesOfPaths: of files with equal means, or equally many samples, the first is kept; a better one is taken at any
// position.
func TestTiesOfPaths(t *testing.T) {
	of := func(file string, bytes units.Bytes, seconds float64) Sample {
		return Sample{File: file, bytes: bytes, Seconds: seconds}
	}
	const small, large = 1 << 10, 1 << 30
	for want, samples := range map[string][]Sample{
		"a b": {of("a", small, 2), of("b", small, 1), of("b", small, 3), of("b", large, 1), of("c", large, 2)},
		"b b": {of("b", small, 2), of("a", small, 2), of("c", large, 1), of("b", large, 2)},
		"c a": {of("a", small, 3), of("b", small, 2), of("c", small, 1), of("b", large, 1), of("a", large, 1), of("a", large, 1)},
	} {
		kept := map[bool]string{}
		for _, s := range onePath(samples, units.MiB) {
			if is := s.bytes == large; kept[is] != "" && kept[is] != s.File {
				t.Errorf("%s: %s and %s stay", want, kept[is], s.File)
			}
			kept[s.bytes == large] = s.File
		}
		if got := kept[false] + " " + kept[true]; got != want {
			t.Errorf("%s stay, want %s", got, want)
		}
	}
}
