package measure

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/lab/csvfile"
	"github.com/l3sim/l3sim/llm"
)

// MetaName is the file that describes LLMServingSim's tables.
const MetaName = "meta.yaml"

// The tables of a folder tpN.
const (
	denseTable    = "dense.csv"        // kernels by number of tokens in an iteration
	sequenceTable = "per_sequence.csv" // kernels by number of requests that emit a token
	attendTable   = "attention.csv"    // attention kernels by prompt and decoding requests
)

// tableLayers are the layers that tables may have, and whether they become samples. Layers that are left out take a
// thousandth of an iteration, or have no counterpart in a model here (qk_norm).
var tableLayers = map[string]bool{
	"qkv_proj": true, "o_proj": true, "gate_up_proj": true, "down_proj": true, "lm_head": true, "sampler": true,
	"layernorm": true, "rotary_emb": true, "act_fn": true,
	"embedding": false, "final_layernorm": false, "qk_norm": false,
}

// smallLayers are the small kernels of a model's layer, and the number of each.
var smallLayers = map[string]float64{"layernorm": 2, "rotary_emb": 1, "act_fn": 1}

// Card names the origin of tables.
type Card struct{ GPU, VLLM string }

func (c Card) String() string { return fmt.Sprintf("%s, vLLM %s", c.GPU, c.VLLM) }

// ReadTables reads LLMServingSim's tables of a model's kernels on one card: a folder with MetaName and folders tp1,
// tp2 and so on by number of GPUs. Errors in the files are of type *input.Error.
func ReadTables(folder string, models Models) ([]Sample, Card, error) {
	meta := filepath.Join(folder, MetaName)
	text, err := input.ReadFile(meta)
	if err != nil {
		return nil, Card{}, err
	}
	profile, err := parseMeta(meta, text)
	card, name := profile.Card, profile.model
	if err != nil {
		return nil, card, err
	}
	m, err := models(strings.ToLower(path.Base(name)))
	if err != nil {
		return nil, card, &input.Error{File: meta, Key: "model", Err: err}
	}
	if m.Experts > 0 {
		return nil, card, &input.Error{File: meta, Key: "model", Value: name, Expected: "a dense model: experts' kernels (moe.csv) are not read"}
	}
	paths, err := filepath.Glob(filepath.Join(folder, "tp*"))
	if err != nil || len(paths) == 0 {
		return nil, card, &input.Error{File: folder, Expected: "a folder tp1, or others of more GPUs, with " + denseTable}
	}
	var all []Sample
	for _, p := range paths {
		var gpus int
		if _, err := fmt.Sscanf(filepath.Base(p), "tp%d", &gpus); err != nil || !m.SplitsOver(gpus) {
			return nil, card, &input.Error{File: p, Expected: "tp and " + m.Splits()}
		}
		shard := *m
		shard.TensorParallel = gpus
		for _, table := range []string{denseTable, sequenceTable, attendTable} {
			samples, err := readTable(filepath.Join(p, table), table, &shard)
			if err != nil {
				return nil, card, err
			}
			all = append(all, samples...)
		}
		unequal, err := readSkew(filepath.Join(p, skewTable), &shard, profile.iterations, all)
		if err != nil {
			return nil, card, err
		}
		all = append(all, unequal...)
	}
	return all, card, nil
}

// Cold leaves out decode attention whose table rows may be too fast. The tables repeat a kernel on the same keys and values, some of which a
// cache keeps, up to twice its size, so that rows can be faster than the memory; in a server other layers come in between. Rows whose keys and
// values are at most a sixteenth of the cache stay, since latencies dominate their time.
func (t *Target) Cold(samples []Sample) []Sample {
	cache := float64(t.GPU.Alone.L2)
	return only(samples, func(s *Sample) bool {
		if s.kind != Decode && s.kind != FP8Decode {
			return true
		}
		bytes := t.GPU.DecodeAttentionCost(s.decoding(), s.heads).Bytes
		return bytes >= 2*cache || bytes <= cache/16
	})
}

// profile is the content of MetaName: hardware, model, and number of runs of each kernel.
type profile struct {
	Card
	model      string
	iterations int // 0 if not given
}

