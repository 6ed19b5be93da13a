package measure

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/input"
)

const publishedFolder = "testdata/aiconfigurator"

// TestPublishedRows: how rows of AIConfigurator's tables are read.
func TestPublishedRows(t *testing.T) {
	heads := gpu.Heads{Query: 8, KV: 2, Dim: 128, ElementBits: 16}
	narrow := heads
	narrow.KVBits, narrow.KVFloat = 8, true
	for _, c := range []struct {
		text string
		want []Sample
	}{
		{"dtype,m,n,k,us,kernel\nbfloat16,3,64,32,5.5,a\nfp8,3,64,32,4,b\nfp8_block,3,64,32,4,c\nnvfp4,3,64,32,2,d\n", []Sample{
			{kind: GEMM, op: "bfloat16", m: 3, n: 64, k: 32, Seconds: 5.5e-6, published: published{source: "a", row: "bfloat16 m=3 n=64 k=32"}},
			{kind: FP8GEMM, op: "fp8", m: 3, n: 64, k: 32, Seconds: 4e-6, published: published{source: "b", row: "fp8 m=3 n=64 k=32"}},
			{kind: FP8BlockGEMM, op: "fp8_block", m: 3, n: 64, k: 32, Seconds: 4e-6, published: published{source: "c", row: "fp8_block m=3 n=64 k=32"}},
			{kind: NVFP4GEMM, op: "nvfp4", m: 3, n: 64, k: 32, Seconds: 2e-6, published: published{source: "d", row: "nvfp4 m=3 n=64 k=32"}},
		}},
		{"kv_dtype,batch,context,q_heads,kv_heads,head_dim,window,us,kernel\nbfloat16,4,300,8,2,128,0,9,a\nfp8,4,300,8,2,128,128,8,b\n", []Sample{
			{kind: Decode, batch: 4, context: 300, heads: heads, Seconds: 9e-6,
				published: published{source: "a", row: "bfloat16 batch=4 context=300 q_heads=8 kv_heads=2 head_dim=128 window=0"}},
			{kind: FP8Decode, batch: 4, context: 128, heads: narrow, Seconds: 8e-6, // a query sees the window
				published: published{source: "b", window: 128, row: "fp8 batch=4 context=300 q_heads=8 kv_heads=2 head_dim=128 window=128"}},
		}},
		{"kv_dtype,batch,length,prefix,q_heads,kv_heads,head_dim,window,us,attn_dtype,kernel\nbfloat16,2,100,0,8,2,128,64,9,bfloat16,a\nfp8,2,100,7,8,2,128,0,8,fp8,b\n", []Sample{
			{kind: Prefill, batch: 2, chunk: 100, heads: heads, Seconds: 9e-6,
				published: published{source: "a", window: 64, row: "bfloat16/bfloat16 batch=2 length=100 prefix=0 q_heads=8 kv_heads=2 head_dim=128 window=64"}},
			{kind: FP8Prefill, batch: 2, chunk: 100, finished: 7, heads: narrow, Seconds: 8e-6,
				published: published{source: "b", row: "fp8/fp8 batch=2 length=100 prefix=7 q_heads=8 kv_heads=2 head_dim=128 window=0"}},
		}},
	} {
		got, err := parse("x.csv", strings.NewReader(c.text), nil)
		if err != nil || len(got) != len(c.want) {
			t.Fatalf("%s: %d rows, %v", c.text, len(got), err)
		}
		for i := range got {
			want := c.want[i]
			want.File, want.Line, want.where = "x.csv", i+2, InGraph
			if want.Seconds-got[i].Seconds > 1e-12 || got[i].Seconds-want.Seconds > 1e-12 {
				t.Errorf("%s: %v s", got[i].row, got[i].Seconds)
			}
			if want.Seconds = got[i].Seconds; got[i] != want {
				t.Errorf("row %d: %+v, want %+v", i, got[i], want)
			}
		}
	}
}

func TestPublishedRefused(t *testing.T) {
	for _, c := range []struct{ text, key, says string }{
		{"dtype,m,n,k,us\nint4_wo,1,64,64,3\n", "dtype", "one of bfloat16, fp8, fp8_block, nvfp4"},
		{"dtype,m,n,k,us\nfp8blocks,1,64,64,3\n", "dtype", `did you mean "fp8_block"`},
		{"kv_dtype,batch,context,q_heads,kv_heads,head_dim,window,us\nint8,1,64,8,2,128,0,3\n", "kv_dtype", "one of bfloat16, fp8"},
		{"kv_dtype,batch,context,q_heads,kv_heads,head_dim,window,us\nfp8,1,64,8,2,128,-1,3\n", "window", "0 to"},
	} {
		_, err := parse("x.csv", strings.NewReader(c.text), nil)
		var e *input.Error
		if !errors.As(err, &e) || e.Key != c.key || e.Line != 2 || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v", c.text, err)
		}
	}
}

