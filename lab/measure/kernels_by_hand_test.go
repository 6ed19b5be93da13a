package measure

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/gpu"
)

// TestKernelsOfSamples: each kind of sample uses its GPU kernel with each of its sizes. All sizes of a sample differ, and batches fill
// the GPU.
func TestKernelsOfSamples(t *testing.T) {
	target := suite(t, "h200-sxm", gpu.SuiteServer)
	g := &target.GPU
	heads := gpu.Heads{Query: 8, KV: 2, Dim: 128, ElementBits: 16}
	narrow := heads
	narrow.KVBits, narrow.KVFloat = 8, true
	unequal := gpu.DecodeBatch{Requests: 300, Tokens: 120_000, Longest: 900}
	oneSplit := *g
	oneSplit.Extend.MaxSplits = 1
	for name, c := range map[string]struct {
		s    Sample
		want gpu.Cost
	}{
		"gemm":               {Sample{kind: GEMM, m: 3000, n: 5000, k: 7000}, g.GEMMCost(3000, 5000, 7000, 16)},
		"fp8":                {Sample{kind: FP8GEMM, m: 3000, n: 5000, k: 7000}, g.NarrowGEMMCost(3000, 5000, 7000, 8, 0)},
		"narrow":             {Sample{kind: NarrowGEMM, m: 3000, n: 5000, k: 7000}, g.NarrowGEMMCost(3000, 5000, 7000, 8, 0)},
		"blocks":             {Sample{kind: FP8BlockGEMM, m: 3000, n: 5000, k: 7000}, g.NarrowGEMMCost(3000, 5000, 7000, 8, gpu.FP8Block)},
		"nvfp4":              {Sample{kind: NVFP4GEMM, m: 3000, n: 5000, k: 7000}, g.NarrowGEMMCost(3000, 5000, 7000, 4, gpu.NVFP4Block)},
		"decode":             {Sample{kind: Decode, batch: 300, context: 700, heads: heads}, g.DecodeAttentionCost(gpu.UniformBatch(300, 700), heads)},
		"unequal":            {Sample{kind: Decode, batch: 300, context: 900, tokens: 120_000, heads: heads}, g.DecodeAttentionCost(unequal, heads)},
		"fp8 decode":         {Sample{kind: FP8Decode, batch: 300, context: 700, heads: narrow}, g.DecodeAttentionCost(gpu.UniformBatch(300, 700), narrow)},
		"prefill":            {Sample{kind: Prefill, batch: 30, chunk: 700, finished: 500, heads: heads}, g.PrefillAttentionCost(30, 700, 500, heads)},
		"fp8 prefill":        {Sample{kind: FP8Prefill, batch: 30, chunk: 700, finished: 500, heads: narrow}, g.PrefillAttentionCost(30, 700, 500, narrow)},
		"unmasked":           {Sample{kind: Prefill, op: unmasked, batch: 30, chunk: 700, finished: 500, heads: heads}, g.UnmaskedAttentionCost(30, 700, 500, heads)},
		"mixed":              {Sample{kind: Prefill, op: mixedOp, batch: 300, context: 900, tokens: 120_000, chunk: 7000, finished: 500, heads: heads}, g.MixedAttentionCost(7000, 500, unequal, heads)},
		"extend":             {Sample{kind: Extend, op: split, chunk: 70, finished: 50_000, heads: heads}, g.ExtendAttentionCost(1, 70, 50_000, heads)},
		"one part":           {Sample{kind: Extend, op: unsplit, chunk: 70, finished: 50_000, heads: heads}, oneSplit.ExtendAttentionCost(1, 70, 50_000, heads)},
		"nccl":               {Sample{kind: AllReduce, op: "nccl", gpus: 8, bytes: 3e6}, g.MethodCost("nccl", 8, 3e6)},
		"one shot":           {Sample{kind: AllReduce, op: "one_shot", gpus: 4, bytes: 3e5}, g.MethodCost("one_shot", 4, 3e5)},
		"layernorm":          {Sample{kind: Elementwise, op: "layernorm", m: 3000, n: 5000}, g.Norm(3000, 5000, 16)},
		"gelu":               {Sample{kind: Elementwise, op: "gelu", m: 3000, n: 5000}, g.Activation(3000, 5000, false, 16)},
		"add":                {Sample{kind: Elementwise, op: "add", m: 3000, n: 5000}, g.Elementwise(2, 3000, 5000, 16)},
		"copy":               {Sample{kind: Elementwise, op: "copy", m: 3000, n: 5000}, g.Elementwise(2, 3000, 5000, 16)},
		"scores of pages":    {Sample{kind: PageSparse, op: scoreOp, batch: 300, context: 9001, paged: paged{16, 563}, heads: heads}, g.PageScoreCost(gpu.PageScores{Pages: gpu.UniformBatch(300, 563)}, heads)},
		"choice of pages":    {Sample{kind: PageSparse, op: topKOp, batch: 300, context: 9001, paged: paged{16, 40}, heads: heads}, g.TopKCost(gpu.UniformBatch(300, 563), 2, 40)},
		"pages":              {Sample{kind: PageSparse, op: attentionOp, batch: 300, context: 9001, paged: paged{16, 40}, heads: heads}, g.PageAttentionCost(gpu.UniformBatch(300, 640), 16, heads)},
		"all of a last page": {Sample{kind: PageSparse, op: attentionOp, batch: 300, context: 9001, paged: paged{16, 563}, heads: heads}, g.PageAttentionCost(gpu.UniformBatch(300, 9001), 16, heads)},
	} {
		s := c.s
		s.where = InGraph
		if got := target.Predict(&s); got != c.want.Seconds {
			t.Errorf("%s in a graph: %v s, want %v", name, got, c.want.Seconds)
		}
		s.where = Sustained
		if want, _ := g.KernelSustained(c.want); target.Predict(&s) != want {
			t.Errorf("%s for seconds: %v s, want %v", name, target.Predict(&s), want)
		}
		s.where = Alone
		alone := g.MeasuredAlone(c.want).Seconds
		switch s.kind {
		case AllReduce:
			alone = c.want.Seconds
		case PageSparse:
			alone = g.SmallAlone(c.want).Seconds
		}
		if got := target.Predict(&s); got != alone {
			t.Errorf("%s alone: %v s, want %v", name, got, alone)
		}
	}
	// A link of 50 GB/s at 80% moves 4 MB in 100 us, after 7 us.
	target.Link.Efficiency, target.Link.Latency = 0.8, 7e6
	whole := target.Link
	whole.Efficiency, whole.Latency = 1, 0
	peak := 4e6 / whole.TransferTime(4e6).Seconds()
	if got, want := target.Predict(&Sample{kind: PCIe, op: "h2d", bytes: 4e6}), 7e-6+4e6/(0.8*peak); math.Abs(got/want-1) > 1e-6 {
		t.Errorf("a transfer takes %v s, want %v", got, want)
	}
}

