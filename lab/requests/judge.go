package requests

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// Schema names the version of a report's JSON.
const Schema = "l3sim/validate-requests/1"

// Report is the difference of a run from a log.
type Report struct {
	Schema   string   `json:"schema"`
	Log      string   `json:"log"`
	GPU      string   `json:"gpu"`
	GPUs     int      `json:"gpus"`
	Model    string   `json:"model"`
	Requests int      `json:"requests"`
	Metrics  []Metric `json:"metrics"`
	Judged   []Judged `json:"-"`
}

// Metric is the errors of one time of requests: simulated over measured, minus 1. Those of the queue, which may be 0,
// are in seconds. Without requests all are 0.
type Metric struct {
	Name      string  `json:"name"`
	Unit      string  `json:"unit"` // of the errors: "ratio" or "s"
	Requests  int     `json:"requests"`
	Median    float64 `json:"median"` // of |error|, by nearest rank like the next
	P90       float64 `json:"p90"`
	Bias      float64 `json:"bias"`       // mean error, positive if the simulator is too slow
	Worst     float64 `json:"worst"`      // the error farthest from 0
	Measured  float64 `json:"measured_s"` // medians
	Simulated float64 `json:"simulated_s"`
	pairs     []pair
}

type pair struct{ measured, simulated float64 }

// The names of metrics.
const (
	ttft, tpot, latency, queue = "ttft", "tpot", "e2e", "queue"
)

// Judged is a request with its simulated times.
type Judged struct {
	Measured, Simulated Request
}

// Judge runs a log's requests at their times on a server with the log's settings, overridden by the given ones.
func Judge(ctx context.Context, log *Log, given configs.Options) (*Report, error) {
	cfg, err := log.load(given)
	if err != nil {
		return nil, err
	}
	node, err := system.NewNode(cfg)
	if err != nil {
		return nil, err
	}
	trace := &traces.Trace{Name: log.File}
	for i, r := range log.Requests {
		trace.Requests = append(trace.Requests, traces.Request{ID: i, Arrival: units.Duration(math.Round(r.Arrival * 1e12)), Input: r.Input, Output: r.Output})
	}
	if trace, err = trace.Arrive(cfg.Arrivals, cfg.Run.Seed); err != nil {
		return nil, err
	}
	result, err := node.Run(ctx, trace, system.Options{})
	if err != nil {
		return nil, err
	}
	report := &Report{Schema: Schema, Log: log.File, GPU: cfg.GPU.Name, GPUs: cfg.Model.TensorParallel, Model: cfg.Model.Name, Requests: len(log.Requests)}
	for _, r := range result.Requests {
		m := log.Requests[r.Request.ID]
		if r.Rejected() {
			return nil, &input.Error{File: log.File, Line: m.Line, Expected: "a request that fits the memory of the server; the run refused it: " + r.Outcome.String()}
		}
		since := func(t units.Duration) float64 { return (t - r.Request.Arrival).Seconds() }
		report.Judged = append(report.Judged, Judged{m, Request{Line: m.Line, Input: m.Input, Output: m.Output, Arrival: m.Arrival,
			Queue: since(r.Start), TTFT: since(r.FirstToken), Latency: since(r.Finish)}})
	}
	report.sum()
	return report, nil
}

// sum fills the metrics.
func (r *Report) sum() {
	all := []Metric{{Name: ttft, Unit: "ratio"}, {Name: tpot, Unit: "ratio"}, {Name: latency, Unit: "ratio"}, {Name: queue, Unit: "s"}}
	for i := range r.Judged {
		m, s := &r.Judged[i].Measured, &r.Judged[i].Simulated
		all[0].add(m.TTFT, s.TTFT)
		if m.Output > 1 {
			gaps := float64(m.Output - 1)
			all[1].add((m.Latency-m.TTFT)/gaps, (s.Latency-s.TTFT)/gaps)
		}
		all[2].add(m.Latency, s.Latency)
		if m.Queue >= 0 {
			all[3].add(m.Queue, s.Queue)
		}
	}
	for i := range all {
		all[i].sum()
	}
	r.Metrics = all
}

func (m *Metric) add(measured, simulated float64) {
	m.pairs = append(m.pairs, pair{measured, simulated})
}

func (m *Metric) sum() {
	m.Requests = len(m.pairs)
	if m.Requests == 0 {
		return
	}
	var off, measured, simulated []float64
	for _, p := range m.pairs {
		e := p.simulated - p.measured
		if m.Unit == "ratio" {
			e /= p.measured
		}
		m.Bias += e / float64(m.Requests)
		if math.Abs(e) > math.Abs(m.Worst) {
			m.Worst = e
		}
		off, measured, simulated = append(off, math.Abs(e)), append(measured, p.measured), append(simulated, p.simulated)
	}
	m.Median, m.P90 = rank(off, 0.5), rank(off, 0.9)
	m.Measured, m.Simulated = rank(measured, 0.5), rank(simulated, 0.5)
}

// rank returns the quantile q of values, at least one, by nearest rank. It sorts them.
func rank(values []float64, q float64) float64 {
	slices.Sort(values)
	return stat.Quantile(q, stat.Empirical, values, nil)
}
