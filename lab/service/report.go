package service

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
)

// Schema names the version of Report's JSON.
const Schema = "l3sim/validate/1"

// Report is the simulator's errors.
type Report struct {
	Schema    string     `json:"schema"` // Schema
	Series    []Errors   `json:"series"`
	Overheads []Overhead `json:"overheads"`
	Skipped   []Skipped  `json:"skipped"`
	Rows      []Judged   `json:"-"` // in the order of the files and their lines
}

// Errors are those of a series over the held-out rows that fit in memory, as fractions: 0.1 is 10%.
// All are 0 if no row is left.
type Errors struct {
	Series
	Rows    int     `json:"rows"` // all of the series
	Fitted  int     `json:"fitted_rows"`
	HeldOut int     `json:"held_out_rows"`
	MAPE    float64 `json:"mape"`       // mean absolute
	Median  float64 `json:"median_ape"` // median absolute
	P90     float64 `json:"p90_ape"`    // 90th percentile (nearest rank) of the absolute
	Bias    float64 `json:"bias"`       // mean signed: positive if the simulator is too slow
	// Spill is the number of rows that do not fit in memory, by arithmetic or as their latency shows.
	// SpillCorrect is how many of them the memory model finds. SpillFalse is the number of rows that
	// fit, but not according to the memory model.
	Spill        int `json:"spill_rows"`
	SpillCorrect int `json:"spill_correct"`
	SpillFalse   int `json:"spill_false"`
	// TTFTMedian and TTFTP90 are errors of the time to first token of closed loops; else 0.
	TTFTMedian float64 `json:"ttft_median_ape"`
	TTFTP90    float64 `json:"ttft_p90_ape"`
}

// Judged is a row with its simulation.
type Judged struct {
	Row
	Spills    string  // evidence that it does not fit in memory: "arithmetic" or "latency", "" if it fits
	Queued    bool    // according to the memory model it does not fit
	Fitted    bool    // the overhead was fitted to it
	Simulated float64 // seconds without overhead, 0 if nothing fits
	Predicted float64 // seconds
	Steps     int64   // iterations
	// SimulatedTTFT is without overhead. PredictedTTFT is longer by the same factor as the loop's
	// iterations with overhead. Both are 0 in a static batch.
	SimulatedTTFT, PredictedTTFT float64
}

// Error returns predicted over measured, minus 1.
func (j *Judged) Error() float64 { return j.Predicted/j.Latency - 1 }

// Judge runs all rows and compares.
func Judge(ctx context.Context, m *Measured, o Options) (*Report, error) {
	runs, err := runAll(ctx, m, o)
	if err != nil {
		return nil, err
	}
	return report(m, runs), nil
}

// report fits the overheads and sums up.
func report(m *Measured, runs []run) *Report {
	r := &Report{Schema: Schema, Series: []Errors{}, Overheads: []Overhead{}, Skipped: append([]Skipped{}, m.Skipped...)}
	shows := spills(runs)
	for i := range runs {
		run := &runs[i]
		r.Rows = append(r.Rows, Judged{Row: *run.row, Spills: shows[i], Queued: run.queued || !run.ran, Simulated: run.seconds, SimulatedTTFT: run.ttft, Steps: run.steps})
	}
	for _, server := range r.groups(func(row *Row) Series { return Series{Framework: row.Framework, GPU: row.GPU} }) {
		var fit []int
		for _, i := range server {
			if shows[i] == fits && runs[i].ran {
				fit = append(fit, i)
			}
		}
		r.Overheads = append(r.Overheads, r.overhead(runs, server, deal(runs, fit)))
	}
	for _, series := range r.groups(func(row *Row) Series { return row.Series }) {
		r.Series = append(r.Series, r.errors(series))
	}
	return r
}

// groups returns the indices of rows with the same key.
func (r *Report) groups(key func(*Row) Series) [][]int {
	var keys []Series
	rows := map[Series][]int{}
	for i := range r.Rows {
		k := key(&r.Rows[i].Row)
		if rows[k] == nil {
			keys = append(keys, k)
		}
		rows[k] = append(rows[k], i)
	}
	slices.SortFunc(keys, func(a, b Series) int {
		return cmp.Or(strings.Compare(a.GPU, b.GPU), strings.Compare(a.Framework, b.Framework), strings.Compare(a.Model, b.Model), cmp.Compare(a.GPUs, b.GPUs))
	})
	groups := make([][]int, len(keys))
	for i, k := range keys {
		groups[i] = rows[k]
	}
	return groups
}

// overhead fits the overhead of one framework and GPU, and predicts its rows with it.
func (r *Report) overhead(runs []run, rows, fitted []int) Overhead {
	first := &r.Rows[rows[0]]
	o := Overhead{Framework: first.Framework, GPU: first.GPU, Fitted: len(fitted)}
	o.PerStep, o.PerToken = fit(runs, fitted)
	for _, i := range fitted {
		r.Rows[i].Fitted = true
	}
	for _, i := range rows {
		j := &r.Rows[i]
		j.Predicted = runs[i].seconds + o.seconds(&runs[i])
		if j.Simulated > 0 {
			j.PredictedTTFT = j.SimulatedTTFT * j.Predicted / j.Simulated
		}
	}
	return o
}

func (r *Report) errors(rows []int) Errors {
	e := Errors{Series: r.Rows[rows[0]].Series, Rows: len(rows)}
	var absolute, ttft []float64
	for _, i := range rows {
		switch j := &r.Rows[i]; {
		case j.Spills != fits:
			e.Spill++
			if j.Queued {
				e.SpillCorrect++
			}
		default:
			if j.Queued {
				e.SpillFalse++
			}
			if j.Fitted {
				e.Fitted++
				continue
			}
			if j.TTFT > 0 {
				ttft = append(ttft, math.Abs(j.PredictedTTFT/j.TTFT-1))
			}
			absolute = append(absolute, math.Abs(j.Error()))
			e.Bias += j.Error()
		}
	}
	if e.HeldOut = len(absolute); e.HeldOut == 0 {
		return e
	}
	n := float64(e.HeldOut)
	slices.Sort(absolute)
	slices.Sort(ttft)
	for _, a := range absolute {
		e.MAPE += a
	}
	e.MAPE, e.Bias, e.Median, e.P90 = e.MAPE/n, e.Bias/n, rank(absolute, 0.5), rank(absolute, 0.9)
	e.TTFTMedian, e.TTFTP90 = rank(ttft, 0.5), rank(ttft, 0.9)
	return e
}

// rank returns the quantile q > 0 of values in ascending order, by nearest rank; 0 of an empty slice.
func rank(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(math.Ceil(q*float64(len(sorted))))-1]
}
