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

	"github.com/parquet-go/parquet-go"

	"github.com/l3sim/l3sim/input"
)

// Tables names the tables of one GPU and framework in AIConfigurator's data (https://github.com/ai-dynamo/aiconfigurator,
// systems/data): System as its folders name it (h200_sxm), Framework vllm, trtllm or sglang.
type Tables struct{ Folder, System, Framework, Version string }

// Frameworks are those that the tables are of.
var Frameworks = []string{"vllm", "trtllm", "sglang"}

// table is a table of a kind of kernels: its name in the source, and its name as CSV with columns of its own.
type publishedTable struct{ folder, parquet, csv string }

var publishedTables = []publishedTable{
	{"gemm", "gemm_perf.parquet", "gemm.csv"},
	{"attention", "generation_attention_perf.parquet", "decode_attention.csv"},
	{"attention", "context_attention_perf.parquet", "prefill_attention.csv"},
}

// name returns the name of the tables' folder where they are CSV: the GPU's short name, which ends before its form factor, and the framework's.
func (p *Tables) name() string {
	short := strings.TrimSuffix(strings.TrimSuffix(p.System, "_sxm"), "_server")
	return short + "_" + p.Framework
}

// moreTables may be absent.
var moreTables = []publishedTable{{"moe", "moe_perf.parquet", "moe.csv"}, {"", "", "allreduce.csv"}, {"", "", "mla_decode.csv"}, {"", "", "mla_prefill.csv"}, {"", "", "mla_absorb.csv"}, {"", "", "sparse_mla.csv"}, {"", "", "indexer_logits.csv"}, {"", "", "indexer_logits_paged.csv"}, {"", "", "indexer_topk.csv"}}

// more returns the paths of tables that the folder has beyond those of every fit, in the form in which it has them.
func (p *Tables) more() (paths []string) {
	for _, t := range moreTables {
		for _, path := range []string{filepath.Join(p.Folder, p.System, t.folder, p.Framework, p.Version, t.parquet), filepath.Join(p.Folder, p.name(), t.csv)} {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				paths = append(paths, path)
				break
			}
		}
	}
	for _, of := range librariesOf(p.Framework) {
		path := filepath.Join(p.Folder, strings.TrimSuffix(p.name(), p.Framework)+of.library, of.csv)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			paths = append(paths, path)
		}
	}
	return paths
}

// libraryTable is a table of a library that several frameworks call.
type libraryTable struct{ library, csv string }

// librariesOf returns the tables of libraries that a framework calls. TensorRT-LLM has an exchange of experts' tokens of its own.
func librariesOf(framework string) []libraryTable {
	all := []libraryTable{{"nccl", "collectives.csv"}}
	if framework != "trtllm" {
		all = append(all, libraryTable{"deepep", "deepep_ll.csv"})
	}
	return all
}

// files returns the paths of the tables: Parquet files as the source has them, or CSV files.
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

// Read reads the tables, without the rows of odd_rows.tsv beside them.
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
	text, err := p.parquetText(file)
	if err != nil {
		return nil, err
	}
	return parse(input.Name(file), strings.NewReader(text), nil)
}

const oddFile = "odd_rows.tsv"

