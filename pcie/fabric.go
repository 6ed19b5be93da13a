package pcie

import (
	"math"

	"github.com/l3sim/l3sim/units"
)

// Direction of a transfer.
type Direction uint8

// The directions; a link carries both at full rate.
const (
	ToHost Direction = iota
	ToGPU
	directions
)

// transfer is one copy in flight: it drains at a rate that changes when others
// on its links start or end.
type transfer struct {
	id        int
	gpu       int32
	direction Direction
	remaining float64 // bytes
	rate      float64 // bytes per picosecond
}

// tail is a transfer whose bytes have passed and whose latency runs out at end.
type tail struct {
	id  int
	end units.Duration
}

// Fabric is the state of a node's PCIe tree: an exact fluid computation of
// transfers that share links max-min fairly (Bertsekas and Gallager, Data
// Networks, section 6.5.2): rates are constant between the starts and ends of
// transfers, and the state jumps from one to the next. Drain times are rounded
// up to a picosecond.
//
// A discrete-event simulator calls Start, asks Next for the time of the next
// change, and calls Advance at that time. Nothing allocates in steady state.
type Fabric struct {
	link, uplink  float64 // bytes per picosecond
	latency       units.Duration
	gpusPerUplink int32
	now           units.Duration
	active        []transfer
	tails         []tail // in order of end, as latency is one constant
	rates         ratesScratch
}

// ratesScratch is the water filling's working space: of each GPU of one group,
// capacity left and transfers without a rate.
type ratesScratch struct {
	left  []float64
	count []int
}

// NewFabric returns the idle links of a node whose GPUs are numbered from 0.
func NewFabric(s *Spec) *Fabric {
	return &Fabric{
		link: float64(s.Bandwidth()) / 1e12, uplink: float64(s.UplinkBandwidth()) / 1e12,
		latency: s.Latency, gpusPerUplink: int32(s.GPUsPerUplink),
		rates: ratesScratch{left: make([]float64, s.GPUsPerUplink), count: make([]int, s.GPUsPerUplink)},
	}
}

// Start begins a transfer of n bytes of the given GPU at time now, which must
// not lie before the last call's, and of which every change up to now has been
// taken by Advance. Advance reports id when it has ended.
func (f *Fabric) Start(now units.Duration, id, gpu int, direction Direction, n units.Bytes) {
	f.drain(now)
	f.active = append(f.active, transfer{id: id, gpu: int32(gpu), direction: direction, remaining: float64(max(0, n))})
	f.share(int32(gpu)/f.gpusPerUplink, direction)
}

// Next returns the time of the next change: a transfer has drained or ended.
// ok is false when nothing is in flight.
func (f *Fabric) Next() (at units.Duration, ok bool) {
	at = math.MaxInt64
	if len(f.tails) > 0 {
		at = f.tails[0].end
	}
	for i := range f.active {
		t := &f.active[i]
		if left := units.FromPicoseconds(math.Ceil(t.remaining / t.rate)); left < math.MaxInt64-f.now {
			at = min(at, f.now+left)
		}
	}
	return at, len(f.tails)+len(f.active) > 0
}

// Advance moves the state to time now and appends to done the ids of the
// transfers that have ended by then, in order of their ends, ties by start.
func (f *Fabric) Advance(now units.Duration, done []int) []int {
	for {
		at, ok := f.Next()
		if !ok || at > now {
			break
		}
		f.drain(at)
		f.collect()
		ended := 0
		for ended < len(f.tails) && f.tails[ended].end <= at {
			done = append(done, f.tails[ended].id)
			ended++
		}
		f.tails = append(f.tails[:0], f.tails[ended:]...)
	}
	f.drain(now)
	return done
}

// drain moves bytes at the present rates up to time now.
func (f *Fabric) drain(now units.Duration) {
	elapsed := float64(now - f.now)
	for i := range f.active {
		t := &f.active[i]
		t.remaining = max(0, t.remaining-float64(t.rate*elapsed))
	}
	f.now = now
}

// collect turns drained transfers into tails and shares what they leave.
func (f *Fabric) collect() {
	kept := f.active[:0]
	first := len(f.tails)
	var touched [directions]bool
	groups := [directions]int32{-1, -1}
	several := false
	for _, t := range f.active {
		// Less than what passes in half a picosecond is rounding.
		if t.remaining > t.rate/2 {
			kept = append(kept, t)
			continue
		}
		f.tails = append(f.tails, tail{id: t.id, end: f.now + f.latency})
		group := t.gpu / f.gpusPerUplink
		several = several || touched[t.direction] && groups[t.direction] != group
		touched[t.direction], groups[t.direction] = true, group
	}
	f.active = kept
	if len(f.tails) == first {
		return
	}
	for d := range directions {
		switch {
		case several:
			f.shareAll(d)
		case touched[d]:
			f.share(groups[d], d)
		}
	}
}

// shareAll shares every group's links in one direction.
func (f *Fabric) shareAll(d Direction) {
	top := int32(-1)
	for i := range f.active {
		top = max(top, f.active[i].gpu/f.gpusPerUplink)
	}
	for group := int32(0); group <= top; group++ {
		f.share(group, d)
	}
}

// share sets the rates of one direction of one switch by water filling: the
// link with the smallest share per transfer fixes the rate of its transfers,
// and the rest is shared among the others.
func (f *Fabric) share(group int32, d Direction) {
	left, count := f.rates.left, f.rates.count
	for g := range left {
		left[g], count[g] = f.link, 0
	}
	uplinkLeft, uplinkCount := f.uplink, 0
	for i := range f.active {
		t := &f.active[i]
		if t.direction == d && t.gpu/f.gpusPerUplink == group {
			t.rate = 0
			count[t.gpu%f.gpusPerUplink]++
			uplinkCount++
		}
	}
	for uplinkCount > 0 {
		rate, binding := uplinkLeft/float64(uplinkCount), int32(-1)
		for g := range left {
			if count[g] > 0 && left[g]/float64(count[g]) < rate {
				rate, binding = left[g]/float64(count[g]), int32(g)
			}
		}
		for i := range f.active {
			t := &f.active[i]
			own := t.gpu % f.gpusPerUplink
			if t.direction != d || t.gpu/f.gpusPerUplink != group || t.rate != 0 || binding >= 0 && own != binding {
				continue
			}
			t.rate = rate
			count[own]--
			left[own] -= rate
			uplinkLeft -= rate
			uplinkCount--
		}
	}
}