// TestPowerOfSamples: joules of each kernel that ran for 8 s, and of a product with gaps: 2 s of work, 6 s of 100 W.
func TestPowerOfSamples(t *testing.T) {
	target := h200(t)
	g := &target.GPU
	g.Power.Idle, g.Power.ActiveIdle = 70, 100
	heads := gpu.Heads{Query: 12, KV: 12, Dim: 128, ElementBits: 16}
	watts := func(c gpu.Cost) float64 {
		seconds, joules := g.KernelSustained(c)
		return joules / seconds
	}
	product := watts(g.GEMMCost(3000, 5000, 700, 16))
	_, copied := g.KernelSustained(gpu.Cost{Bytes: 8e12, Memory: 8, Seconds: 8})
	for name, c := range map[string]struct {
		s    Sample
		want float64
	}{
		"idle":    {Sample{op: "idle"}, 8 * 70},
		"h2d":     {Sample{op: "h2d"}, 8 * 100},
		"copy":    {Sample{op: "copy", bytes: 8e12}, copied},
		"gemm":    {Sample{op: "gemm", m: 3000, n: 5000, k: 700}, 8 * product},
		"decode":  {Sample{op: "decode_attention", batch: 64, context: 8192, heads: heads}, 8 * watts(g.DecodeAttentionCost(gpu.UniformBatch(64, 8192), heads))},
		"prefill": {Sample{op: "prefill_attention", chunk: 8192, heads: heads}, 8 * watts(g.PrefillAttentionCost(1, 8192, 0, heads))},
		"gaps":    {Sample{op: gapsOp, m: 3000, n: 5000, k: 700, powered: powered{busy: 0.5, count: 4}}, 2*product + 6*100},
		"no gaps": {Sample{op: gapsOp, m: 3000, n: 5000, k: 700, powered: powered{busy: 0.5, count: 20}}, 8 * product},
	} {
		c.s.kind, c.s.took = Power, 8
		if got := target.Predict(&c.s); math.Abs(got/c.want-1) > 1e-9 || got < 8*70 {
			t.Errorf("%s: %v J, want %v", name, got, c.want)
		}
	}
}

