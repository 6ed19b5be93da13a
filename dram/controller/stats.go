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
	CheckReads       int64 `json:"-"`                 // bursts of check bits read and written, which the ranks' reads and writes have in them
	CheckWrites      int64 `json:"-"`
	ModifyReads      int64 `json:"-"` // bursts of data read for a partial write
	commands         [dram.Commands]int64
	RowHits          int64         `json:"-"` // column accesses that did not follow their own ACT
	Ranks            []RankStats   `json:"-"` // by channel, then rank
	Banks            []BankStats   `json:"-"` // by channel, then rank, bank group, bank
	Latency          Latencies     `json:"-"` // of reads, from the acceptance of their first burst to the end of the last one's data
	ArrivalLatency   Latencies     `json:"-"` // of reads, from the request's clock on: with the time before a full queue
	WriteLatency     Latencies     `json:"-"` // of writes that moved, from acceptance to the end of the data
	Energy           dram.Energy   `json:"-"`
	Waits            []Wait        `json:"-"` // what kept data buses idle while requests waited, most clocks first
	shared           []openRequest // what ended here of requests that other channels serve, too
}

// RankStats is what one rank's share of the data bus was.
type RankStats struct {
	Reads       int64 `json:"reads"` // bursts
	Writes      int64 `json:"writes"`
	Turnarounds int64 `json:"turnarounds"`   // of the bus to the other direction, for a burst of this rank
	Switches    int64 `json:"rank_switches"` // of the bus from another rank
	// Standby is the clocks in each state until the end, and PowerDowns and SelfRefreshes how often the rank went there.
	Standby       dram.StandbyClocks `json:"-"`
	PowerDowns    int64              `json:"-"`
	SelfRefreshes int64              `json:"-"`
	OpenBanks     int64              `json:"-"` // sum over the banks of the clocks until the end for which each had a row open, power-down apart
}

// BankStats is how one bank's requests found it.
type BankStats struct {
	RowHits     int64 `json:"row_hits"`  // column accesses that did not follow their own ACT
	Conflicts   int64 `json:"conflicts"` // rows closed because a request wanted another
	QueueClocks int64 `json:"-"`         // sum over its queued requests of the clocks in the queue: over EndClock, the mean depth
}

// Count returns how many of any of cmds issued.
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

// expect makes room for the latencies of requests.
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

// Count returns how many there are.
func (l *Latencies) Count() int { return len(l.clocks) }

// Bin is how many latencies are at least Low and below twice that, or below 1 where Low is 0.
type Bin struct {
	Low   int64 `json:"low_clocks"`
	Count int64 `json:"count"`
}

// Histogram returns the latencies by powers of two, from the first bin that is not empty to the last.
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

// Mean returns the mean, 0 over nothing.
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

// Max returns the longest latency, 0 over nothing.
func (l *Latencies) Max() int64 { return l.Percentile(100) }

// Percentile returns the smallest latency that at least p per cent of the reads
// did not exceed (nearest rank), 0 over nothing. It sorts the latencies.
func (l *Latencies) Percentile(p float64) int64 {
	if len(l.clocks) == 0 {
		return 0
	}
	slices.Sort(l.clocks)
	rank := int(math.Ceil(p / 100 * float64(len(l.clocks))))
	return l.clocks[max(rank, 1)-1]
}
