package claims

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/l3sim/l3sim/results/figure"
	"github.com/l3sim/l3sim/units"
)

type kind string // how a claim's number compares with ours

// The kinds of claims.
const (
	exactly kind = "value"    // reproduced within tolerance of the paper's number
	atLeast kind = "at least" // a bound: reproduced above the paper's number
	atMost  kind = "at most"  // a bound or, against 1, an ordering: reproduced below it
	// rangeEnd is one end of a range. It is reproduced if both ends, the claims with the same Range,
	// are within tolerance.
	rangeEnd kind = "range"
	// statement has no number that we can compute: the claim states its verdict.
	statement kind = "statement"
)

// tolerance is the largest relative deviation from the paper's number of a reproduced value.
const tolerance = 0.15

// far is the factor between the paper's number and ours beyond which only the side of 1 agrees.
const far = 1.5

// The verdicts on a claim.
const (
	reproduced    = "reproduced"
	direction     = "direction" // not reproduced, but a ratio on the same side of 1, within a factor of far
	sameSide      = "same side" // a ratio on the same side of 1, off by more than a factor of far
	notReproduced = "not reproduced"
	notJudged     = "not judged" // a comparison that the paper did not make, or outside the model
	// contradicted is a number that arithmetic rules out; the reason says how.
	contradicted = "contradicts arithmetic"
	// shapeOnly is a claim for which other hardware or a small model can show the sign, not the
	// number.
	shapeOnly = "shape only"
)

// claim is one statement of the paper.
type claim struct {
	ID    string
	Says  string  // the statement with its place in the paper
	Paper float64 // the paper's number; 0 for a statement without one
	Kind  kind
	Ratio bool   // of two systems or designs: the side of 1 says which is better
	Range string // name of the range that the claim is an end of
	Shape bool   // the paper's hardware differs from ours: only the side of 1 is judged
	Find  string // name of the finder
	Why   string // why the claim is not reproduced
	// Verdict and Reason are those of a statement.
	Verdict, Reason string
	// Set and Base are keys that begin those of all readings.
	Set, Over []string
	// Readings are the ways to read the claim. The first is the one that the text supports best; it
	// decides the verdict.
	Readings []reading

	// Contexts and Papers make one claim per context: {context} in ID and Says, and {paper} in Says,
	// are replaced.
	Contexts []int
	Papers   []float64

	Points []figurePoint // places of the paper's number in figures

	find   finder
	family *claim // for one of several contexts: the file's claim for all of them
}

// figurePoint is the place of a claim's number in a figure, at each of several x.
type figurePoint struct {
	Figure string
	figure.Reference
	Xs []string
}

// finder returns our number for a seed under a reading. The text gives its origin in one line of
// numbers of the runs.
type finder func(e *evidence, seed uint64, r *reading) (finding, error)

// reading is one way to read a claim: its name, "" if the text is unambiguous, and parameters of
// the claim's finder.
type reading struct {
	Name              string
	Base, Metric      string   // a system, and the compared metric
	Placement         string   // comm.balance
	Without           []string // models on traces that are left out, such as "opt-66b on openr1"
	From, To          string   // steps of Fig 10a
	Unit              string   // pim.processing_unit
	Peak              bool     // of the unit; else the rate that attention achieves
	Floor             int      // scheduler.min_prefill_tokens
	Ranksets, Batch   int
	Memory            units.Bytes
	Replica, Adaptive bool // of Fig 11
	sparseReading
}

// finding is the result of one seed for a claim. Arithmetic bounds the paper's system to least and
// most, 0 if unknown.
type finding struct {
	value       float64
	reason      string
	least, most float64
	drawn       bool // the seed draws the run's requests, so that another seed gives another value
	timed       bool // it depends on times of GPU kernels and on no seed
}

// judgement is the verdict on one claim.
type judgement struct {
	ID    string  `json:"id"`
	Paper float64 `json:"paper,omitempty"`
	Outcome
	Reason string    `json:"reason"`        // of the first seed
	Why    string    `json:"why,omitempty"` // why it is not reproduced
	Others []Outcome `json:"other_readings,omitempty"`

	claim *claim
}

// Outcome is a claim's result under one reading.
type Outcome struct {
	Reading string `json:"reading,omitempty"` // "" if the text is unambiguous
	*Number        // nil for a statement
	Verdict string `json:"verdict"`
	// Edge says that the verdict changes within the spread of the seeds, or of the model's own error.
	Edge bool `json:"on_the_edge,omitempty"`

	spread [2]float64 // of Ours: Low and High over the seeds; for one seed by seedSpread, for times of kernels by modelSpread
}

// seedSpread is the relative spread of a number between seeds with 1,000 requests, from four seeds of the best cases
// in the default run. It falls with the square root of the number of requests.
const seedSpread = 0.02

// modelSpread is the least relative error of a number that depends on times of kernels, which no seed changes:
// on held-out iterations the mean error is 1 to 4% (docs/accuracy.md).
const modelSpread = 0.02

// judged writes the verdict.
func (o *Outcome) judged() string {
	if o.Edge {
		return o.Verdict + ", on the edge"
	}
	return o.Verdict
}

// Number is our number. Low and High are the range of Ours over the seeds. All are plain numbers;
// shares are 0 to 1.
type Number struct {
	Ours  float64 `json:"ours"` // mean over the seeds
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	Least float64 `json:"least,omitempty"` // allowed by arithmetic
	Most  float64 `json:"most,omitempty"`
}

