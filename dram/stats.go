package dram

import "math/bits"

// Stats is what one channel, or all channels of a Replay, did.
type Stats struct {
	Requests         int64
	MergedReads      int64 // reads that waited for a pending read of the same burst
	MergedWrites     int64 // writes that replaced a pending write of the same burst
	ForwardedReads   int64 // reads that took their data from a pending write
	WrappedAddresses int64 // addresses beyond the capacity
	commands         [commands]int64
	RowHits          int64 // column accesses that did not follow their own ACT
	EndClock         int64 // end of the last data burst
	Latency          Latencies
	Energy           Energy
}

// Count returns how many of any of cmds issued.
func (s *Stats) Count(cmds ...Command) int64 {
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
	for i := range s.commands {
		s.commands[i] += o.commands[i]
	}
	s.RowHits += o.RowHits
	s.EndClock = max(s.EndClock, o.EndClock)
	s.Latency.merge(&o.Latency)
	s.Energy = s.Energy.add(o.Energy)
}

// exactLatencies is the number of clocks that Latencies counts one by one.
const exactLatencies = 1 << 14

// Latencies is the distribution of read latencies in clocks, from acceptance to
// the end of the data. Short ones are counted exactly; beyond 16,384 clocks a
// bin is 1/64 of its value wide, mean and maximum stay exact.
type Latencies struct {
	count, sum, longest int64
	exact               []int64
	coarse              []int64
}

// add counts one latency, at least 0.
func (l *Latencies) add(clocks int64) {
	l.count++
	l.sum += clocks
	l.longest = max(l.longest, clocks)
	if l.exact == nil {
		l.exact = make([]int64, exactLatencies)
		l.coarse = make([]int64, 64*64)
	}
	if clocks < exactLatencies {
		l.exact[clocks]++
	} else {
		l.coarse[coarseBin(clocks)]++
	}
}

// merge adds another distribution.
func (l *Latencies) merge(o *Latencies) {
	if o.count == 0 {
		return
	}
	if l.exact == nil {
		l.exact = make([]int64, exactLatencies)
		l.coarse = make([]int64, 64*64)
	}
	l.count += o.count
	l.sum += o.sum
	l.longest = max(l.longest, o.longest)
	for i, n := range o.exact {
		l.exact[i] += n
	}
	for i, n := range o.coarse {
		l.coarse[i] += n
	}
}

// Mean returns the mean, 0 over nothing.
func (l *Latencies) Mean() float64 {
	if l.count == 0 {
		return 0
	}
	return float64(l.sum) / float64(l.count)
}

// Max returns the longest latency, 0 over nothing.
func (l *Latencies) Max() int64 { return l.longest }

// Percentile returns the smallest latency that at least p per cent of the reads
// did not exceed (nearest rank), 0 over nothing.
func (l *Latencies) Percentile(p float64) int64 {
	rank := int64(p / 100 * float64(l.count))
	if float64(rank) < p/100*float64(l.count) {
		rank++
	}
	var seen int64
	for clocks, n := range l.exact {
		if seen += n; n > 0 && seen >= rank {
			return int64(clocks)
		}
	}
	for bin, n := range l.coarse {
		if seen += n; n > 0 && seen >= rank {
			return min(coarseTop(bin), l.longest)
		}
	}
	return l.longest
}

// coarseBin returns the bin of a latency: 64 to each power of two.
func coarseBin(clocks int64) int {
	exponent := bits.Len64(uint64(clocks)) - 1
	return exponent*64 + int(clocks>>(exponent-6))&63
}

// coarseTop returns the longest latency of a bin.
func coarseTop(bin int) int64 {
	exponent := bin / 64
	return (int64(64+bin%64)+1)<<(exponent-6) - 1
}