// TestGraphTimes: --measured takes times in a graph, without sustained ones, and prompts by their
// length.
func TestGraphTimes(t *testing.T) {
	for text, want := range map[string]Kind{
		"m,n,k,graph_us\n1,2,3,4\n": GEMM, "batch,context,q_heads,kv_heads,head_dim,graph_us\n1,2,4,2,64,4\n": Decode,
		"batch,length,q_heads,kv_heads,head_dim,graph_us\n1,2,4,2,64,4\n": Prefill, "chunk,finished,q_heads,kv_heads,head_dim,graph_us\n1,2,4,2,64,4\n": Prefill,
	} {
		got, err := parse("x.csv", strings.NewReader(text), nil)
		if err != nil || len(got) != 1 || got[0].kind != want || got[0].where != InGraph || got[0].Seconds != 4e-6 {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	both, err := parse("x.csv", strings.NewReader("m,n,k,graph_us,sustained_us\n1,2,3,4,5\n"), nil)
	if err != nil || len(both) != 2 || both[1].where != Sustained {
		t.Errorf("%+v, %v", both, err)
	}
}

// TestTables: tables of both forms are found, and missing ones are named.
func TestTables(t *testing.T) {
	csvs := Tables{Folder: publishedFolder, System: "h200_sxm", Framework: "vllm", Version: "0.24.0"}
	all, left, err := csvs.Read()
	if err != nil || len(all) < 3500 || len(left) != 3 {
		t.Fatalf("%d rows, left out %v, %v", len(all), left, err)
	}
	none := Tables{Folder: t.TempDir(), System: "h200_sxm", Framework: "sglang", Version: "x"}
	part := Tables{Folder: t.TempDir(), System: "x_sxm", Framework: "vllm", Version: "1"}
	if err := os.MkdirAll(filepath.Join(part.Folder, "x_vllm"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(part.Folder, "x_vllm", "gemm.csv"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	sample := Tables{Folder: publishedFolder, System: "l40s", Framework: "vllm", Version: "0.22.0"}
	for _, c := range []struct {
		tables Tables
		says   string
	}{
		{none, "h200_sglang"}, {part, "without decode_attention.csv, prefill_attention.csv"},
	} {
		if _, _, err := c.tables.Read(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c.tables, err)
		}
	}
	rows, err := sample.read(filepath.Join(publishedFolder, "l40s/attention/vllm/0.22.0/generation_attention_perf.parquet"))
	if err != nil || len(rows) != 175 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	if first := rows[0]; first.kind != Decode && first.kind != FP8Decode || first.source == "" || first.context < 2 || first.Seconds < 1e-6 || first.Seconds > 1 {
		t.Errorf("%+v", first)
	}
	sample.Version = "0.24.0"
	if _, err := sample.read(filepath.Join(publishedFolder, "l40s/attention/vllm/0.22.0/generation_attention_perf.parquet")); err == nil || !strings.Contains(err.Error(), `version = "0.22.0": expected 0.24.0`) {
		t.Errorf("another version: %v", err)
	}
}

// TestServingRows: which rows are left out of a fit, and why.
func TestServingRows(t *testing.T) {
	product := func(kind Kind, n, k int, us float64) Sample {
		return Sample{kind: kind, m: 1, n: n, k: k, Seconds: us * 1e-6}
	}
	attend := func(kind Kind, context, query, dim int, source string) Sample {
		s := Sample{kind: kind, batch: 1, context: context, chunk: context, heads: gpu.Heads{Query: query, KV: 1, Dim: dim}, published: published{source: source}}
		return s
	}
	windowed := attend(Prefill, 512, 1, 64, "a")
	windowed.window = 100
	for _, c := range []struct {
		framework string
		kind      Kind
		rows      []Sample
		kept      []int
	}{
		{"vllm", GEMM, []Sample{product(GEMM, 1024, 1024, 5), product(GEMM, 1023, 1024, 5), product(GEMM, 1024, 1023, 5), product(GEMM, 1024, 60000, 5)}, []int{0, 3}},
		{"vllm", FP8GEMM, []Sample{product(FP8GEMM, 1024, 51199, 5), product(FP8GEMM, 1024, 51200, 5)}, []int{0}},
		{"sglang", FP8GEMM, []Sample{product(FP8GEMM, 1024, 51199, 5), product(FP8GEMM, 1024, 51200, 5)}, []int{0, 1}},
		{"vllm", FP8BlockGEMM, []Sample{product(FP8BlockGEMM, 1024, 1024, 50), product(FP8BlockGEMM, 1024, 1024, 149), product(FP8BlockGEMM, 1024, 1024, 150)}, []int{2}},
		{"sglang", FP8BlockGEMM, []Sample{product(FP8BlockGEMM, 1024, 1024, 50), product(FP8BlockGEMM, 1024, 1024, 149)}, []int{0, 1}},
		{"trtllm", Decode, []Sample{attend(Decode, 256, 47, 256, "a"), attend(Decode, 255, 1, 64, "a"), attend(Decode, 256, 48, 64, "a"), attend(Decode, 256, 1, 257, "a")}, []int{0}},
		{"vllm", Decode, []Sample{attend(Decode, 256, 48, 64, "b"), attend(Decode, 256, 1, 64, "a"), attend(Decode, 256, 2, 64, "b")}, []int{0, 2}},
		{"vllm", Prefill, []Sample{attend(Prefill, 64, 1, 64, "a"), attend(Prefill, 63, 1, 64, "a"), windowed}, []int{0}},
	} {
		var p Published
		got := p.serving(&Target{}, c.framework, c.kind, slices.Clone(c.rows))
		var want []Sample
		for _, i := range c.kept {
			want = append(want, c.rows[i])
		}
		if !slices.Equal(got, want) || (len(got) < len(c.rows)) != (len(p.Left) > 0) {
			t.Errorf("%s %s: %v, want rows %v; %v", c.framework, c.kind, got, c.kept, p.Left)
		}
	}
}

// TestWarmRows: decode attention that the L2 may have kept is left out if memory takes long to read as much.
func TestWarmRows(t *testing.T) {
	target := suite(t, "h200-sxm", gpu.SuiteServer)
	heads := gpu.Heads{Query: 8, KV: 8, Dim: 128, ElementBits: 16} // 4 KiB a token
	var rows []Sample
	for i, tokens := range []int{1024, 8192, 65536} { // 4, 32 and 256 MiB
		rows = append(rows, Sample{kind: Decode, batch: 1, context: tokens, heads: heads, published: published{source: "a", row: string(rune('a' + i))}})
	}
	target.GPU.Alone.L2, target.GPU.MemoryBandwidth = 96e6, 864e9
	var p Published
	if got := p.serving(target, "vllm", Decode, slices.Clone(rows)); !slices.Equal(got, []Sample{rows[0], rows[2]}) {
		t.Errorf("kept %v", got)
	}
	target.GPU.MemoryBandwidth = 4.8e12
	if got := p.serving(target, "vllm", Decode, slices.Clone(rows)); len(got) != 3 {
		t.Errorf("fast memory: kept %v", got)
	}
}

// TestWindowedPrompt: tokens that see a window cost as much as iterations charge for them, in pieces of
// the window.
func TestWindowedPrompt(t *testing.T) {
	target := suite(t, "h200-sxm", gpu.SuiteServer)
	h := gpu.Heads{Query: 8, KV: 2, Dim: 128, ElementBits: 16}
	s := Sample{kind: Prefill, batch: 2, chunk: 1000, heads: h, where: InGraph, published: published{window: 400}}
	g := &target.GPU
	// 400 tokens causally, 400 that see 400 each on average, and 200 more.
	want := g.PrefillAttentionCost(2, 400, 0, h).Seconds + g.PrefillAttentionCost(2, 400, 200, h).Seconds + g.PrefillAttentionCost(2, 200, 300, h).Seconds
	if got := target.Predict(&s); got < want*0.999999 || got > want*1.000001 {
		t.Errorf("%v s, want %v", got, want)
	}
	s.window = 1000
	if got := target.Predict(&s); got != g.PrefillAttentionCost(2, 1000, 0, h).Seconds {
		t.Errorf("a window as long as the prompt: %v s", got)
	}
	// After a cache of 300 tokens, 100 see all earlier ones, and 900 the window of 400: the prompt is shorter than some windows, and longer than
	// others. Seven requests fill the GPU, so that twice as many take longer.
	s.batch, s.chunk, s.finished = 7, 1000, 300
	for window, pieces := range map[int][][3]int{ // pieces, tokens of each, and those before it
		400:  {{1, 100, 300}, {2, 400, 200}, {1, 100, 350}},
		1200: {{1, 900, 300}, {1, 100, 1150}},
		1299: {{1, 999, 300}, {1, 1, 1298}},
		1300: {{1, 1000, 300}}, 1301: {{1, 1000, 300}},
	} {
		want := 0.0
		for _, p := range pieces {
			want += g.PrefillAttentionCost(7*p[0], p[1], p[2], h).Seconds
		}
		if s.window = window; math.Abs(target.Predict(&s)/want-1) > 1e-6 {
			t.Errorf("a window of %d tokens, 1000 behind 300: %v s, want %v", window, target.Predict(&s), want)
		}
	}
}

func TestErrorBand(t *testing.T) {
	if got := errorBand(0.026); got != "1 [0.9591, 1.043] measured" { // as the bands of lab/docs/validation.md
		t.Error(got)
	}
}
