package lm

import (
	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/llm"
)

// Watch is called with a head's selection in a step of that context. The selection is valid until
// it returns.
type Watch func(layer, head, context int, s policy.Selection)

// chosen is attention of one sequence by a policy. Every head of every layer has a state of the policy, which acts on the
// hidden states that result from the policy in lower layers. q, k and v are rounded to FP16, as DIMMs store them, or k and
// v to values of 8 or 4 bits. Prompts are computed in memory, and so are decode steps without DIMMs.
type chosen[T real] struct {
	model    *Model
	heads    []chosenHead // by layer and head
	work     []chosenWork // by worker
	homes    *homes       // the DIMMs; nil without
	narrow   *narrowing   // of keys and values; nil: 16 bits
	attended *Attended    // record of attention; nil: none
	watch    Watch
}

// chosenHead is one KV head of a sequence: the policy's state, keys and values, and the latest choice.
type chosenHead struct {
	state        policy.State
	keys, values []float32   // [tokens so far, HeadDim]
	queries      []float32   // of the prompt, like keys
	query        [][]float32 // of the latest step, by query head of the group
	selection    policy.Selection
	weights      [1][]float32
	narrow       narrowHead
}

// chosenWork is a worker's scratch.
type chosenWork struct {
	attender   *policy.Attender
	scores     []float64 // by token
	out, exact []float64 // [HeadDim]
	ranges     [2][2]int
	part       [1]policy.Part
	err        error
}

// newChosen returns a decoder of a sequence of up to limit tokens whose attention a policy chooses.
func newChosen[T real](m *Model, v policy.Values, limit int) (*decoder[T], *chosen[T], error) {
	d, err := newDecoder[T](m, []int{limit})
	if err != nil {
		return nil, nil, err
	}
	c := &chosen[T]{model: m, heads: make([]chosenHead, m.Layers*m.Heads)}
	for i := range c.heads {
		h := &c.heads[i]
		h.state = v.NewState(i/m.Heads, i%m.Heads, limit)
		h.keys, h.values = make([]float32, 0, limit*m.HeadDim), make([]float32, 0, limit*m.HeadDim)
		h.query = [][]float32{make([]float32, m.HeadDim)}
	}
	for range m.workers {
		c.work = append(c.work, chosenWork{attender: policy.NewAttender(limit, m.HeadDim), scores: make([]float64, limit),
			out: make([]float64, m.HeadDim), exact: make([]float64, m.HeadDim)})
	}
	d.prefill, d.step = chosenPrefill[T]{c}, c
	return &d, c, nil
}

// narrow appends the values stored for a vector.
func narrow[T real](to []float32, x []T) []float32 {
	for _, v := range x {
		to = append(to, attention.RoundHalf64(float64(v)))
	}
	return to
}

func widen[T real](to []T, x []float64) {
	for i, v := range x {
		to[i] = T(v)
	}
}

// keep stores a lane's key and value of a head.
func (c *chosen[T]) keep(h *chosenHead, l *lane[T], head int) {
	h.keys = narrow(h.keys, headOf(c.model, l.qkv[1], head))
	h.values = narrow(h.values, headOf(c.model, l.qkv[2], head))
}

// chosenPrefill is attention over a prompt.
type chosenPrefill[T real] struct{ *chosen[T] }

// attend computes a prompt's attention under the policy's mask, and keeps keys, values and queries for
// choices in decode steps.
func (c chosenPrefill[T]) attend(layer int, lanes []*lane[T]) error {
	m, d := c.model, c.model.HeadDim
	heads := c.heads[layer*m.Heads : (layer+1)*m.Heads]
	m.each(m.Heads, func(_, head int) {
		for _, l := range lanes {
			c.keep(&heads[head], l, head)
			heads[head].queries = narrow(heads[head].queries, headOf(m, l.qkv[0], head))
		}
	})
	m.each(len(lanes)*m.Heads, func(worker, n int) {
		l, head := lanes[n/m.Heads], n%m.Heads
		h, w := &heads[head], &c.work[worker]
		sink, window := h.state.PromptMask()
		if window == 0 {
			window = l.position + 1
		}
		w.part[0].Ranges = policies.Streaming{Sink: sink, Window: window}.Ranges(w.ranges[:0], l.position+1)
		policy.Scores(w.scores, h.queries[l.position*d:(l.position+1)*d], h.keys, w.part[0].Ranges)
		w.attender.Attend(w.out, &policy.Selection{Parts: w.part[:]}, 0, w.scores, h.values)
		widen(headOf(m, l.attended, head), w.out)
	})
	return nil
}

