package predict

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/scheduler"
)

// pimFeatures is the number of features of equation 5: sum of contexts, number of
// decoding requests, prompt tokens of the other sub-batch.
const pimFeatures = 3

// pimRow is an observation of decode attention: features and time.
type pimRow struct {
	x [pimFeatures]float64
	y float64
}

// ring keeps the last rows.
type ring struct {
	rows []pimRow
	next int
}

// add replaces the oldest row once the ring is full.
func (r *ring) add(row pimRow) {
	if len(r.rows) < cap(r.rows) {
		r.rows = append(r.rows, row)
		return
	}
	r.rows[r.next] = row
	r.next = (r.next + 1) % len(r.rows)
}

// latencyLine predicts a time by ordinary least squares on the features of
// equation 5 and a constant.
type latencyLine struct {
	// Sub-batches whose PIM time includes moving prompts have half of the window. They are rare in
	// long phases of decoding: a common window would lose all of them, and with them the cost of
	// moving.
	moving, still ring
	when          schedule
	low, high     [pimFeatures]float64 // range of the data of the last fit
	constant      float64
	slope         [pimFeatures]float64
	ready         bool
}

// newLatencyLine keeps rows with and without moved prompts in separate windows, so neither
// displaces the other.
func newLatencyLine(spec *scheduler.PredictorSpec) *latencyLine {
	half := (spec.Window + 1) / 2
	return &latencyLine{
		moving: ring{rows: make([]pimRow, 0, half)}, still: ring{rows: make([]pimRow, 0, half)},
		when: schedule{every: spec.RefitEvery},
	}
}

// observe adds a row, and asks for a refit if it lies beyond the fitted rows.
func (m *latencyLine) observe(row pimRow) {
	if row.x[2] > 0 {
		m.moving.add(row)
	} else {
		m.still.add(row)
	}
	m.when.observed(true)
	if m.ready {
		for j, v := range row.x {
			m.when.beyond = m.when.beyond || outside(v, m.low[j], m.high[j])
		}
	}
}

func (m *latencyLine) size() int { return len(m.moving.rows) + len(m.still.rows) }

// fit solves the least squares by singular values, on columns of mean 0 and standard
// deviation 1. Features that the data cannot tell apart share their effect evenly: it
// takes the solution of least norm. A feature that never changed gets slope 0.
func (m *latencyLine) fit() error {
	rows := append(append(make([]pimRow, 0, m.size()), m.moving.rows...), m.still.rows...)
	m.when.fitted(len(rows))
	n := float64(len(rows))
	var mean, deviation [pimFeatures]float64
	m.low, m.high = rows[0].x, rows[0].x
	meanY := 0.0
	for i := range rows {
		meanY += rows[i].y / n
		for j, v := range rows[i].x {
			mean[j] += v / n
			m.low[j], m.high[j] = min(m.low[j], v), max(m.high[j], v)
		}
	}
	for i := range rows {
		for j, v := range rows[i].x {
			deviation[j] += float64((v - mean[j]) * (v - mean[j]))
		}
	}
	a, b := mat.NewDense(len(rows), pimFeatures, nil), mat.NewVecDense(len(rows), nil)
	for j := range deviation {
		if deviation[j] = math.Sqrt(deviation[j] / n); m.low[j] == m.high[j] {
			deviation[j] = math.Inf(1) // a constant column becomes 0
		}
	}
	for i := range rows {
		for j, v := range rows[i].x {
			a.Set(i, j, (v-mean[j])/deviation[j])
		}
		b.SetVec(i, rows[i].y-meanY)
	}
	solution, err := leastSquares(a, b)
	if err != nil {
		return err
	}
	m.constant, m.ready = meanY, true
	for j := range m.slope {
		m.slope[j] = solution.AtVec(j) / deviation[j]
		m.constant -= float64(m.slope[j] * mean[j])
	}
	return nil
}

// leastSquares returns the solution of least norm of a·x = b. Singular values below 1e-9
// of the largest count as 0.
func leastSquares(a *mat.Dense, b *mat.VecDense) (*mat.VecDense, error) {
	_, columns := a.Dims()
	x := mat.NewVecDense(columns, nil)
	var svd mat.SVD
	if !svd.Factorize(a, mat.SVDThin) {
		return nil, input.Errorf("predictor: no singular values of the profile of the PIM's times")
	}
	if rank := svd.Rank(1e-9); rank > 0 {
		svd.SolveVecTo(x, b, rank)
	}
	return x, nil
}

// predict returns the time of a row, never less than 0.
func (m *latencyLine) predict(x [pimFeatures]float64) float64 {
	t := m.constant
	for j, v := range x {
		t += float64(m.slope[j] * v)
	}
	return max(0, t)
}