// oddRows returns the rows of odd_rows.tsv in the folder that are of these tables; none where there is no such file.
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
			if short = !slices.Contains(record, "dtype"); short { // the element type and the time are in the shape
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

// parquetColumns are the columns of a table of the source as CSV has them.
var parquetColumns = map[string][][2]string{
	"gemm_perf.parquet": {{"gemm_dtype", "dtype"}, {"m", "m"}, {"n", "n"}, {"k", "k"}},
	"moe_perf.parquet": {{"moe_dtype", "dtype"}, {"num_tokens", "tokens"}, {"hidden_size", "hidden"}, {"inter_size", "inter"}, {"topk", "topk"}, {"num_experts", "experts"},
		{"moe_tp_size", "tp"}, {"moe_ep_size", "ep"}, {"distribution", "spread"}},
	"generation_attention_perf.parquet": {{"kv_cache_dtype", "kv_dtype"}, {"batch_size", "batch"}, {"isl", ""}, {"step", ""}, {"num_heads", "q_heads"},
		{"num_key_value_heads", "kv_heads"}, {"head_dim", "head_dim"}, {"window_size", "window"}, {"beam_width", ""}},
	"context_attention_perf.parquet": {{"kv_cache_dtype", "kv_dtype"}, {"batch_size", "batch"}, {"isl", "length"}, {"step", "prefix"}, {"num_heads", "q_heads"},
		{"num_key_value_heads", "kv_heads"}, {"head_dim", "head_dim"}, {"window_size", "window"}, {"beam_width", ""}},
}

// parquetText returns a table of the source as CSV with the columns and units of ours: microseconds, and contexts that count the new token.
func (p *Tables) parquetText(file string) (text string, err error) {
	defer func() { // the library checks little of what a file says of itself
		if fault := recover(); fault != nil {
			err = &input.Error{File: file, Err: fmt.Errorf("not Parquet: %v", fault)}
		}
	}()
	f, err := os.Open(file)
	if err != nil {
		return "", input.FileError(file, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", input.FileError(file, err)
	}
	table, err := parquet.OpenFile(f, info.Size(), parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true))
	if err != nil {
		return "", &input.Error{File: file, Err: fmt.Errorf("not Parquet: %w", err)}
	}
	at := map[string]int{}
	for i, c := range table.Schema().Columns() {
		at[strings.Join(c, ".")] = i
	}
	wanted := append(slices.Clone(parquetColumns[filepath.Base(file)]), [2]string{"kernel_source", "kernel"}, [2]string{"latency", "us"}, [2]string{"version", ""})
	var header []string
	for _, c := range wanted {
		if _, ok := at[c[0]]; !ok {
			return "", &input.Error{File: file, Key: columnsKey, Value: "without " + c[0], Expected: "the columns of AIConfigurator's " + filepath.Base(file)}
		}
		if c[1] != "" {
			header = append(header, c[1])
		}
	}
	decode := strings.HasPrefix(filepath.Base(file), "generation")
	if decode {
		header = append(header, "context")
	}
	var out strings.Builder
	w := csv.NewWriter(&out)
	w.Write(header)
	rows := parquet.NewReader(table)
	defer rows.Close()
	for n := 1; ; n++ {
		var batch [1]parquet.Row
		got, err := rows.ReadRows(batch[:])
		if got == 1 {
			record, err := p.parquetRow(file, n, batch[0], at, wanted, decode)
			if err != nil {
				return "", err
			}
			if record != nil {
				w.Write(record)
			}
		}
		if err == io.EOF {
			w.Flush()
			return out.String(), w.Error()
		}
		if err != nil {
			return "", &input.Error{File: file, Line: n, Err: err}
		}
	}
}

// publishedSpread names how rows of experts deal tokens to these.
var publishedSpread = map[string]string{"balanced": evenSpread, "power_law_1.2": skewedSpread}

// parquetRow returns a row as CSV, nil for one with several beams, or with loads of experts that the fits do not take.
func (p *Tables) parquetRow(file string, n int, row parquet.Row, at map[string]int, wanted [][2]string, decode bool) (record []string, err error) {
	value := func(column string) string {
		if i, ok := at[column]; ok {
			for _, v := range row {
				if v.Column() == i {
					return v.String()
				}
			}
		}
		return ""
	}
	if v := value("version"); v != p.Version {
		return nil, &input.Error{File: file, Line: n, Key: "version", Value: strconv.Quote(v), Expected: p.Version + " in all rows, as --version says"}
	}
	if b := value("beam_width"); b != "" && b != "1" {
		return nil, nil
	}
	if d := value("distribution"); d != "" && publishedSpread[d] == "" { // other exponents
		return nil, nil
	}
	for _, c := range wanted {
		switch v := value(c[0]); {
		case c[1] == "":
		case c[0] == "latency":
			ms, err := strconv.ParseFloat(v, 64)
			if err != nil {
				return nil, &input.Error{File: file, Line: n, Key: "latency", Value: v, Expected: "milliseconds"}
			}
			record = append(record, strconv.FormatFloat(ms*1e3, 'g', -1, 64))
		case c[0] == "distribution":
			record = append(record, publishedSpread[v])
		default:
			record = append(record, v)
		}
	}
	if decode {
		isl, err1 := strconv.Atoi(value("isl"))
		step, err2 := strconv.Atoi(value("step"))
		if err1 != nil || err2 != nil {
			return nil, &input.Error{File: file, Line: n, Key: "isl, step", Value: value("isl") + ", " + value("step"), Expected: "numbers of tokens"}
		}
		record = append(record, strconv.Itoa(isl+step))
	}
	return record, nil
}
