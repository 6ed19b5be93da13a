package measure

import (
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/internal/deep"
)

func TestLatentRows(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want Sample
	}{
		"mla_decode.csv":  {"heads,batch,context,kv_dtype,us\n16,4,300,fp8,9\n", Sample{kind: FP8LatentDecode, batch: 4, context: 300, published: published{row: "heads=16 batch=4 context=300 kv_dtype=fp8"}}},
		"mla_prefill.csv": {"heads,batch,length,kv_dtype,us\n8,2,100,bfloat16,9\n", Sample{kind: LatentPrefill, batch: 2, chunk: 100, published: published{row: "heads=8 batch=2 length=100 kv_dtype=bfloat16"}}},
		"mla_absorb.csv":  {"op,dtype,tokens,heads,us\nmla_gen_post,fp8,7,4,9\n", Sample{kind: FP8LatentAbsorb, m: 7, n: 128, k: 512, published: published{row: "op=mla_gen_post dtype=fp8 tokens=7 heads=4"}}},
		"sparse_mla.csv":  {"batch,queries,prefix,us\n2,5,1000,9\n", Sample{kind: SparseLatent, batch: 2, chunk: 5, finished: 1000, published: published{row: "batch=2 queries=5 prefix=1000"}}},
	} {
		got, err := parse(name, strings.NewReader(c.text), nil)
		if err != nil || len(got) != 1 {
			t.Fatalf("%s: %v, %v", name, got, err)
		}
		want := c.want
		want.File, want.Line, want.where, want.source, want.heads, want.Seconds = name, 2, InGraph, strings.TrimSuffix(name, ".csv"), got[0].heads, got[0].Seconds
		if got[0] != want {
			t.Errorf("%s: %+v, want %+v", name, got[0], want)
		}
	}
	if _, err := parse("mla_decode.csv", strings.NewReader("heads,batch,context,kv_dtype,us\n16,4,300,int8,9\n"), nil); err == nil || !strings.Contains(err.Error(), "bfloat16, fp8") {
		t.Error(err)
	}
}

// TestChosenRows: tokens see those before them, up to 2,048 rows.
func TestChosenRows(t *testing.T) {
	for _, c := range []struct {
		batch, chunk, finished int
		rows                   int64
		longest                int
	}{{1, 3, 0, 6, 3}, {2, 1, 99, 200, 100}, {1, 4, 2046, 2047 + 3*2048, 2048}, {3, 2, 5000, 6 * 2048, 2048}} {
		if rows, longest := chosen(c.batch, c.chunk, c.finished); rows != c.rows || longest != c.longest {
			t.Errorf("%+v: %d rows, %d", c, rows, longest)
		}
	}
}

// latents checks the laws of kernels of latent attention, for as many heads as servers have on a
// GPU.
func (l laws) latents() {
	narrow := strings.HasPrefix(string(l.kind), "fp8_")
	about, err := configs.FitOf(l.name)
	if err != nil {
		l.t.Fatal(err)
	}
	if about.Kinds[string(l.kind)].Rows == 0 {
		return
	}
	for _, heads := range []int{8, 16, 32, 64, 128} {
		h, e := latentHeads(heads), expandedHeads(heads)
		if h.KVFloat, e.KVFloat = narrow, narrow; narrow {
			h.KVBits = 8
		}
		switch l.kind {
		case LatentDecode, FP8LatentDecode:
			l.grows("requests", func(n int) Sample { return Sample{batch: n, context: 4096, heads: h} }, 1024)
			l.grows("tokens", func(n int) Sample { return Sample{batch: 16, context: n, heads: h} }, 131072)
		case LatentPrefill, FP8LatentPrefill:
			l.grows("requests", func(n int) Sample { return Sample{batch: n, chunk: 512, heads: e} }, 256)
			l.grows("tokens", func(n int) Sample { return Sample{batch: 2, chunk: n, heads: e} }, 16384)
		case LatentAbsorb, FP8LatentAbsorb:
			l.grows("tokens", func(n int) Sample { return Sample{m: n, n: 128, k: 512, heads: gpu.Heads{Query: heads}} }, 16384)
			l.grows("tokens", func(n int) Sample { return Sample{m: n, n: 512, k: 128, heads: gpu.Heads{Query: heads}} }, 16384)
		case SparseLatent:
			l.grows("tokens", func(n int) Sample { return Sample{batch: 1, chunk: n, finished: 4096, heads: h} }, 16384)
			l.grows("finished tokens", func(n int) Sample { return Sample{batch: 64, chunk: 1, finished: n, heads: h} }, 8192)
		}
	}
}

// TestShippedLatentIsRepeated: a fit to the same rows gives the shipped numbers.
func TestShippedLatentIsRepeated(t *testing.T) {
	deep.Only(t)
	f := shippedFits[1]
	target := shippedTarget(t, f.gpu, f.fit)
	shipped := target.GPU.Latent
	// The kernel over chosen rows is fitted to modules (TestModuleFitsAreRepeated): the fit has no rows of its own.
	target.tables, target.GPU.Latent = true, gpu.LatentTables{Chosen: shipped.Chosen}
	for _, l := range latentSections {
		if rows := fittedRows(t, target, &Tables{publishedFolder, f.system, f.framework, f.version}, l.kind); rows != nil {
			if _, _, err := target.fitForms(f.framework, l.kind, rows, Options{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if target.GPU.Latent != shipped {
		t.Errorf("%+v\nships as\n%+v", target.GPU.Latent, shipped)
	}
}
