package memory

import "github.com/l3sim/l3sim/scheduler"

// latestOutputs is how many output lengths are remembered where no forecast says so.
const latestOutputs = 1000

// Outputs remembers the output lengths of the latest requests that ended.
type Outputs struct {
	most    int // the longest output that is expected
	keep    int
	lengths []int // in the order in which requests ended; a ring once full
	oldest  int   // index of the oldest in lengths
	sum     int   // of lengths
}

// NewOutputs returns an empty memory of output lengths.
func NewOutputs(m *scheduler.MemorySpec) Outputs {
	keep := m.History
	if keep == 0 {
		keep = latestOutputs
	}
	return Outputs{most: m.MaxTokens, keep: keep}
}

// Ended records the output length of a request that has ended. It returns the length that is forgotten for it, 0 for none.
func (o *Outputs) Ended(output int) (forgotten int) {
	o.sum += output
	if len(o.lengths) < o.keep {
		o.lengths = append(o.lengths, output)
		return 0
	}
	forgotten = o.lengths[o.oldest]
	o.sum -= forgotten
	o.lengths[o.oldest] = output
	o.oldest = (o.oldest + 1) % o.keep
	return forgotten
}

// Mean estimates the mean output length: the tokens that all requests have emitted, those that have ended and those that
// run, for each request that ended. It is the estimate for requests that end in each step with the same chance, at whatever
// length. So one request that outlasts all that have ended adds the tokens that it has, and not what it may emit yet.
// Before any request has ended the mean is the longest output. running is the tokens that running requests have emitted.
func (o *Outputs) Mean(running int) float64 {
	if len(o.lengths) == 0 {
		return float64(o.most)
	}
	return min(float64(o.most), float64(running+o.sum)/float64(len(o.lengths)))
}

// Likely is Mean, but that before any request has ended it is the tokens of those that run, as if these were one that ends now.
func (o *Outputs) Likely(running int) float64 {
	return min(float64(o.most), float64(running+o.sum)/float64(max(1, len(o.lengths))))
}
