package measure

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/lab/csvfile"
	"github.com/l3sim/l3sim/units"
)

// layouts are the columns by which a file's kind is known. Further columns are ignored.
var layouts = []struct {
	kind    Kind
	columns string
}{
	{GEMM, "m,n,k,us"},
	{GEMM, "dtype,m,n,k,us"},
	{AllReduce, "gpus,elements,dtype,variant,us"},
	{AllGather, "op,gpus,elements,dtype,us"},
	{Dispatch, "nodes,hidden,tokens,topk,experts,dispatch_us,combine_us"},
	{LatentLayer, "model,gemm,kv_dtype,heads,batch,context,us"},
	{LatentLayer, "model,gemm,kv_dtype,heads,batch,prefix,length,us"},
	{LatentDecode, "heads,batch,context,kv_dtype,us"},
	{LatentPrefill, "heads,batch,length,kv_dtype,us"},
	{LatentAbsorb, "op,dtype,tokens,heads,us"},
	{IndexStepScores, "batch,queries,prefix,compress,us"},
	{TopK, "batch,queries,prefix,scores,us"},
	{SparseLatent, "batch,queries,prefix,us"},
	{Experts, "dtype,tokens,hidden,inter,topk,experts,tp,ep,spread,us"},
	{GEMM, "m,n,k,graph_us"},
	{PageSparse, "op,batch,context,q_heads,kv_heads,head_dim,page,pages,us"},
	{Decode, "batch,longest,sum_context,q_heads,kv_heads,head_dim,fixed_us,balanced_us"},
	{Decode, "kv_dtype,batch,context,q_heads,kv_heads,head_dim,us"},
	{Decode, "batch,context,q_heads,kv_heads,head_dim,us"},
	{Decode, "batch,context,q_heads,kv_heads,head_dim,graph_us"},
	{Prefill, "kv_dtype,batch,length,q_heads,kv_heads,head_dim,us"},
	{Prefill, "batch,length,q_heads,kv_heads,head_dim,us"},
	{Prefill, "chunk,finished,q_heads,kv_heads,head_dim,us"},
	{Prefill, "batch,length,q_heads,kv_heads,head_dim,graph_us"},
	{Extend, "chunk,finished,q_heads,kv_heads,head_dim,graph_us,unsplit_us"},
	{Prefill, "chunk,finished,q_heads,kv_heads,head_dim,graph_us"},
	{AllReduce, "gpus,bytes,us"},
	{PCIe, "direction,bytes,us"},
	{Elementwise, "op,m,d,us"},
	{DecodeIteration, "model,tp,kind,batch,context,chunk,finished,ms"},
	{Power, "op,detail,seconds,joules,bytes"},
	{Power, "busy_us,seconds,joules,iterations"},
}

// allReduceMethods are the methods that a file may name.
var allReduceMethods = []string{"nccl", "one_shot", "two_shot"}

// unmasked marks prefill attention over finished tokens that was measured without a causal mask,
// which PyTorch's cuDNN kernels lack there.
const unmasked = "unmasked"

// Files of attention of short chunks over long caches have times with the best number of parts of
// the keys, and with one part.
const split, unsplit = "split", "unsplit"

const maxSamples = 1_000_000 // largest number of measurements in a file, to bound the time of a fit

// elementwiseOps are the kernels that an elementwise file may name.
var elementwiseOps = []string{"layernorm", "add", "gelu", "copy"}

// Read reads the measurements of a CSV file, or of the CSV files of a folder in the order of their
// names, except those of other kinds. Errors in the files are of type *input.Error.
func Read(path string, models Models) ([]Sample, error) {
	return ReadTelling(path, models, func(*input.Error) {})
}

// ReadTelling is Read, and calls skipped with each file of a folder that is left out. At least one
// file of a folder must remain.
func ReadTelling(path string, models Models, skipped func(*input.Error)) ([]Sample, error) {
	paths, folder := []string{path}, false
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		folder = true
		if paths, err = csvfile.Files(path); err != nil {
			return nil, err
		}
	}
	var all []Sample
	for _, p := range paths {
		samples, err := readFile(p, models)
		if other, ok := err.(*input.Error); ok && folder && other.Key == columnsKey {
			skipped(other)
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, samples...)
	}
	if len(all) == 0 {
		return nil, &input.Error{File: path, Expected: "a .csv file of measurements: none has their columns"}
	}
	return all, nil
}

