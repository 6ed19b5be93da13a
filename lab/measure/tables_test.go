package measure

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/llm"
)

const tables4090 = "testdata/llmservingsim/RTX4090_Llama-3.1-8B"

func tableModel(name string) (*llm.Model, error) {
	g, _, err := configs.LoadGPU("gpu", "rtx-4090-vllm-0.19")
	if err != nil {
		return nil, err
	}
	return configs.LoadModel("model", name, g, 1)
}

// TestTablesFitThePreset: the card's preset predicts the tables that it was fitted to.
func TestTablesFitThePreset(t *testing.T) {
	samples, card, err := ReadTables(tables4090, tableModel)
	if err != nil || card != (Card{"NVIDIA GeForce RTX 4090", "0.19.0"}) {
		t.Fatal(card, err)
	}
	g, _, err := configs.LoadGPU("gpu", "rtx-4090-vllm-0.19")
	if err != nil {
		t.Fatal(err)
	}
	target := &Target{GPU: *g}
	// The bound of decode attention was 0.007 before unequal contexts were among the samples. One fit to all has less error on held-out heads
	// than a fit to equal contexts and another to the rest.
	for kind, most := range map[Kind]float64{GEMM: 0.05, Decode: 0.013, Prefill: 0.07, Small: 0.25} {
		s := only(target.Cold(samples), func(s *Sample) bool { return s.kind == kind })
		e := target.Judge(s)
		if len(s) < 50 || !(e.Median <= most) {
			t.Errorf("%s: %d samples, %.3f off in the median, at most %.3f before", kind, len(s), e.Median, most)
		}
	}
	joined := only(samples, func(s *Sample) bool { return s.op == mixedOp && s.tokens == 0 })
	if e := target.Judge(joined); len(joined) != 8448 || e.Median > 0.08 || !g.Prefill.JoinsDecode {
		t.Errorf("%d rows of prompts and decoding requests in a kernel: %.3f off in the median", len(joined), e.Median)
	}
}

// TestCold: of decode attention, rows remain that exceed any cache, and those that fit into it many times.
func TestCold(t *testing.T) {
	g, _, err := configs.LoadGPU("gpu", "rtx-4090-vllm-0.19") // its L2 holds 72 MB, a token of a request 4,096 bytes
	if err != nil {
		t.Fatal(err)
	}
	m, err := tableModel("llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := parseTable("t.csv", attendTable, strings.NewReader("prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n"+
		"0,0,1,512,9\n0,0,1,4096,20\n0,0,32,1024,180\n0,0,64,1024,330\n16,0,32,1024,400\n16,0,0,0,9\n"), m)
	if err != nil {
		t.Fatal(err)
	}
	var lines []int
	for _, s := range (&Target{GPU: *g}).Cold(rows) {
		lines = append(lines, s.Line)
	}
	if !slices.Equal(lines, []int{2, 5, 6, 7}) {
		t.Errorf("lines %v stay", lines)
	}
}

const (
	smallDense  = "layer,tokens,time_us\nqkv_proj,8,50\nlayernorm,8,2\nrotary_emb,8,3\nact_fn,8,4\n"
	smallAttend = "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n0,0,2,64,9\n16,0,0,0,8\n16,32,2,64,20\n"
)

