package whole

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/units"
)

// HostFit is the host time of a framework's steps, fitted to the rows of closed loops.
type HostFit struct {
	Framework    string
	Groups, Rows int
	All          gpu.HostSpec // fitted to all groups
	Half         gpu.HostSpec // fitted to every second group, in the order of the report
	// Median errors over groups, without host time and with All; then over the groups held out of Half, without host time and with it.
	Without, With, HeldOutWithout, HeldOut float64
}

// NoHost are the settings of runs for FitHosts.
var NoHost = []string{`gpu.host.exposed="0ps"`, `gpu.host.step="0ps"`, `gpu.host.sequence="0ps"`}

// FitHosts fits the host time of each framework to a report of runs without any. A token of a closed loop takes one iteration, so the host
// time of a row is that of an iteration with all seats.
func FitHosts(r *Report) []HostFit {
	var all []HostFit
	groups := map[string][][]*Compared{}
	for i := range r.Groups {
		g, rows := &r.Groups[i], []*Compared(nil)
		for k := range r.All {
			if c := &r.All[k]; g.Metric == TPOT && c.Judged && c.Metric == TPOT && c.Model == g.Model && c.GPU == g.GPU && c.Parallelism == g.Parallelism && c.Framework == g.Framework {
				rows = append(rows, c)
			}
		}
		if len(rows) > 0 {
			groups[g.Framework] = append(groups[g.Framework], rows)
		}
	}
	for _, name := range sortedKeys(groups) {
		of, f := groups[name], HostFit{Framework: name, Groups: len(groups[name])}
		var seen, held [][]*Compared
		for i, rows := range of {
			f.Rows += len(rows)
			if i%2 == 0 {
				seen = append(seen, rows)
			} else {
				held = append(held, rows)
			}
		}
		f.All, f.Half = fitHost(of), fitHost(seen)
		f.Without, f.With = medianError(of, gpu.HostSpec{}), medianError(of, f.All)
		if len(held) > 0 {
			f.HeldOutWithout, f.HeldOut = medianError(held, gpu.HostSpec{}), medianError(held, f.Half)
		}
		all = append(all, f)
	}
	return all
}

// hosted returns a row's relative error with host time.
func (c *Compared) hosted(h *gpu.HostSpec) float64 {
	took := units.Duration(c.Predicted * float64(units.Millisecond))
	return (c.Predicted+float64(h.Visible(took, c.Seats).Seconds()*1e3))/c.Measured - 1
}

func medianError(groups [][]*Compared, h gpu.HostSpec) float64 {
	var medians []float64
	for _, rows := range groups {
		var absolute []float64
		for _, c := range rows {
			absolute = append(absolute, math.Abs(c.hosted(&h)))
		}
		medians = append(medians, quantile(absolute, 0.5))
	}
	return quantile(medians, 0.5)
}

// fitHost returns the host time that minimises the sum over groups of the mean absolute error; in the first power, outliers do not distort
// it. It searches a grid with as many digits as such rows support. Of equal sums the smallest host time wins.
func fitHost(groups [][]*Compared) gpu.HostSpec {
	const us = units.Microsecond
	best, least := gpu.HostSpec{}, math.Inf(1)
	for step := 0 * us; step <= 30_000*us; step += 1000 * us {
		for sequence := 0 * us; sequence <= 400*us; sequence += 20 * us {
			for exposed := 0 * us; exposed <= 6000*us; exposed += 200 * us {
				h := gpu.HostSpec{Exposed: exposed, Step: step, Sequence: sequence}
				sum := 0.0
				for _, rows := range groups {
					of := 0.0
					for _, c := range rows {
						of += math.Abs(c.hosted(&h))
					}
					sum += of / float64(len(rows))
				}
				if sum < least-1e-9 {
					best, least = h, sum
				}
			}
		}
	}
	return best
}

// WriteHosts writes host times as text.
func WriteHosts(w io.Writer, fits []HostFit) error {
	var b strings.Builder
	for _, f := range fits {
		fmt.Fprintf(&b, "%s, %d groups of %d rows: exposed = %q, step = %q, sequence = %q: median %.0f%% over groups, %.0f%% without; fitted to every second group: %q, %q, %q, the others %.0f%%, %.0f%% without\n",
			f.Framework, f.Groups, f.Rows, f.All.Exposed, f.All.Step, f.All.Sequence, 100*f.With, 100*f.Without, f.Half.Exposed, f.Half.Step, f.Half.Sequence, 100*f.HeldOut, 100*f.HeldOutWithout)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
