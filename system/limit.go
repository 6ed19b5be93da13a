package system

import (
	"fmt"
	"math"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/system/dataflow"
	"github.com/l3sim/l3sim/units"
)

// longestTask is what a kernel or a transfer of one layer can take: 75 minutes.
// Costs are cut to it, so that a sum of a few does not overflow, and an iteration
// that has such a cost is an error.
const longestTask = dataflow.Longest

// taskTime turns seconds into the time of a task, at most longestTask.
func taskTime(seconds float64) units.Duration { return min(units.FromSeconds(seconds), longestTask) }

// transferTime returns the time of a transfer.
func transferTime(b units.Bandwidth, n units.Bytes) units.Duration {
	return min(b.TransferTime(n), longestTask)
}

// inTime returns an error where an iteration that starts at start may end beyond the
// range of units.Duration: tasks is the most tasks and waits that it has, each no longer than largest.
func (d *gpuSide) inTime(start, largest units.Duration, tasks int64) error {
	if largest < longestTask && float64(largest)*float64(tasks) < min(1<<62, float64(math.MaxInt64-start)) {
		return nil
	}
	return d.tooLong(start, largest)
}

// tooLong blames the first hardware key that the user changed, and the load where
// that is none.
func (d *gpuSide) tooLong(start, largest units.Duration) error {
	why := fmt.Sprintf("at %.1f days the next iteration may not end in time", start.Seconds()/86400)
	if largest >= longestTask {
		why = "a kernel or a transfer of one layer takes more than an hour"
	}
	e := &input.Error{Key: "run.requests", Value: fmt.Sprint(d.cfg.Run.Requests)}
	var also []string
	for _, c := range d.cfg.Changed() {
		switch section, _, _ := strings.Cut(c.Key, "."); {
		case section == "run" || section == "traces" || section == "predictor":
		case e.Key == "run.requests":
			e.Key, e.Value = c.Key, c.Value
		default:
			also = append(also, c.Key)
		}
	}
	if len(also) > 0 {
		why += "; also changed: " + strings.Join(also, ", ")
	}
	e.Expected = "a run that ends within 106 days of simulated time (64 bits of picoseconds): " + why
	return e
}