// judge finds and judges claims over the seeds of the evidence, under all readings if the evidence
// covers them.
func judge(claims []*claim, e *evidence) ([]judgement, error) {
	judgements := make([]judgement, len(claims))
	for i, c := range claims {
		j := &judgements[i]
		j.ID, j.Paper, j.Why, j.claim = c.ID, c.Paper, c.Why, c
		if c.Kind == statement {
			j.Verdict, j.Reason = c.Verdict, c.Reason
			continue
		}
		var err error
		if j.Outcome, j.Reason, err = e.outcome(c, &c.Readings[0]); err != nil {
			return nil, fmt.Errorf("%s: %w", c.ID, err)
		}
		if !e.readings {
			j.Reading = ""
			continue
		}
		for n := range c.Readings[1:] {
			r := &c.Readings[n+1]
			o, _, err := e.outcome(c, r)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", c.ID, r.Name, err)
			}
			j.Others = append(j.Others, o)
		}
	}
	for i := range judgements {
		j := &judgements[i]
		if j.Number == nil {
			continue
		}
		j.Outcome.decide(judgements, i, func(k *judgement) *Outcome { return &k.Outcome })
		for n := range j.Others {
			j.Others[n].decide(judgements, i, func(k *judgement) *Outcome { return &k.Others[n] })
		}
		// A claim contradicts arithmetic only if every reading does, not just the one that decides.
		if c := j.claim; j.Verdict == contradicted && slices.ContainsFunc(j.Others, func(o Outcome) bool { return !c.beyond(o.Number) }) {
			j.Verdict = compared(judgements, i, j.Ours, func(k *judgement) *Outcome { return &k.Outcome })
		}
	}
	return judgements, nil
}

// decide sets the verdict on a claim under one reading, and whether it is on the edge.
func (o *Outcome) decide(all []judgement, i int, of func(*judgement) *Outcome) {
	o.Verdict = verdict(all, i, of)
	for _, end := range o.spread {
		o.Edge = o.Edge || o.Verdict != contradicted && compared(all, i, end, of) != o.Verdict
	}
}

// outcome returns a claim's number under a reading over the seeds, with the reason of the first.
func (e *evidence) outcome(c *claim, r *reading) (o Outcome, reason string, err error) {
	o = Outcome{Reading: r.Name, Number: &Number{Low: math.Inf(1), High: math.Inf(-1)}}
	drawn, timed := false, false
	for n, seed := range e.seeds {
		f, err := c.find(e, seed, r)
		if err != nil {
			return o, "", err
		}
		if n == 0 {
			reason = f.reason
			o.Least, o.Most = f.least, f.most
		}
		o.Least, o.Most = min(o.Least, f.least), max(o.Most, f.most)
		o.Ours += f.value / float64(len(e.seeds))
		o.Low, o.High = min(o.Low, f.value), max(o.High, f.value)
		drawn, timed = drawn || f.drawn, timed || f.timed
	}
	// The mean of equal numbers may differ from them in its last bit.
	o.Ours = min(max(o.Ours, o.Low), o.High)
	o.spread = [2]float64{o.Low, o.High}
	part := 0.0
	switch {
	case drawn && len(e.seeds) == 1:
		part = float64(o.Ours * seedSpread * math.Sqrt(1000/float64(cmp.Or(e.requests, 1000))))
	case timed:
		part = float64(o.Ours * modelSpread)
	}
	o.spread = [2]float64{o.Low - part, o.High + part}
	return o, reason, nil
}

// verdict judges one claim under one reading.
func verdict(all []judgement, i int, of func(*judgement) *Outcome) string {
	if found := of(&all[i]).Number; all[i].claim.beyond(found) {
		return contradicted
	}
	return compared(all, i, of(&all[i]).Ours, of)
}

// compared judges a number of a claim apart from what arithmetic allows. A range holds if both of its
// ends do; its claims have the same readings in the same order.
func compared(all []judgement, i int, ours float64, of func(*judgement) *Outcome) string {
	c := all[i].claim
	holds := c.holds(ours)
	for k := range all {
		if end := all[k].claim; k != i && c.Kind == rangeEnd && end.Range == c.Range {
			holds = holds && end.holds(of(&all[k]).Ours)
		}
	}
	switch {
	case c.Shape && (holds || c.sameSide(ours)):
		return shapeOnly
	case holds:
		return reproduced
	case c.sameSide(ours) && max(ours/c.Paper, c.Paper/ours) <= far:
		return direction
	case c.sameSide(ours):
		return sameSide
	}
	return notReproduced
}

func (c *claim) holds(ours float64) bool {
	switch c.Kind {
	case atLeast:
		return ours > c.Paper
	case atMost:
		return ours < c.Paper
	}
	return math.Abs(ours-c.Paper) <= tolerance*c.Paper
}

// beyond says that arithmetic rules out the paper's number. A bound may exceed it on its own side.
func (c *claim) beyond(n *Number) bool {
	return c.Kind != atMost && n.Most > 0 && c.Paper > (1+tolerance)*n.Most || c.Kind != atLeast && n.Least > 0 && c.Paper < (1-tolerance)*n.Least
}

// sameSide says that a ratio is on the paper's side of 1.
func (c *claim) sameSide(ours float64) bool {
	return c.Ratio && (c.Paper > 1 && ours > 1 || c.Paper < 1 && ours < 1)
}
