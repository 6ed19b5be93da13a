package requests

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
	"github.com/l3sim/l3sim/units/portable"
)

// CalibrateSchema names the version of a calibration's JSON.
const CalibrateSchema = "l3sim/calibrate/1"

// Calibration is the constants of a server, fitted to the first requests of logs and judged on the others.
type Calibration struct {
	Schema    string          `json:"schema"`
	Share     float64         `json:"fitted_share"` // of each log's requests, the first to arrive
	Constants []Constant      `json:"constants"`
	Runs      int             `json:"runs"` // of the fit
	Logs      []CalibratedLog `json:"logs"`
}

// Constant is a fitted key.
type Constant struct {
	Key    string  `json:"key"`
	Before float64 `json:"before"` // in Unit
	After  float64 `json:"after"`
	Unit   string  `json:"unit"` // "us", or "" for a share
	most   float64
}

// constants are the keys that can be fitted: a server's host time, which no table of kernels has, and the memory that it gives to
// keys and values.
var constants = []Constant{
	{Key: "gpu.host.exposed", Unit: "us", most: 4000},
	{Key: "gpu.host.sequence", Unit: "us", most: 1000},
	{Key: "gpu.memory_share", Before: 0.9, most: 0.98},
}

// leastShare is the smallest share of the GPUs' memory that is tried.
const leastShare = 0.3

// CalibratedLog is the errors on a log's held-out requests.
type CalibratedLog struct {
	Log         string       `json:"log"`
	Model       string       `json:"model"`
	GPU         string       `json:"gpu"`
	Fitted      int          `json:"fitted_requests"`
	Held        int          `json:"held_out_requests"`
	Percentiles []Percentile `json:"percentiles"`
}

// Percentile is a percentile of a time over the held-out requests. Errors are simulated over measured, minus 1.
type Percentile struct {
	Time     string  `json:"time"` // "ttft", "tpot" or "e2e"
	Percent  int     `json:"percent"`
	Measured float64 `json:"measured_s"`
	Before   float64 `json:"error_before"`
	After    float64 `json:"error_after"`
}

// Calibrate fits constants to the first share of each log's requests. It minimises the mean of |log(simulated/measured)| over
// times to first token and times per output token. Each run has all requests of its log, since the held-out ones overlap with
// the others.
func Calibrate(ctx context.Context, logs []*Log, share float64, given configs.Options) (*Calibration, error) {
	if !(share >= 0.1 && share <= 0.9) {
		return nil, &input.Error{Key: "fit", Value: fmt.Sprint(share), Expected: "a share of each log's requests from 0.1 to 0.9; the others judge the fit"}
	}
	for _, l := range logs {
		if n := len(l.Requests); l.first(share) == n {
			return nil, &input.Error{File: l.File, Key: "requests", Value: fmt.Sprint(n), Expected: "at least two requests: some to fit to, the others to judge the fit"}
		}
	}
	c := &Calibration{Schema: CalibrateSchema, Share: share}
	for _, k := range constants {
		if k.Key != "gpu.memory_share" || !slices.ContainsFunc(logs, func(l *Log) bool { return l.Server != nil && l.Server.KV.Tokens > 0 }) {
			k.After = k.Before
			c.Constants = append(c.Constants, k)
		}
	}
	run := func() ([]*Report, float64, error) {
		with := given
		with.Sets = slices.Concat(c.sets(), given.Sets)
		var all []*Report
		loss, n := 0.0, 0
		for _, l := range logs {
			r, err := Judge(ctx, l, with)
			if err != nil {
				return nil, 0, err
			}
			c.Runs++
			all = append(all, r)
			for _, j := range r.Judged {
				if j.Measured.Arrival <= l.Requests[l.first(share)-1].Arrival {
					one, times := j.off()
					loss, n = loss+one, n+times
				}
			}
		}
		return all, loss / float64(max(n, 1)), nil
	}
	before, least, err := run()
	if err != nil {
		return nil, err
	}
	for range 2 { // the value of one constant affects that of the other
		for i := range c.Constants {
			if least, err = c.search(&c.Constants[i], least, run); err != nil {
				return nil, err
			}
		}
	}
	after, _, err := run()
	if err != nil {
		return nil, err
	}
	for i, l := range logs {
		c.Logs = append(c.Logs, l.held(share, before[i], after[i]))
	}
	return c, nil
}

// first returns how many of a log's requests are fitted to.
func (l *Log) first(share float64) int {
	return min(max(int(math.Round(share*float64(len(l.Requests)))), 1), len(l.Requests))
}

// off returns the sum of |log(simulated/measured)| over a request's times, and their number.
func (j *Judged) off() (sum float64, times int) {
	add := func(measured, simulated float64) {
		if measured > 0 && simulated > 0 {
			sum, times = sum+math.Abs(portable.Log(simulated/measured)), times+1
		}
	}
	add(j.Measured.TTFT, j.Simulated.TTFT)
	if j.Measured.Output > 1 {
		add(j.Measured.Latency-j.Measured.TTFT, j.Simulated.Latency-j.Simulated.TTFT)
	}
	return sum, times
}

