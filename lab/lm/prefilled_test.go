package lm

import (
	"slices"
	"testing"

	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/attention/policy"
)

// prefilled is the reference prompt under full attention, from which decoders of policies continue.
type prefilled struct {
	model *Model
	heads []chosenHead
	limit int
}

func newPrefilled(t *testing.T, m *Model, steps int) *prefilled {
	p := &prefilled{model: m, limit: referencePrompt + steps}
	dense := policies.New("dense")
	v, err := policy.NewValues(&dense, m.Attention())
	if err != nil {
		t.Fatal(err)
	}
	p.heads = p.masked(t, v, nil).step.(*chosen[float64]).heads
	return p
}

// masked returns a decoder of a policy that has computed the prompt.
func (p *prefilled) masked(t *testing.T, v policy.Values, r *policyReference) *decoder[float64] {
	d := p.decoder(t, v, r)
	if _, err := d.Prefill(0, SampleText()[:referencePrompt]); err != nil {
		t.Fatal(err)
	}
	return d
}

// fork returns a decoder of a policy after a prompt with attention to everything.
func (p *prefilled) fork(t *testing.T, v policy.Values, r *policyReference) *decoder[float64] {
	d := p.decoder(t, v, r)
	for i := range p.heads {
		h := &d.step.(*chosen[float64]).heads[i]
		h.keys, h.values = append(h.keys, p.heads[i].keys...), append(h.values, p.heads[i].values...)
		h.queries = p.heads[i].queries
	}
	d.reads[0].length = referencePrompt
	return d
}

func (p *prefilled) decoder(t *testing.T, v policy.Values, r *policyReference) *decoder[float64] {
	d, c, err := newChosen[float64](p.model, v, p.limit)
	if err != nil {
		t.Fatal(err)
	}
	if r != nil {
		r.attended = newAttended(p.model, p.limit, r.steps)
		c.attended = r.attended
	}
	return d
}

// oracleValues attend to a step's own token and to the others with the highest scores, within a
// budget.
type oracleValues struct{ budget, dim int }

func (o oracleValues) NewState(_, _, limit int) policy.State {
	return &oracle{oracleValues: o, scores: make([]float64, limit), scratch: make([]float64, limit)}
}

type oracle struct {
	oracleValues
	keys            []float32
	scores, scratch []float64
	ranges          [][2]int
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

// valuesOf returns a policy with its own settings.
func valuesOf(tb testing.TB, m *Model, name string) policy.Values {
	tb.Helper()
	s := policies.New(name)
	v, err := policy.NewValues(&s, m.Attention())
	if err != nil {
		tb.Fatal(err)
	}
	return v
}
