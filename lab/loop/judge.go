package loop

import (
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/stat"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pcie"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/kinds"
	"github.com/l3sim/l3sim/units"
)

// Errors summarises predicted over measured, minus one, as fractions.
type Errors struct {
	Rows       int     `json:"rows"`
	MAPE       float64 `json:"mape"`        // mean of the absolute
	P90        float64 `json:"p90_ape"`     // 90th percentile of the absolute (nearest rank)
	Bias       float64 `json:"bias"`        // mean, signed
	JoulesBias float64 `json:"joules_bias"` // mean, signed, of joules
	// JoulesError is the standard error of JoulesBias from the rows' scatter, which is large since the
	// coarse counter is read over a third of a second. 0 for a single row.
	JoulesError float64 `json:"joules_standard_error"`
}

// SeriesErrors is the errors of one series.
type SeriesErrors struct {
	Case
	Errors
}

// Whole is the errors over all judged rows of a file, either with or without chunks.
type Whole struct {
	Chunks bool `json:"chunks"`
	Errors
}

// LeftOut is a series that is not judged, and why.
type LeftOut struct {
	Case
	Why string `json:"why"`
}

// Predicted is a row with its prediction.
type Predicted struct {
	Case
	Line     int     `json:"line"`
	PIM      float64 `json:"pim_us"`
	MS       float64 `json:"ms"`
	WithGPU  float64 `json:"predicted_ms"`            // with the measured GPU part
	Own      float64 `json:"predicted_own_ms"`        // with the preset's kernels
	Ratio    float64 `json:"predicted_over_measured"` // of WithGPU
	Joules   float64 `json:"joules"`
	WithGPUJ float64 `json:"predicted_joules"`
	OwnJ     float64 `json:"predicted_own_joules"`
	Fitted   bool    `json:"fitted"` // the link's parameters were fitted to it
	series   *Series
}

// Report is the result of Judge.
type Report struct {
	Schema  string         `json:"schema"`
	File    string         `json:"file"`
	Node    string         `json:"node"`
	Series  []SeriesErrors `json:"series"`      // with the measured GPU part
	Own     []SeriesErrors `json:"own_kernels"` // with the preset's kernels
	All     []Whole        `json:"all"`         // over the series, with the measured GPU part
	OwnAll  []Whole        `json:"all_own_kernels"`
	HeldOut []Whole        `json:"held_out"` // the same, over rows to which nothing is fitted
	Left    []LeftOut      `json:"left_out"`
	Rows    []Predicted    `json:"rows"` // of the judged series
}

// Judge runs every row of m through the dataflow of l3 on the node of the options.
func Judge(m *Measured, o configs.Options) (*Report, error) {
	r := &Report{Schema: "l3sim/validate-loop/1", File: m.File, Node: o.Preset, Left: []LeftOut{}, Series: []SeriesErrors{}, Own: []SeriesErrors{}, Rows: []Predicted{}}
	j := judge{options: o, file: m.File, nodes: map[Case]*kinds.StandIn{}}
	if err := j.choose(m, r); err != nil {
		return nil, err
	}
	if err := j.predict(r); err != nil {
		return nil, err
	}
	for i := 0; i < len(r.Rows); {
		k := i
		for k < len(r.Rows) && r.Rows[k].Case == r.Rows[i].Case {
			k++
		}
		rows, c := r.Rows[i:k], r.Rows[i].Case
		r.Series = append(r.Series, SeriesErrors{c, summarise(rows, withGPU, withGPUJoules)})
		r.Own = append(r.Own, SeriesErrors{c, summarise(rows, ownKernels, ownJoules)})
		i = k
	}
	held := slices.DeleteFunc(slices.Clone(r.Rows), func(p Predicted) bool { return p.Fitted })
	for _, chunks := range []bool{false, true} {
		r.All = append(r.All, whole(r.Rows, chunks, withGPU, withGPUJoules))
		r.OwnAll = append(r.OwnAll, whole(r.Rows, chunks, ownKernels, ownJoules))
		r.HeldOut = append(r.HeldOut, whole(held, chunks, withGPU, withGPUJoules))
	}
	return r, nil
}

// isFitted says whether the link's parameters may be fitted to the n-th judged row: every fifth.
func isFitted(n int) bool { return n%5 == 2 }

// fault returns why a series is not judged, "" if it is.
func (s *Series) fault(layers int) string {
	if s.StandIn != Host && s.Chunk > 0 && s.Chunk < 2048 {
		return "prompts' products fill every SM, so that the stand-in's own kernels wait for them"
	}
	if s.SubBatches < 2 {
		return ""
	}
	at := func(is func(Row) bool) *Row {
		if i := slices.IndexFunc(s.Rows, is); i >= 0 {
			return &s.Rows[i]
		}
		return nil
	}
	zero, waits := at(func(r Row) bool { return r.PIM == 0 }), at(func(r Row) bool { return r.PIM == 100 })
	if waits == nil { // a file without 100 us: its first wait
		waits = at(func(r Row) bool { return r.PIM > 0 })
	}
	if zero == nil || waits == nil {
		return ""
	}
	grows := waits.MS-zero.MS > float64(layers)*waits.PIM/1e3/2
	if hides := float64(zero.MS/2)+float64(float64(layers)*waits.Alone/1e3) < zero.MS; grows && hides {
		return "both sub-batches shared a hardware channel and ran one after the other"
	}
	return ""
}

// judge predicts rows, with one node for each model, number of GPUs and number of sub-batches.
type judge struct {
	options configs.Options
	file    string // of the measurements
	nodes   map[Case]*kinds.StandIn
}

