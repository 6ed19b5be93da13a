package measure

import (
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
)

// Tables names the tables of one GPU and framework in AIConfigurator's data (https://github.com/ai-dynamo/aiconfigurator,
// systems/data): System as its folders name it (h200_sxm), Framework vllm, trtllm or sglang.
type Tables struct{ Folder, System, Framework, Version string }

// Frameworks are those with tables.
var Frameworks = []string{"vllm", "trtllm", "sglang"}

var publishedTables = []publishedTable{
	{"gemm", "gemm_perf.parquet", "gemm.csv"},
	{"attention", "generation_attention_perf.parquet", "decode_attention.csv"},
	{"attention", "context_attention_perf.parquet", "prefill_attention.csv"},
}

// publishedTable is a table of a kind of kernels: its folder and name in the source, and its name as CSV with columns of its own.
type publishedTable struct{ folder, parquet, csv string }

// name returns the name of the tables' folder if they are CSV: the GPU's short name, without its form factor, and the framework's.
func (p *Tables) name() string {
	short := strings.TrimSuffix(strings.TrimSuffix(p.System, "_sxm"), "_server")
	return short + "_" + p.Framework
}

// moreTables may be absent.
var moreTables = []publishedTable{
	{"moe", "moe_perf.parquet", "moe.csv"},
	{"comm", "custom_allreduce_perf.parquet", "allreduce.csv"},
	{"mla", "generation_mla_perf.parquet", "mla_decode.csv"},
	{"mla", "context_mla_perf.parquet", "mla_prefill.csv"},
	{"mla_bmm", "mla_bmm_perf.parquet", "mla_absorb.csv"},
	{"sparse_attention", "glm5_dsa_attn_module_perf.parquet", "sparse_mla.csv"},
	{"sparse_attention", "glm5_mqa_logits_module_perf.parquet", "indexer_logits.csv"},
	{"sparse_attention", "dsv4_paged_mqa_logits_module_perf.parquet", "indexer_logits_paged.csv"},
	{"sparse_attention", "glm5_topk_module_perf.parquet", "indexer_topk.csv"},
}

// libraryTable is a table of a library that several frameworks call. The source has it below a folder of the library, or of the framework
// that it was measured with, and a version of its own; as CSV it is below the library's name.
type libraryTable struct {
	publishedTable
	of, library string
}

// librariesOf returns the tables of libraries that a framework calls. TensorRT-LLM has an exchange of experts' tokens of its own.
func librariesOf(framework string) []libraryTable {
	all := []libraryTable{{publishedTable{"comm", "nccl_perf.parquet", "collectives.csv"}, "nccl", "nccl"}}
	if framework != "trtllm" {
		all = append(all, libraryTable{publishedTable{"comm", "wideep_deepep_ll_perf.parquet", "deepep_ll.csv"}, "sglang", "deepep"})
	}
	return all
}

// more returns the paths of the optional tables in the folder, in its format.
func (p *Tables) more() (paths []string) {
	first := func(candidates ...string) {
		for _, path := range candidates {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				paths = append(paths, path)
				return
			}
		}
	}
	for _, t := range moreTables {
		first(filepath.Join(p.Folder, p.System, t.folder, p.Framework, p.Version, t.parquet), filepath.Join(p.Folder, p.name(), t.csv))
	}
	for _, t := range librariesOf(p.Framework) {
		first(newestVersion(filepath.Join(p.Folder, p.System, t.folder, t.of), t.parquet),
			filepath.Join(p.Folder, strings.TrimSuffix(p.name(), p.Framework)+t.library, t.csv))
	}
	return paths
}

// newestVersion returns the path of a table in the folder of the newest version that has it.
func newestVersion(folder, table string) (newest string) {
	paths, _ := filepath.Glob(filepath.Join(folder, "*", table))
	for _, path := range paths {
		if newest == "" || slices.Compare(versionOf(path), versionOf(newest)) > 0 {
			newest = path
		}
	}
	return newest
}

// versionOf returns the numbers of the version that a table's folder names.
func versionOf(path string) (numbers []int) {
	for _, part := range strings.FieldsFunc(filepath.Base(filepath.Dir(path)), func(r rune) bool { return r < '0' || r > '9' }) {
		n, _ := strconv.Atoi(part)
		numbers = append(numbers, n)
	}
	return numbers
}

