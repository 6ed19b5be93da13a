package measure

import (
	"encoding/csv"
	"errors"
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

// parquetColumn is a column of a table of the source, and its name as CSV has it. from may name two columns that are added ("isl+step"),
// or two of which a table has one ("backend|implementation"). A name that begins with = keeps the rows with that value alone.
type parquetColumn struct{ from, to string }

// attentionColumns are the columns of tables of grouped attention, behind those of the lengths.
func attentionColumns(lengths ...parquetColumn) []parquetColumn {
	return append(lengths, parquetColumn{"attn_dtype", "attn_dtype"}, parquetColumn{"kv_cache_dtype", "kv_dtype"}, parquetColumn{"batch_size", "batch"}, parquetColumn{"num_heads", "q_heads"},
		parquetColumn{"num_key_value_heads", "kv_heads"}, parquetColumn{"head_dim", "head_dim"}, parquetColumn{"window_size", "window"}, parquetColumn{"beam_width", "=1"}, kernelColumn, timeColumn)
}

// queryColumns are the columns of tables of kernels that work on queries of a context, behind one of their own if they have it.
func queryColumns(own ...parquetColumn) []parquetColumn {
	return append(own, parquetColumn{"batch_size", "batch"}, parquetColumn{"isl", "queries"}, parquetColumn{"step", "prefix"}, timeColumn)
}

var (
	kernelColumn = parquetColumn{"kernel_source", "kernel"} // by which fits choose; other tables tell of one kernel each
	timeColumn   = parquetColumn{"latency", "us"}
)

// parquetColumns are the columns of each table that is read, by its name as CSV.
var parquetColumns = map[string][]parquetColumn{
	"gemm.csv": {{"gemm_dtype", "dtype"}, {"m", "m"}, {"n", "n"}, {"k", "k"}, kernelColumn, timeColumn},
	"moe.csv": {{"moe_dtype", "dtype"}, {"num_tokens", "tokens"}, {"hidden_size", "hidden"}, {"inter_size", "inter"}, {"topk", "topk"}, {"num_experts", "experts"},
		{"moe_tp_size", "tp"}, {"moe_ep_size", "ep"}, {"distribution", "spread"}, kernelColumn, timeColumn},
	"decode_attention.csv":     attentionColumns(parquetColumn{"isl+step", "context"}),
	"prefill_attention.csv":    attentionColumns(parquetColumn{"isl", "length"}, parquetColumn{"step", "prefix"}),
	"mla_decode.csv":           {{"num_heads", "heads"}, {"batch_size", "batch"}, {"isl+step", "context"}, {"kv_cache_dtype", "kv_dtype"}, timeColumn},
	"mla_prefill.csv":          {{"num_heads", "heads"}, {"batch_size", "batch"}, {"isl", "length"}, {"step", "=0"}, {"kv_cache_dtype", "kv_dtype"}, timeColumn},
	"mla_absorb.csv":           {{"op_name", "op"}, {"bmm_dtype", "dtype"}, {"num_tokens", "tokens"}, {"num_heads", "heads"}, timeColumn},
	"sparse_mla.csv":           queryColumns(parquetColumn{"num_heads", "=" + strconv.Itoa(chosenHeads)}),
	"indexer_logits.csv":       queryColumns(),
	"indexer_logits_paged.csv": queryColumns(parquetColumn{"compress_ratio", "compress"}),
	"indexer_topk.csv":         queryColumns(parquetColumn{"score_mode", "scores"}),
	"allreduce.csv":            {{"num_gpus", "gpus"}, {"message_size", "elements"}, {"allreduce_dtype", "dtype"}, {"backend|implementation", "variant"}, timeColumn},
	"collectives.csv":          {{"op_name", "op"}, {"num_gpus", "gpus"}, {"message_size", "elements"}, {"nccl_dtype", "dtype"}, timeColumn},
	"deepep_ll.csv": {{"node_num", "nodes"}, {"hidden_size", "hidden"}, {"num_token", "tokens"}, {"num_topk", "topk"}, {"num_experts", "experts"},
		{"dispatch_avg_t_us", "dispatch_us"}, {"combine_avg_t_us", "combine_us"}},
}

// parquetTable returns the table of a Parquet file by its name, and whether it is a library's, which has a version of its own.
func parquetTable(file string) (t publishedTable, library, known bool) {
	named := func(t publishedTable) bool { return t.parquet == filepath.Base(file) }
	frameworks := slices.Concat(publishedTables, moreTables)
	if i := slices.IndexFunc(frameworks, named); i >= 0 {
		return frameworks[i], false, true
	}
	for _, l := range librariesOf("") {
		if named(l.publishedTable) {
			return l.publishedTable, true, true
		}
	}
	return publishedTable{}, false, false
}

// readParquet reads a table of the source: as CSV with our columns and units, which is read as such a file is. Lines are rows.
func (p *Tables) readParquet(file string) ([]Sample, error) {
	t, library, known := parquetTable(file)
	if !known {
		return nil, &input.Error{File: file, Expected: "a table that fits are made to: " + publishedTables[0].parquet + " and others"}
	}
	reader := parquetReader{file: file, columns: slices.Clone(parquetColumns[t.csv])}
	if !library {
		reader.version = p.Version
	}
	text, err := reader.all()
	if err != nil {
		return nil, err
	}
	samples, err := parse(t.csv, strings.NewReader(text), nil)
	for i := range samples {
		samples[i].File = input.Name(file)
		samples[i].Line--
	}
	if e := (*input.Error)(nil); errors.As(err, &e) {
		e.File = input.Name(file)
		e.Line = max(0, e.Line-1)
	}
	return samples, err
}

// all returns the table as CSV: a line for each row, empty for one that is not taken.
func (r *parquetReader) all() (text string, err error) {
	defer func() { // the library checks little of what a file says of itself
		if fault := recover(); fault != nil {
			err = &input.Error{File: r.file, Err: fmt.Errorf("not Parquet: %v", fault)}
		}
	}()
	f, err := os.Open(r.file)
	if err != nil {
		return "", input.FileError(r.file, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", input.FileError(r.file, err)
	}
	var head [16]byte
	if n, _ := f.ReadAt(head[:], 0); strings.HasPrefix(string(head[:n]), "version https:/") {
		return "", &input.Error{File: r.file, Expected: "a Parquet file; this is a pointer to one in Git LFS: git lfs pull fetches it"}
	}
	table, err := parquet.OpenFile(f, info.Size(), parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true))
	if err != nil {
		return "", &input.Error{File: r.file, Err: fmt.Errorf("not Parquet: %w", err)}
	}
	r.at = map[string]int{}
	for i, c := range table.Schema().Columns() {
		r.at[strings.Join(c, ".")] = i
	}
	var out strings.Builder
	w := csv.NewWriter(&out)
	header, err := r.header()
	if err != nil {
		return "", err
	}
	w.Write(header)
	rows := parquet.NewReader(table)
	defer rows.Close()
	for n := 1; ; n++ {
		var batch [1]parquet.Row
		got, err := rows.ReadRows(batch[:])
		if got == 1 {
			record, err := r.record(n, batch[0])
			if err != nil {
				return "", err
			}
			w.Write(record)
		}
		if err == io.EOF {
			w.Flush()
			return out.String(), w.Error()
		}
		if err != nil {
			return "", &input.Error{File: r.file, Line: n, Err: err}
		}
	}
}

// parquetReader turns rows of a table into records of CSV.
type parquetReader struct {
	file    string
	at      map[string]int // columns' indices
	columns []parquetColumn
	version string // of all rows; "": as the first row has it
	row     parquet.Row
}

// kernelLevel is the version in tables of kernels that were timed outside of the framework.
const kernelLevel = "kernel-level"

// header checks that all columns are there, and returns the names of those of CSV.
func (r *parquetReader) header() (names []string, err error) {
	for i, c := range r.columns {
		for _, name := range strings.Split(c.from, "|") {
			if _, ok := r.at[name]; ok {
				r.columns[i].from = name
			}
		}
	}
	for _, c := range append(slices.Clone(r.columns), parquetColumn{"version", "="}) {
		for _, name := range strings.Split(c.from, "+") {
			if _, ok := r.at[name]; !ok {
				return nil, &input.Error{File: r.file, Key: columnsKey, Value: "without " + strings.ReplaceAll(name, "|", " or "), Expected: "the columns of AIConfigurator's " + filepath.Base(r.file)}
			}
		}
		if !strings.HasPrefix(c.to, "=") {
			names = append(names, c.to)
		}
	}
	return names, nil
}

// value returns a column of the row as text, "" for none. Tables have numbers that are whole as floating-point ones where some rows lack them.
func (r *parquetReader) value(column string) string {
	for _, v := range r.row {
		if v.Column() != r.at[column] || v.IsNull() {
			continue
		}
		if v.Kind() == parquet.Double && v.Double() == float64(int64(v.Double())) {
			return strconv.FormatInt(int64(v.Double()), 10)
		}
		return v.String()
	}
	return ""
}

// publishedSpread has our names of how a table's row spreads tokens over the experts.
var publishedSpread = map[string]string{"balanced": evenSpread, "power_law_1.2": skewedSpread}

// record returns row n as CSV, nil for one that is not taken: with several beams, another number of heads, or loads of experts that the
// fits do not take.
func (r *parquetReader) record(n int, row parquet.Row) (record []string, err error) {
	r.row = row
	switch v := r.value("version"); {
	case r.version == "":
		r.version = v
	case v != r.version && v != kernelLevel:
		return nil, &input.Error{File: r.file, Line: n, Key: "version", Value: strconv.Quote(v), Expected: r.version + " in all rows"}
	}
	for _, c := range r.columns {
		text, err := r.text(n, c)
		if err != nil {
			return nil, err
		}
		wanted, filter := strings.CutPrefix(c.to, "=")
		switch {
		case filter && text != wanted, c.to == "spread" && text == "": // other exponents
			return nil, nil
		case !filter:
			record = append(record, text)
		}
	}
	return record, nil
}

// text returns what CSV has of a column.
func (r *parquetReader) text(n int, c parquetColumn) (string, error) {
	v := r.value(c.from)
	switch {
	case c.from == "latency":
		ms, err := strconv.ParseFloat(v, 64)
		if err != nil {
			return "", &input.Error{File: r.file, Line: n, Key: "latency", Value: strconv.Quote(v), Expected: "milliseconds"}
		}
		return strconv.FormatFloat(ms*1e3, 'g', -1, 64), nil
	case c.from == "distribution":
		return publishedSpread[v], nil
	case c.from == "kernel_source": // less the framework, as CSV has it
		for _, framework := range append(slices.Clone(Frameworks), "moe_torch_flow") {
			if short, ok := strings.CutPrefix(v, framework+"_"); ok {
				return short, nil
			}
		}
		return v, nil
	case strings.Contains(c.from, "+"):
		sum := 0
		for _, name := range strings.Split(c.from, "+") {
			tokens, err := strconv.Atoi(r.value(name))
			if err != nil {
				return "", &input.Error{File: r.file, Line: n, Key: name, Value: strconv.Quote(r.value(name)), Expected: "a number of tokens"}
			}
			sum += tokens
		}
		return strconv.Itoa(sum), nil
	}
	return v, nil
}
