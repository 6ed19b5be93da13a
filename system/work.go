package system

import (
	"fmt"
	"math"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pim/hbm"
	"github.com/l3sim/l3sim/pim/machine"
	"github.com/l3sim/l3sim/system/dataflow"
	"github.com/l3sim/l3sim/units"
)

// What the time of a replica's resources is booked as.
const (
	ofGPU       = iota
	ofPIM       // summed over ranksets
	ofDown      // PCIe
	ofUp        // PCIe
	ofChannel   // memory channels
	ofAttention // of ofGPU
	booked
)

// bookedNames are the names of resources in errors; ofAttention is no resource.
var bookedNames = [ofAttention]string{"GPUs", "PIM", "PCIe down", "PCIe up", "channels"}

// effort is what resources have done beside being busy.
type effort struct {
	joules joules
	tokens int64            // that KV heads read at home, which is neither the GPUs nor DIMM-PIM, in all layers
	ranks  machine.Activity // of DIMM-PIM
	hbm    hbm.Tally        // of commands of units in the GPUs' memory
}

// add adds another effort, or with a sign of -1 takes it away.
func (e *effort) add(o *effort, sign float64) {
	e.joules.prefill += float64(sign * o.joules.prefill)
	e.joules.decode += float64(sign * o.joules.decode)
	e.tokens += int64(sign) * o.tokens
	e.ranks, e.hbm = e.ranks.Plus(o.ranks, sign), e.hbm.Plus(o.hbm, sign)
}

// work is what the resources of a replica have done lately: its times are of 64 bits.
type work struct {
	time  [booked]units.Duration
	tasks int64 // transfers count by pieces
	effort
}

// since returns the work done since before.
func (w *work) since(before *work) work {
	did := *w
	for i := range did.time {
		did.time[i] -= before.time[i]
	}
	did.tasks -= before.tasks
	did.add(&before.effort, -1)
	return did
}

// busy is what the resources of replicas have done in a run.
type busy struct {
	time [booked]units.Total
	effort
}

// did adds work.
func (b *busy) did(w *work) {
	for i := range b.time {
		b.time[i].Add(w.time[i])
	}
	b.add(&w.effort, 1)
}

// join adds another replica's.
func (b *busy) join(o *busy) {
	for i := range b.time {
		b.time[i].AddTotal(o.time[i])
	}
	b.add(&o.effort, 1)
}

// within verifies LawBusy for a replica with that many ranksets, which ran until end.
func (b *busy) within(end units.Duration, ranksets int) error {
	for i, name := range bookedNames {
		worked, all := b.time[i].Picoseconds(), float64(end)
		if i == ofPIM {
			all *= float64(ranksets)
		}
		if worked < 0 || worked > all*(1+1e-12) { // both are rounded
			return &Violation{LawBusy, end, fmt.Sprintf("%s: %.6f s of work in %.6f s", name, worked/1e12, all/1e12)}
		}
	}
	return nil
}

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
func (f *flow) inTime(start, largest units.Duration, tasks int64) error {
	if largest < longestTask && float64(largest)*float64(tasks) < min(1<<62, float64(math.MaxInt64-start)) {
		return nil
	}
	return f.tooLong(start, largest)
}

// tooLong blames the first hardware key that the user changed, and the load where
// that is none.
func (f *flow) tooLong(start, largest units.Duration) error {
	why := fmt.Sprintf("at %.1f days the next iteration may not end in time", start.Seconds()/86400)
	if largest >= longestTask {
		why = "a kernel or a transfer of one layer takes more than an hour"
	}
	e := &input.Error{Key: "run.requests", Value: fmt.Sprint(f.cfg.Run.Requests)}
	var also []string
	for _, c := range f.cfg.Changed() {
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

// joules is what a replica's GPUs take while they work, by phase.
type joules struct{ prefill, decode float64 }

func (j *joules) add(o joules) {
	j.prefill += o.prefill
	j.decode += o.decode
}

// gpuUse is how the GPUs work for a sub-batch.
type gpuUse struct {
	slow  float64        // by how much longer than for moments
	merge units.Duration // of all layers, where blocks begin with it
	// chooses is what kernels that choose pages take in all layers, where they end what comes before a layer.
	chooses units.Duration
	joules  joules
}

// set assigns part by part. A copy of the whole struct would read what has just been written in parts, and wait for it.
func (u *gpuUse) set(to *gpuUse) {
	u.slow, u.merge, u.chooses, u.joules.prefill, u.joules.decode = to.slow, to.merge, to.chooses, to.joules.prefill, to.joules.decode
}
