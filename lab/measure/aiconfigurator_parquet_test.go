package measure

import (
	"encoding/csv"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/l3sim/l3sim/input"
)

// sourceTables are the tables in the form of AIConfigurator's collectors: their paths, the numeric and text columns of a CSV excerpt, and
// columns that are constant. The source may put a prefix before a CSV column's name.
var sourceTables = []struct {
	csv, parquet string
	columns      map[string]string // source column: CSV column
	same         map[string]any
}{
	{"h200_sglang/gemm.csv", "gemm/sglang/0.5.14/gemm_perf", map[string]string{"gemm_dtype": "dtype", "m": "m", "n": "n", "k": "k", "kernel_source": "sglang_+kernel"}, nil},
	{"h200_sglang/decode_attention.csv", "attention/sglang/0.5.14/generation_attention_perf", map[string]string{"kv_cache_dtype": "kv_dtype", "batch_size": "batch", "step": "context-1", "num_heads": "q_heads",
		"num_key_value_heads": "kv_heads", "head_dim": "head_dim", "window_size": "window", "kernel_source": "sglang_+kernel"}, map[string]any{"isl": 1, "beam_width": 1, "attn_dtype": "bfloat16"}},
	{"h200_sglang/prefill_attention.csv", "attention/sglang/0.5.14/context_attention_perf", map[string]string{"kv_cache_dtype": "kv_dtype", "attn_dtype": "attn_dtype", "batch_size": "batch", "isl": "length", "step": "prefix", "num_heads": "q_heads",
		"num_key_value_heads": "kv_heads", "head_dim": "head_dim", "window_size": "window", "kernel_source": "sglang_+kernel"}, map[string]any{"beam_width": 1}},
	{"h200_sglang/moe.csv", "moe/sglang/0.5.14/moe_perf", map[string]string{"moe_dtype": "dtype", "num_tokens": "tokens", "hidden_size": "hidden", "inter_size": "inter", "topk": "topk", "num_experts": "experts", "moe_tp_size": "tp",
		"moe_ep_size": "ep", "distribution": "spread", "kernel_source": "sglang_+kernel"}, nil},
	{"h200_sglang/mla_decode.csv", "mla/sglang/0.5.14/generation_mla_perf", map[string]string{"num_heads": "heads", "batch_size": "batch", "step": "context-1", "kv_cache_dtype": "kv_dtype"}, map[string]any{"isl": 1, "mla_dtype": "bfloat16", "tp_size": 1}},
	{"h200_sglang/mla_prefill.csv", "mla/sglang/0.5.14/context_mla_perf", map[string]string{"num_heads": "heads", "batch_size": "batch", "isl": "length", "kv_cache_dtype": "kv_dtype"}, map[string]any{"step": 0, "mla_dtype": "bfloat16", "tp_size": 1}},
	{"h200_sglang/mla_absorb.csv", "mla_bmm/sglang/0.5.14/mla_bmm_perf", map[string]string{"op_name": "op", "bmm_dtype": "dtype", "num_tokens": "tokens", "num_heads": "heads"}, nil},
	{"h200_sglang/sparse_mla.csv", "sparse_attention/sglang/0.5.14/glm5_dsa_attn_module_perf", map[string]string{"batch_size": "batch", "isl": "queries", "step": "prefix"}, map[string]any{"num_heads": 64, "version": kernelLevel}},
	{"h200_sglang/indexer_logits.csv", "sparse_attention/sglang/0.5.14/glm5_mqa_logits_module_perf", map[string]string{"batch_size": "batch", "isl": "queries", "step": "prefix"}, map[string]any{"num_heads": 64, "version": kernelLevel}},
	{"h200_sglang/indexer_logits_paged.csv", "sparse_attention/sglang/0.5.14/dsv4_paged_mqa_logits_module_perf", map[string]string{"batch_size": "batch", "isl": "queries", "step": "prefix", "compress_ratio": "compress"}, map[string]any{"num_heads": 64}},
	{"h200_sglang/indexer_topk.csv", "sparse_attention/sglang/0.5.14/glm5_topk_module_perf", map[string]string{"batch_size": "batch", "isl": "queries", "step": "prefix", "score_mode": "scores"}, map[string]any{"num_heads": 64}},
	{"h200_sglang/allreduce.csv", "comm/sglang/0.5.14/custom_allreduce_perf", map[string]string{"num_gpus": "gpus", "message_size": "elements", "allreduce_dtype": "dtype", "backend": "variant"}, map[string]any{"op_name": "all_reduce"}},
	{"h200_nccl/collectives.csv", "comm/nccl/2.29.2/nccl_perf", map[string]string{"op_name": "op", "num_gpus": "gpus", "message_size": "elements", "nccl_dtype": "dtype"}, map[string]any{"version": "2.29.2"}},
	{"h200_deepep/deepep_ll.csv", "comm/sglang/0.5.12/wideep_deepep_ll_perf", map[string]string{"node_num": "nodes", "hidden_size": "hidden", "num_token": "tokens", "num_topk": "topk", "num_experts": "experts",
		"dispatch_avg_t_us": "dispatch_us", "combine_avg_t_us": "combine_us"}, map[string]any{"version": "0.5.12"}},
}

