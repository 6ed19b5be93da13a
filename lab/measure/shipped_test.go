package measure

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/internal/deep"
)

var update = flag.Bool("update", false, "write the rows and errors of the shipped fits to tables of AIConfigurator")

// shippedFits are the fits to these tables: a GPU preset with that data sheet, its fit, and the tables.
var shippedFits = []struct{ gpu, fit, system, framework, version string }{
	{"h200-sxm", "h200-sxm.vllm-0.24", "h200_sxm", "vllm", "0.24.0"},
	{"h200-sxm", "h200-sxm.trtllm-1.3", "h200_sxm", "trtllm", "1.3.0rc20"},
	{"h200-sxm", "h200-sxm.sglang-0.5.14", "h200_sxm", "sglang", "0.5.14"},
	{"h100-sxm", "h100-sxm.vllm-0.24", "h100_sxm", "vllm", "0.24.0"},
	{"h100-sxm", "h100-sxm.trtllm-1.3", "h100_sxm", "trtllm", "1.3.0rc20"},
	{"b200-sxm", "b200-sxm.vllm-0.24", "b200_sxm", "vllm", "0.24.0"},
	{"b200-sxm", "b200-sxm.trtllm-1.3", "b200_sxm", "trtllm", "1.3.0rc20"},
	{"b200-sxm", "b200-sxm.sglang-0.5.14", "b200_sxm", "sglang", "0.5.14"},
	{"gb200", "gb200.vllm-0.24", "gb200", "vllm", "0.24.0"},
	{"gb200", "gb200.trtllm-1.3", "gb200", "trtllm", "1.3.0rc20"},
	{"l40s", "l40s.vllm-0.24", "l40s", "vllm", "0.24.0"},
	{"rtx-pro-6000-server", "rtx-pro-6000-server.vllm-0.24", "rtx_pro_6000_server", "vllm", "0.24.0"},
}

// shippedTarget returns a GPU with one of its fits.
func shippedTarget(t *testing.T, preset, fit string) *Target {
	t.Helper()
	file := filepath.Join(t.TempDir(), "gpu.toml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "[gpu]\npreset = %q\nfit = %q\n", preset, fit), 0o644); err != nil {
		t.Fatal(err)
	}
	g, _, err := configs.LoadGPU("gpu", file)
	if err != nil {
		t.Fatal(err)
	}
	return &Target{GPU: *g}
}

// readTables has the tables that a test has read, since each kind needs their rows.
var readTables = map[Tables][]Sample{}

// fittedRows returns the rows of a kind that its fit has used.
func fittedRows(t *testing.T, target *Target, tables *Tables, kind Kind) []Sample {
	t.Helper()
	all, ok := readTables[*tables]
	if !ok {
		var err error
		if all, _, err = tables.Read(); err != nil {
			t.Fatal(err)
		}
		readTables[*tables] = all
	}
	var p Published
	rows := p.serving(target, tables.Framework, kind, only(all, func(s *Sample) bool { return s.kind == kind }))
	if len(rows) < fewest(kind) {
		return nil
	}
	return rows
}

const shippedFile = publishedFolder + "/fits.tsv"

