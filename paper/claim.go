package paper

import (
	"fmt"
	"math"
)

// Kind is how a claim compares with what we find.
type Kind string

// The kinds of claims.
const (
	Value   Kind = "value"    // reproduced within Tolerance of the paper's number
	AtLeast Kind = "at least" // a bound: reproduced above the paper's number
	AtMost  Kind = "at most"  // a bound or, against 1, an ordering: reproduced below it
	// RangeEnd is one end of a range, which is reproduced where both ends, the claims
	// with the same Range, are within Tolerance.
	RangeEnd Kind = "range"
)

// Tolerance is how far, relative to the paper's number, a value that is
// reproduced may be off.
const Tolerance = 0.15

// The verdicts on a claim.
const (
	Reproduced    = "reproduced"
	Direction     = "direction" // not that, but a ratio on the same side of 1: the same one wins
	NotReproduced = "not reproduced"
	NotJudged     = "not judged" // on a comparison that the paper did not make
)

// Claim is one statement of the paper.
type Claim struct {
	ID    string
	Says  string  // the statement with its place in the paper
	Paper float64 // the paper's number
	Kind  Kind
	Ratio bool   // of two systems or designs: the side of 1 says which is better
	Range string // of RangeEnd

	// find returns our number for a seed. The text says where it comes from, in one
	// line of numbers of the runs themselves.
	find func(e *evidence, seed uint64) (finding, error)
}

// finding is what one seed gives for a claim.
type finding struct {
	value  float64
	reason string
}

// Judgement is the verdict on one claim. Low and High are the range of Ours over
// the seeds; all are plain numbers, shares from 0 to 1.
type Judgement struct {
	ID      string  `json:"id"`
	Paper   float64 `json:"paper"`
	Ours    float64 `json:"ours"` // mean over the seeds
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
	Verdict string  `json:"verdict"`
	Reason  string  `json:"reason"` // of the first seed

	claim *Claim
}

// Says returns the claim as the paper puts it, with its place.
func (j *Judgement) Says() string { return j.claim.Says }

// Kind returns how the claim is judged.
func (j *Judgement) Kind() Kind { return j.claim.Kind }

// judge finds and judges claims over the seeds of the evidence.
func judge(claims []*Claim, e *evidence) ([]Judgement, error) {
	judgements := make([]Judgement, len(claims))
	for i, c := range claims {
		j := Judgement{ID: c.ID, Paper: c.Paper, claim: c, Low: math.Inf(1), High: math.Inf(-1)}
		for n, seed := range e.seeds {
			f, err := c.find(e, seed)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.ID, err)
			}
			if n == 0 {
				j.Reason = f.reason
			}
			j.Ours += f.value / float64(len(e.seeds))
			j.Low, j.High = min(j.Low, f.value), max(j.High, f.value)
		}
		// The mean of equal numbers may differ from them in its last bit.
		j.Ours = min(max(j.Ours, j.Low), j.High)
		judgements[i] = j
	}
	for i := range judgements {
		judgements[i].Verdict = verdict(judgements, i)
	}
	return judgements, nil
}

// verdict judges one claim. A range holds where both of its ends do.
func verdict(all []Judgement, i int) string {
	j := &all[i]
	holds := j.holds()
	for k := range all {
		if j.claim.Kind == RangeEnd && all[k].claim.Range == j.claim.Range {
			holds = holds && all[k].holds()
		}
	}
	switch {
	case holds:
		return Reproduced
	case j.sameSide():
		return Direction
	}
	return NotReproduced
}

// holds says that our number is as the paper says.
func (j *Judgement) holds() bool {
	switch j.claim.Kind {
	case AtLeast:
		return j.Ours > j.Paper
	case AtMost:
		return j.Ours < j.Paper
	}
	return math.Abs(j.Ours-j.Paper) <= Tolerance*j.Paper
}

// sameSide says that a ratio is on the paper's side of 1.
func (j *Judgement) sameSide() bool {
	return j.claim.Ratio && (j.Paper > 1 && j.Ours > 1 || j.Paper < 1 && j.Ours < 1)
}