// node returns the node of a case. It is one replica whose memory channels carry more than the links, as the host's
// did, and whose sub-batches keep their ranksets, as each had its own stand-in.
func (j *judge) node(s *Series) (*kinds.StandIn, error) {
	key := Case{Model: s.Model, GPUs: s.GPUs, SubBatches: s.SubBatches}
	if n := j.nodes[key]; n != nil {
		return n, nil
	}
	o := j.options
	o.SectionsOnly = true
	line := s.Rows[0].Line
	number := func(key string, n int) configs.Flag { return configs.Flag{Name: key, Key: key, Value: strconv.Itoa(n)} }
	o.Flags = append(slices.Clone(o.Flags), configs.Flag{Name: "model", Key: "run.model", Value: s.Model}, number("model.tensor_parallel", s.GPUs), number("node.gpus", s.GPUs),
		number("node.channels", 8), number("scheduler.sub_batches", s.SubBatches), configs.Flag{Name: "rotation", Key: "comm.rotation", Value: "false"})
	cfg, err := kinds.Loader().Load(o)
	if err != nil {
		return nil, input.Edit(err, func(bad *input.Error) {
			if bad.Key == "run.model" {
				bad.File, bad.Line, bad.Key = j.file, line, "model"
			}
		})
	}
	n, err := kinds.StandInOf(cfg)
	if err == nil {
		j.nodes[key] = n
	}
	return n, err
}

// batch returns the batch of an iteration of a series. Each sub-batch has its own rankset, and its
// prompt another: copies of prompts stop no stand-in.
func (s *Series) batch() *scheduler.Batch {
	b := &scheduler.Batch{Step: 1, Sub: make([]scheduler.SubBatch, s.SubBatches)}
	for i := range b.Sub {
		for range s.Batch {
			b.Sub[i].Decode = append(b.Sub[i].Decode, scheduler.Decoding{Offset: int32(i), Base: 1, Last: 2, Prompt: 1})
		}
		if s.Chunk > 0 {
			b.Sub[i].Prefill = []scheduler.Chunk{{Offset: int32(i + 2), Tokens: s.Chunk, Finished: s.Finished, Last: true}}
		}
	}
	return b
}

// choose adds the judged rows, and the series left out, to a report.
func (j *judge) choose(m *Measured, r *Report) error {
	for i := range m.Series {
		s := &m.Series[i]
		n, err := j.node(s)
		if err != nil {
			return err
		}
		if why := s.fault(n.Model.Layers); why != "" {
			r.Left = append(r.Left, LeftOut{s.Case, why})
			continue
		}
		for k := range s.Rows {
			row := &s.Rows[k]
			r.Rows = append(r.Rows, Predicted{Case: s.Case, Line: row.Line, PIM: row.PIM, MS: row.MS, Joules: row.Joules, Fitted: isFitted(len(r.Rows)), series: s})
		}
	}
	return nil
}

// predict sets the predictions of a report's rows.
func (j *judge) predict(r *Report) error {
	for i := range r.Rows {
		if err := j.row(&r.Rows[i]); err != nil {
			return err
		}
	}
	return nil
}

func (j *judge) row(p *Predicted) error {
	n, err := j.node(p.series)
	if err != nil {
		return err
	}
	b, attention := p.series.batch(), units.FromSeconds(p.PIM*1e-6)
	gpu := n.GPUTime(b).Seconds() * 1e3
	run := func(scale float64) (ms, joules float64, err error) {
		took, busy, err := n.Iteration(b, attention, scale)
		ms = float64(took.Seconds() * 1e3)
		return ms, float64(busy*scale) + float64(max(0, ms-float64(gpu*scale))/1e3*n.IdleWatts()), err
	}
	if p.Own, p.OwnJ, err = run(1); err == nil {
		p.WithGPU, p.WithGPUJ, err = run(p.series.GPU.MS / gpu)
	}
	p.Ratio = p.WithGPU / p.MS
	return err
}

func withGPU(p *Predicted) float64       { return p.WithGPU }
func ownKernels(p *Predicted) float64    { return p.Own }
func withGPUJoules(p *Predicted) float64 { return p.WithGPUJ }
func ownJoules(p *Predicted) float64     { return p.OwnJ }

// whole summarises the rows with chunks, or those without.
func whole(rows []Predicted, chunks bool, of, joules func(*Predicted) float64) Whole {
	rows = slices.DeleteFunc(slices.Clone(rows), func(p Predicted) bool { return (p.Chunk > 0) != chunks })
	return Whole{chunks, summarise(rows, of, joules)}
}

func summarise(rows []Predicted, of, joules func(*Predicted) float64) (e Errors) {
	e.Rows = len(rows)
	if e.Rows == 0 {
		return e
	}
	var absolute, energy []float64
	for i := range rows {
		p := &rows[i]
		x := of(p)/p.MS - 1
		absolute = append(absolute, math.Abs(x))
		e.MAPE += math.Abs(x) / float64(e.Rows)
		e.Bias += x / float64(e.Rows)
		if p.Joules > 0 {
			energy = append(energy, joules(p)/p.Joules-1)
		}
	}
	slices.Sort(absolute)
	e.P90 = stat.Quantile(0.9, stat.Empirical, absolute, nil)
	if len(energy) > 0 {
		e.JoulesBias = stat.Mean(energy, nil)
	}
	if len(energy) > 1 {
		e.JoulesError = stat.StdErr(stat.StdDev(energy, nil), float64(len(energy)))
	}
	return e
}

// setLink replaces the links of all nodes.
func (j *judge) setLink(link pcie.Spec) {
	for _, n := range j.nodes {
		n.SetLink(link)
	}
}
