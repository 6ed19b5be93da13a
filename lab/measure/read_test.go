package measure

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/input"
)

const sparseHeader = "op,batch,context,q_heads,kv_heads,head_dim,page,pages,us\n"

const iterations = "model,tp,kind,batch,context,chunk,finished,ms,suite,prefill_kernels\n"

func TestKindsByColumns(t *testing.T) {
	for text, want := range map[string]Sample{
		"m,n,k,us\n1,2,3,4.5\n":                                           {kind: GEMM, m: 1, n: 2, k: 3},
		"us,k,n,m\n4.5,3,2,1\n":                                           {kind: GEMM, m: 1, n: 2, k: 3},
		"m,n,k,us,note\n1,2,3,4,x":                                        {kind: GEMM, m: 1, n: 2, k: 3},
		"gpus,bytes,us\r\n2,64,5\r\n":                                     {kind: AllReduce, gpus: 2, bytes: 64},
		"direction,bytes,us\nd2h,64,5\n":                                  {kind: PCIe, op: "d2h", bytes: 64},
		"op,m,d,us\ngelu,4,8,5\n":                                         {kind: Elementwise, op: "gelu", m: 4, n: 8},
		sparseHeader + "topk,2,100,8,4,128,16,7,5\n":                      {kind: PageSparse, op: "topk", batch: 2, context: 100, paged: paged{16, 7}},
		sparseHeader + "dense,2,100,8,4,128,1,100,5\n":                    {kind: Decode, batch: 2, context: 100},
		"batch,context,q_heads,kv_heads,head_dim,us\n2,100,8,4,128,5\n":   {kind: Decode, batch: 2, context: 100},
		"batch,length,q_heads,kv_heads,head_dim,us\n2,100,8,4,128,5\n":    {kind: Prefill, batch: 2, chunk: 100},
		"chunk,finished,q_heads,kv_heads,head_dim,us\n16,100,8,4,128,5\n": {kind: Prefill, batch: 1, chunk: 16, finished: 100, op: unmasked},
	} {
		samples, err := parse("x.csv", strings.NewReader(text), models)
		if err != nil || len(samples) != 1 {
			t.Errorf("%q: %d samples, %v", text, len(samples), err)
			continue
		}
		got := samples[0]
		if got.Seconds < 3.9e-6 || got.Seconds > 5.1e-6 {
			t.Errorf("%q: %g s", text, got.Seconds)
		}
		if strings.Contains(text, "q_heads") && (got.heads.Query != 8 || got.heads.KV != 4 || got.heads.Dim != 128) {
			t.Errorf("%q: heads %+v", text, got.heads)
		}
		want.File, want.Line, want.Seconds, want.heads = "x.csv", 2, got.Seconds, got.heads
		if got != want {
			t.Errorf("%q:\ngot  %+v\nwant %+v", text, got, want)
		}
	}
}

