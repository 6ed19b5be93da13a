package flow

import (
	"fmt"
	"math"
	"strings"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pim/hbm"
	"github.com/l3sim/l3sim/pim/machine"
	"github.com/l3sim/l3sim/system/dataflow"
	"github.com/l3sim/l3sim/units"
)

// What the time of a replica's resources is booked as.
const (
	OfGPU       = iota
	OfPIM       // summed over ranksets
	OfDown      // PCIe
	OfUp        // PCIe
	OfChannel   // memory channels
	OfAttention // of ofGPU

	// What is waited for, by the reasons below: by the GPUs, and by all ranksets together.
	OfGPUWaits
	OfPIMWaits = OfGPUWaits + dataflow.Reasons
	OfUneven   = OfPIMWaits + dataflow.Reasons // part of what the GPUs wait for ranksets
	Booked     = OfUneven + 1
)

// Reasons to wait: for the work of a resource (Resource.Reason).
const (
	ForGPU uint8 = iota
	ForPIM
	ForDown
	ForUp
	ForChannel
	ForHost
)

// bookedNames are the names of resources in errors; ofAttention is no resource.
var bookedNames = [OfAttention]string{"GPUs", "PIM", "PCIe down", "PCIe up", "channels"}

// Effort is what resources have done beside being busy.
type Effort struct {
	Joules Joules
	Tokens int64            // that KV heads read at home, which is neither the GPUs nor DIMM-PIM, in all layers
	Ranks  machine.Activity // of DIMM-PIM
	HBM    hbm.Tally        // of commands of units in the GPUs' memory
}

// add adds another effort, or with a sign of -1 takes it away.
func (e *Effort) add(o *Effort, sign float64) {
	e.Joules.Prefill += float64(sign * o.Joules.Prefill)
	e.Joules.Decode += float64(sign * o.Joules.Decode)
	e.Tokens += int64(sign) * o.Tokens
	e.Ranks, e.HBM = e.Ranks.Plus(o.Ranks, sign), e.HBM.Plus(o.HBM, sign)
}

// Work is what the resources of a replica have done lately: its times are of 64 bits.
type Work struct {
	Time  [Booked]units.Duration
	Tasks int64 // transfers count by pieces
	Effort
}

// Since returns the work done since before.
func (w *Work) Since(before *Work) Work {
	did := *w
	for i := range did.Time {
		did.Time[i] -= before.Time[i]
	}
	did.Tasks -= before.Tasks
	did.add(&before.Effort, -1)
	return did
}

// Busy is what the resources of replicas have done in a run.
type Busy struct {
	Time [Booked]units.Total
	Effort
}

// Did adds work.
func (b *Busy) Did(w *Work) {
	for i := range b.Time {
		b.Time[i].Add(w.Time[i])
	}
	b.add(&w.Effort, 1)
}

// Join adds another replica's.
func (b *Busy) Join(o *Busy) {
	for i := range b.Time {
		b.Time[i].AddTotal(o.Time[i])
	}
	b.add(&o.Effort, 1)
}

// Within verifies LawBusy for a replica with that many ranksets, which ran until end.
func (b *Busy) Within(end units.Duration, ranksets int) error {
	for i, name := range bookedNames {
		worked, all := b.Time[i].Picoseconds(), float64(end)
		if i == OfPIM {
			all *= float64(ranksets)
		}
		if worked < 0 || worked > all*(1+1e-12) { // both are rounded
			return &Violation{LawBusy, end, fmt.Sprintf("%s: %.6f s of work in %.6f s", name, worked/1e12, all/1e12)}
		}
	}
	return nil
}

// Waited verifies LawBusy for the waits of a replica with that many ranksets: with the work they are the time of all
// iterations, to the picosecond. Ranksets beside others that work wait for the rest.
func (b *Busy) Waited(iterating units.Duration, ranksets int) error {
	gpu, all, rest := b.Time[OfGPU], units.Total{}, b.Others(iterating, ranksets)
	for i := range dataflow.Reasons {
		gpu.AddTotal(b.Time[OfGPUWaits+i])
	}
	if all.Add(iterating); gpu != all || rest.Picoseconds() < 0 {
		return &Violation{LawBusy, iterating, fmt.Sprintf("GPUs work and wait for %.0f ps of %d, ranksets for others for %.0f ps", gpu.Picoseconds(), iterating, rest.Picoseconds())}
	}
	return nil
}

// Others returns for how long ranksets wait for other ranksets, and for transfers that interrupt, all ranksets together.
func (b *Busy) Others(iterating units.Duration, ranksets int) (rest units.Total) {
	rest.AddTimes(iterating, int64(ranksets))
	rest.AddTotal(b.Time[OfPIM].Times(-1))
	for i := range dataflow.Reasons {
		rest.AddTotal(b.Time[OfPIMWaits+i].Times(-int64(ranksets)))
	}
	return rest
}

// LongestTask is what a kernel or a transfer of one layer can take: 75 minutes.
// Costs are cut to it, so that a sum of a few does not overflow, and an iteration
// that has such a cost is an error.
const LongestTask = dataflow.Longest

// TaskTime turns seconds into the time of a task, at most longestTask.
func TaskTime(seconds float64) units.Duration { return min(units.FromSeconds(seconds), LongestTask) }

// TransferTime returns the time of a transfer.
func TransferTime(b units.Bandwidth, n units.Bytes) units.Duration {
	return min(b.TransferTime(n), LongestTask)
}

// inTime returns an error where an iteration that starts at start may end beyond the
// range of units.Duration: tasks is the most tasks and waits that it has, each no longer than largest.
func (f *Flow) inTime(start, largest units.Duration, tasks int64) error {
	if largest < LongestTask && float64(largest)*float64(tasks) < min(1<<62, float64(math.MaxInt64-start)) {
		return nil
	}
	return f.tooLong(start, largest)
}

// tooLong blames the first hardware key that the user changed, and the load where
// that is none.
func (f *Flow) tooLong(start, largest units.Duration) error {
	why := fmt.Sprintf("at %.1f days the next iteration may not end in time", start.Seconds()/86400)
	if largest >= LongestTask {
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

// Joules is what a replica's GPUs take while they work, by phase.
type Joules struct{ Prefill, Decode float64 }

func (j *Joules) add(o Joules) {
	j.Prefill += o.Prefill
	j.Decode += o.Decode
}

// Use is how the GPUs work for a sub-batch.
type Use struct {
	Slow  float64        // by how much longer than for moments
	Merge units.Duration // of all layers, where blocks begin with it
	// Chooses is what kernels that choose pages take in all layers, where they end what comes before a layer.
	Chooses units.Duration
	Joules  Joules
	// Extrapolated is what kernels beyond what their parameters were fitted to take in all layers; nil: nothing.
	Extrapolated *Extrapolated
}

// Set assigns part by part. A copy of the whole struct would read what has just been written in parts, and wait for it.
func (u *Use) Set(to *Use) {
	u.Slow, u.Merge, u.Chooses, u.Joules.Prefill, u.Joules.Decode, u.Extrapolated = to.Slow, to.Merge, to.Chooses, to.Joules.Prefill, to.Joules.Decode, to.Extrapolated
}

// Extrapolated is the time of kernels of each kind.
type Extrapolated [gpu.Kinds]units.Duration

// Kept returns a copy of its own; nil of nil.
func (x *Extrapolated) Kept() *Extrapolated {
	if x == nil {
		return nil
	}
	kept := *x
	return &kept
}