// files returns the paths of the tables: Parquet files as in the source, or CSV files.
func (p *Tables) files() ([]string, error) {
	var parquets, csvs, missing []string
	for _, t := range publishedTables {
		a := filepath.Join(p.Folder, p.System, t.folder, p.Framework, p.Version, t.parquet)
		b := filepath.Join(p.Folder, p.name(), t.csv)
		if _, err := os.Stat(a); err == nil {
			parquets = append(parquets, a)
		}
		if _, err := os.Stat(b); err == nil {
			csvs = append(csvs, b)
		} else {
			missing = append(missing, t.csv)
		}
	}
	switch {
	case len(parquets) == len(publishedTables):
		return parquets, nil
	case len(csvs) == len(publishedTables):
		return csvs, nil
	case len(parquets) > 0:
		var names []string
		for _, t := range publishedTables {
			if !slices.Contains(parquets, filepath.Join(p.Folder, p.System, t.folder, p.Framework, p.Version, t.parquet)) {
				names = append(names, t.parquet)
			}
		}
		return nil, &input.Error{File: filepath.Join(p.Folder, p.System), Key: "tables", Value: "without " + strings.Join(names, ", "), Expected: "products, decode and prompt attention of one framework and version"}
	case len(csvs) > 0:
		return nil, &input.Error{File: filepath.Join(p.Folder, p.name()), Key: "tables", Value: "without " + strings.Join(missing, ", "), Expected: "products, decode and prompt attention of one framework and version"}
	}
	return nil, &input.Error{File: p.Folder, Key: "tables", Value: p.System + ", " + p.Framework + " " + p.Version,
		Expected: fmt.Sprintf("a folder %s with CSV files, or %s as AIConfigurator has it", p.name(), filepath.Join(p.System, "gemm", p.Framework, p.Version, publishedTables[0].parquet))}
}

// Read reads the tables, without the rows listed in odd_rows.tsv.
func (p *Tables) Read() (samples []Sample, left []string, err error) {
	files, err := p.files()
	if err != nil {
		return nil, nil, err
	}
	odd, err := p.oddRows()
	if err != nil {
		return nil, nil, err
	}
	for _, f := range append(files, p.more()...) {
		rows, err := p.read(f)
		if err != nil {
			return nil, nil, err
		}
		n := len(rows)
		if v := filepath.Base(filepath.Dir(f)); filepath.Ext(f) == ".parquet" && v != p.Version {
			left = append(left, fmt.Sprintf("%s: of version %s, the newest in the folder", filepath.Base(f), v))
		}
		rows = only(rows, func(s *Sample) bool { return !odd[s.row+" "+s.source] && !odd[s.row] })
		if n > len(rows) {
			left = append(left, fmt.Sprintf("%s: %d rows left out: they are in %s", filepath.Base(f), n-len(rows), oddFile))
		}
		samples = append(samples, rows...)
	}
	return samples, left, nil
}

func (p *Tables) read(file string) ([]Sample, error) {
	if filepath.Ext(file) != ".parquet" {
		return readFile(file, nil)
	}
	return p.readParquet(file)
}

const oddFile = "odd_rows.tsv"

// oddRows returns the rows of odd_rows.tsv in the folder that belong to these tables; none if there is no such file.
func (p *Tables) oddRows() (map[string]bool, error) {
	name := filepath.Join(p.Folder, oddFile)
	text, err := os.ReadFile(name)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, input.FileError(name, err)
	}
	r := csv.NewReader(strings.NewReader(string(text)))
	r.Comma, r.FieldsPerRecord, r.LazyQuotes = '\t', -1, true
	odd := map[string]bool{}
	var columns []int
	names, short := []string{"pair", "dtype", "shape", "kernel"}, false
	for n := 1; ; n++ {
		record, err := r.Read()
		if err == io.EOF {
			return odd, nil
		}
		if err != nil {
			return nil, &input.Error{File: name, Line: n, Err: err}
		}
		if n == 1 {
			if short = !slices.Contains(record, "dtype"); short { // such tables have the element type and the time in the shape
				names = []string{"pair", "shape"}
			}
			for _, c := range names {
				if !slices.Contains(record, c) {
					return nil, &input.Error{File: name, Line: 1, Key: columnsKey, Expected: "pair, dtype, shape, kernel or pair, shape"}
				}
				columns = append(columns, slices.Index(record, c))
			}
			continue
		}
		switch {
		case len(record) <= slices.Max(columns) || record[columns[0]] != p.name():
		case short:
			shape, _, _ := strings.Cut(record[columns[1]], " us=")
			odd[strings.TrimPrefix(shape, "dtype=")] = true
		default:
			odd[strings.TrimSpace(record[columns[1]]+" "+record[columns[2]]+" "+record[columns[3]])] = true
		}
	}
}