// TestMoreKinds: kernels in graphs, iterations and their energy, power.
func TestMoreKinds(t *testing.T) {
	iteration := "model,tp,kind,batch,context,chunk,finished,ms,joules,suite,prefill_kernels\n"
	llama, err := models("llama-3-8b")
	if err != nil {
		t.Fatal(err)
	}
	llama.TensorParallel = 2
	heads := gpu.Heads{Query: 12, KV: 12, Dim: 128, ElementBits: 16}
	for text, want := range map[string][]Sample{
		"m,n,k,graph_us,sustained_us,joules\n1,2,3,4,5,6\n": {
			{kind: GEMM, m: 1, n: 2, k: 3, where: InGraph, Seconds: 4e-6}, {kind: GEMM, m: 1, n: 2, k: 3, where: Sustained, Seconds: 5e-6}},
		"chunk,finished,q_heads,kv_heads,head_dim,splits,graph_us,unsplit_us\n16,100,12,12,128,8,4,5\n": {
			{kind: Extend, op: "split", chunk: 16, finished: 100, heads: heads, where: InGraph, Seconds: 4e-6},
			{kind: Extend, op: "unsplit", chunk: 16, finished: 100, heads: heads, where: InGraph, Seconds: 5e-6}},
		"method,gpus,bytes,us\ntwo_shot,2,64,5\n": {{kind: AllReduce, op: "two_shot", gpus: 2, bytes: 64, where: InGraph, Seconds: 5e-6}},
		iteration + "llama-3-8b,2,mixed,8,100,64,32,5,2.5,server,pytorch\n": {
			{kind: MixedIteration, batch: 8, context: 100, chunk: 64, finished: 32, whole: whole{llama, gpu.SuiteServer, gpu.SuitePyTorch}, Seconds: 5e-3},
			{kind: IterationEnergy, batch: 8, context: 100, chunk: 64, finished: 32, whole: whole{llama, gpu.SuiteServer, gpu.SuitePyTorch}, Seconds: 2.5}},
		iteration + "llama-3-8b,2,prefill,0,0,64,0,5,,,\n":                               {{kind: PrefillIteration, whole: whole{model: llama}, chunk: 64, Seconds: 5e-3}},
		"op,detail,seconds,joules,flops,bytes\nidle,,6,480,0,0\n":                        {{kind: Power, op: "idle", powered: powered{took: 6}, Seconds: 480}},
		"op,detail,seconds,joules,flops,bytes\ncopy,2 GiB,4,2600,0,1e12\n":               {{kind: Power, op: "copy", powered: powered{took: 4}, bytes: 1e12, Seconds: 2600}},
		"op,detail,seconds,joules,flops,bytes\ngemm,8x16x32,4,2600,1,1\n":                {{kind: Power, op: "gemm", m: 8, n: 16, k: 32, powered: powered{took: 4}, Seconds: 2600}},
		"op,detail,seconds,joules,flops,bytes\ndecode_attention,64x12x8192,4,2600,1,1\n": {{kind: Power, op: "decode_attention", batch: 64, context: 8192, heads: heads, powered: powered{took: 4}, Seconds: 2600}},
		"op,detail,seconds,joules,flops,bytes\nprefill_attention,12x8192,4,2600,1,1\n":   {{kind: Power, op: "prefill_attention", chunk: 8192, heads: heads, powered: powered{took: 4}, Seconds: 2600}},
		"busy_us,gap_us,seconds,joules,iterations\n250,500,4,1600,5000\n": {
			{kind: Power, op: "gaps", m: dutyM, n: dutyN, k: dutyK, powered: powered{250e-6, 5000, 4}, Seconds: 1600}},
	} {
		got, err := parse("x.csv", strings.NewReader(text), models)
		if err != nil || len(got) != len(want) {
			t.Errorf("%q: %d samples, %v", text, len(got), err)
			continue
		}
		for i, w := range want {
			w.File, w.Line = "x.csv", 2
			g := got[i]
			if near := math.Abs(g.Seconds-w.Seconds) < 1e-12; !near || (g.model == nil) != (w.model == nil) || g.model != nil && *g.model != *w.model {
				t.Errorf("%q: %+v, want %+v", text, g, w)
			}
			g.Seconds, g.model, w.Seconds, w.model = 0, nil, 0, nil
			if g != w {
				t.Errorf("%q:\ngot  %+v\nwant %+v", text, g, w)
			}
		}
	}
}

