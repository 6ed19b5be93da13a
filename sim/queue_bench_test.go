package sim

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
)

// delays returns increments of the hold model: how far ahead of the event just
// popped the next one is pushed.
func delays(name string) []Time {
	r := rand.New(rand.NewPCG(1, 2))
	d := make([]Time, 1024)
	for i := range d {
		switch name {
		case "exponential":
			d[i] = Time(r.ExpFloat64() * 1e6)
		case "skewed": // most events near, one in 32 a thousand times as far
			d[i] = Time(r.ExpFloat64() * 1e6)
			if i%32 == 0 {
				d[i] *= 1000
			}
		case "equal":
			d[i] = 1e6
		case "clocked": // a DRAM channel: few, small, whole clocks
			d[i] = 625 * Time(1+r.IntN(40))
		}
	}
	return d
}

// BenchmarkHold is the hold model: each event pops the first pending one and
// pushes another, so that the number of pending events stays.
func BenchmarkHold(b *testing.B) {
	for _, name := range []string{"exponential", "skewed", "equal", "clocked"} {
		d := delays(name)
		for _, pending := range []int{16, 256, 4096, 65536} {
			b.Run(fmt.Sprintf("%s/pending=%d", name, pending), func(b *testing.B) {
				var q Queue
				for i := range pending {
					q.Push(Complete, Event{Time: d[i&1023], A: int32(i)})
				}
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					e, _ := q.Pop()
					e.Time += d[i&1023]
					i++
					q.Push(Complete, e)
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mevents/s")
			})
		}
	}
}

// eventHeap orders events by (time, priority, sequence) for container/heap.
type eventHeap []*heapEvent

type heapEvent struct {
	Event
	priority Priority
	sequence uint64
}

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	if a.Time != b.Time {
		return a.Time < b.Time
	}
	if a.priority != b.priority {
		return a.priority < b.priority
	}
	return a.sequence < b.sequence
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(*heapEvent)) }
func (h *eventHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

// BenchmarkContainerHeap is BenchmarkHold on container/heap, with pointers to
// reused events, its fastest form.
func BenchmarkContainerHeap(b *testing.B) {
	d := delays("exponential")
	for _, pending := range []int{16, 256, 4096, 65536} {
		b.Run(fmt.Sprintf("exponential/pending=%d", pending), func(b *testing.B) {
			var h eventHeap
			sequence := uint64(0)
			for i := range pending {
				heap.Push(&h, &heapEvent{Event{Time: d[i&1023], A: int32(i)}, Complete, sequence})
				sequence++
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				e := heap.Pop(&h).(*heapEvent)
				e.Time += d[i&1023]
				e.sequence = sequence
				sequence++
				i++
				heap.Push(&h, e)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mevents/s")
		})
	}
}