// TestShippedFits: fits.tsv lists for each shipped fit and kind the number of fitted rows, their hash, and the errors on them. A kind
// without rows has no parameters of its own.
func TestShippedFits(t *testing.T) {
	deep.Heavy(t)
	var out strings.Builder
	out.WriteString("fit\tkind\trows\tsha256\tmedian_percent\tp90_percent\n")
	for _, f := range shippedFits {
		target, total := shippedTarget(t, f.gpu, f.fit), 0
		about, err := configs.FitOf(f.fit)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range publishedKinds {
			rows := fittedRows(t, target, &Tables{publishedFolder, f.system, f.framework, f.version}, kind)
			if rows == nil {
				continue
			}
			total += len(rows)
			if k := about.Kinds[string(kind)]; k.Rows != len(rows) || k.Range != rangeOf(rows) || k.P90 < k.Median || k.Median <= 0 {
				t.Errorf("%s: %s is %v, of %d rows, %s", f.fit, kind, k, len(rows), rangeOf(rows))
			}
			hash := sha256.New()
			for i := range rows {
				fmt.Fprintf(hash, "%s %s %g\n", rows[i].row, rows[i].source, rows[i].Seconds)
			}
			e := target.Judge(rows)
			fmt.Fprintf(&out, "%s\t%s\t%d\t%s\t%.1f\t%.1f\n", f.fit, kind, len(rows), hex.EncodeToString(hash.Sum(nil)[:8]), 100*e.Median, 100*e.P90)
		}
		if about.Rows != total || !strings.Contains(about.Source, f.system+", "+f.framework+" "+f.version) || about.Base == "" {
			t.Errorf("%s: %+v, of %d rows", f.fit, about, total)
		}
	}
	if *update {
		if err := os.WriteFile(shippedFile, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(shippedFile)
	if err != nil || string(want) != out.String() {
		t.Errorf("%s is not\n%s(%v): go test ./measure -run ShippedFits -update", shippedFile, out.String(), err)
	}
}

// TestShippedFitIsRepeated: a fit to the same rows gives the shipped numbers.
func TestShippedFitIsRepeated(t *testing.T) {
	deep.Only(t)
	f := shippedFits[0]
	shipped := shippedTarget(t, f.gpu, f.fit)
	target := shipped
	again := shippedTarget(t, f.gpu, "h200-sxm") // the base of the fit
	again.tables = true
	for _, kind := range []Kind{FP8GEMM, Decode} {
		rows := fittedRows(t, target, &Tables{publishedFolder, f.system, f.framework, f.version}, kind)
		if kind == FP8GEMM { // starts from the form of 16-bit products
			if err := again.fit(GEMM, fittedRows(t, target, &Tables{publishedFolder, f.system, f.framework, f.version}, GEMM), Options{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := again.fitForms(f.framework, kind, rows, Options{}); err != nil {
			t.Fatal(err)
		}
	}
	if again.GPU.MatMul != shipped.GPU.MatMul || again.GPU.FP8 != shipped.GPU.FP8 || again.GPU.Decode != shipped.GPU.Decode {
		t.Errorf("%+v\n%+v\n%+v\nship as\n%+v\n%+v\n%+v", again.GPU.MatMul, again.GPU.FP8, again.GPU.Decode, shipped.GPU.MatMul, shipped.GPU.FP8, shipped.GPU.Decode)
	}
}

// TestShippedLaws: on a grid no kernel of a fit is faster than the data sheet allows, and one more row, column, request or token takes at
// most twice the time, and more than 95% of it: the laws of all presets.
func TestShippedLaws(t *testing.T) {
	for i, f := range shippedFits {
		if !deep.Case(i, len(shippedFits)) {
			continue
		}
		target := shippedTarget(t, f.gpu, f.fit)
		for _, kind := range publishedKinds {
			laws{t, f.fit, target, kind}.check()
		}
	}
}

// laws are those of a kind of kernels of a fit.
type laws struct {
	t      *testing.T
	name   string
	target *Target
	kind   Kind
}

// seconds returns the time of a sample, bounded from below by the data sheet's rates.
func (l laws) seconds(s Sample) float64 {
	s.kind, s.where = l.kind, InGraph
	g, c := &l.target.GPU, l.target.kernel(&s)
	peak := float64(g.Peak16)
	switch l.kind {
	case FP8GEMM, FP8BlockGEMM, FP8Prefill, FP8Decode, FP8Experts, FP8BlockExperts, MXFP4FP8Experts, FP8LatentDecode, FP8LatentPrefill, FP8LatentAbsorb, IndexScores, IndexStepScores:
		peak = float64(g.Peak8)
	case NVFP4GEMM, NVFP4Experts:
		peak = 2 * float64(g.Peak8)
	}
	if least := max(c.FLOPs/peak, c.Bytes/float64(g.MemoryBandwidth)); c.Seconds < least*(1-1e-9) {
		l.t.Errorf("%s, %s, %+v: %v s, the data sheet allows %v", l.name, l.kind, s, c.Seconds, least)
	}
	return c.Seconds
}

// grows checks one more of a size at many sizes.
func (l laws) grows(what string, size func(n int) Sample, most int) {
	for n := 1; n <= most; n += 1 + n/16 {
		if a, b := l.seconds(size(n)), l.seconds(size(n+1)); b > 2*a || b <= 0.95*a {
			l.t.Errorf("%s, %s: %d %s take %v s, one more %v s", l.name, l.kind, n, what, a, b)
		}
	}
}

func (l laws) check() {
	if l.kind.latent() {
		l.latents()
		return
	}
	if tabledOf(l.kind) != nil {
		l.tabled()
		return
	}
	if e := expertsOf(l.kind); e != nil {
		if *e.In(&l.target.GPU) != (gpu.ExpertSpec{}) {
			l.experts()
		}
		return
	}
	switch l.kind {
	case GEMM, FP8GEMM, FP8BlockGEMM, NVFP4GEMM:
		for _, n := range []int{1024, 5120, 28672} {
			l.grows("rows", func(m int) Sample { return Sample{m: m, n: n, k: 4096} }, 16384)
		}
		l.grows("columns", func(n int) Sample { return Sample{m: 64, n: n, k: 4096} }, 32768)
		l.grows("inner elements", func(k int) Sample { return Sample{m: 64, n: 4096, k: k} }, 32768)
	default:
		for _, heads := range [][2]int{{8, 8}, {32, 8}, {16, 1}} {
			h := elementHeads(l.kind, heads[0], heads[1])
			if l.kind == Decode || l.kind == FP8Decode {
				l.grows("requests", func(n int) Sample { return Sample{batch: n, context: 4096, heads: h} }, 1024)
				l.grows("tokens", func(n int) Sample { return Sample{batch: 16, context: n, heads: h} }, 131072)
				continue
			}
			l.grows("requests", func(n int) Sample { return Sample{batch: n, chunk: 512, heads: h} }, 256)
			l.grows("tokens", func(n int) Sample { return Sample{batch: 2, chunk: n, heads: h} }, 16384)
		}
	}
}

// experts checks the laws of experts: more tokens, wider ones, and as many rows on more of them.
func (l laws) experts() {
	moe := func(x routing, hidden, width int) Sample {
		return Sample{mixture: mixture{x, x.load(), gpu.Experts{Hidden: hidden, Width: width, Matrices: 3}}}
	}
	for _, x := range []routing{{experts: 256, active: 8, parallel: 1}, {experts: 128, active: 4, parallel: 8}, {experts: 8, active: 2, parallel: 1}} {
		l.grows("tokens", func(n int) Sample { x := x; x.tokens = n; return moe(x, 4096, 1024) }, 16384)
		x.tokens = 64
		l.grows("hidden elements", func(n int) Sample { return moe(x, 64*n, 1024) }, 128)
		l.grows("inner elements", func(n int) Sample { return moe(x, 4096, 64*n) }, 128)
	}
	l.grows("touched experts", func(n int) Sample {
		return Sample{mixture: mixture{load: gpu.NewExpertLoad(16*n, 1, slices.Repeat([]int{16}, n)), ffn: gpu.Experts{Hidden: 4096, Width: 1024, Matrices: 3}}}
	}, 256)
}

func elementHeads(kind Kind, query, kv int) gpu.Heads {
	h := gpu.Heads{Query: query, KV: kv, Dim: 128, ElementBits: elementBits}
	if kind == FP8Decode || kind == FP8Prefill {
		h.KVBits, h.KVFloat = 8, true
	}
	return h
}