func TestBadMeasurements(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "x.csv: expected a header line",
		"a,b\n1,2\n":                   "x.csv:1: columns: expected m,n,k,us or",
		"m,n,k,us\n":                   "x.csv: expected at least one measurement",
		"m,n,k,us\n1,2,3\n":            "x.csv:2: wrong number of fields",
		"m,n,k,us\n1,2,x,4\n":          `x.csv:2: k = "x": expected a whole number`,
		"m,n,k,us\n1,2,3,4\n0,2,3,4\n": `x.csv:3: m = "0": expected a whole number from 1`,
		"m,n,k,us\n1,2,3,-4\n":         `x.csv:2: us = "-4": expected a number, 0.001 to 1e+15`,
		"m,n,k,us\n1,2,3,NaN\n":        `x.csv:2: us = "NaN"`,
		"direction,bytes,us\nup,4,5\n": `x.csv:2: direction = "up": expected h2d or d2h`,
		"op,m,d,us\nrelu,4,4,5\n":      `x.csv:2: op = "relu": expected one of`,
		sparseHeader + "sort,2,100,8,4,128,16,7,5\n":                    `x.csv:2: op = "sort": expected one of dense, page_score, topk, attention`,
		sparseHeader + "topk,2,100,8,4,128,16,8,5\n":                    `x.csv:2: pages = "8": expected at most the context's pages`,
		sparseHeader + "page_score,2,100,8,4,128,16,6,5\n":              `x.csv:2: pages = "6": expected at most`,
		sparseHeader + "attention,2,100,8,4,128,0,7,5\n":                `x.csv:2: page = "0": expected a whole number from 1`,
		"m,n,k,graph_us,sustained_us\n1,2,3,4,0\n":                      `x.csv:2: sustained_us = "0"`,
		"method,gpus,bytes,us\nring,2,64,5\n":                           `x.csv:2: method = "ring": expected one of nccl, one_shot, two_shot`,
		"op,detail,seconds,joules,bytes\nspin,,1,1,1\n":                 `x.csv:2: op = "spin": expected one of idle`,
		"op,detail,seconds,joules,bytes\ngemm,8x16,1,1,1\n":             `x.csv:2: detail = "8x16": expected 3 sizes`,
		iterations + "llama-3-8b,1,train,1,1,0,0,5,,\n":                 `x.csv:2: kind = "train": expected decode, prefill or mixed`,
		iterations + "llama-3-8b,1,decode,0,1,0,0,5,,\n":                `x.csv:2: kind = "decode": expected decode with batch and context`,
		iterations + "llama-3-8b,1,decode,1,1,8,0,5,,\n":                `x.csv:2: kind = "decode"`,
		iterations + "llama-3-8b,3,decode,1,1,0,0,5,,\n":                `x.csv:2: tp = "3": expected a divisor of kv_heads = 8, or a multiple of it up to heads = 32, for llama-3-8b`,
		iterations + "llama-3-8b,1,decode,1,1,0,0,5,vllm,\n":            `x.csv:2: suite = "vllm": expected server, pytorch`,
		iterations + "llama-3-8b,1,decode,1,1,0,0,5,,cudnn\n":           `x.csv:2: prefill_kernels = "cudnn": expected server, pytorch`,
		"batch,context,q_heads,kv_heads,head_dim,us\n2,100,8,3,128,5\n": `kv_heads = "3": expected a divisor`,
	} {
		_, err := parse("x.csv", strings.NewReader(text), models)
		var bad *input.Error
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	for _, path := range []string{filepath.Join(t.TempDir(), "none.csv"), t.TempDir()} {
		_, err := Read(path, models)
		var bad *input.Error
		if !errors.As(err, &bad) || bad.File != path {
			t.Errorf("%s: got %v", path, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	paths, err := filepath.Glob("testdata/h200*/*.csv")
	if err != nil || len(paths) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, p := range paths {
		text, err := os.ReadFile(p)
		if err != nil {
			f.Fatal(err)
		}
		lines := strings.SplitAfterN(string(text), "\n", 4)
		f.Add(strings.Join(lines[:len(lines)-1], ""))
	}
	f.Add("m,n,k,us\r\n1,\"2\",3,1e3\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		samples, err := parse("x.csv", strings.NewReader(text), models)
		if err != nil {
			var bad *input.Error
			if !errors.As(err, &bad) || samples != nil {
				t.Fatalf("%d samples and error %v", len(samples), err)
			}
			return
		}
		target := h200(t)
		for i := range samples {
			if s := target.Predict(&samples[i]); !(s > 0 && s < 1e30) {
				t.Fatalf("%v costs %g s", samples[i].String(), s)
			}
		}
	})
}

// TestKindsOfIterations: decode has requests with contexts and no prompt, prefill only a prompt, and mixed all of them; other
// combinations are refused.
func TestKindsOfIterations(t *testing.T) {
	taken := map[string]string{"1,1,0": "decode", "0,0,1": "prefill", "1,0,1": "prefill", "0,1,1": "prefill", "1,1,1": "mixed"} // by batch, context and chunk
	for _, kind := range []string{"decode", "prefill", "mixed"} {
		for i := range 8 {
			sizes := fmt.Sprintf("%d,%d,%d", i>>2, i>>1&1, i&1)
			samples, err := parse("x.csv", strings.NewReader(iterations+"llama-3-8b,1,"+kind+","+sizes+",0,5,,\n"), models)
			switch want := `x.csv:2: kind = "` + kind + `": expected decode with batch and context, prefill with chunk, or mixed with all three`; {
			case taken[sizes] == kind:
				if err != nil || len(samples) != 1 || string(samples[0].kind) != kind+"_iteration" {
					t.Errorf("%s with %s: %v, %v", kind, sizes, samples, err)
				}
			case err == nil || err.Error() != want:
				t.Errorf("%s with %s: %v, want %s", kind, sizes, err, want)
			}
		}
	}
}
