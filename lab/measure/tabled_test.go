package measure

import (
	"reflect"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/units"
)

// TestTabledRows: rows of collectives, exchanges and indexers, with the words of odd_rows.tsv.
func TestTabledRows(t *testing.T) {
	exchange := Sample{gpus: 8, mixture: mixture{shares: routing{tokens: 4, experts: 256, active: 8}, ffn: gpu.Experts{Hidden: 7168}}, published: published{row: "nodes=1 hidden=7168 tokens=4 topk=8 experts=256"}}
	there, back := exchange, exchange
	there.kind, back.kind = Dispatch, Combine
	for name, c := range map[string]struct {
		text string
		want []Sample
	}{
		"allreduce.csv": {"gpus,elements,dtype,variant,us\n4,1024,bfloat16,vllm_eager,9\n4,1024,bfloat16,vllm_graph,8\n2,9,bfloat16,trtllm,8\n", []Sample{
			{kind: AllReduce, gpus: 4, bytes: 2048, Line: 3, published: published{row: "gpus=4 elements=1024 dtype=bfloat16 variant=vllm_graph"}},
			{kind: AllReduce, gpus: 2, bytes: 18, Line: 4, published: published{row: "gpus=2 elements=9 dtype=bfloat16 variant=trtllm"}}}},
		"collectives.csv": {"op,gpus,elements,dtype,us\nalltoall,8,100,half,8\nall_reduce,4,100,int8,8\n", []Sample{
			{kind: NCCLAllToAll, gpus: 8, bytes: 200, Line: 2, published: published{row: "op=alltoall gpus=8 elements=100 dtype=half"}},
			{kind: NCCLAllReduce, gpus: 4, bytes: 100, Line: 3, published: published{row: "op=all_reduce gpus=4 elements=100 dtype=int8"}}}},
		"deepep_ll.csv":            {"nodes,hidden,tokens,topk,experts,dispatch_us,combine_us\n2,7168,4,8,256,9,8\n1,7168,4,8,256,8,8\n", []Sample{there, back}},
		"indexer_logits.csv":       {"batch,queries,prefix,us\n2,3,4,8\n", []Sample{{kind: IndexScores, batch: 2, chunk: 3, finished: 4, Line: 2, published: published{row: "batch=2 queries=3 prefix=4", source: "indexer_logits"}}}},
		"indexer_logits_paged.csv": {"batch,queries,prefix,compress,us\n1,1,2,4,8\n1,1,3,4,8\n", []Sample{{kind: IndexStepScores, batch: 1, chunk: 1, finished: 3, paged: paged{page: 4}, Line: 3, published: published{row: "batch=1 queries=1 prefix=3 compress=4", source: "indexer_logits_paged"}}}},
		"indexer_topk.csv":         {"batch,queries,prefix,scores,us\n2,3,4,flat,8\n", []Sample{{kind: TopK, batch: 2, chunk: 3, finished: 4, op: "flat", Line: 2, published: published{row: "batch=2 queries=3 prefix=4 scores=flat", source: "indexer_topk"}}}},
	} {
		got, err := parse(name, strings.NewReader(c.text), nil)
		if err != nil || len(got) != len(c.want) {
			t.Errorf("%s: %v, %v", name, got, err)
			continue
		}
		for i, want := range c.want {
			if want.Line == 0 {
				want.Line = 3
			}
			want.File, want.where, want.Seconds = name, InGraph, 8*1e-6
			if got[i] != want {
				t.Errorf("%s: %+v, want %+v", name, got[i], want)
			}
		}
	}
	for text, want := range map[string]string{
		"op,gpus,elements,dtype,us\nbroadcast,8,100,half,8\n":                      "all_gather, reduce_scatter, all_reduce, alltoall",
		"op,gpus,elements,dtype,us\nalltoall,8,100,float,8\n":                      "half, int8",
		"gpus,elements,dtype,variant,us\n4,1024,half,vllm_graph,8\n":               "bfloat16",
		"gpus,elements,dtype,variant,us\n1,1024,bfloat16,vllm_graph,8\n":           "2 to",
		"batch,queries,prefix,scores,us\n2,3,4,random,8\n":                         "flat, top_last",
		"nodes,hidden,tokens,topk,experts,dispatch_us,combine_us\n1,9,4,8,9,0,8\n": "dispatch_us",
	} {
		if _, err := parse("a.csv", strings.NewReader(text), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestIndexing: scores of requests of equal length, of every token or of every fourth.
func TestIndexing(t *testing.T) {
	s := Sample{kind: IndexScores, batch: 2, chunk: 3, finished: 10}
	if x := s.indexing(); x.Pairs != 2*(11+12+13) || x.Keys != 26 || x.Longest != 13 || x.Requests != 2 || x.Queries != 3 || x.Step || x.Keep != 2048 {
		t.Errorf("%+v", x)
	}
	s.kind, s.page = IndexStepScores, 4
	if x := s.indexing(); x.Pairs != 2*(2+3+3) || x.Keys != 6 || x.Longest != 3 || !x.Step {
		t.Errorf("%+v", x)
	}
	for n := range 50 {
		sum := int64(0)
		for i := 1; i <= n; i++ {
			sum += int64(i / 4)
		}
		if got := wholeParts(n, 4); got != sum {
			t.Errorf("%d: %d, want %d", n, got, sum)
		}
	}
}

// TestJudged: collectives below 64 KiB take the time of a launch, and are not judged.
func TestJudged(t *testing.T) {
	points := []Point{{Sample: Sample{gpus: 4, bytes: 65535}, Error: 1}, {Sample: Sample{gpus: 4, bytes: 65536}, Error: 0.1}, {Sample: Sample{gpus: 8}, Error: 0.1}, {Sample: Sample{m: 5}, Error: 0.1}}
	if e := judged(Errors{Relative: points}); e.Points != 3 || e.Median != 0.1 {
		t.Errorf("%+v", e)
	}
}

// linkBytes is the data sheets' NVLink bandwidth, one way: a hundred lanes of NVLink 4, and of 5.
func linkBytes(name string) float64 {
	if strings.HasPrefix(name, "h") {
		return 450e9
	}
	return 900e9
}

// tabled checks the laws of kinds with tables of their own: more bytes, tokens, candidates, experts or GPUs are never faster, and nothing
// is faster than NVLink.
func (l laws) tabled() {
	about, err := configs.FitOf(l.name)
	if err != nil {
		l.t.Fatal(err)
	}
	if about.Kinds[string(l.kind)].Rows == 0 {
		return
	}
	link := func(s Sample, sent float64) Sample {
		s.kind, s.where = l.kind, InGraph
		if got := l.target.kernel(&s).Seconds; got < sent/linkBytes(l.name) {
			l.t.Errorf("%s, %s, %+v: %v s, NVLink takes %v", l.name, l.kind, s, got, sent/linkBytes(l.name))
		}
		return s
	}
	never := func(what string, size func(n int) Sample, most int) {
		for n := 1; n < most; n += 1 + n/16 {
			if a, b := l.seconds(size(n)), l.seconds(size(n+1)); b < a*(1-1e-12) || b > 2*a {
				l.t.Errorf("%s, %s: %d %s take %v s, one more %v s", l.name, l.kind, n, what, a, b)
			}
		}
	}
	switch l.kind {
	case AllReduce, AllGather, ReduceScatter, NCCLAllReduce, NCCLAllToAll:
		gpus := func(n int) float64 { // the least share of the bytes that each sends
			t := float64(n)
			switch l.kind {
			case AllReduce: // a switch may sum
				return min(1+1/t, 2*(t-1)/t)
			case NCCLAllReduce:
				return 2 * (t - 1) / t
			}
			return (t - 1) / t
		}
		for t := 2; t <= 8; t++ {
			never("KiB", func(n int) Sample {
				return link(Sample{gpus: t, bytes: units.Bytes(n) * units.KiB}, gpus(t)*float64(n)*1024)
			}, 1<<20)
		}
		if l.kind == AllReduce {
			return // a switch sums for eight GPUs as fast as for two
		}
		for _, bytes := range []units.Bytes{units.KiB, units.MiB, 64 * units.MiB, units.GiB} {
			never("GPUs beside another", func(n int) Sample { return Sample{gpus: n + 1, bytes: bytes} }, 7)
		}
	case Dispatch, Combine:
		for _, x := range [][2]int{{8, 256}, {8, 128}, {2, 8}} {
			of := func(tokens, hidden, active, experts int) Sample {
				width := 1.0
				if l.kind == Combine {
					width = 2
				}
				return link(Sample{gpus: 8, mixture: mixture{shares: routing{tokens: tokens, experts: experts, active: active}, ffn: gpu.Experts{Hidden: hidden}}}, 7.0/8*float64(tokens*active*hidden)*width)
			}
			never("tokens", func(n int) Sample { return of(n, 7168, x[0], x[1]) }, 4096)
			never("elements", func(n int) Sample { return of(64, 128*n, x[0], x[1]) }, 128)
			never("experts of a token", func(n int) Sample { return of(64, 7168, n, 256) }, 16)
		}
	case IndexScores:
		never("tokens", func(n int) Sample { return Sample{batch: 1, chunk: n, finished: 4096} }, 16384)
		never("finished tokens", func(n int) Sample { return Sample{batch: 1, chunk: 512, finished: n} }, 131072)
		never("requests", func(n int) Sample { return Sample{batch: n, chunk: 64, finished: 4096} }, 256)
	case IndexStepScores:
		never("tokens", func(n int) Sample { return Sample{batch: 32, chunk: 1, finished: n, paged: paged{page: 1}} }, 131072)
		never("requests", func(n int) Sample { return Sample{batch: n, chunk: 1, finished: 16384, paged: paged{page: 1}} }, 1024)
	case TopK:
		for _, op := range []string{"", tiedScores} {
			never("tokens", func(n int) Sample { return Sample{batch: 1, chunk: n, finished: 4096, op: op} }, 16384)
			never("candidates", func(n int) Sample { return Sample{batch: 32, chunk: 1, finished: n, op: op} }, 131072)
			never("requests", func(n int) Sample { return Sample{batch: n, chunk: 1, finished: 16384, op: op} }, 1024)
		}
	}
}

// TestShippedTablesAreRepeated: a fit of collectives and indexers to the same rows gives the shipped numbers. Which kernels a server takes
// is no parameter, and an indexer's kernels in TensorRT-LLM are those of SGLang's fit, but for the parameters that modules determine.
func TestShippedTablesAreRepeated(t *testing.T) {
	deep.Only(t)
	for i, f := range shippedFits[:10] {
		if !deep.Case(i, 10) {
			continue
		}
		target := shippedTarget(t, f.gpu, f.fit)
		shipped := target.GPU
		target.tables, target.GPU.Collectives, target.GPU.Index, target.GPU.Switch = true, gpu.CollectiveTables{}, gpu.IndexTables{Always: shipped.Index.Always, WideKeys: shipped.Index.WideKeys}, gpu.SwitchSpec{}
		if f.framework == "trtllm" {
			other := "b200-sxm"
			if strings.HasPrefix(f.gpu, "h") {
				other = "h200-sxm"
			}
			target.GPU.Index = shippedTarget(t, other, other+".sglang-0.5.14").GPU.Index
			target.GPU.Index.Always, target.GPU.Index.WideKeys = shipped.Index.Always, shipped.Index.WideKeys
		}
		for _, kind := range append([]Kind{NCCLAllReduce, AllReduce, AllGather, ReduceScatter, NCCLAllToAll}, Dispatch, Combine, IndexScores, IndexStepScores, TopK) {
			if rows := fittedRows(t, target, &Tables{publishedFolder, f.system, f.framework, f.version}, kind); rows != nil {
				if _, _, err := target.fitForms(f.framework, kind, rows, Options{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if f.framework == "trtllm" { // TestModuleFitsAreRepeated has these
			for _, p := range indexedParameters(&shipped) {
				p.set(target, p.get(&Target{GPU: shipped}))
			}
		}
		if got := target.GPU; !reflect.DeepEqual(got.Collectives, shipped.Collectives) || got.Index != shipped.Index || got.Switch != shipped.Switch || got.Collective != shipped.Collective {
			t.Errorf("%s: %+v\n%+v\nship as\n%+v\n%+v", f.fit, got.Collectives, got.Index, shipped.Collectives, shipped.Index)
		}
	}
}
