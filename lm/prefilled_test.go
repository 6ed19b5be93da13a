package lm

import (
	"slices"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
)

// prefilled is the reference prompt after attention to everything, from which sessions of policies
// go on.
type prefilled struct {
	model *Model
	kept  []keptHead
	q     [][]float32 // of the prompt, by layer and head
	limit int
}

func newPrefilled(t *testing.T, m *Model, steps int) *prefilled {
	p := &prefilled{model: m, limit: referencePrompt + steps, q: make([][]float32, m.Layers*m.Heads)}
	s := p.session(p, nil)
	if _, err := s.Prefill(0, SampleText()[:referencePrompt]); err != nil {
		t.Fatal(err)
	}
	p.kept = s.host.kept[0]
	return p
}

// NewState returns a state that keeps the prompt's queries.
func (p *prefilled) NewState(layer, head, _ int) policy.State {
	return &keepsPrompt{to: &p.q[layer*p.model.Heads+head]}
}

type keepsPrompt struct {
	policy.State
	to *[]float32
}

func (k *keepsPrompt) PromptMask() (sink, window int) { return 0, 0 }

func (k *keepsPrompt) Prompt(q [][]float32, _, _ []float32) { *k.to = slices.Clone(q[0]) }

// session returns one that has no tokens yet.
func (p *prefilled) session(v policy.Values, r *policyReference) *Session {
	s, err := newSession(p.model, []int{p.limit})
	if err != nil {
		panic(err)
	}
	s.host = newHost(p.model, []int{p.limit}, true)
	var attended *Attended
	if r != nil {
		r.attended = newAttended(p.model.Shape, p.limit-referencePrompt)
		attended = r.attended
	}
	s.chosen = newChosen(p.model, s.host, v, []int{p.limit}, attended, nil)
	return s
}

// fork returns a session of a policy after the prompt.
func (p *prefilled) fork(v policy.Values, r *policyReference) *Session {
	s := p.session(v, r)
	for i, k := range p.kept {
		copy(s.host.kept[0][i].keys, k.keys[:referencePrompt*p.model.HeadDim])
		copy(s.host.kept[0][i].values, k.values[:referencePrompt*p.model.HeadDim])
		s.chosen.sequences[0].heads[i].prompt[0] = p.q[i]
	}
	s.chosen.begin(0, referencePrompt)
	s.reads[0].length = referencePrompt
	return s
}

// masked returns a session of a policy that masks prompts.
func (p *prefilled) masked(t *testing.T, v policy.Values, r *policyReference) *Session {
	s := p.session(v, r)
	if _, err := s.Prefill(0, SampleText()[:referencePrompt]); err != nil {
		t.Fatal(err)
	}
	return s
}

// oracleValues attend to a step's own token and to the others with the highest scores, up to
// a budget.
type oracleValues struct{ budget, dim int }

func (o oracleValues) NewState(_, _, limit int) policy.State {
	return &oracle{oracleValues: o, scores: make([]float32, limit), scratch: make([]float32, limit)}
}

type oracle struct {
	oracleValues
	keys, scores, scratch []float32
	ranges                [][2]int
}

func (o *oracle) PromptMask() (sink, window int)       { return 0, 0 }
func (o *oracle) Prompt(_ [][]float32, k, _ []float32) { o.keys = slices.Clone(k) }
func (o *oracle) Append(k, _ []float32)                { o.keys = append(o.keys, k...) }
func (o *oracle) Observe([][]float32)                  {}

func (o *oracle) Select(q [][]float32) policy.Selection {
	others := len(o.keys)/o.dim - 1
	scores := o.scores[:others]
	policy.Scores(scores, q[0], o.keys, [][2]int{{0, others}})
	cut, ties := policy.Cut(scores, min(o.budget-1, others), o.scratch)
	o.ranges = o.ranges[:0]
	for i, x := range scores {
		if x == cut && ties > 0 {
			ties--
		} else if !(x > cut) {
			continue
		}
		o.ranges = append(o.ranges, [2]int{i, i + 1})
	}
	o.ranges = append(o.ranges, [2]int{others, others + 1})
	return policy.Selection{Parts: []policy.Part{{Ranges: o.ranges}}}
}
