package values

import (
	"cmp"
	"fmt"
	"math"

	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
	"github.com/l3sim/l3sim/units/portable"
)

// bufferUnit computes the values of the unit in the buffer chip: adders over the chips and over the quads, softmax unit, score buffer, and
// merging of segments.
type bufferUnit struct {
	score, sum, weights, context, output bool // FP16, else FP32
	segment                              int  // tokens that fit the score buffer for each query head

	// scores is the score buffer: unscaled scores by query head and token of the segment. It grows to its limit as needed.
	scores [][]float32
	chunk  []float32   // partial sums of the current chunk, summed over the chips
	heads  []softmax   // by query head
	reads  []float32   // accumulators of one query head, by burst of the value (if values are in keys), bank, chip and element
	adders []float32   // operands of one sum
	merged [][]float32 // by query head, the output so far over PaddedValueDim elements
	exact  []softmax   // by query head, the state over the merged segments
	// For narrow keys and values. terms: a query's numbers, as they enter the shared buffers. products: the terms of a query's sum (queryFold).
	// zeros: the part of outputs due to values' zeros, by query head and token of a column.
	terms, products, zeros []float32
	folds                  []queryFold
}

// softmax is the softmax unit's state for one query head: the largest scaled score so far, and the sum of exponentials relative to it.
// scale is a power of two above the scales of narrow values.
type softmax struct{ maximum, total, scale float32 }

// noScores is the state before the first score.
var noScores = softmax{maximum: float32(math.Inf(-1))}

func (r *bufferUnit) init(p *machine.Plan, m *pim.Mapping, queries int, precision pim.Precision) {
	*r = bufferUnit{
		score: precision.Score == pim.FP16, sum: precision.SoftmaxSum == pim.FP16, weights: precision.Weights == pim.FP16,
		context: precision.Context == pim.FP16, output: precision.Output == pim.FP16,
		segment: p.SegmentTokens,
		scores:  make([][]float32, queries), merged: make([][]float32, queries),
		heads: make([]softmax, queries), exact: make([]softmax, queries),
		chunk:  make([]float32, m.Banks),
		adders: make([]float32, max(m.Chips, m.Banks)),
		zeros:  make([]float32, queries*m.ColumnTokens), folds: make([]queryFold, queries),
	}
	dim := len(padded(make([]float32, 2*m.HeadDim), m.HeadDim))
	r.terms, r.products = make([]float32, dim), make([]float32, dim)
	for q := range queries {
		r.merged[q] = make([]float32, m.PaddedValueDim)
		fillNaN(r.merged[q])
		r.heads[q] = softmax{maximum: float32(math.NaN()), total: float32(math.NaN())}
	}
	bursts := 1
	if m.InKey {
		bursts = m.ValueBursts
	}
	r.reads = make([]float32, bursts*m.Chips*m.Banks*m.ChipElements())
	fillNaN(r.chunk)
	fillNaN(r.reads)
}

func exp(x float32) float32 { return float32(portable.Exp(float64(x))) }

// readPartials processes one burst of partial sums: the adders sum each bank's over the chips, and the last burst of a chunk passes the
// chunk to the softmax unit.
func (m *valueMachine) readPartials(in *machine.Instruction) error {
	g, r := &m.mapping, &m.buffer
	half := m.precision.Accumulate == pim.FP16
	chips := r.adders[:g.Chips]
	banks := min(g.Banks, g.BurstBytes/g.Chips/m.precision.Accumulate.Bytes())
	slot := (int(in.Slot)*m.macs + int(in.Query)%m.macs) * g.Banks
	for b := int(in.Burst) * banks; b < (int(in.Burst)+1)*banks; b++ {
		for c := range chips {
			chips[c] = m.chips[c].partials[slot+b]
		}
		r.chunk[b] = tree(chips, half)
	}
	if int(in.Burst) < m.program.PartialBursts-1 {
		return nil
	}
	return m.endChunk(in, int(in.Query), int(in.Token))
}

// endChunk passes a chunk of scores, which begins at token, to the softmax unit.
func (m *valueMachine) endChunk(in *machine.Instruction, query, token int) error {
	r := &m.buffer
	valid := r.chunk[:min(m.mapping.Banks, m.program.Heads[in.Head].Context-token)]
	base := int(in.Segment) * r.segment
	if in.Count && token == base {
		r.heads[query] = noScores
	}
	if m.narrow != nil {
		m.foldScores(in, query, token, valid)
	}
	for i, x := range valid {
		valid[i] = round(x, r.score)
	}
	if in.Count {
		r.count(&r.heads[query], valid, m.scaleOf(in.Head))
	}
	if !in.Keep {
		return nil
	}
	return r.keep(query, token-base, valid)
}

// count adds a chunk of scores to the running maximum and sum: first within the chunk, then both together (L3, section 4.3).
func (r *bufferUnit) count(s *softmax, chunk []float32, scale float32) {
	c := noScores
	for _, x := range chunk {
		c.maximum = max(c.maximum, float32(x*scale))
	}
	for _, x := range chunk {
		c.total = round(c.total+round(exp(float32(x*scale)-c.maximum), r.sum), r.sum)
	}
	if c.maximum > s.maximum {
		s.total = round(round(float32(s.total*exp(s.maximum-c.maximum)), r.sum)+c.total, r.sum)
		s.maximum = c.maximum
		return
	}
	s.total = round(s.total+round(float32(c.total*exp(c.maximum-s.maximum)), r.sum), r.sum)
}

