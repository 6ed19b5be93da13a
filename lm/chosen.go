package lm

import (
	"github.com/l3sim/l3sim/attention/policy"
)

// Watch sees what a head of a layer attends to in the step whose context has so many tokens. The
// selection is valid until it returns.
type Watch func(layer, head, context int, s policy.Selection)

// chosen is attention by a policy on keys and values in memory. Every head of every layer has
// a state of the policy, which acts on the hidden states that the policy made below.
type chosen struct {
	*host
	values    policy.Values
	sequences []chosenSequence
	attenders []*policy.Attender // by worker
	attended  *Attended
	watch     Watch
}

// chosenSequence is the states of a sequence by layer and head.
type chosenSequence struct {
	heads []chosenHead
	limit int
}

type chosenHead struct {
	state     policy.State
	prompt    [1][]float32 // queries while the prompt is prefilled: [positions, HeadDim]
	query     [1][]float32
	selection policy.Selection // of the latest step
	weights   [1][]float32
}

// newChosen returns one for sequences of those lengths. attended sees what the first sequence
// attends to, and watch too; both may be nil.
func newChosen(m *Model, h *host, v policy.Values, lengths []int, attended *Attended, watch Watch) *chosen {
	c := &chosen{host: h, values: v, attended: attended, watch: watch}
	longest := 0
	for _, n := range lengths {
		s := chosenSequence{heads: make([]chosenHead, m.Layers*m.Heads), limit: n}
		for i := range s.heads {
			s.heads[i].state = v.NewState(i/m.Heads, i%m.Heads, n)
		}
		c.sequences = append(c.sequences, s)
		longest = max(longest, n)
	}
	for range m.workers {
		c.attenders = append(c.attenders, policy.NewAttender(longest, m.HeadDim))
	}
	if attended != nil {
		attended.start(m.workers, longest)
	}
	return c
}

// chosenPrefill is attention over a prompt.
type chosenPrefill struct{ *chosen }

func (c chosenPrefill) attend(layer int, lanes []*lane) error {
	m := c.model
	c.keep(layer, lanes)
	m.each(m.Heads, func(_, head int) {
		for _, l := range lanes {
			h := &c.sequences[l.sequence].heads[layer*m.Heads+head]
			h.prompt[0] = append(h.prompt[0], m.headOf(l.qkv[0], head)...)
		}
	})
	m.each(len(lanes)*m.Heads, func(worker, n int) {
		l, head := lanes[n/m.Heads], n%m.Heads
		at := layer*m.Heads + head
		kept, q, out := &c.kept[l.sequence][at], m.headOf(l.qkv[0], head), m.headOf(l.attended, head)
		sink, window := c.sequences[l.sequence].heads[at].state.PromptMask()
		if window == 0 {
			c.head(worker, kept, l.position+1, q, out)
			return
		}
		part := [1]policy.Part{{Ranges: policy.Streaming{Sink: sink, Window: window}.Ranges(nil, l.position+1)}}
		policy.Scores(c.scores[worker], q, kept.keys, part[0].Ranges)
		c.attenders[worker].Attend(out, &policy.Selection{Parts: part[:]}, 0, c.scores[worker], kept.values)
	})
	return nil
}

// begin gives the states a prompt of n tokens.
func (c *chosen) begin(sequence, n int) {
	m := c.model
	heads := c.sequences[sequence].heads
	m.each(len(heads), func(_, i int) {
		kept := &c.kept[sequence][i]
		heads[i].state.Prompt(heads[i].prompt[:], kept.keys[:n*m.HeadDim], kept.values[:n*m.HeadDim])
		heads[i].prompt[0] = nil
	})
}

func (c *chosen) attend(layer int, lanes []*lane) error {
	m := c.model
	c.keep(layer, lanes)
	m.each(len(lanes)*m.Heads, func(worker, n int) { c.step(worker, layer, lanes[n/m.Heads], n%m.Heads) })
	for _, l := range lanes {
		if l.sequence > 0 {
			continue
		}
		if c.attended != nil {
			c.attended.endOfLayer(layer, l.attended)
		}
		for head := 0; c.watch != nil && head < m.Heads; head++ {
			c.watch(layer, head, l.position+1, c.sequences[0].heads[layer*m.Heads+head].selection)
		}
	}
	return nil
}

// step computes one head of a lane.
func (c *chosen) step(worker, layer int, l *lane, head int) {
	m := c.model
	at, n := layer*m.Heads+head, l.position+1
	h, kept := &c.sequences[l.sequence].heads[at], &c.kept[l.sequence][at]
	last := l.position * m.HeadDim
	h.state.Append(kept.keys[last:last+m.HeadDim], kept.values[last:last+m.HeadDim])
	h.query[0] = m.headOf(l.qkv[0], head)
	h.selection = h.state.Select(h.query[:])
	scores := c.scores[worker][:n]
	measured := c.attended != nil && l.sequence == 0
	if measured {
		policy.Scores(scores, h.query[0], kept.keys, [][2]int{{0, n}})
	} else {
		for _, p := range h.selection.Parts {
			policy.Scores(scores, h.query[0], kept.keys, p.Ranges)
		}
	}
	var lse float64
	lse, h.weights[0] = c.attenders[worker].Attend(m.headOf(l.attended, head), &h.selection, 0, scores, kept.values)
	h.state.Observe(h.weights[:])
	if measured {
		c.attended.head(worker, layer, head, h, scores, kept.values, lse)
	}
}
