package controller

import (
	"math"
	"math/bits"
	"slices"

	"github.com/l3sim/l3sim/dram"
)

// Stats are the counts and times of one channel, or of all channels of a Replay.
type Stats struct {
	Requests         int64 `json:"requests"`
	WrappedAddresses int64 `json:"wrapped_addresses"` // addresses beyond the capacity
	MergedReads      int64 `json:"merged_reads"`      // bursts of reads that waited for a pending read of the same burst
	MergedWrites     int64 `json:"merged_writes"`     // bursts of writes that replaced or completed a pending write of the same burst
	ForwardedReads   int64 `json:"forwarded_reads"`   // bursts of reads that took their data from a pending write
	EndClock         int64 `json:"end_clock"`         // end of the last data burst
	CheckReads       int64 `json:"-"`                 // bursts of check bits read and written, included in the ranks' reads and writes
	CheckWrites      int64 `json:"-"`
	ModifyReads      int64 `json:"-"` // bursts of data read for a partial write
	commands         [dram.Commands]int64
	RowHits          int64         `json:"-"` // column accesses other than the first after an ACT
	Ranks            []RankStats   `json:"-"` // by channel, then rank
	Banks            []BankStats   `json:"-"` // by channel, then rank, bank group, bank
	Latency          Latencies     `json:"-"` // of reads, from the acceptance of the first burst to the end of the last burst's data
	ArrivalLatency   Latencies     `json:"-"` // of reads, from the request's clock, including the wait before a full queue
	WriteLatency     Latencies     `json:"-"` // of writes sent to memory, from acceptance to the end of the data
	Energy           dram.Energy   `json:"-"`
	Waits            []Wait        `json:"-"` // causes of idle data buses while requests waited, most clocks first
	shared           []openRequest // the ended parts of requests that other channels also serve
}

// RankStats are the counts of one rank on the data bus.
type RankStats struct {
	Reads       int64 `json:"reads"` // bursts
	Writes      int64 `json:"writes"`
	Turnarounds int64 `json:"turnarounds"`   // changes of the bus's direction before a burst of this rank
	Switches    int64 `json:"rank_switches"` // switches of the bus from another rank to this one
	// Standby is the clocks in each state, and PowerDowns and SelfRefreshes the number of entries.
	Standby       dram.StandbyClocks `json:"-"`
	PowerDowns    int64              `json:"-"`
	SelfRefreshes int64              `json:"-"`
	OpenBanks     int64              `json:"-"` // clocks with an open row, summed over the banks, without power-down
}

// BankStats are the counts of one bank.
type BankStats struct {
	RowHits     int64 `json:"row_hits"`  // column accesses other than the first after an ACT
	Conflicts   int64 `json:"conflicts"` // rows closed because a request wanted another
	QueueClocks int64 `json:"-"`         // clocks in the queue, summed over its requests; divided by EndClock, the mean depth
}

// Count returns the number of issued commands of the given kinds.
func (s *Stats) Count(cmds ...dram.Command) int64 {
	var n int64
	for _, c := range cmds {
		n += s.commands[c]
	}
	return n
}

// add adds another channel's numbers.
func (s *Stats) add(o *Stats) {
	s.Requests += o.Requests
	s.MergedReads += o.MergedReads
	s.MergedWrites += o.MergedWrites
	s.ForwardedReads += o.ForwardedReads
	s.WrappedAddresses += o.WrappedAddresses
	s.CheckReads += o.CheckReads
	s.CheckWrites += o.CheckWrites
	s.ModifyReads += o.ModifyReads
	for i := range s.commands {
		s.commands[i] += o.commands[i]
	}
	s.RowHits += o.RowHits
	s.Ranks = append(s.Ranks, o.Ranks...)
	s.Banks = append(s.Banks, o.Banks...)
	s.EndClock = max(s.EndClock, o.EndClock)
	s.Latency.join(&o.Latency)
	s.ArrivalLatency.join(&o.ArrivalLatency)
	s.WriteLatency.join(&o.WriteLatency)
	s.Energy = s.Energy.Plus(o.Energy)
	s.Waits = addWaits(s.Waits, o.Waits)
}

// expect allocates room for the latencies of requests.
func (s *Stats) expect(requests []Request) {
	reads, shared := 0, 0
	for i := range requests {
		if !requests[i].Write {
			reads++
		}
		if requests[i].shared > 0 {
			shared++
		}
	}
	if shared > 0 {
		s.shared = make([]openRequest, 0, shared)
	}
	s.Latency.clocks, s.ArrivalLatency.clocks = make([]int64, 0, reads), make([]int64, 0, reads)
	s.WriteLatency.clocks = make([]int64, 0, len(requests)-reads)
}

// Latencies is a list of latencies in clocks.
type Latencies struct{ clocks []int64 }

// add counts one latency.
func (l *Latencies) add(clocks int64) { l.clocks = append(l.clocks, clocks) }

// join adds those of o.
func (l *Latencies) join(o *Latencies) { l.clocks = append(l.clocks, o.clocks...) }

// Count returns the number of latencies.
func (l *Latencies) Count() int { return len(l.clocks) }

// Bin is the number of latencies from Low to below twice Low; for Low 0, below 1.
type Bin struct {
	Low   int64 `json:"low_clocks"`
	Count int64 `json:"count"`
}

// Histogram returns the latencies by powers of two, from the first to the last non-empty bin.
func (l *Latencies) Histogram() []Bin {
	var counts [65]int64
	low, high := len(counts), -1
	for _, c := range l.clocks {
		i := bits.Len64(uint64(c))
		counts[i]++
		low, high = min(low, i), max(high, i)
	}
	var bins []Bin
	for i := low; i <= high; i++ {
		bins = append(bins, Bin{1 << i >> 1, counts[i]})
	}
	return bins
}

// Mean returns the mean, 0 if there are none.
func (l *Latencies) Mean() float64 {
	if len(l.clocks) == 0 {
		return 0
	}
	sum := int64(0)
	for _, c := range l.clocks {
		sum += c
	}
	return float64(sum) / float64(len(l.clocks))
}

// Max returns the longest latency, 0 if there are none.
func (l *Latencies) Max() int64 { return l.Percentile(100) }

// Percentile returns the smallest latency that at least p per cent of the reads do not exceed (nearest rank), 0 if there are none. It sorts
// the latencies.
func (l *Latencies) Percentile(p float64) int64 {
	if len(l.clocks) == 0 {
		return 0
	}
	slices.Sort(l.clocks)
	rank := int(math.Ceil(p / 100 * float64(len(l.clocks))))
	return l.clocks[max(rank, 1)-1]
}