// parseMeta reads the top level of a YAML file.
func parseMeta(file string, text []byte) (p profile, err error) {
	var iterations string
	found := map[string]*string{"gpu": &p.GPU, "vllm_version": &p.VLLM, "model": &p.model, iterationsKey: &iterations}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		key, value, _ := strings.Cut(lines.Text(), ":")
		to := found[key]
		if to == nil {
			continue
		}
		if value = strings.Trim(strings.TrimSpace(value), `'"`); value == "" || *to != "" {
			return p, &input.Error{File: file, Line: n, Key: key, Value: fmt.Sprintf("%q", value), Expected: "one value"}
		}
		if *to = value; key == iterationsKey {
			if p.iterations, err = strconv.Atoi(value); err != nil || p.iterations < 1 || p.iterations > 1<<20 {
				return p, &input.Error{File: file, Line: n, Key: key, Value: value, Expected: "a whole number, 1 to 1048576"}
			}
		}
	}
	delete(found, iterationsKey)
	for _, key := range slices.Sorted(maps.Keys(found)) {
		if err := lines.Err(); err != nil {
			return p, &input.Error{File: file, Err: err}
		}
		if *found[key] == "" {
			return p, &input.Error{File: file, Key: key, Expected: "a line with it"}
		}
	}
	return p, nil
}

func readTable(file, table string, m *llm.Model) ([]Sample, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, input.FileError(file, err)
	}
	defer f.Close()
	return parseTable(file, table, f, m)
}

// parseTable reads the text of a table of a replica of m.
func parseTable(file, table string, text io.Reader, m *llm.Model) ([]Sample, error) {
	t, err := parseRows(file, table, text, m)
	if err != nil {
		return nil, err
	}
	return t.all()
}

func parseRows(file, table string, text io.Reader, m *llm.Model) (*tableReader, error) {
	want := map[string]string{
		denseTable: "layer,tokens,time_us", sequenceTable: "layer,sequences,time_us",
		attendTable: "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us", skewTable: strings.Join(skewColumns, ","),
	}[table]
	t := &tableReader{model: m, table: table, lines: map[string]int{}, small: map[int]*Sample{}}
	err := csvfile.EachRow(file, text, func(header []string) error {
		if got := strings.Join(header, ","); got != want {
			return &input.Error{File: file, Line: 1, Key: columnsKey, Value: got, Expected: want}
		}
		t.columns = map[string]int{}
		for i, c := range header {
			t.columns[c] = i
		}
		return nil
	}, func(line int, record []string) error {
		r := &row{name: file, line: line, columns: t.columns, fields: record}
		t.read(r)
		return r.err
	})
	if err != nil {
		return nil, err
	}
	if len(t.lines) == 0 {
		return nil, &input.Error{File: file, Expected: "at least one measurement after the header"}
	}
	return t, nil
}

// tableReader makes samples from the rows of a table.
type tableReader struct {
	model   *llm.Model
	table   string
	columns map[string]int
	lines   map[string]int  // lines of each kernel and size
	small   map[int]*Sample // small kernels of a layer, by tokens
	samples []Sample
	equal   []equalRow // equal contexts of the longest length, from rows of unequal ones
}

// sizes returns the number of leading columns that give a row's sizes.
func (t *tableReader) sizes() int {
	if t.table == skewTable {
		return len(skewColumns) - 4
	}
	return len(t.columns) - 1
}

func (t *tableReader) read(r *row) {
	key := strings.Join(r.fields[:t.sizes()], ",")
	if before := t.lines[key]; before > 0 {
		r.fail(strings.Join(r.fields[:1], ""), key, fmt.Sprintf("a row of its own; line %d has it", before))
		return
	}
	if t.lines[key] = r.line; len(t.lines) > maxSamples {
		r.fail("rows", fmt.Sprint(len(t.lines)), fmt.Sprintf("at most %d", maxSamples))
		return
	}
	s := Sample{File: r.name, Line: r.line, where: InGraph}
	if t.table == skewTable {
		t.unequal(r, s)
		return
	}
	if s.Seconds = r.positive("time_us") * 1e-6; t.table == attendTable {
		t.attention(r, s)
		return
	}
	layer, size := r.text("layer"), "tokens"
	if t.table == sequenceTable {
		size = "sequences"
	}
	s.m = r.integer(size, 1, 1<<20)
	used, known := tableLayers[layer]
	if !known {
		names := slices.Sorted(maps.Keys(tableLayers))
		r.err = &input.Error{File: r.name, Line: r.line, Key: "layer", Value: layer, Expected: "one of " + strings.Join(names, ", "), Nearest: input.Nearest(layer, names)}
		return
	}
	if used && r.err == nil {
		t.layer(layer, s)
	}
}

