package measure

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/llm"
)

// skewTable has decode attention of unequal contexts, alone and beside a prompt; it is missing if it was not profiled.
const skewTable = "skew.csv"

// iterationsKey is the line of MetaName with the number of runs of each kernel.
const iterationsKey = "measurement_iterations"

// skewColumns: of n contexts nb have kv_big tokens and the others kvs, beside a prompt of pc tokens after kp. t_skew_us is their time;
// t_mean_us and t_max_us are the times of n equal contexts, of mean and of maximal length.
var skewColumns = []string{"regime", "n", "nb", "ratio", "skew", "pc", "kp", "kvs", "kv_big", "kv_mean", "t_mean_us", "t_max_us", "t_skew_us", "alpha"}

// equalRow is a row's time for equal contexts of its longest length.
type equalRow struct {
	shape   attendShape
	seconds float64
	line    int
}

// attendShape is a kernel of a prompt and of equal contexts.
type attendShape struct{ chunk, finished, batch, context int }

// unequal adds the sample of a kernel of unequal contexts.
func (t *tableReader) unequal(r *row, s Sample) {
	const most = 1 << 24
	s.batch, s.context = r.integer("n", 2, 1<<16), r.integer("kv_big", 1, most)
	s.chunk, s.finished = r.integer("pc", 0, most), r.integer("kp", 0, most)
	long, short := r.integer("nb", 1, max(1, s.batch-1)), r.integer("kvs", 1, max(1, s.context))
	s.tokens = int64(long*s.context) + int64((s.batch-long)*short)
	s.Seconds = r.positive("t_skew_us") * 1e-6
	t.equal = append(t.equal, equalRow{attendShape{s.chunk, s.finished, s.batch, s.context}, r.positive("t_max_us") * 1e-6, r.line})
	if r.err == nil && s.chunk == 0 && s.finished > 0 {
		r.fail("kp", r.text("kp"), "0 where no prompt is")
	}
	t.attends(s)
}

// readSkew reads skewTable if it exists. Times there are sums over a kernel's runs (LLMServingSim's profiler 1.0.0, core/skew.py), while
// the other tables have means (core/categories.py). Rows of equal contexts that attention.csv has, too, must agree.
func readSkew(file string, m *llm.Model, iterations int, attention []Sample) ([]Sample, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, input.FileError(file, err)
	}
	defer f.Close()
	t, err := parseRows(file, skewTable, f, m)
	if err != nil {
		return nil, err
	}
	if iterations == 0 {
		return nil, &input.Error{File: file, Key: iterationsKey, Expected: "a line of " + MetaName + " with how many runs of a kernel a time is the sum"}
	}
	return t.meanOf(file, iterations, attention)
}

// meanOf divides the samples by the number of runs that they sum.
func (t *tableReader) meanOf(file string, iterations int, attention []Sample) ([]Sample, error) {
	query, _ := t.model.ShardHeads()
	known := map[attendShape]float64{}
	for i := range attention {
		if s := &attention[i]; s.heads.Query == query && (s.kind == Decode || s.op == mixedOp) && s.tokens == 0 {
			known[attendShape{s.chunk, s.finished, s.batch, s.context}] = s.Seconds
		}
	}
	var ratios []float64
	for _, e := range t.equal {
		if seconds := known[e.shape]; seconds > 0 {
			ratios = append(ratios, e.seconds/float64(iterations)/seconds)
		}
	}
	if slices.Sort(ratios); len(ratios) > 0 {
		if median := ratios[len(ratios)/2]; !(median > 0.8 && median < 1.25) {
			return nil, &input.Error{File: file, Key: "t_max_us", Value: fmt.Sprintf("%.2f times %s", median*float64(iterations), attendTable),
				Expected: fmt.Sprintf("%d times, the %s of %s", iterations, iterationsKey, MetaName)}
		}
	}
	for i := range t.samples {
		t.samples[i].Seconds /= float64(iterations)
	}
	return t.samples, nil
}