// sourceRows are rows of a table of the source.
type sourceRows []map[string]any

// write writes a Parquet file with the columns of the first row, each of its first value's type, and all optional, as in the source.
func (rows sourceRows) write(t *testing.T, file string) {
	t.Helper()
	group := parquet.Group{}
	for name, v := range rows[0] {
		node := parquet.String()
		switch v.(type) {
		case int:
			node = parquet.Int(64)
		case float64:
			node = parquet.Leaf(parquet.DoubleType)
		}
		group[name] = parquet.Optional(node)
	}
	schema := parquet.NewSchema("schema", group)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	w := parquet.NewWriter(f, schema, parquet.Compression(&parquet.Zstd))
	for _, row := range rows {
		var values parquet.Row
		for i, c := range schema.Columns() {
			v := row[c[0]]
			if n, ok := v.(int); ok {
				v = int64(n)
			}
			if v == nil {
				values = append(values, parquet.NullValue().Level(0, 0, i))
			} else {
				values = append(values, parquet.ValueOf(v).Level(0, 1, i))
			}
		}
		if _, err := w.WriteRows([]parquet.Row{values}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// sourceRow converts a CSV row to the source's form.
func sourceRow(t *testing.T, of, record map[string]string, same map[string]any) map[string]any {
	t.Helper()
	row := map[string]any{"framework": "SGLang", "version": "0.5.14"}
	for name, v := range same {
		row[name] = v
	}
	number := func(text string) float64 {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if us, ok := record["us"]; ok {
		row["latency"] = number(us) / 1e3
	}
	for name, from := range of {
		prefix, column, ok := strings.Cut(from, "+")
		if !ok {
			prefix, column = "", from
		}
		column, decoded := strings.CutSuffix(column, "-1")
		text := record[column]
		n, err := strconv.Atoi(text)
		switch {
		case strings.HasSuffix(column, "_us"):
			row[name] = number(text)
		case decoded:
			row[name] = n - 1
		case err == nil:
			row[name] = n
		case text == skewedSpread:
			row[name] = "power_law_1.2"
		default:
			row[name] = prefix + text
		}
	}
	return row
}

// records returns the first rows of a CSV file by column.
func records(t *testing.T, file string, most int) (all []map[string]string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines[1:min(len(lines), 1+most)] {
		record := map[string]string{}
		for i, v := range line {
			record[lines[0][i]] = v
		}
		all = append(all, record)
	}
	return all
}

// TestParquetTables: each kind of table gives the same rows from CSV and from the source's Parquet.
func TestParquetTables(t *testing.T) {
	p := Tables{Folder: t.TempDir(), System: "h200_sxm", Framework: "sglang", Version: "0.5.14"}
	for _, table := range sourceTables {
		var rows sourceRows
		for _, record := range records(t, filepath.Join(publishedFolder, table.csv), 60) {
			rows = append(rows, sourceRow(t, table.columns, record, table.same))
		}
		file := filepath.Join(p.Folder, p.System, table.parquet+".parquet")
		rows.write(t, file)
		got, err := p.read(file)
		if err != nil {
			t.Fatal(err)
		}
		want, err := readFile(filepath.Join(publishedFolder, table.csv), nil)
		if err != nil {
			t.Fatal(err)
		}
		want = want[:slices.IndexFunc(append(want, Sample{Line: 62}), func(s Sample) bool { return s.Line > 61 })]
		if len(got) != len(want) || len(got) == 0 {
			t.Fatalf("%s: %d rows, as CSV %d", table.parquet, len(got), len(want))
		}
		for i := range got {
			if got[i].File != input.Name(file) || got[i].Line != want[i].Line-1 || got[i].Seconds/want[i].Seconds > 1+1e-12 || want[i].Seconds/got[i].Seconds > 1+1e-12 {
				t.Errorf("%s: %s:%d, %v s, as CSV line %d, %v s", table.parquet, got[i].File, got[i].Line, got[i].Seconds, want[i].Line, want[i].Seconds)
			}
			want[i].File, want[i].Line, want[i].Seconds = got[i].File, got[i].Line, got[i].Seconds
			if got[i] != want[i] {
				t.Fatalf("%s: %+v\nas CSV %+v", table.parquet, got[i], want[i])
			}
		}
	}
	// All tables are found, and the newest version of a library is named.
	older := filepath.Join(p.Folder, p.System, "comm/nccl/2.9.1/nccl_perf.parquet")
	if err := os.MkdirAll(filepath.Dir(older), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(older, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	all, left, err := p.Read()
	files := map[string]bool{}
	for i := range all {
		files[all[i].File] = true
	}
	if err != nil || len(files) != len(sourceTables) || !slices.Equal(left, []string{"nccl_perf.parquet: of version 2.29.2, the newest in the folder", "wideep_deepep_ll_perf.parquet: of version 0.5.12, the newest in the folder"}) {
		t.Errorf("%d files, %v, %v", len(files), left, err)
	}
}

// TestParquetRows: rows that are skipped, and rows that are refused.
func TestParquetRows(t *testing.T) {
	p := Tables{Folder: t.TempDir(), Framework: "sglang", Version: "1"}
	decode := map[string]any{"version": "1", "kv_cache_dtype": "fp8", "attn_dtype": "fp8", "batch_size": 4, "isl": 1, "step": 9, "num_heads": 8, "num_key_value_heads": 2, "head_dim": 128, "window_size": 0.0, "beam_width": 1, "kernel_source": "sglang_fa3", "latency": 2.0}
	experts := map[string]any{"version": "1", "moe_dtype": "fp8", "num_tokens": 2, "hidden_size": 64, "inter_size": 64, "topk": 1, "num_experts": 4, "moe_tp_size": 1, "moe_ep_size": 1, "distribution": "balanced", "kernel_source": "moe_torch_flow_min_latency", "latency": 2.0}
	chosen := map[string]any{"version": kernelLevel, "num_heads": 64, "batch_size": 1, "isl": 1, "step": 9, "latency": 2.0}
	prompt := map[string]any{"version": "1", "num_heads": 8, "batch_size": 1, "isl": 9, "step": 0, "kv_cache_dtype": "fp8", "latency": 2.0}
	reduce := map[string]any{"version": "1", "allreduce_dtype": wholeType, "num_gpus": 2, "message_size": 64, "implementation": "trtllm", "latency": 2.0}
	ring := map[string]any{"version": "2.1", "nccl_dtype": "half", "op_name": "all_gather", "num_gpus": 2, "message_size": 64, "latency": 2.0}
	with := func(row map[string]any, name string, v any) map[string]any {
		other := map[string]any{}
		for k, v := range row {
			other[k] = v
		}
		other[name] = v
		return other
	}
	for _, c := range []struct {
		table string
		rows  sourceRows
		lines []int // taken
		says  string
	}{
		{"generation_attention_perf", sourceRows{with(decode, "beam_width", 2), decode, with(decode, "kv_cache_dtype", wholeType)}, []int{2, 3}, ""},
		{"generation_attention_perf", sourceRows{decode, with(decode, "kv_cache_dtype", "int8")}, nil, `generation_attention_perf.parquet:2: kv_dtype = "int8": expected one of bfloat16, fp8`},
		{"generation_attention_perf", sourceRows{decode, with(decode, "step", nil)}, nil, `:2: step = "": expected a number of tokens`},
		{"generation_attention_perf", sourceRows{with(decode, "version", "2")}, nil, `:1: version = "2": expected 1 in all rows`},
		{"generation_attention_perf", sourceRows{with(decode, "window_size", 1.5)}, nil, `:1: window = "1.5"`},
		{"moe_perf", sourceRows{with(experts, "distribution", "power_law_1.01"), experts}, []int{2}, ""},
		{"moe_perf", sourceRows{with(experts, "moe_dtype", "w4afp8")}, nil, `:1: dtype = "w4afp8": expected one of `},
		{"moe_perf", sourceRows{with(experts, "latency", nil)}, nil, `:1: latency = "": expected milliseconds`},
		{"glm5_dsa_attn_module_perf", sourceRows{with(chosen, "num_heads", 128), chosen}, []int{2}, ""},
		{"context_mla_perf", sourceRows{with(prompt, "step", 64), prompt}, []int{2}, ""},
		{"custom_allreduce_perf", sourceRows{reduce}, []int{1}, ""},
		{"custom_allreduce_perf", sourceRows{{"version": "1", "allreduce_dtype": wholeType, "num_gpus": 2, "message_size": 64, "latency": 2.0}}, nil, "columns = without backend or implementation"},
		{"custom_allreduce_perf", sourceRows{{"version": "1", "num_gpus": 2, "message_size": 64, "backend": "a", "latency": 2.0}}, nil, "columns = without allreduce_dtype: expected the columns of AIConfigurator's custom_allreduce_perf.parquet"},
		{"nccl_perf", sourceRows{ring, ring}, []int{1, 2}, ""},
		{"nccl_perf", sourceRows{ring, with(ring, "version", "2.2")}, nil, `:2: version = "2.2": expected 2.1 in all rows`},
		{"nccl_perf", sourceRows{with(ring, "op_name", "broadcast")}, nil, `:1: op = "broadcast": expected one of all_gather`},
		{"mla_context_module_perf", sourceRows{ring}, nil, "mla_context_module_perf.parquet: expected a table that fits are made to"},
	} {
		file := filepath.Join(p.Folder, c.table+".parquet")
		c.rows.write(t, file)
		got, err := p.read(file)
		if c.says != "" {
			if !errors.As(err, new(*input.Error)) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, want %s", c.table, err, c.says)
			}
			continue
		}
		var lines []int
		for i := range got {
			lines = append(lines, got[i].Line)
		}
		if err != nil || !slices.Equal(lines, c.lines) {
			t.Errorf("%s: rows %v, %v, want %v", c.table, lines, err, c.lines)
		}
		if c.table == "moe_perf" && got[0].source != fewTokens {
			t.Errorf("TensorRT-LLM's kernel for few tokens is %s", got[0].source)
		}
	}
	pointer := filepath.Join(p.Folder, "gemm_perf.parquet")
	if err := os.WriteFile(pointer, []byte("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.read(pointer); err == nil || !strings.Contains(err.Error(), "git lfs pull") {
		t.Errorf("a pointer of Git LFS: %v", err)
	}
}