func (r *bufferUnit) keep(query, at int, chunk []float32) error {
	buffer, end := r.scores[query], at+len(chunk)
	if end > r.segment {
		return fmt.Errorf("scores of %d tokens in a score buffer for %d", end, r.segment)
	}
	if end > len(buffer) {
		grown := make([]float32, min(max(end, 2*len(buffer)), r.segment))
		fillNaN(grown)
		copy(grown, buffer)
		buffer = grown
		r.scores[query] = buffer
	}
	copy(buffer[at:], chunk)
	return nil
}

// scaleOf returns the factor on a head's scores before the softmax.
func (m *valueMachine) scaleOf(head int32) float32 { return cmp.Or(m.data[head].scale, m.scale) }

// loadWeights processes one burst of softmax weights, broadcast to all chips.
func (m *valueMachine) loadWeights(in *machine.Instruction) {
	set, n := m.program.SetTokens, m.program.WeightsPerBurst
	first := int(in.Burst) * n // token within the slot
	slot := (int(in.Slot)*m.macs + int(in.Query)%m.macs) * set
	for i := first; i < min(first+n, set); i++ {
		m.weights[slot+i] = m.weight(in, int(in.Query), int(in.Token)+i)
	}
}

// weight returns the softmax weight of a token, 0 beyond the context.
func (m *valueMachine) weight(in *machine.Instruction, query, token int) float32 {
	r, s := &m.buffer, m.buffer.heads[query]
	if token >= m.program.Heads[in.Head].Context {
		return 0
	}
	w := exp(float32(r.scores[query][token-int(in.Segment)*r.segment]*m.scaleOf(in.Head)) - s.maximum)
	if m.normalised {
		w /= s.total
	}
	if m.narrow != nil {
		return m.foldWeight(in, query, token, w)
	}
	return round(w, r.weights)
}

// readContext processes one burst of accumulators; the last one of a query head completes its output.
func (m *valueMachine) readContext(in *machine.Instruction) {
	g, r := &m.mapping, &m.buffer
	elements := g.ChipElements()
	burst := g.BurstBytes / g.Chips / m.precision.Context.Bytes() // accumulators of a chip in a burst
	from := int(in.Burst) * burst
	to := min(from+burst, g.Banks*elements)
	sums, ofBurst := part(m.accumulators, int(in.Query), len(r.reads)), int(in.Slot)*len(m.wide)
	for c := range m.chips {
		for i := from; i < to; i++ {
			at := ofBurst + (i/elements*g.Chips+c)*elements + i%elements
			r.reads[at] = sums[at]
		}
	}
	if int(in.Burst) < m.program.ContextBursts-1 || int(in.Slot) < m.valueBursts-1 {
		return
	}
	m.endSegment(in, int(in.Query))
}

// endSegment completes a query head's output over a segment and, at the head's end, over the context.
func (m *valueMachine) endSegment(in *machine.Instruction, query int) {
	m.mergeSegment(query, in.Segment == 0 || m.program.Rescore)
	if head := m.program.Heads[in.Head]; m.program.Rescore || (int(in.Segment)+1)*m.buffer.segment >= head.Context {
		m.finish(&m.results[in.Head], query)
	}
}

// mergeSegment sums the accumulators of one query head over the quads and merges the result with earlier segments, in FP32. Each is
// weighted by its share of the sum of exponentials.
func (m *valueMachine) mergeSegment(query int, first bool) {
	g, r := &m.mapping, &m.buffer
	perBurst := g.BurstElements()
	s, all := r.heads[query], r.exact[query]
	var before, now float32 = 0, 1 // weights of the merged segments and this one
	if first {
		all = s
	} else {
		top := max(all.maximum, s.maximum)
		before, now = float32(all.total*exp(all.maximum-top)), float32(s.total*exp(s.maximum-top))
		all = softmax{maximum: top, total: before + now}
		before, now = before/all.total, now/all.total
	}
	r.exact[query] = all
	var zeros float32
	if m.narrow != nil {
		zeros = tree(append(r.adders[:0], part(r.zeros, query, g.ColumnTokens)...), false)
	}
	for burst := range g.ValueBursts {
		for i := range perBurst {
			for quad := range g.ColumnTokens {
				r.adders[quad] = m.accumulator(query, quad, burst, i)
			}
			if m.mistake == MistakeQuad {
				r.adders[g.ColumnTokens-1] = 0
			}
			sum := tree(r.adders[:g.ColumnTokens], r.context)
			if m.narrow != nil {
				sum = float32((sum - zeros) * s.scale)
			}
			if !m.normalised {
				sum /= s.total
			}
			out := &r.merged[query][burst*perBurst+i]
			if first {
				*out = sum
			} else {
				*out = float32(*out*before) + float32(sum*now)
			}
		}
	}
}

// accumulator returns an element of a burst of a value, for one of the tokens that share a column.
func (m *valueMachine) accumulator(query, token, burst, element int) float32 {
	bank, apart := token*m.mapping.ValueBursts+burst, 0
	if m.mapping.InKey {
		bank, apart = token, burst*len(m.wide)
	}
	if m.rankLevel != nil {
		return part(m.accumulators, query*m.mapping.Banks+bank, len(m.rankLevel.burst))[element]
	}
	n := m.mapping.ChipElements()
	chip, bit := m.mapping.Exchange.Chip(element)
	return m.buffer.reads[apart+(bank*m.mapping.Chips+chip)*n+bit/m.mapping.ElementBits]
}

// part returns the i-th slice of size numbers.
func part(x []float32, i, size int) []float32 { return x[i*size : (i+1)*size] }

// finish rounds a query head's output and returns it without padding.
func (m *valueMachine) finish(result *headResult, query int) {
	for i := range result.out[query] {
		result.out[query][i] = round(m.buffer.merged[query][i], m.buffer.output)
	}
	s := m.buffer.exact[query]
	result.lse[query] = float64(s.maximum) + portable.Log(float64(s.total))
}
