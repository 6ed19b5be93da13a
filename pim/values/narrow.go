package values

import (
	"encoding/binary"
	"math"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
)

// narrowCells has the scales of 8-bit or 4-bit keys and values that the buffer unit keeps: all scales, if rows have none. Multipliers use
// the elements as integers. The buffer unit scales the results: sums of q·k by the key's scale, and weights by the value's.
type narrowCells struct {
	scales   [2][]pim.Scales // of each token's key and value, by position in the allocation units
	channels [][]pim.Scales  // of keys by element, for each group of HeadShape.KeyGroup tokens
}

// newNarrowCells returns scales that are NaN until written.
func newNarrowCells(g *pim.Geometry, shape pim.HeadShape, rows int) *narrowCells {
	c, tokens := &narrowCells{}, rows/2*g.RowTokens
	for kv := range c.scales {
		c.scales[kv] = make([]pim.Scales, tokens)
		for i := range c.scales[kv] {
			c.scales[kv][i] = pim.Scales{Scale: float32(math.NaN()), Zero: float32(math.NaN())}
		}
	}
	if shape.KeyGroup > 0 {
		c.channels = make([][]pim.Scales, tokens/shape.KeyGroup)
	}
	return c
}

// channel returns the scales of an element of a group's keys, NaN until stored.
func (c *narrowCells) channel(group, element int) pim.Scales {
	if c.channels[group] == nil {
		return pim.Scales{Scale: float32(math.NaN()), Zero: float32(math.NaN())}
	}
	return c.channels[group][element]
}

// slot returns the position of a head's token in the allocation units.
func (m *valueMachine) slot(h *machine.Head, token int) int {
	unit, within, _ := h.List.Place(&m.mapping.Geometry, token)
	return (int(h.FirstRow)/2+unit)*m.mapping.RowTokens + within
}

// storeScales stores the scales of a token of the head that begins at firstRow, as a transfer from the host does.
func (m *valueMachine) storeScales(firstRow int32, token int, scales [2]pim.Scales) error {
	m.noteScales(firstRow, token, scales)
	for kv, s := range scales {
		if m.rowScales == nil || pim.KV(kv) == pim.Key && m.shape.KeyGroup > 0 { // stored with its group
			continue
		}
		if err := m.storeScale(pim.KV(kv), firstRow, token, s); err != nil {
			return err
		}
	}
	return nil
}

// noteScales keeps a token's scales in the buffer unit. If rows have scales, it only keeps the magnitude of values' scales, as powers of
// two.
func (m *valueMachine) noteScales(firstRow int32, token int, scales [2]pim.Scales) {
	if m.shape.KeyGroup > 0 { // a key's scales are its group's, folded into the query: s·(q·k̂ − z·sum) becomes q·k̂ − sum
		scales[pim.Key] = pim.Scales{Scale: 1, Zero: 1}
	}
	for kv, s := range scales {
		m.narrow.scales[kv][int(firstRow)/2*m.mapping.RowTokens+token] = s
	}
}

// queryFold is the part of a query head's scores that is due to keys' zeros. With scales by token, it is the sum of q's elements, to be
// multiplied by a token's zero. With scales by element, it is the sum of q's scaled elements times the zeros.
type queryFold struct {
	head  int32 // -1: none yet
	group int
	sum   float32
}

// fold returns the sum for the tokens of a group.
func (m *valueMachine) fold(head int32, query, group int) float32 {
	f := &m.buffer.folds[query]
	if f.head == head && f.group == group {
		return f.sum
	}
	m.numbers(m.buffer.products, m.data[head].query[query], group)
	if group >= 0 {
		for e := range m.shape.HeadDim {
			m.buffer.products[e] *= m.channel(group, e).Zero
		}
	}
	*f = queryFold{head, group, tree(m.buffer.products, false)}
	return f.sum
}

// numbers sets to to a query's numbers, followed by zeros. If keys have scales by element, they are multiplied in.
func (m *valueMachine) numbers(to []float32, query []uint16, group int) {
	clear(to)
	widen := m.storage.table()
	for e, x := range query {
		to[e] = widen[x]
		if group >= 0 {
			to[e] = attention.RoundHalf(to[e] * m.channel(group, e).Scale)
		}
	}
}

