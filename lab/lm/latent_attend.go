package lm

import (
	"fmt"
	"math"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units/portable"
)

// LatentForm says how latent attention is computed.
type LatentForm struct {
	// Expanded attends to keys and values of each head that are made from the rows; otherwise attention uses the rows
	// themselves.
	Expanded bool
	Rows     string // format of stored rows: "fp16", "bf16", or "" for the computed form
	Index    string // format of index keys and their queries: "fp8" with a scale per vector, as in DeepSeek-V3.2, "bf16", or ""
}

// Check has the rules of a form.
func (f LatentForm) Check(c *input.Check) {
	input.OneOf(c, "rows", f.Rows, "", "fp16", "bf16")
	input.OneOf(c, "index", f.Index, "", "fp8", "bf16")
}

// roundIndex replaces an index key, or a head's query for one, by its stored value.
func roundIndex(v []float64, format string) {
	switch format {
	case "bf16":
		for i, x := range v {
			v[i] = roundRow(x, format)
		}
	case "fp8":
		most := 0.0
		for _, x := range v {
			most = max(most, math.Abs(x))
		}
		scale := max(float64(float32(most/attention.E4M3Max)), 0x1p-126)
		for i, x := range v {
			v[i] = scale * float64(attention.E4M3Table()[attention.Float32ToE4M3(float32(x/scale))])
		}
	}
}

// latentAttend is attention of sequences whose tokens leave one row for all heads, in T. A policy, if any, chooses by layer, for all
// heads together or for some.
type latentAttend[T real] struct {
	model *Model
	form  LatentForm
	kept  [][]keptRows[T] // by sequence and layer
	work  []latentWork[T] // by worker
	watch Watch
	see   func(layer int, l *lane[T], s policy.State) // called after a choice; nil: not called
}

// keptRows is the data of a sequence in a layer, and the state that chooses from it.
type keptRows[T real] struct {
	rows         []T // [tokens so far, Row]
	keys, values []T // [tokens so far, Heads·Key] and [.., Heads·Value]; only if expanded
	state        policy.State
	indexed      policy.IndexedState   // state, if it chooses by the indexer
	follows      policy.FollowingState // state, if it shares the choice of a lower layer
	narrow       []float32             // rows, for states
	queries      [][]float32           // by head, [tokens of the prompt, Row], for states that choose only in decode steps
	weights      [][]float32           // by head, for Observe
}

type latentWork[T real] struct{ scores []T } // by token

func newLatentAttend[T real](m *Model, form LatentForm, v policy.Values, limits []int) *latentAttend[T] {
	a := &latentAttend[T]{model: m, form: form, work: make([]latentWork[T], m.workers)}
	longest := 0
	for _, n := range limits {
		layers := make([]keptRows[T], m.Layers)
		for i := range layers {
			k := &layers[i]
			k.rows, k.weights = make([]T, 0, n*m.Latent.Row()), make([][]float32, m.Heads)
			if v != nil {
				k.state = v.NewState(i, 0, n)
				k.indexed, _ = k.state.(policy.IndexedState)
				k.follows, _ = k.state.(policy.FollowingState)
				k.queries = make([][]float32, m.Heads)
			}
		}
		a.kept, longest = append(a.kept, layers), max(longest, n)
	}
	for i := range a.work {
		a.work[i].scores = make([]T, longest)
	}
	return a
}

// latentPrefill is attention over a prompt.
type latentPrefill[T real] struct{ *latentAttend[T] }

// attend computes a prompt's attention: to what each token chooses by the indexer, or under the
// policy's mask.
func (a latentPrefill[T]) attend(layer int, lanes []*lane[T]) error {
	return a.layer(layer, lanes, true)
}

// attend computes a decode step.
func (a *latentAttend[T]) attend(layer int, lanes []*lane[T]) error {
	return a.layer(layer, lanes, false)
}