// TestLimitsOfRows: each size of a file's row, at and beyond its limits.
func TestLimitsOfRows(t *testing.T) {
	const heads = "q_heads,kv_heads,head_dim"
	for _, c := range []struct {
		header, row string // with %s for the value
		low, high   float64
	}{
		{"m,n,k,us", "%s,2,3,4", 1, 1 << 40}, {"m,n,k,us", "1,%s,3,4", 1, 1 << 40}, {"m,n,k,us", "1,2,%s,4", 1, 1 << 40}, {"m,n,k,us", "1,2,3,%s", 1e-3, 1e15},
		{"batch,context," + heads + ",us", "%s,2,4,2,8,5", 1, 1 << 20}, {"batch,context," + heads + ",us", "1,%s,4,2,8,5", 1, 1 << 40},
		{"batch,context," + heads + ",us", "1,2,%s,1,8,5", 1, 1 << 16}, {"batch,context," + heads + ",us", "1,2,65536,%s,8,5", 1, 1 << 16}, {"batch,context," + heads + ",us", "1,2,4,2,%s,5", 1, 1 << 16},
		{"batch,length," + heads + ",us", "%s,2,4,2,8,5", 1, 1 << 20}, {"batch,length," + heads + ",us", "1,%s,4,2,8,5", 1, 1 << 40},
		{"chunk,finished," + heads + ",us", "%s,2,4,2,8,5", 1, 1 << 40}, {"chunk,finished," + heads + ",us", "1,%s,4,2,8,5", 0, 1 << 40},
		{"chunk,finished," + heads + ",splits,graph_us,unsplit_us", "%s,2,4,2,8,1,5,6", 1, 1 << 40}, {"chunk,finished," + heads + ",splits,graph_us,unsplit_us", "1,%s,4,2,8,1,5,6", 0, 1 << 40},
		{"chunk,finished," + heads + ",splits,graph_us,unsplit_us", "1,2,4,2,8,1,%s,6", 1e-3, 1e15}, {"chunk,finished," + heads + ",splits,graph_us,unsplit_us", "1,2,4,2,8,1,5,%s", 1e-3, 1e15},
		{"gpus,bytes,us", "%s,2,3", 2, 1 << 16}, {"gpus,bytes,us", "2,%s,3", 1, 1 << 40}, {"direction,bytes,us", "h2d,%s,3", 1, 1 << 40},
		{"op,m,d,us", "add,%s,2,3", 1, 1 << 40}, {"op,m,d,us", "add,1,%s,3", 1, 1 << 40},
		{"op,batch,context," + heads + ",page,pages,us", "topk,%s,100,4,2,8,16,3,5", 1, 1 << 20}, {"op,batch,context," + heads + ",page,pages,us", "topk,1,%s,4,2,8,16,1,5", 1, 1 << 40},
		{"op,batch,context," + heads + ",page,pages,us", "topk,1,100,4,2,8,%s,1,5", 1, 1 << 20}, {"op,batch,context," + heads + ",page,pages,us", "topk,1,100,4,2,8,16,%s,5", 1, 7},
		{"op,batch,context," + heads + ",page,pages,us", "page_score,1,112,4,2,8,16,%s,5", 7, 7},
		// Three requests of at most 100 tokens: from one with all but two tokens, to three equal ones.
		{"batch,longest,sum_context," + heads + ",fixed_us,balanced_us", "3,100,%s,4,2,8,5,6", 100, 300}, {"batch,longest,sum_context," + heads + ",fixed_us,balanced_us", "300,100,%s,4,2,8,5,6", 300, 30000},
		{"batch,longest,sum_context," + heads + ",fixed_us,balanced_us", "3,100,200,4,2,8,%s,6", 1e-3, 1e15}, {"batch,longest,sum_context," + heads + ",fixed_us,balanced_us", "3,100,200,4,2,8,6,%s", 1e-3, 1e15},
		{"m,n,k,graph_us,sustained_us", "1,2,3,%s,5", 1e-3, 1e15}, {"m,n,k,graph_us,sustained_us", "1,2,3,4,%s", 1e-3, 1e15},
		{"op,detail,seconds,joules,bytes", "copy,x,1,1,%s", 1, 1e18}, {"op,detail,seconds,joules,bytes", "gemm,%sx2x3,1,1,1", 1, 1 << 40}, {"op,detail,seconds,joules,bytes", "gemm,1x%sx3,1,1,1", 1, 1 << 40},
		{"op,detail,seconds,joules,bytes", "gemm,1x2x%s,1,1,1", 1, 1 << 40}, {"op,detail,seconds,joules,bytes", "prefill_attention,1x%s,1,1,1", 1, 1 << 40},
		{"op,detail,seconds,joules,bytes", "idle,,%s,1,1", 1e-3, 1e15}, {"op,detail,seconds,joules,bytes", "idle,,1,%s,1", 1e-3, 1e15},
		{"busy_us,gap_us,seconds,joules,iterations", "%s,1,4,5,6", 1e-3, 1e15}, {"busy_us,gap_us,seconds,joules,iterations", "1,1,4,5,%s", 1, 1e12},
		{"kv_dtype,batch,length,prefix," + heads + ",window,us", "fp8,1,2,%s,4,2,8,0,5", 0, 1 << 40}, {"kv_dtype,batch,length,prefix," + heads + ",window,us", "fp8,1,2,3,4,2,8,%s,5", 0, 1 << 40},
	} {
		step := 1.0
		if strings.Count(c.row, "%s") == 1 && c.low == 1e-3 {
			step = 1e-4
		}
		for value, good := range map[float64]bool{c.low: true, c.high: true, c.low - step: false, c.high + max(1, c.high/1e6): false} {
			text := fmt.Sprintf(c.header+"\n"+c.row+"\n", fmt.Sprint(value))
			if value == math.Trunc(value) {
				text = fmt.Sprintf(c.header+"\n"+c.row+"\n", fmt.Sprintf("%.0f", value))
			}
			if samples, err := parse("x.csv", strings.NewReader(text), nil); (err == nil) != good || good && len(samples) == 0 {
				t.Errorf("%s: %d samples, %v", text, len(samples), err)
			}
		}
	}
}