// group returns the group of a head's token, -1 if keys have no scales by element.
func (m *valueMachine) group(h *machine.Head, token int) int {
	if m.shape.KeyGroup == 0 {
		return -1
	}
	return m.slot(h, token) / m.shape.KeyGroup
}

// foldScores scales the scores of a chunk that begins at token, and records the largest scale of its values.
func (m *valueMachine) foldScores(in *machine.Instruction, query, token int, valid []float32) {
	h := &m.program.Heads[in.Head]
	at, sum := m.slot(h, token), m.fold(in.Head, query, m.group(h, token))
	for i, x := range valid {
		s := m.scalesFor(pim.Key, h, token+i)
		valid[i] = s.Scale * (x - float32(s.Zero*sum))
		if in.Count {
			r := &m.buffer.heads[query]
			r.scale = max(r.scale, powerAbove(m.narrow.scales[pim.Value][at+i].Scale))
		}
	}
}

func powerAbove(x float32) float32 {
	_, e := math.Frexp(float64(x))
	return float32(math.Ldexp(1, e))
}

// foldWeight scales a weight by its value's scale, divided by the power of two above the largest scale so that FP16 can represent it. It
// also accumulates the part of the output due to zeros.
func (m *valueMachine) foldWeight(in *machine.Instruction, query, token int, w float32) float32 {
	s := m.scalesFor(pim.Value, &m.program.Heads[in.Head], token)
	w = round(float32(w*(s.Scale/m.buffer.heads[query].scale)), m.buffer.weights)
	zeros := part(m.buffer.zeros, query, m.mapping.ColumnTokens)
	if first := int(in.Segment) * m.buffer.segment; token == first && (in.Segment == 0 || !m.program.Rescore) {
		clear(zeros)
	}
	zeros[token%m.mapping.ColumnTokens] += float32(w * s.Zero)
	return w
}

// unpack sets to to the elements of a chip's shares of bursts, n of each burst. Bursts are stride elements apart.
func (m *valueMachine) unpack(to []float32, n, stride int, cells []byte) {
	bits, widen := m.mapping.ElementBits, m.storage.table()
	size := n * bits / 8
	for at := 0; len(cells) >= size; at, cells = at+stride, cells[size:] {
		v, share := to[at:at+n], cells[:size]
		switch {
		case bits == 4:
			for i, x := range share {
				v[2*i], v[2*i+1] = float32(int8(x<<4)>>4), float32(int8(x)>>4)
			}
		case m.shape.KVFloat:
			for i, x := range share {
				v[i] = attention.E4M3Table()[x]
			}
		case bits == 8:
			for i, x := range share {
				v[i] = float32(int8(x))
			}
		case n == 4: // on x8 chips, unrolled
			x, four := binary.LittleEndian.Uint64(share), (*[4]float32)(v)
			four[0], four[1], four[2], four[3] = widen[uint16(x)], widen[uint16(x>>16)], widen[uint16(x>>32)], widen[x>>48]
		default:
			for i := range v {
				v[i] = widen[binary.LittleEndian.Uint16(share[2*i:])]
			}
		}
	}
}

// loadNarrowQuery puts a burst of q into the shared buffers. The buffer unit sends each chip the elements that match the chip's elements of
// a key, in their order.
func (m *valueMachine) loadNarrowQuery(in *machine.Instruction) {
	g, n := &m.mapping, m.mapping.ChipElements()
	wide := g.BurstBytes / g.Chips / 2 // elements of q in a chip's share of a burst
	if in.Burst == 0 {
		m.numbers(m.buffer.terms, m.data[in.Head].query[in.Query], m.group(&m.program.Heads[in.Head], int(in.Token)))
	}
	for c := range m.chips {
		query := part(m.chips[c].query, int(in.Query), g.KeyBursts*n)
		if in.Burst == 0 {
			clear(query)
		}
		for slot := int(in.Burst) * wide; slot < min((int(in.Burst)+1)*wide, len(query)); slot++ {
			if e := slot/n*g.BurstElements() + g.Exchange.Element(c, slot%n*g.ElementBits); e < m.shape.HeadDim {
				query[slot] = m.buffer.terms[e]
			}
		}
	}
}
