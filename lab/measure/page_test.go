package measure

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
)

// The pages with the errors of the shipped fits: one of every fit, and a summary by kind.
const (
	errorsPage  = "../../docs/reference/gpu-parameters.md"
	summaryPage = "../docs/model-gpu.md"
)

// kindColumn is a kind of kernels as the pages name it: in a table of its family, and alone.
type kindColumn struct {
	kind       Kind
	head, name string
}

// errorTable is a table of errorsPage: kinds of one family over all fits.
type errorTable struct {
	begin, end string
	kinds      []kindColumn
	local      bool // each error is followed by that of local interpolation
}

var errorTables = []errorTable{
	{"<!-- products and attention -->\n", "<!-- end of products and attention -->\n", []kindColumn{
		{GEMM, "products", "products"}, {FP8GEMM, "FP8", "products, FP8"}, {FP8BlockGEMM, "FP8, blocks", "products, FP8 blocks"}, {NVFP4GEMM, "NVFP4", "products, NVFP4"},
		{Decode, "decode", "decode attention"}, {FP8Decode, "FP8", "decode attention, FP8"}, {Prefill, "prompts", "prefill attention"}, {FP8Prefill, "FP8", "prefill attention, FP8"}}, false},
	{"<!-- experts -->\n", "<!-- end of experts -->\n", []kindColumn{
		{Experts, "16 bits", "experts"}, {FP8Experts, "FP8", "experts, FP8"}, {FP8BlockExperts, "FP8, blocks", "experts, FP8 blocks"}, {NVFP4Experts, "NVFP4", "experts, NVFP4"},
		{MXFP4Experts, "MXFP4", "experts, MXFP4"}, {MXFP4FP8Experts, "MXFP4, FP8 activations", "experts, MXFP4 and FP8"}, {Int4Experts, "INT4", "experts, INT4"}}, true},
	{"<!-- latents -->\n", "<!-- end of latents -->\n", []kindColumn{
		{LatentDecode, "decode", "latent decode"}, {FP8LatentDecode, "FP8", "latent decode, FP8"}, {LatentPrefill, "prompts", "latent prefill"}, {FP8LatentPrefill, "FP8", "latent prefill, FP8"},
		{LatentAbsorb, "absorbed products", "absorbed products"}, {FP8LatentAbsorb, "FP8", "absorbed products, FP8"}, {SparseLatent, "chosen rows", "latents, chosen rows"}}, true},
	{"<!-- indexers -->\n", "<!-- end of indexers -->\n", []kindColumn{
		{IndexScores, "scores, prompts", "index scores, prompts"}, {IndexStepScores, "scores, steps", "index scores, steps"}, {TopK, "top-k", "top-k"}}, true},
	{"<!-- collectives -->\n", "<!-- end of collectives -->\n", []kindColumn{
		{AllReduce, "all-reduce", "all-reduce"}, {AllGather, "all-gather", "NCCL, all-gather"}, {ReduceScatter, "reduce-scatter", "NCCL, reduce-scatter"}, {NCCLAllReduce, "NCCL's all-reduce", "NCCL, all-reduce"},
		{NCCLAllToAll, "its all-to-all", "NCCL, all-to-all"}, {Dispatch, "experts: dispatch", "DeepEP, dispatch"}, {Combine, "combine", "DeepEP, combine"}}, true},
}

const fewestLocal = 10 // rows with neighbours that a percentile needs

// shippedErrors are a fit's stated errors of a kind, and those of local interpolation of its rows; without Points if fewer than
// fewestLocal rows have neighbours.
type shippedErrors struct {
	configs.FitKind
	local Errors
}

// errorsByFit returns the errors of each fit of shippedFits, by kind with rows.
func errorsByFit(t *testing.T) []map[Kind]shippedErrors {
	t.Helper()
	var all []map[Kind]shippedErrors
	for _, f := range shippedFits {
		about, err := configs.FitOf(f.fit)
		if err != nil {
			t.Fatal(err)
		}
		of := map[Kind]shippedErrors{}
		for _, table := range errorTables {
			for _, column := range table.kinds {
				e, has := about.Kinds[string(column.kind)]
				if !has || e.Rows == 0 {
					continue
				}
				x := shippedErrors{FitKind: e}
				if table.local {
					local := Local(fittedRows(t, shippedTarget(t, f.gpu, f.fit), &Tables{publishedFolder, f.system, f.framework, f.version}, column.kind))
					if local.Points >= fewestLocal {
						x.local = local
					}
				}
				of[column.kind] = x
			}
		}
		all = append(all, of)
	}
	return all
}

// text returns the table: median and 90th percentile of the errors on rows held out, by fit and kind.
func (k *errorTable) text(all []map[Kind]shippedErrors) string {
	var out strings.Builder
	out.WriteString("| fit |")
	for _, column := range k.kinds {
		out.WriteString(" " + column.head + " |")
	}
	out.WriteString("\n| --- |" + strings.Repeat(" --- |", len(k.kinds)) + "\n")
	for i, f := range shippedFits {
		line, some := "| `"+f.fit+"` |", false
		for _, column := range k.kinds {
			text := ""
			if e, has := all[i][column.kind]; has {
				some = true
				text = fmt.Sprintf("%.1f, %.0f", e.Median, e.P90)
				if e.local.Points > 0 {
					text += fmt.Sprintf(" (%.1f, %.0f)", 100*e.local.Median, 100*e.local.P90)
				}
			}
			line += " " + text + " |"
		}
		if some {
			out.WriteString(line + "\n")
		}
	}
	return out.String()
}

// span is the least and the largest of some numbers.
type span struct{ least, most float64 }

func newSpan() span { return span{math.Inf(1), math.Inf(-1)} }

