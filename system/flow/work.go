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

// Categories of the time of a replica's resources.
const (
	OfGPU       = iota
	OfPIM       // summed over ranksets
	OfDown      // PCIe
	OfUp        // PCIe
	OfChannel   // memory channels
	OfAttention // part of OfGPU

	// Waits, by the reasons below: of the GPUs, and of all ranksets together.
	OfGPUWaits
	OfPIMWaits = OfGPUWaits + dataflow.Reasons
	OfUneven   = OfPIMWaits + dataflow.Reasons // part of the GPUs' waits for ranksets
	Booked     = OfUneven + 1
)

// Reasons to wait: for the work of which resource (Resource.Reason).
const (
	ForGPU uint8 = iota
	ForPIM
	ForDown
	ForUp
	ForChannel
	ForHost
)

// bookedNames are the names of resources in errors; OfAttention is no resource.
var bookedNames = [OfAttention]string{"GPUs", "PIM", "PCIe down", "PCIe up", "channels"}

// Effort is the work of resources other than busy time.
type Effort struct {
	Joules Joules
	Tokens int64            // that KV heads read in all layers where they are stored, if that is neither the GPUs nor DIMM-PIM
	Ranks  machine.Activity // of DIMM-PIM
	HBM    hbm.Tally        // of commands of units in the GPUs' memory
}

// add adds another effort or, with a sign of -1, subtracts it.
func (e *Effort) add(o *Effort, sign float64) {
	e.Joules.Prefill += float64(sign * o.Joules.Prefill)
	e.Joules.Decode += float64(sign * o.Joules.Decode)
	e.Tokens += int64(sign) * o.Tokens
	e.Ranks, e.HBM = e.Ranks.Plus(o.Ranks, sign), e.HBM.Plus(o.HBM, sign)
}

// Work is the recent work of a replica's resources, with times of 64 bits.
type Work struct {
	Time  [Booked]units.Duration
	Tasks int64 // transfers count once for each piece
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

// Busy is the work of replicas' resources in a run.
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

// Join adds the sums of another replica.
func (b *Busy) Join(o *Busy) {
	for i := range b.Time {
		b.Time[i].AddTotal(o.Time[i])
	}
	b.add(&o.Effort, 1)
}

// Within verifies LawBusy for a replica with a number of ranksets that ran until end.
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

// Waited verifies LawBusy for the waits of a replica with a number of ranksets: work and waits sum to the time of
// all iterations, to the picosecond. A rankset that idles while others work waits for the rest.
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

// Others returns the time that ranksets wait for other ranksets, and for transfers that interrupt, summed over all
// ranksets.
func (b *Busy) Others(iterating units.Duration, ranksets int) (rest units.Total) {
	rest.AddTimes(iterating, int64(ranksets))
	rest.AddTotal(b.Time[OfPIM].Times(-1))
	for i := range dataflow.Reasons {
		rest.AddTotal(b.Time[OfPIMWaits+i].Times(-int64(ranksets)))
	}
	return rest
}

// LongestTask is the longest time of a kernel or a transfer of one layer: 75 minutes. Longer costs
// are cut to it, so that a sum of a few does not overflow; an iteration with such a cost returns an
// error.
const LongestTask = dataflow.Longest

// TaskTime converts seconds to the time of a task, at most LongestTask.
func TaskTime(seconds float64) units.Duration { return min(units.FromSeconds(seconds), LongestTask) }

// TransferTime returns the time of a transfer.
func TransferTime(b units.Bandwidth, n units.Bytes) units.Duration {
	return min(b.TransferTime(n), LongestTask)
}

// inTime returns an error if an iteration that starts at start may end beyond the range of
// units.Duration. tasks bounds the number of its tasks and waits, largest the time of each.
func (f *Flow) inTime(start, largest units.Duration, tasks int64) error {
	if largest < LongestTask && float64(largest)*float64(tasks) < min(1<<62, float64(math.MaxInt64-start)) {
		return nil
	}
	return f.tooLong(start, largest)
}

// tooLong blames the first hardware key that the user changed or, if there is none, the load.
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

// Joules is the energy of a replica's GPUs while they work, by phase.
type Joules struct{ Prefill, Decode float64 }

func (j *Joules) add(o Joules) {
	j.Prefill += o.Prefill
	j.Decode += o.Decode
}

// Use is the work of the GPUs for a sub-batch.
type Use struct {
	Slow  float64        // factor by which the power limit slows sustained work
	Merge units.Duration // of all layers, if blocks begin with a merge
	// Chooses is the time of page-choosing kernels in all layers, if these run before a layer.
	Chooses units.Duration
	Joules  Joules
	// Extrapolated is the time in all layers of kernels beyond the range to which their parameters were fitted;
	// nil: none.
	Extrapolated *Extrapolated
}

// Set assigns field by field. A copy of the whole struct would read what has just been written in parts, and stall.
func (u *Use) Set(to *Use) {
	u.Slow, u.Merge, u.Chooses, u.Joules.Prefill, u.Joules.Decode, u.Extrapolated = to.Slow, to.Merge, to.Chooses, to.Joules.Prefill, to.Joules.Decode, to.Extrapolated
}

// Extrapolated is the time of kernels of each kind.
type Extrapolated [gpu.Kinds]units.Duration

// Kept returns a copy; nil of nil.
func (x *Extrapolated) Kept() *Extrapolated {
	if x == nil {
		return nil
	}
	kept := *x
	return &kept
}