func (a *latentAttend[T]) layer(layer int, lanes []*lane[T], prompt bool) error {
	m, s, matrix := a.model, &a.model.Latent, a.model.layers[layer].latent.expand
	m.each(len(lanes), func(_, n int) {
		l := lanes[n]
		for i, x := range l.latent.row {
			l.latent.row[i] = roundRow(x, a.form.Rows)
		}
		if !a.form.Expanded {
			attention.Absorb(&s.Latent, l.latent.absorbed, matrix, l.latent.queries)
		}
	})
	for _, l := range lanes { // in the order of their positions
		k := &a.kept[l.sequence][layer]
		a.keep(k, matrix, l)
		l.latent.selected = policy.Selection{Parts: []policy.Part{{Ranges: [][2]int{{0, l.position + 1}}}}}
		if k.state != nil {
			if err := a.choose(k, l, prompt); err != nil {
				return err
			}
		}
		if a.see != nil {
			a.see(layer, l, k.state)
		}
		if a.watch != nil && !prompt {
			a.watch(layer, 0, l.position+1, l.latent.selected)
		}
	}
	m.each(len(lanes)*m.Heads, func(worker, n int) {
		l, head := lanes[n/m.Heads], n%m.Heads
		a.head(&a.work[worker], &a.kept[l.sequence][layer], l, head)
	})
	m.each(len(lanes), func(_, n int) {
		if !a.form.Expanded {
			attention.Project(&s.Latent, lanes[n].attended, matrix, lanes[n].latent.latents)
		}
	})
	for _, l := range lanes {
		if k := &a.kept[l.sequence][layer]; k.state != nil && !prompt {
			k.state.Observe(k.weights)
		}
	}
	return nil
}

// roundRow rounds an element to its stored format.
func roundRow[T real](x T, format string) T {
	switch format {
	case "fp16":
		return T(attention.RoundHalf64(float64(x)))
	case "bf16":
		return T(attention.BFloat16ToFloat32(attention.Float32ToBFloat16(float32(x))))
	}
	return x
}

// keep appends a token's row, and the keys and values made from it.
func (a *latentAttend[T]) keep(k *keptRows[T], matrix []float32, l *lane[T]) {
	s := &a.model.Latent
	k.rows = append(k.rows, l.latent.row...)
	if !a.form.Expanded {
		return
	}
	n := l.position
	k.keys = append(k.keys, make([]T, s.Heads*s.Key())...)
	k.values = append(k.values, make([]T, s.Heads*s.Value)...)
	attention.Expand(&s.Latent, k.keys[n*s.Heads*s.Key():], k.values[n*s.Heads*s.Value:], matrix, l.latent.row)
}

// choose sets what the heads of a token attend to. States see the rows as keys and values of one KV head, and absorbed queries; divided
// by √Row, these give the scores of either form.
func (a *latentAttend[T]) choose(k *keptRows[T], l *lane[T], prompt bool) error {
	if k.indexed != nil {
		x, dim := &l.latent.index.wide, a.model.Latent.IndexDim
		roundIndex(x.Key, a.form.Index)
		for h := range a.model.Latent.IndexHeads {
			roundIndex(x.Queries[h*dim:(h+1)*dim], a.form.Index)
		}
		k.indexed.Index(x)
		l.latent.selected = copied(k.state.Select(nil))
		l.latent.choice = l.latent.selected
		return nil
	}
	if k.follows != nil {
		k.follows.Follow(l.latent.choice)
		l.latent.selected = copied(k.state.Select(nil))
		return nil
	}
	s := &a.model.Latent
	if a.form.Expanded {
		return input.Errorf("a policy other than \"dsa\" with expanded keys and values: expected the absorbed form, whose one KV head it chooses for")
	}
	row := narrowTo32(nil, l.latent.row, 1)
	k.narrow = append(k.narrow, row...)
	scale := s.Scale() * math.Sqrt(float64(s.Row()))
	if prompt {
		for h := range k.queries {
			k.queries[h] = narrowTo32(k.queries[h], l.latent.absorbed[h*s.Row():(h+1)*s.Row()], scale)
		}
		if sink, window := k.state.PromptMask(); window > 0 {
			l.latent.selected.Parts[0].Ranges = policies.Streaming{Sink: sink, Window: window}.Ranges(nil, l.position+1)
		}
		return nil
	}
	if k.queries != nil {
		past := k.narrow[:len(k.narrow)-len(row)]
		k.state.Prompt(k.queries, past, past)
		k.queries = nil
	}
	k.state.Append(row, row)
	queries := make([][]float32, s.Heads)
	for h := range queries {
		queries[h] = narrowTo32(nil, l.latent.absorbed[h*s.Row():(h+1)*s.Row()], scale)
	}
	l.latent.selected = copied(k.state.Select(queries))
	return nil
}

// narrowTo32 appends scaled elements.
func narrowTo32[T real](to []float32, x []T, scale float64) []float32 {
	for _, v := range x {
		to = append(to, float32(float64(v)*scale))
	}
	return to
}

// copied returns a selection that outlives the next choice.
func copied(s policy.Selection) policy.Selection {
	parts := append([]policy.Part(nil), s.Parts...)
	for i := range parts {
		parts[i].Ranges = append([][2]int(nil), parts[i].Ranges...)
	}
	return policy.Selection{Parts: parts}
}

