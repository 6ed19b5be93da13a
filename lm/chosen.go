package lm

import (
	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/attention/policy"
)

// Watch sees what a head of a layer attends to in the step whose context has so many tokens. The
// selection is valid until it returns.
type Watch func(layer, head, context int, s policy.Selection)

// chosen is attention of one sequence by a policy, on keys and values in memory. Every head of
// every layer has a state of the policy, which acts on the hidden states that the policy made
// below.
type chosen struct {
	model    *Model
	rounded  bool         // q, k and v are FP16's
	heads    []chosenHead // by layer and head
	work     []chosenWork // by worker
	attended *Attended    // what is attended to; nil: nobody asks
	watch    Watch
}

type chosenHead struct {
	state        policy.State
	keys, values []float32   // [tokens so far, HeadDim]
	queries      []float32   // of the prompt, like keys
	query        [][]float32 // of the latest step, by query head of the group: one
	selection    policy.Selection
	weights      [1][]float32
}

// chosenWork is a worker's scratch.
type chosenWork struct {
	attender *policy.Attender
	scores   []float64 // by token
	ranges   [2][2]int
	part     [1]policy.Part
}

// newChosen returns a decoder of a sequence of up to limit tokens whose attention a policy chooses.
func newChosen(m *Model, v policy.Values, rounded bool, limit int) (*decoder[float64], *chosen, error) {
	d, err := newDecoder[float64](m, []int{limit})
	if err != nil {
		return nil, nil, err
	}
	c := &chosen{model: m, rounded: rounded, heads: make([]chosenHead, m.Layers*m.Heads)}
	for i := range c.heads {
		h := &c.heads[i]
		h.state = v.NewState(i/m.Heads, i%m.Heads, limit)
		h.keys, h.values = make([]float32, 0, limit*m.HeadDim), make([]float32, 0, limit*m.HeadDim)
		h.query = [][]float32{make([]float32, m.HeadDim)}
	}
	for range m.workers {
		c.work = append(c.work, chosenWork{attender: policy.NewAttender(limit, m.HeadDim), scores: make([]float64, limit)})
	}
	d.prefill, d.step = chosenPrefill{c}, c
	return &d, c, nil
}

// narrow appends the values that are stored for a vector.
func (c *chosen) narrow(to []float32, x []float64) []float32 {
	for _, v := range x {
		if c.rounded {
			to = append(to, attention.RoundHalf64(v))
		} else {
			to = append(to, float32(v))
		}
	}
	return to
}

// keep stores a lane's key and value of a head.
func (c *chosen) keep(h *chosenHead, l *lane[float64], head int) {
	h.keys = c.narrow(h.keys, headOf(c.model, l.qkv[1], head))
	h.values = c.narrow(h.values, headOf(c.model, l.qkv[2], head))
}

// chosenPrefill is attention over a prompt.
type chosenPrefill struct{ *chosen }

func (c chosenPrefill) attend(layer int, lanes []*lane[float64]) error {
	m, d := c.model, c.model.HeadDim
	heads := c.heads[layer*m.Heads : (layer+1)*m.Heads]
	m.each(m.Heads, func(_, head int) {
		for _, l := range lanes {
			c.keep(&heads[head], l, head)
			heads[head].queries = c.narrow(heads[head].queries, headOf(m, l.qkv[0], head))
		}
	})
	m.each(len(lanes)*m.Heads, func(worker, n int) {
		l, head := lanes[n/m.Heads], n%m.Heads
		h, w := &heads[head], &c.work[worker]
		sink, window := h.state.PromptMask()
		if window == 0 {
			window = l.position + 1
		}
		w.part[0].Ranges = policy.Streaming{Sink: sink, Window: window}.Ranges(w.ranges[:0], l.position+1)
		policy.Scores(w.scores, h.queries[l.position*d:(l.position+1)*d], h.keys, w.part[0].Ranges)
		w.attender.Attend(headOf(m, l.attended, head), &policy.Selection{Parts: w.part[:]}, 0, w.scores, h.values)
	})
	return nil
}

// begin gives the states the prompt, before the first step.
func (c *chosen) begin(layer int) {
	m := c.model
	m.each(m.Heads, func(_, head int) {
		h := &c.heads[layer*m.Heads+head]
		h.state.Prompt([][]float32{h.queries}, h.keys, h.values)
		h.queries = nil
	})
}

func (c *chosen) attend(layer int, lanes []*lane[float64]) error {
	m, l := c.model, lanes[0]
	if c.heads[layer*m.Heads].queries != nil {
		c.begin(layer)
	}
	m.each(m.Heads, func(worker, head int) { c.head(worker, layer, l, head) })
	if c.attended != nil {
		c.attended.endOfLayer(layer, l.attended)
	}
	for head := 0; c.watch != nil && head < m.Heads; head++ {
		c.watch(layer, head, l.position+1, c.heads[layer*m.Heads+head].selection)
	}
	return nil
}

// head computes one head of a step.
func (c *chosen) head(worker, layer int, l *lane[float64], head int) {
	m, w, h := c.model, &c.work[worker], &c.heads[layer*c.model.Heads+head]
	c.keep(h, l, head)
	last := l.position * m.HeadDim
	h.state.Append(h.keys[last:], h.values[last:])
	h.query[0] = c.narrow(h.query[0][:0], headOf(m, l.qkv[0], head))
	h.selection = h.state.Select(h.query)
	scores := w.scores[:l.position+1]
	if c.attended != nil {
		w.ranges[0] = [2]int{0, len(scores)}
		policy.Scores(scores, h.query[0], h.keys, w.ranges[:1])
	} else {
		for i := range h.selection.Parts {
			policy.Scores(scores, h.query[0], h.keys, h.selection.Parts[i].Ranges)
		}
	}
	var lse float64
	out := headOf(m, l.attended, head)
	lse, h.weights[0] = w.attender.Attend(out, &h.selection, 0, scores, h.values)
	if c.attended != nil {
		c.attended.head(worker, layer, head, h, scores, out, lse)
	}
	h.state.Observe(h.weights[:])
}