func readFile(path string, models Models) ([]Sample, error) {
	f, err := input.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parse(input.Name(path), f, models)
}

func parse(name string, text io.Reader, models Models) ([]Sample, error) {
	var kind Kind
	var samples []Sample
	columns := map[string]int{}
	err := csvfile.EachRow(name, text, func(header []string) (err error) {
		for i, c := range header {
			columns[c] = i
		}
		kind, err = kindOf(name, columns)
		return err
	}, func(line int, record []string) error {
		row := row{name: name, line: line, columns: columns, fields: record}
		more := row.samples(kind, models)
		if row.err == nil && len(samples) == maxSamples {
			return &input.Error{File: name, Line: line, Expected: fmt.Sprintf("at most %d measurements", maxSamples)}
		}
		samples = append(samples, more...)
		return row.err
	})
	if err == nil && len(samples) == 0 {
		err = &input.Error{File: name, Expected: "at least one measurement after the header"}
	}
	return samples, err
}

const columnsKey = "columns" // the key of the error for a file whose columns match no kind

func kindOf(name string, columns map[string]int) (Kind, error) {
	var expected []string
	for _, l := range layouts {
		missing := false
		for _, c := range strings.Split(l.columns, ",") {
			_, ok := columns[c]
			missing = missing || !ok
		}
		if !missing {
			if l.kind == SparseLatent && strings.HasPrefix(filepath.Base(name), "indexer") { // these files have the same columns
				return IndexScores, nil
			}
			return l.kind, nil
		}
		expected = append(expected, l.columns)
	}
	return "", &input.Error{File: name, Line: 1, Key: columnsKey, Expected: strings.Join(expected, " or ")}
}

// row is one line being read; err is its first error.
type row struct {
	name    string
	line    int
	columns map[string]int
	fields  []string
	err     error
}

// fail keeps a row's first error.
func (r *row) fail(column, value, expected string) {
	if r.err == nil {
		r.err = &input.Error{File: r.name, Line: r.line, Key: column, Value: strconv.Quote(value), Expected: expected}
	}
}

func (r *row) has(column string) bool { _, ok := r.columns[column]; return ok }

func (r *row) text(column string) string { return strings.TrimSpace(r.fields[r.columns[column]]) }

func (r *row) integer(column string, low, high int) int {
	n, err := strconv.Atoi(r.text(column))
	if err != nil || n < low || n > high {
		r.fail(column, r.text(column), "a whole number from "+strconv.Itoa(low)+" to "+strconv.Itoa(high))
	}
	return n
}

const maxSize = 1 << 40 // largest size: products of three stay within a float64

func (r *row) samples(kind Kind, models Models) []Sample {
	var s Sample
	switch {
	case kind == DecodeIteration:
		return r.iteration(models)
	case kind == LatentLayer:
		return r.layer(models)
	case kind == Power && r.has("op"):
		s = r.energy()
	case kind == Power:
		s = r.duty()
	default:
		return r.kernel(kind)
	}
	s.File, s.Line = r.name, r.line
	return []Sample{s}
}