// head computes a head's attention over what its token attends to.
func (a *latentAttend[T]) head(w *latentWork[T], k *keptRows[T], l *lane[T], head int) {
	s := &a.model.Latent
	v := vectors[T]{
		query: l.latent.absorbed[head*s.Row() : (head+1)*s.Row()], keys: k.rows, key: s.Row(),
		values: k.rows, value: s.Row(), out: l.latent.latents[head*s.Latent.Latent : (head+1)*s.Latent.Latent],
	}
	if a.form.Expanded {
		v = vectors[T]{
			query: l.latent.queries[head*s.Key() : (head+1)*s.Key()], keys: k.keys[head*s.Key():], key: s.Heads * s.Key(),
			values: k.values[head*s.Value:], value: s.Heads * s.Value, out: headOf(a.model, l.attended, head),
		}
	}
	k.weights[head] = v.attend(w.scores, &l.latent.selected, head, s.Scale(), k.weights[head][:0])
}

// vectors are a query, keys and values with their strides, and the result, which has the length of a
// value.
type vectors[T real] struct {
	query        []T
	keys, values []T
	key, value   int // distance in elements between successive vectors
	out          []T
}

// attend computes the attention of a query head over its parts of a selection, and appends the weights of each part to seen.
func (v *vectors[T]) attend(scores []T, sel *policy.Selection, head int, scale float64, seen []float32) []float32 {
	at, top := scores[:0], math.Inf(-1)
	for i := range sel.Parts {
		if !sel.Parts[i].For(head) {
			continue
		}
		for _, r := range sel.Parts[i].Ranges {
			for t := r[0]; t < r[1]; t++ {
				score := dotOf(v.query, v.keys[t*v.key:][:len(v.query)]) * T(scale)
				at = append(at, score)
				top = max(top, float64(score))
			}
		}
	}
	clear(v.out)
	var all T
	at = at[:0]
	for i := range sel.Parts {
		if !sel.Parts[i].For(head) {
			continue
		}
		first, part := len(seen), T(0)
		for _, r := range sel.Parts[i].Ranges {
			for t := r[0]; t < r[1]; t++ {
				n := len(at)
				at = at[:n+1]
				w := T(portable.Exp(float64(at[n]) - top))
				part += w
				seen = append(seen, float32(w))
				out, value := v.out, v.values[t*v.value:][:len(v.out)]
				for e, x := range value {
					out[e] += T(w * x)
				}
			}
		}
		for n := first; n < len(seen); n++ {
			seen[n] /= float32(part)
		}
		all += part
	}
	for e := range v.out {
		v.out[e] /= all
	}
	return seen
}

// dotOf returns x·y. Four sums hide the latency of additions.
func dotOf[T real](x, y []T) T {
	var a, b, c, d T
	y = y[:len(x)]
	for ; len(x) >= 4; x, y = x[4:], y[4:] {
		x, y := (*[4]T)(x), (*[4]T)(y) // one check for four
		a += T(x[0] * y[0])
		b += T(x[1] * y[1])
		c += T(x[2] * y[2])
		d += T(x[3] * y[3])
	}
	for i, v := range x {
		a += T(v * y[i])
	}
	return (a + b) + (c + d)
}

// newLatentDecoder returns a decoder of sequences of a model with latent attention.
func newLatentDecoder[T real](m *Model, form LatentForm, v policy.Values, limits []int) (*decoder[T], *latentAttend[T], error) {
	if err := input.Validate(form); err != nil {
		return nil, nil, err
	}
	d, err := newDecoder[T](m, limits)
	if err != nil {
		return nil, nil, err
	}
	a := newLatentAttend[T](m, form, v, limits)
	d.prefill, d.step = latentPrefill[T]{a}, a
	return &d, a, nil
}

// noDIMMs refuses DIMMs for latent attention.
func (m *Model) noDIMMs() error {
	return &input.Error{Key: "attention", Value: "in DIMMs", Expected: "'l3lab eval --reference' for a model with latent attention: its rows are not computed on in the simulated DIMMs"}
}

// texts refuses, for callers with texts, a model whose tokens are no bytes.
func (m *Model) texts() error {
	if m.Vocab == vocabulary {
		return nil
	}
	return &input.Error{Key: "__metadata__.vocab", Value: fmt.Sprintf("%q", fmt.Sprint(m.Vocab)), Expected: fmt.Sprintf("\"%d\": the tokens of a text are bytes", vocabulary)}
}
