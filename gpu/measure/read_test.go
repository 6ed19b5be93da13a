package measure

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
)

const sparseHeader = "op,batch,context,q_heads,kv_heads,head_dim,page,pages,us\n"

func TestKindsByColumns(t *testing.T) {
	for text, want := range map[string]Sample{
		"m,n,k,us\n1,2,3,4.5\n":                                           {kind: GEMM, m: 1, n: 2, k: 3},
		"us,k,n,m\n4.5,3,2,1\n":                                           {kind: GEMM, m: 1, n: 2, k: 3},
		"m,n,k,us,note\n1,2,3,4,x":                                        {kind: GEMM, m: 1, n: 2, k: 3},
		"gpus,bytes,us\r\n2,64,5\r\n":                                     {kind: AllReduce, gpus: 2, bytes: 64},
		"direction,bytes,us\nd2h,64,5\n":                                  {kind: PCIe, op: "d2h", bytes: 64},
		"op,m,d,us\ngelu,4,8,5\n":                                         {kind: Elementwise, op: "gelu", m: 4, n: 8},
		sparseHeader + "topk,2,100,8,4,128,16,7,5\n":                      {kind: PageSparse, op: "topk", batch: 2, context: 100, page: 16, pages: 7},
		sparseHeader + "dense,2,100,8,4,128,1,100,5\n":                    {kind: Decode, batch: 2, context: 100},
		"batch,context,q_heads,kv_heads,head_dim,us\n2,100,8,4,128,5\n":   {kind: Decode, batch: 2, context: 100},
		"batch,length,q_heads,kv_heads,head_dim,us\n2,100,8,4,128,5\n":    {kind: Prefill, batch: 2, chunk: 100},
		"chunk,finished,q_heads,kv_heads,head_dim,us\n16,100,8,4,128,5\n": {kind: Prefill, batch: 1, chunk: 16, finished: 100},
	} {
		samples, err := parse("x.csv", strings.NewReader(text))
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

func TestBadMeasurements(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "x.csv: expected a header line",
		"a,b\n1,2\n":                   "x.csv:1: columns: expected m,n,k,us or",
		"m,n,k,us\n":                   "x.csv: expected at least one measurement",
		"m,n,k,us\n1,2,3\n":            "x.csv:2: wrong number of fields",
		"m,n,k,us\n1,2,x,4\n":          `x.csv:2: k = "x": expected a whole number`,
		"m,n,k,us\n1,2,3,4\n0,2,3,4\n": `x.csv:3: m = "0": expected a whole number from 1`,
		"m,n,k,us\n1,2,3,-4\n":         `x.csv:2: us = "-4": expected microseconds`,
		"m,n,k,us\n1,2,3,NaN\n":        `x.csv:2: us = "NaN"`,
		"direction,bytes,us\nup,4,5\n": `x.csv:2: direction = "up": expected h2d or d2h`,
		"op,m,d,us\nrelu,4,4,5\n":      `x.csv:2: op = "relu": expected one of`,
		sparseHeader + "sort,2,100,8,4,128,16,7,5\n":                    `x.csv:2: op = "sort": expected one of dense, page_score, topk, attention`,
		sparseHeader + "topk,2,100,8,4,128,16,8,5\n":                    `x.csv:2: pages = "8": expected at most the context's pages`,
		sparseHeader + "page_score,2,100,8,4,128,16,6,5\n":              `x.csv:2: pages = "6": expected at most`,
		sparseHeader + "attention,2,100,8,4,128,0,7,5\n":                `x.csv:2: page = "0": expected a whole number from 1`,
		"batch,context,q_heads,kv_heads,head_dim,us\n2,100,8,3,128,5\n": `kv_heads = "3": expected a divisor`,
	} {
		_, err := parse("x.csv", strings.NewReader(text))
		var bad *input.Error
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	for _, path := range []string{filepath.Join(t.TempDir(), "none.csv"), t.TempDir()} {
		_, err := Read(path)
		var bad *input.Error
		if !errors.As(err, &bad) || bad.File != path {
			t.Errorf("%s: got %v", path, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	paths, err := filepath.Glob("testdata/h200/*.csv")
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
		samples, err := parse("x.csv", strings.NewReader(text))
		if err != nil {
			var bad *input.Error
			if !errors.As(err, &bad) || samples != nil {
				t.Fatalf("%d samples and error %v", len(samples), err)
			}
			return
		}
		target := h200(t)
		for i := range samples {
			if s := target.Cost(&samples[i]).Seconds; !(s > 0 && s < 1e30) {
				t.Fatalf("%v costs %g s", samples[i].String(), s)
			}
		}
	})
}