// begin passes the prompt to the states, before the first step.
func (c *chosen[T]) begin(layer int) {
	m := c.model
	if c.narrow != nil {
		c.narrow.fit(layer, c.heads[layer*m.Heads:(layer+1)*m.Heads])
	}
	m.each(m.Heads, func(_, head int) {
		h := &c.heads[layer*m.Heads+head]
		if c.narrow != nil {
			c.narrow.narrow(layer, m.HeadDim, h)
		}
		h.state.Prompt([][]float32{h.queries}, h.keys, h.values)
		h.queries = nil
	})
}

// attend chooses and attends over one token's heads, in parallel.
func (c *chosen[T]) attend(layer int, lanes []*lane[T]) error {
	m, l := c.model, lanes[0]
	if c.heads[layer*m.Heads].queries != nil {
		c.begin(layer)
	}
	m.each(m.Heads, func(worker, head int) {
		if w := &c.work[worker]; w.err == nil {
			w.err = c.head(worker, layer, l, head)
		}
	})
	for i := range c.work {
		if err := c.work[i].err; err != nil {
			return err
		}
	}
	if c.attended != nil {
		endOfLayer(c.attended, layer, l.attended)
	}
	for head := 0; c.watch != nil && head < m.Heads; head++ {
		c.watch(layer, head, l.position+1, c.heads[layer*m.Heads+head].selection)
	}
	return nil
}

func (c *chosen[T]) head(worker, layer int, l *lane[T], head int) (err error) {
	m, w, at := c.model, &c.work[worker], layer*c.model.Heads+head
	h := &c.heads[at]
	if c.narrow != nil && c.narrow.scales == llm.ChannelScales {
		c.narrow.narrow(layer, m.HeadDim, h) // the group of the step before, if that has filled it
	}
	c.keep(h, l, head)
	if c.narrow != nil && c.narrow.scales != llm.ChannelScales {
		c.narrow.narrow(layer, m.HeadDim, h)
	}
	last := l.position * m.HeadDim
	h.state.Append(h.keys[last:], h.values[last:])
	h.query[0] = narrow(h.query[0][:0], headOf(m, l.qkv[0], head))
	if c.homes != nil {
		if err := c.homes.bound(worker, at); err != nil {
			return err
		}
	}
	h.selection = h.state.Select(h.query)
	out := w.out
	if c.homes != nil {
		if h.weights[0], err = c.homes.attend(worker, at, h, out); err != nil {
			return err
		}
	}
	if c.homes == nil || c.attended != nil {
		c.exactly(worker, layer, head, h, l.position+1)
	}
	if c.homes == nil {
		copy(out, w.exact)
	}
	got := headOf(m, l.attended, head)
	widen(got, out)
	if c.homes != nil && c.attended != nil {
		c.homes.compare(worker, out, w.exact)
	}
	h.state.Observe(h.weights[:])
	return nil
}

// exactly attends to the selection in float64, and compares the result with attention to all
// tokens.
func (c *chosen[T]) exactly(worker, layer, head int, h *chosenHead, context int) {
	w := &c.work[worker]
	scores := w.scores[:context]
	if c.attended != nil {
		w.ranges[0] = [2]int{0, context}
		policy.Scores(scores, h.query[0], h.keys, w.ranges[:1])
	} else {
		for i := range h.selection.Parts {
			policy.Scores(scores, h.query[0], h.keys, h.selection.Parts[i].Ranges)
		}
	}
	lse, weights := w.attender.Attend(w.exact, &h.selection, 0, scores, h.values)
	if c.homes == nil {
		h.weights[0] = weights
	}
	if c.attended != nil {
		c.attended.head(worker, layer, head, h, scores, w.exact, lse)
	}
}