// TestTableRows: a layer's small kernels are one sample, with two norms, and attention is classified by its columns.
func TestTableRows(t *testing.T) {
	m, err := tableModel("llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	dense, err := parseTable("dense.csv", denseTable, strings.NewReader(smallDense), m)
	if err != nil || len(dense) != 2 || dense[0].n != 6144 || dense[0].k != 4096 || dense[1].kind != Small || dense[1].Seconds != (2*2+3+4)*1e-6 {
		t.Errorf("%+v, %v", dense, err)
	}
	attend, err := parseTable("attention.csv", attendTable, strings.NewReader(smallAttend), m)
	if err != nil || len(attend) != 3 || attend[0].kind != Decode || attend[1].op != "" || attend[1].batch != 1 || attend[2].op != mixedOp {
		t.Errorf("%+v, %v", attend, err)
	}
}

// TestSmallKernelsInOrder: samples of small kernels come last, by tokens from the fewest, in whatever order a table has them.
func TestSmallKernelsInOrder(t *testing.T) {
	m, err := tableModel("llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	text := "layer,tokens,time_us\n"
	for _, tokens := range []int{64, 8, 512, 2, 128, 1, 4, 32, 16, 256} {
		text += fmt.Sprintf("act_fn,%[1]d,1\nqkv_proj,%[1]d,50\nlayernorm,%[1]d,2\nrotary_emb,%[1]d,3\n", tokens)
	}
	samples, err := parseTable("dense.csv", denseTable, strings.NewReader(text), m)
	if err != nil || len(samples) != 20 {
		t.Fatalf("%d samples, %v", len(samples), err)
	}
	for i := range 10 {
		if samples[i].kind != GEMM || samples[10+i].kind != Small || samples[10+i].m != 1<<i || math.Abs(samples[10+i].Seconds-8e-6) > 1e-15 {
			t.Errorf("sample %d is of %s, sample %d of %s with %d tokens, %g s; want small kernels of %d tokens, 8e-06 s", i, samples[i].kind, 10+i, samples[10+i].kind, samples[10+i].m, samples[10+i].Seconds, 1<<i)
		}
	}
}

var wrongTables = []struct{ table, text, says string }{
	{denseTable, "", "t.csv: expected a header line"},
	{denseTable, "layer,tokens,us\n", "t.csv:1: columns = layer,tokens,us: expected layer,tokens,time_us"},
	{denseTable, "layer,tokens,time_us\n", "t.csv: expected at least one measurement"},
	{denseTable, "layer,tokens,time_us\nqkv_prj,8,50\n", `t.csv:2: layer = qkv_prj: expected one of act_fn, `},
	{denseTable, "layer,tokens,time_us\nqkv_proj,8,NaN\n", `t.csv:2: time_us = "NaN": expected a number`},
	{denseTable, "layer,tokens,time_us\nqkv_proj,0,5\n", `t.csv:2: tokens = "0": expected a whole number`},
	{denseTable, "layer,tokens,time_us\nqkv_proj,8,50\nqkv_proj,8,51\n", `t.csv:3: qkv_proj = "qkv_proj,8": expected a row of its own; line 2 has it`},
	{denseTable, "layer,tokens,time_us\nqkv_proj,8\n", "t.csv:2: "},
	{denseTable, "layer,tokens,time_us\nact_fn,8,5\n", "t.csv:2: layer: expected act_fn, layernorm, rotary_emb of 8 tokens: 1 of them"},
	{attendTable, "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n0,0,0,0,9\n", `t.csv:2: prefill_chunk = "0": expected a chunk`},
	{attendTable, "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n0,0,3,0,9\n", `t.csv:2: prefill_chunk = "0": expected a chunk`},
	{skewTable, "regime,n\n", "t.csv:1: columns = regime,n: expected regime,n,nb,"},
	{skewTable, skewHeader + "pure,1,1,0.5,4,0,0,128,512,320,9,9,9,1\n", `t.csv:2: n = "1": expected a whole number`},
	{skewTable, skewHeader + "pure,2,2,0.5,4,0,0,128,512,320,9,9,9,1\n", `t.csv:2: nb = "2": expected a whole number`},
	{skewTable, skewHeader + "pure,2,1,0.5,4,0,0,513,512,320,9,9,9,1\n", `t.csv:2: kvs = "513": expected a whole number`},
	{skewTable, skewHeader + "pure,2,1,0.5,4,0,16,128,512,320,9,9,9,1\n", `t.csv:2: kp = "16": expected 0 where no prompt is`},
	{skewTable, skewHeader + "pure,2,1,0.5,4,0,0,128,512,320,9,9,nan,1\n", `t.csv:2: t_skew_us = "nan": expected a number`},
	{skewTable, skewHeader + "pure,2,1,0.5,4,0,0,128,512,320,9,-1,9,1\n", `t.csv:2: t_max_us = "-1": expected a number`},
	{skewTable, skewHeader + skewRow + skewRow, `t.csv:3: pure = "pure,2,1,`},
}

// TestWrongTables: an error in a table names its line; so does one in the file that describes the measurement.
func TestWrongTables(t *testing.T) {
	m, err := tableModel("llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range wrongTables {
		if _, err := parseTable("t.csv", c.table, strings.NewReader(c.text), m); !errors.As(err, new(*input.Error)) || !strings.HasPrefix(err.Error(), c.says) {
			t.Errorf("%q: %v", c.text, err)
		}
	}
	meta := "gpu: X\nvllm_version: 1\nmodel: a/Llama-3.1-8B\n"
	for text, says := range map[string]string{
		"gpu: X\n": "meta.yaml: model: expected a line with it", meta + "gpu: Y\n": `meta.yaml:4: gpu = "Y": expected one value`,
		"gpu:\n": `meta.yaml:1: gpu = ""`, meta + "measurement_iterations: 0\n": `meta.yaml:4: measurement_iterations = 0: expected a whole number`,
	} {
		if _, err := parseMeta(MetaName, []byte(text)); err == nil || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
	}
	dir := t.TempDir()
	for text, says := range map[string]string{
		meta: "expected a folder tp1", "gpu: X\nvllm_version: 1\nmodel: a/Mixtral-8x7B\n": "expected a dense model", "gpu: X\nvllm_version: 1\nmodel: a/Lama-3.1-8B\n": "expected one of",
	} {
		if err := os.WriteFile(filepath.Join(dir, MetaName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := ReadTables(dir, tableModel); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, _, err := ReadTables(filepath.Join(dir, "none"), tableModel); !errors.As(err, new(*input.Error)) {
		t.Error(err)
	}
}

func FuzzTables(f *testing.F) {
	tables := []string{denseTable, sequenceTable, attendTable, skewTable}
	f.Add(0, smallDense)
	f.Add(2, smallAttend)
	f.Add(3, smallSkew)
	for _, c := range wrongTables {
		f.Add(slices.Index(tables, c.table), c.text)
	}
	m, err := tableModel("llama-3.1-8b")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, table int, text string) {
		samples, err := parseTable("t.csv", tables[uint(table)%uint(len(tables))], strings.NewReader(text), m)
		if err != nil && !errors.As(err, new(*input.Error)) || err == nil && len(samples) == 0 && !strings.Contains(text, "embedding") && !strings.Contains(text, "norm") {
			t.Fatal(len(samples), err)
		}
		for i := range samples {
			if s := &samples[i]; s.tokens > int64(s.batch)*int64(s.context) || s.tokens < 0 || s.tokens > 0 && s.tokens < int64(s.context) {
				t.Fatalf("%+v", s)
			}
		}
		if _, err := parseMeta(MetaName, []byte(text)); err != nil && !errors.As(err, new(*input.Error)) {
			t.Fatal(err)
		}
	})
}