// layer adds the sample of a layer, or adds to the small kernels for the same number of tokens.
func (t *tableReader) layer(layer string, s Sample) {
	m, tp := t.model, t.model.TensorParallel
	query, kv := m.ShardHeads()
	s.kind = GEMM
	switch layer {
	case "qkv_proj":
		s.n, s.k = (query+2*kv)*m.HeadDim, m.Hidden
	case "o_proj":
		s.n, s.k = m.Hidden, query*m.HeadDim
	case "gate_up_proj":
		s.n, s.k = (m.FFNMatrices()-1)*m.FFNHidden/tp, m.Hidden
	case "down_proj":
		s.n, s.k = m.Hidden, m.FFNHidden/tp
	case "lm_head":
		s.n, s.k = m.Vocab/tp, m.Hidden
	case "sampler":
		s.kind, s.op, s.whole.model = Small, choiceOp, m
	default:
		s.kind, s.whole.model = Small, m
		s.Seconds = float64(s.Seconds * smallLayers[layer])
		if t.small[s.m] == nil {
			t.small[s.m] = &s
			s.n = 1
		} else {
			t.small[s.m].Seconds += s.Seconds
			t.small[s.m].n++
		}
		return
	}
	t.samples = append(t.samples, s)
}

// attention adds the sample of a kernel of a prompt, of decoding requests, or of both.
func (t *tableReader) attention(r *row, s Sample) {
	const most = 1 << 24
	s.chunk, s.finished = r.integer("prefill_chunk", 0, most), r.integer("kv_prefill", 0, most)
	s.batch, s.context = r.integer("n_decode", 0, 1<<16), r.integer("kv_decode", 0, most)
	if r.err == nil && ((s.batch > 0) != (s.context > 0) || s.chunk == 0 && (s.finished > 0 || s.batch == 0)) {
		r.fail("prefill_chunk", r.text("prefill_chunk"), "a chunk, decoding requests with keys, or both")
	}
	t.attends(s)
}

// attends adds a sample of attention: of a prompt, of decoding requests, or of both.
func (t *tableReader) attends(s Sample) {
	query, kv := t.model.ShardHeads()
	s.heads = gpu.Heads{Query: query, KV: kv, Dim: t.model.HeadDim, ElementBits: elementBits}
	switch s.kind = Prefill; {
	case s.chunk == 0:
		s.kind = Decode
	case s.batch > 0:
		s.op = mixedOp
	default:
		s.batch = 1
	}
	t.samples = append(t.samples, s)
}

// all returns the samples, those of small kernels last.
func (t *tableReader) all() ([]Sample, error) {
	for _, tokens := range slices.Sorted(maps.Keys(t.small)) {
		s := t.small[tokens]
		if s.n != len(smallLayers) {
			return nil, &input.Error{File: s.File, Line: s.Line, Key: "layer", Expected: fmt.Sprintf(
				"%s of %d tokens: %d of them are there", strings.Join(slices.Sorted(maps.Keys(smallLayers)), ", "), tokens, s.n)}
		}
		t.samples = append(t.samples, *s)
	}
	return t.samples, nil
}

// small returns the seconds of the small kernels of a layer, or of the choice of tokens.
func (t *Target) small(s *Sample) float64 {
	g := t.GPU
	g.Collective.Skew = 0 // measured on one GPU
	c := gpu.NewModelCost(&g, s.model)
	if s.op == choiceOp {
		_, _, exit := c.TaskParts(1, s.m)
		return exit[gpu.LMHead].Seconds - g.GEMMCost(s.m, s.model.Vocab/s.model.TensorParallel, s.model.Hidden, elementBits).Seconds
	}
	_, block, _ := c.TaskParts(s.m, 0)
	return block[gpu.SmallKernels].Seconds
}

// smallParameters are those of small kernels in a graph.
func smallParameters() []parameter {
	const inCache = 10 // share of the memory's bandwidth, for activations that the L2 holds
	spec := func(t *Target) *gpu.FusedSpec { return &t.GPU.Fused }
	return append(iterationParameters()[:2],
		number("fused.norm_memory_efficiency", lowEfficiency, 0.7, inCache, func(t *Target) *float64 { return &spec(t).Norm }),
		number("fused.activation_memory_efficiency", lowEfficiency, 0.5, inCache, func(t *Target) *float64 { return &spec(t).Activation }),
		number("fused.copy_memory_efficiency", lowEfficiency, 0.5, inCache, func(t *Target) *float64 { return &spec(t).Copy }))
}