func (s *span) add(v float64) { s.least, s.most = min(s.least, v), max(s.most, v) }

// text returns both ends in the format, one if they print alike, "" without numbers.
func (s *span) text(format string) string {
	least, most := fmt.Sprintf(format, s.least), fmt.Sprintf(format, s.most)
	if least == most {
		return least
	}
	return least + "–" + most
}

// summary returns the table by kind: over all fits the rows, and the least and the largest median and 90th percentile.
func summary(all []map[Kind]shippedErrors) string {
	var out strings.Builder
	out.WriteString("| kernels | rows | error | interpolated |\n| --- | ---: | --- | --- |\n")
	for _, table := range errorTables {
		for _, column := range table.kinds {
			rows, compared := 0, false
			median, p90, localMedian, localP90 := newSpan(), newSpan(), newSpan(), newSpan()
			for i := range all {
				e, has := all[i][column.kind]
				if !has {
					continue
				}
				rows += e.Rows
				median.add(e.Median)
				p90.add(e.P90)
				if e.local.Points > 0 {
					compared = true
					localMedian.add(100 * e.local.Median)
					localP90.add(100 * e.local.P90)
				}
			}
			line := fmt.Sprintf("| %s | %d | %s, %s |", column.name, rows, median.text("%.1f"), p90.text("%.0f"))
			if compared {
				line += " " + localMedian.text("%.1f") + ", " + localP90.text("%.0f")
			}
			out.WriteString(line + " |\n")
		}
	}
	return out.String()
}

// replaced returns a page with new text between two marks, and the old text.
func replaced(t *testing.T, path, page, begin, end, text string) (changed, stands string) {
	t.Helper()
	before, rest, ok := strings.Cut(page, begin)
	stands, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Fatalf("%s has no table %q", path, begin)
	}
	return before + begin + text + end + after, stands
}

// TestShippedFitsPage: the pages have the errors that the fits state.
func TestShippedFitsPage(t *testing.T) {
	deep.Heavy(t)
	all := errorsByFit(t)
	check := func(path, begin, end, want string) {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		changed, stands := replaced(t, path, string(text), begin, end, want)
		if *update {
			if err := os.WriteFile(path, []byte(changed), 0o644); err != nil {
				t.Fatal(err)
			}
			return
		}
		if stands != want {
			t.Errorf("%s has\n%s, want\n%s(go test -C lab ./measure -run ShippedFitsPage -update)", path, stands, want)
		}
	}
	for i := range errorTables {
		check(errorsPage, errorTables[i].begin, errorTables[i].end, errorTables[i].text(all))
	}
	check(summaryPage, "<!-- errors by kind: go test -C lab ./measure -run ShippedFitsPage -update -->\n", "<!-- end of errors by kind -->\n", summary(all))
}

// TestSummary: by hand, the summary has the sum of the rows of all fits and the range of their errors. Each kind of a fit is in one
// table.
func TestSummary(t *testing.T) {
	a := shippedErrors{FitKind: configs.FitKind{Rows: 20, Median: 3.04, P90: 12.6}, local: Errors{Points: 10, Median: .081, P90: .3}}
	b := shippedErrors{FitKind: configs.FitKind{Rows: 31, Median: 5.5, P90: 9.4}}
	text := summary([]map[Kind]shippedErrors{{Experts: a, TopK: b}, {}, {Experts: b}})
	for _, want := range []string{"| experts | 51 | 3.0–5.5, 9–13 | 8.1, 30 |\n", "| top-k | 31 | 5.5, 9 | |\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
	kinds := 0
	for _, table := range errorTables {
		kinds += len(table.kinds)
	}
	if kinds != len(publishedKinds) || strings.Count(text, "\n") != kinds+2 {
		t.Errorf("%d kinds in tables, %d are published, the summary has %d lines", kinds, len(publishedKinds), strings.Count(text, "\n"))
	}
}

// TestOwnErrorsPage: the page's tables have the mean errors that the fits to our own measurements state.
func TestOwnErrorsPage(t *testing.T) {
	text, err := os.ReadFile(summaryPage)
	if err != nil {
		t.Fatal(err)
	}
	_, page, _ := strings.Cut(string(text), "\n## Errors of our own measurements\n")
	checked := 0
	// has checks that the row of that name has a mean in a column; columns count from 0.
	has := func(row string, column int, mean string) {
		t.Helper()
		line := regexp.MustCompile(`(?m)^\| ` + row + ` \|(.*)\|$`).FindStringSubmatch(page)
		if line == nil {
			t.Fatalf("no row %q", row)
		}
		checked++
		if cell := strings.TrimSpace(strings.Split(line[1], "|")[column]); !strings.HasPrefix(cell, mean+"%, ") {
			t.Errorf("%s has %q in column %d, its fit a mean of %s%%", row, cell, column, mean)
		}
	}
	for column, name := range []string{"h200-sxm", "h100-sxm", "a100-sxm-80gb"} {
		about, err := configs.FitOf(name)
		if err != nil {
			t.Fatal(err)
		}
		for row, kind := range map[string]Kind{"products": GEMM, "decode attention": Decode, "prefill attention": Prefill, "all-reduce, 2 GPUs for 4 and the reverse": AllReduce} {
			if mean := about.Kinds[string(kind)].Mean; mean > 0 {
				has(row, column, fmt.Sprintf("%.1f", mean))
			}
		}
		for _, m := range regexp.MustCompile(`\b(decode|prefill|mixed|energy)(?: iterations)? ([0-9.]+)%`).FindAllStringSubmatch(about.HeldOut, -1) {
			has(m[1], column, m[2])
		}
	}
	if checked != 10+8 { // kinds of three GPUs, and of two decode, prefill, mixed and energy
		t.Errorf("%d means are checked", checked)
	}
}
