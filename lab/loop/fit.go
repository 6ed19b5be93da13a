package loop

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/optimize"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/pcie"
	"github.com/l3sim/l3sim/system/kinds"
	"github.com/l3sim/l3sim/units"
)

// evaluations bounds a fit: four parameters converge in about 150.
const evaluations = 300

// Fit returns assignments of the node's pcie.latency, wake, join (on several GPUs join_all_reduce) and
// kernel_share that minimise the mean error of every fifth judged row, with the measured GPU part. The
// simplex search starts at the node's own values.
func Fit(m *Measured, o configs.Options) (sets []string, err error) {
	r, j := &Report{}, judge{options: o, file: m.File, nodes: map[Case]*kinds.StandIn{}}
	if err := j.choose(m, r); err != nil {
		return nil, err
	}
	var rows []Predicted
	gpus := 0
	for i := range r.Rows {
		if r.Rows[i].Fitted {
			rows, gpus = append(rows, r.Rows[i]), max(gpus, r.Rows[i].GPUs)
		}
	}
	if len(rows) == 0 {
		return nil, nothingToFit(m.File)
	}
	first, err := j.node(rows[0].series)
	if err != nil {
		return nil, err
	}
	start := first.Link()
	join := &start.Join
	if gpus > 1 {
		join = &start.JoinAllReduce
	}
	us := func(t units.Duration) float64 { return t.Seconds() * 1e6 }
	of := func(x []float64) pcie.Spec {
		s := start
		d := func(v float64) units.Duration { return units.FromSeconds(math.Round(math.Abs(v)*1000) * 1e-9) }
		s.Latency, s.Wake, s.KernelShare = d(x[0]), d(x[1]), min(math.Abs(x[3])/100, 0.9)
		if gpus > 1 {
			s.JoinAllReduce = d(x[2])
		} else {
			s.Join = d(x[2])
		}
		return s
	}
	var failed error
	loss := func(x []float64) float64 {
		j.setLink(of(x))
		sum := 0.0
		for i := range rows {
			if err := j.row(&rows[i]); err != nil {
				failed = err
				return math.Inf(1)
			}
			sum += math.Abs(rows[i].Ratio - 1)
		}
		return sum / float64(len(rows))
	}
	x := []float64{us(start.Latency), us(start.Wake), us(*join), 100 * start.KernelShare}
	found, err := optimize.Minimize(optimize.Problem{Func: loss}, x, &optimize.Settings{FuncEvaluations: evaluations}, &optimize.NelderMead{SimplexSize: 2})
	if failed != nil {
		return nil, failed
	}
	if found == nil {
		return nil, err
	}
	s := of(found.X)
	sets = []string{"pcie.latency=" + s.Latency.String(), "pcie.wake=" + s.Wake.String(), "pcie.join=" + s.Join.String(),
		"pcie.join_all_reduce=" + s.JoinAllReduce.String(), fmt.Sprintf("pcie.kernel_share=%.4f", s.KernelShare)}
	return sets, nil
}
