package values

import (
	"fmt"

	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
)

// Scales in the rows of narrow keys and values: a token's scale and zero are four bytes of a burst in the row's last columns, in bus order,
// without re-layout. The buffer unit computes only with scales that the program has read from open rows.

// rowScales is the unit's memory for the scales of a row: a word of scale and zero, both FP16, by bank, column and chunk. It keeps a row's
// scales until the next row's are read, since the row's last partial sums arrive when the next row is open.
type rowScales []uint32

// noScale is a scale and a zero that are NaN, the initial contents of the memory.
const noScale = 0x7e007e00

// newRowScales returns the memory, nil if rows have no scales.
func newRowScales(g *pim.Geometry, shape pim.HeadShape) rowScales {
	if g.ScaleChunks == 0 || shape.StoredBits() == 16 {
		return nil
	}
	s := make(rowScales, g.Banks*g.ScaleColumns(0, g.RowTokens)*g.ScaleChunks)
	for i := range s {
		s[i] = noScale
	}
	return s
}

func (s rowScales) bank(g *pim.Geometry, ordinal int) []uint32 {
	n := len(s) / g.Banks
	return s[ordinal*n : (ordinal+1)*n]
}

// rawBurst returns a bank's burst in bus order.
func (m *valueMachine) rawBurst(ordinal int, row, column int32) (beats [pim.MaxBeats]uint64) {
	size := m.mapping.BurstBytes / m.mapping.Chips
	at, width := m.cell(row, column)+ordinal*size, m.mapping.Exchange.DeviceWidth
	for c := range m.chips {
		for bit := 0; bit < 8*size; bit += width {
			word := uint64(m.chips[c].cells[at+bit/8]) >> (bit % 8)
			if width == 16 {
				word |= uint64(m.chips[c].cells[at+bit/8+1]) << 8
			}
			beats[bit/width] |= word & (1<<width - 1) << (width * c)
		}
	}
	return beats
}

// putScale stores scale and zero in a word of a burst, masking the burst's other bytes.
func (m *valueMachine) putScale(ordinal int, row, column int32, word int, s pim.Scales) error {
	if row < 0 || int(row) >= m.rows {
		return fmt.Errorf("row %d of a machine with %d rows", row, m.rows)
	}
	beats, lanes := m.rawBurst(ordinal, row, column), m.mapping.Exchange.Lanes
	beat, bit := 32*word/lanes, 32*word%lanes
	beats[beat] = beats[beat]&^(0xffffffff<<bit) | uint64(s.Word())<<bit
	m.putBurst(ordinal, row, column, &beats)
	return nil
}

// storeScale stores the scale of a key or a value of token, for the head that begins at firstRow.
func (m *valueMachine) storeScale(kv pim.KV, firstRow int32, token int, s pim.Scales) error {
	ordinal, row, column, word := m.mapping.ScalePlace(kv, token)
	return m.putScale(ordinal, firstRow+row, column, word, s)
}

// appendScale stores the scale of the new key or value where the instruction says.
func (m *valueMachine) appendScale(in *machine.Instruction) error {
	if err := m.checkRow(in); err != nil || m.rowScales == nil {
		return err
	}
	h, kv := &m.program.Heads[in.Head], pim.KV((in.Row-m.program.Heads[in.Head].FirstRow)&1)
	s := m.data[in.Head].scales[kv]
	if n := m.shape.KeyGroup; n > 0 && kv == pim.Key { // scales by element: one for each token of a group
		slot := m.slot(h, h.Context-1)
		if slot%n >= m.shape.HeadDim {
			return nil
		}
		s = m.narrow.channel(slot/n, slot%n)
	}
	_, _, _, word := m.mapping.ScalePlace(kv, int(in.Token))
	return m.putScale(m.ordinal(in), in.Row, in.Column, word, s)
}

// readScale reads a burst of scales into the buffer unit, which knows the columns of scales in a row.
func (m *valueMachine) readScale(in *machine.Instruction) error {
	if err := m.checkRow(in); err != nil || m.rowScales == nil {
		return err
	}
	g := &m.mapping.Geometry
	memory := m.rowScales.bank(g, m.ordinal(in))
	columns := len(memory) / g.ScaleChunks
	at := int(in.Column) - (g.RowBursts - columns)
	if at < 0 || at >= columns {
		return fmt.Errorf("scales are read from column %d, they lie in the last %d of %d", in.Column, columns, g.RowBursts)
	}
	beats, lanes := m.rawBurst(m.ordinal(in), in.Row, in.Column), m.mapping.Exchange.Lanes
	for word := range g.ScaleChunks {
		memory[at*g.ScaleChunks+word] = uint32(beats[32*word/lanes] >> (32 * word % lanes))
	}
	return nil
}

// scalesFor returns the scales of a head's key or value that the buffer unit holds.
func (m *valueMachine) scalesFor(kv pim.KV, h *machine.Head, token int) pim.Scales {
	switch slot := m.slot(h, token); {
	case m.rowScales == nil:
		return m.narrow.scales[kv][slot]
	case kv == pim.Key && m.shape.KeyGroup > 0:
		return pim.Scales{Scale: 1, Zero: 1}
	default:
		return m.scaleInRow(kv, slot)
	}
}

// scaleInRow returns the scale that the buffer unit has read for a position in the rank's allocation units.
func (m *valueMachine) scaleInRow(kv pim.KV, slot int) pim.Scales {
	g := &m.mapping.Geometry
	ordinal, _, column, word := g.ScalePlace(kv, slot%g.RowTokens)
	memory := m.rowScales.bank(g, ordinal)
	return pim.ScalesOf(memory[(int(column)-g.RowBursts)*g.ScaleChunks+len(memory)+word])
}

// channel returns the scales of an element of a group's keys that the buffer unit holds.
func (m *valueMachine) channel(group, element int) pim.Scales {
	if m.rowScales == nil {
		return m.narrow.channel(group, element)
	}
	return m.scaleInRow(pim.Key, group*m.shape.KeyGroup+element)
}

// storeGroup stores the scales, by element, of the keys in the group-th group of the head that begins at firstRow.
func (m *valueMachine) storeGroup(firstRow int32, group int, scales []pim.Scales) error {
	n := m.shape.KeyGroup
	m.narrow.channels[int(firstRow)/2*m.mapping.RowTokens/n+group] = scales
	for e := 0; e < len(scales) && m.rowScales != nil; e++ {
		if err := m.storeScale(pim.Key, firstRow, group*n+e, scales[e]); err != nil {
			return err
		}
	}
	return nil
}
