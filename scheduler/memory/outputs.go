package memory

import "github.com/l3sim/l3sim/scheduler"

// latestOutputs is the number of output lengths to remember if no forecast sets it.
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

// Ended records the output length of a request that has ended. It returns the length that it displaces, 0 for none.
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

// Mean estimates the mean output length: the tokens emitted by all requests, ended and running, over the number of ended
// requests. This is the maximum-likelihood estimate if requests end in each step with the same chance. A request that
// outlasts all others then adds only the tokens that it has. Before any request has ended the mean is the longest output.
// running is the number of tokens that running requests have emitted.
func (o *Outputs) Mean(running int) float64 {
	if len(o.lengths) == 0 {
		return float64(o.most)
	}
	return min(float64(o.most), float64(running+o.sum)/float64(len(o.lengths)))
}

// Likely is Mean, except that before any request has ended it is the tokens of those that run, as if they were one request that
// ends now.
func (o *Outputs) Likely(running int) float64 {
	return min(float64(o.most), float64(running+o.sum)/float64(max(1, len(o.lengths))))
}