// TestRefusedUnequal: a sum of contexts that is impossible for its longest one and number of requests names its
// column.
func TestRefusedUnequal(t *testing.T) {
	_, err := parse("x.csv", strings.NewReader("batch,longest,sum_context,q_heads,kv_heads,head_dim,fixed_us,balanced_us\n3,100,301,4,2,8,5,6\n"), nil)
	if err == nil || err.Error() != `x.csv:2: sum_context = "301": expected at least longest, and at most batch times that` {
		t.Errorf("got %v", err)
	}
}

// TestFoldersOfFiles: files of other kinds in a folder are skipped and named; a single file must be of a known kind.
func TestFoldersOfFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"b.csv": "m,n,k,us\n1,2,3,4\n", "a.csv": "x,y\n1,2\n", "c.csv": "gpus,bytes,us\n2,64,5\n", "notes.txt": "x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	samples, err := Read(dir, nil)
	if err != nil || len(samples) != 2 || samples[0].kind != GEMM || samples[1].kind != AllReduce {
		t.Errorf("%v, %v", samples, err)
	}
	if _, err := Read(filepath.Join(dir, "a.csv"), nil); err == nil || !strings.Contains(err.Error(), "a.csv:1: columns: expected m,n,k,us or") {
		t.Errorf("a file of no kind: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "d.csv"), []byte("m,n,k,us\n1,2,3,x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(dir, nil); err == nil || !strings.Contains(err.Error(), "d.csv:2: us") {
		t.Errorf("a folder with a bad row: %v", err)
	}
	for _, name := range []string{"b.csv", "c.csv", "d.csv"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Read(dir, nil); err == nil || err.Error() != dir+": expected a .csv file of measurements: none has their columns" {
		t.Errorf("a folder of other files: %v", err)
	}
}

// TestFilesOfTables: the AIConfigurator files that are read, only complete sets of one form; missing files are
// named.
func TestFilesOfTables(t *testing.T) {
	p := Tables{Folder: t.TempDir(), System: "x_sxm", Framework: "sglang", Version: "2"}
	parquets := []string{"x_sxm/gemm/sglang/2/gemm_perf.parquet", "x_sxm/attention/sglang/2/generation_attention_perf.parquet", "x_sxm/attention/sglang/2/context_attention_perf.parquet"}
	csvs := []string{"x_sglang/gemm.csv", "x_sglang/decode_attention.csv", "x_sglang/prefill_attention.csv"}
	with := func(names ...string) (all []string) {
		for _, name := range names {
			path := filepath.Join(p.Folder, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			all = append(all, path)
		}
		return all
	}
	check := func(want []string, says string) {
		t.Helper()
		got, err := p.files()
		text := ""
		if err != nil {
			text = strings.ReplaceAll(err.Error(), p.Folder, "DIR")
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || text != says {
			t.Errorf("got %v, %s\nwant %v, %s", got, text, want, says)
		}
	}
	one := "expected products, decode and prompt attention of one framework and version"
	check(nil, "DIR: tables = x_sxm, sglang 2: expected a folder x_sglang with CSV files, or x_sxm/gemm/sglang/2/gemm_perf.parquet as AIConfigurator has it")
	with(csvs[2])
	check(nil, "DIR/x_sglang: tables = without gemm.csv, decode_attention.csv: "+one)
	with(parquets[1])
	check(nil, "DIR/x_sxm: tables = without gemm_perf.parquet, context_attention_perf.parquet: "+one)
	all := with(csvs...)
	check(all, "")
	all = with(parquets...)
	check(all, "")
	// Further tables: of each the Parquet file before the CSV file, and the libraries that the framework calls.
	all = with("x_sxm/moe/sglang/2/moe_perf.parquet", "x_sglang/allreduce.csv", "x_sglang/indexer_topk.csv", "x_nccl/collectives.csv", "x_deepep/deepep_ll.csv")
	with("x_sglang/moe.csv", "x_sglang/other.csv")
	if got := p.more(); fmt.Sprint(got) != fmt.Sprint(all) {
		t.Errorf("got %v, want %v", got, all)
	}
	p.Framework = "trtllm"
	if got := p.more(); fmt.Sprint(got) != fmt.Sprint(all[3:4]) {
		t.Errorf("TensorRT-LLM: got %v, want %v", got, all[3:4])
	}
	if name := (&Tables{System: "gb200_server", Framework: "vllm"}).name(); name != "gb200_vllm" {
		t.Errorf("got %s", name)
	}
}

// TestWorstPoints: the largest errors first, of either sign; equal ones keep their order.
func TestWorstPoints(t *testing.T) {
	var e Errors
	for i, off := range []float64{0.1, -0.3, 0.2, 0.3, -0.05} {
		e.Relative = append(e.Relative, Point{Sample: Sample{Line: i}, Predicted: 10 - float64(i), Error: off})
	}
	for n, want := range []string{"[]", "[1]", "[1 3]", "[1 3 2]", "[1 3 2 0]", "[1 3 2 0 4]", "[1 3 2 0 4]"} {
		lines := []int{}
		for _, p := range e.Worst(n) {
			lines = append(lines, p.Sample.Line)
		}
		if fmt.Sprint(lines) != want {
			t.Errorf("the worst %d: lines %v, want %s", n, lines, want)
		}
	}
}