// kernel reads a row of a file of kernels: one sample, or its conditions in a graph.
func (r *row) kernel(kind Kind) []Sample {
	s := Sample{kind: kind, File: r.name, Line: r.line}
	switch kind {
	case GEMM:
		s.m, s.n, s.k = r.integer("m", 1, maxSize), r.integer("n", 1, maxSize), r.integer("k", 1, maxSize)
		r.format(&s)
	case Decode:
		if r.has("sum_context") {
			return r.unequal(s)
		}
		s.batch, s.context = r.integer("batch", 1, 1<<20), r.integer("context", 1, maxSize)
		s.heads = r.heads()
		r.format(&s)
	case Prefill:
		s.batch = 1
		if r.has("batch") {
			s.batch = r.integer("batch", 1, 1<<20)
		}
		if r.has("chunk") {
			s.chunk, s.finished = r.integer("chunk", 1, maxSize), r.integer("finished", 0, maxSize)
		} else {
			s.chunk = r.integer("length", 1, maxSize)
		}
		s.heads = r.heads()
		if s.finished > 0 && r.has("chunk") {
			s.op = unmasked
		}
	case Extend:
		s.chunk, s.finished, s.heads, s.where = r.integer("chunk", 1, maxSize), r.integer("finished", 0, maxSize), r.heads(), InGraph
		whole := s
		s.op, s.Seconds = split, r.positive("graph_us")*1e-6
		if whole.op, whole.Seconds = unsplit, r.positive("unsplit_us")*1e-6; whole.Seconds == s.Seconds {
			return []Sample{whole} // splitting was no better, or was not tried
		}
		return []Sample{s, whole}
	case PageSparse:
		r.pageSparse(&s)
	case AllGather:
		r.collectiveRow(&s)
	case IndexScores, IndexStepScores, TopK:
		if !r.indexRow(&s) {
			return nil
		}
	case Dispatch:
		return r.exchangeRows(s)
	case AllReduce:
		if r.has("variant") {
			if !r.allReduceRow(&s) {
				return nil
			}
			break
		}
		s.gpus, s.bytes = r.integer("gpus", 2, 1<<16), units.Bytes(r.integer("bytes", 1, maxSize))
		if r.has("method") {
			if s.op, s.where = r.text("method"), InGraph; !slices.Contains(allReduceMethods, s.op) {
				r.fail("method", s.op, "one of "+strings.Join(allReduceMethods, ", "))
			}
		}
	case Experts:
		r.moe(&s)
	case LatentDecode, LatentPrefill, LatentAbsorb, SparseLatent:
		r.latentRow(&s)
	case PCIe:
		s.bytes = units.Bytes(r.integer("bytes", 1, maxSize))
		if s.op = r.text("direction"); s.op != "h2d" && s.op != "d2h" {
			r.fail("direction", s.op, "h2d or d2h")
		}
	case Elementwise:
		s.m, s.n = r.integer("m", 1, maxSize), r.integer("d", 1, maxSize)
		s.op = r.text("op")
		if input.Nearest(s.op, elementwiseOps) != s.op || s.op == "" {
			r.fail("op", s.op, "one of "+strings.Join(elementwiseOps, ", "))
		}
	}
	if (r.has("dtype") || r.has("kv_dtype")) && kind != Experts && !s.single() {
		r.publish(&s)
	}
	if r.has("us") {
		s.Seconds = r.positive("us") * 1e-6
		return []Sample{s}
	}
	burst, sustained := s, s
	burst.where, burst.Seconds = InGraph, r.positive("graph_us")*1e-6
	if !r.has("sustained_us") {
		return []Sample{burst}
	}
	sustained.where, sustained.Seconds = Sustained, r.positive("sustained_us")*1e-6
	return []Sample{burst, sustained}
}

// unequal reads decode attention of unequal contexts: one sample for each way of splitting.
func (r *row) unequal(s Sample) []Sample {
	s.batch, s.context, s.heads, s.where = r.integer("batch", 1, 1<<20), r.integer("longest", 1, maxSize), r.heads(), InGraph
	s.tokens = int64(r.integer("sum_context", s.batch, maxSize))
	if longest := int64(s.context); r.err == nil && (s.tokens > int64(s.batch)*longest || s.tokens < longest) {
		r.fail("sum_context", r.text("sum_context"), "at least longest, and at most batch times that")
	}
	fixed, balanced := s, s
	fixed.op, fixed.Seconds = string(gpu.SplitFixed), r.positive("fixed_us")*1e-6
	balanced.op, balanced.Seconds = string(gpu.SplitBalanced), r.positive("balanced_us")*1e-6
	return []Sample{fixed, balanced}
}

// positive reads a measured number. Below a thousandth it is no measurement, and errors would
// overflow.
func (r *row) positive(column string) float64 { return r.number(column, 1e-3, 1e15) }

func (r *row) number(column string, low, high float64) float64 {
	v, err := strconv.ParseFloat(r.text(column), 64)
	if err != nil || !(v >= low && v <= high) {
		r.fail(column, r.text(column), fmt.Sprintf("a number, %v to %v", low, high))
	}
	return v
}

func (r *row) heads() gpu.Heads {
	h := gpu.Heads{
		Query: r.integer("q_heads", 1, 1<<16), KV: r.integer("kv_heads", 1, 1<<16),
		Dim: r.integer("head_dim", 1, 1<<16), ElementBits: elementBits,
	}
	if r.err == nil && h.Query%h.KV != 0 {
		r.fail("kv_heads", r.text("kv_heads"), "a divisor of q_heads")
	}
	return h
}