// sets returns the constants as settings of the configuration.
func (c *Calibration) sets() (sets []string) {
	for _, k := range c.Constants {
		if k.After != k.Before {
			sets = append(sets, k.Key+"="+k.text())
		}
	}
	return sets
}

// text returns a constant as TOML.
func (k *Constant) text() string {
	if k.Unit == "" {
		return fmt.Sprintf("%.4g", k.After)
	}
	return fmt.Sprintf("%q", units.Duration(math.Round(k.After*10)*1e5).String()) // to a tenth of a microsecond
}

// search moves a constant to the least loss: over growing points, then between the neighbours of the best. It keeps the old
// value if nothing is better.
func (c *Calibration) search(k *Constant, least float64, run func() ([]*Report, float64, error)) (float64, error) {
	best := k.After
	try := func(value float64) error {
		k.After = value
		_, loss, err := run()
		if err == nil && loss < least {
			least, best = loss, value
		}
		return err
	}
	low, step := 0.0, k.most/64
	if k.Unit == "" {
		low, step = leastShare, (k.most-leastShare)/8
	}
	var points []float64
	for x := step; low+float64(x) <= k.most; x = nextPoint(x, step, k.Unit) {
		points = append(points, low+float64(x))
	}
	for _, x := range points {
		if err := try(x); err != nil && k.Unit != "" { // a share that holds no request is no candidate
			return least, err
		}
	}
	for width := max(step, best/3); width > k.most/4000; width /= 2 {
		middle := best
		for _, x := range []float64{middle - width, middle + width} {
			if x < low || x > k.most {
				continue
			}
			if err := try(x); err != nil && k.Unit != "" {
				return least, err
			}
		}
	}
	k.After = best
	return least, nil
}

// nextPoint doubles times, and adds a step to shares.
func nextPoint(x, step float64, unit string) float64 {
	if unit == "" {
		return x + step
	}
	return float64(2 * x)
}

// held returns percentiles over the held-out requests, by nearest rank.
func (l *Log) held(share float64, before, after *Report) CalibratedLog {
	n := l.first(share)
	out := CalibratedLog{Log: l.File, Model: after.Model, GPU: after.GPU, Fitted: n, Held: len(l.Requests) - n}
	last := l.Requests[n-1].Arrival
	for _, time := range []string{ttft, tpot, latency} {
		values := func(r *Report, of func(j *Judged) *Request) (all []float64) {
			for i := range r.Judged {
				if r.Judged[i].Measured.Arrival > last {
					if v, ok := of(&r.Judged[i]).time(time); ok {
						all = append(all, v)
					}
				}
			}
			return all
		}
		measured := values(after, func(j *Judged) *Request { return &j.Measured })
		was, is := values(before, func(j *Judged) *Request { return &j.Simulated }), values(after, func(j *Judged) *Request { return &j.Simulated })
		if len(measured) == 0 {
			continue
		}
		for _, percent := range []int{50, 90, 99} {
			q := float64(percent) / 100
			m := rank(measured, q)
			out.Percentiles = append(out.Percentiles, Percentile{time, percent, m, rank(was, q)/m - 1, rank(is, q)/m - 1})
		}
	}
	return out
}

// time returns one of a request's times, false if it has none.
func (r *Request) time(name string) (float64, bool) {
	switch name {
	case ttft:
		return r.TTFT, true
	case tpot:
		return (r.Latency - r.TTFT) / float64(max(r.Output-1, 1)), r.Output > 1
	}
	return r.Latency, true
}

// WriteText writes the constants, and a line for each percentile of each log.
func (c *Calibration) WriteText(w io.Writer) error {
	for _, k := range c.Constants {
		fmt.Fprintf(w, "%s: %.4g -> %.4g %s\n", k.Key, k.Before, k.After, k.Unit)
	}
	fmt.Fprintf(w, "fitted to the first %.0f%% of the requests in %d runs; errors below are of the others\n\n", 100*c.Share, c.Runs)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "model\trequests\ttime\tpercentile\tmeasured\terror before\tafter\t")
	for _, l := range c.Logs {
		for _, p := range l.Percentiles {
			fmt.Fprintf(t, "%s\t%d\t%s\tp%d\t%.4g s\t%+.1f%%\t%+.1f%%\t\n", l.Model, l.Held, strings.ToUpper(p.Time), p.Percent, p.Measured, 100*p.Before, 100*p.After)
		}
	}
	return t.Flush()
}

// WriteTOML writes the constants as a configuration for --config of run, capacity and plan.
func (c *Calibration) WriteTOML(w io.Writer) error {
	fmt.Fprintln(w, "# Fitted by l3lab calibrate. Errors of held-out requests are in its report.")
	for _, l := range c.Logs {
		fmt.Fprintf(w, "# %s: %s on %s, %d requests fitted, %d held out\n", l.Log, l.Model, l.GPU, l.Fitted, l.Held)
	}
	_, err := fmt.Fprintln(w)
	for _, k := range c.Constants {
		_, err = fmt.Fprintf(w, "%s = %s\n", k.Key, k.text())
	}
	return err
}
