package pim

import (
	"sync"

	"gonum.org/v1/gonum/blas/blas32"
)

// decodedCells is an exact shortcut of a valueMachine whose arithmetic is FP32 on x8 chips: each
// write decodes what it has stored, once, so that reads need not. Banks of a column lie side by
// side, with the chips' shares one after another, four elements each. A burst of a value and its
// accumulators are then one vector, which blas32.Axpy multiplies and adds element by element, in the
// order of contextFP32. Narrow elements lie alike, as many as a chip has of a burst.
type decodedCells struct {
	values []float32 // by row, column, bank, chip and element
	sums   []float32 // accumulators: by query head, bank, chip and element
}

// decodedElements is the elements of a burst on one chip.
const decodedElements = 4

// decodes reports whether the shortcut serves m. A rank-level unit reads decoded bursts whatever its formats, each in
// the order of its elements.
func (m *valueMachine) decodes() bool {
	if m.unit != nil {
		return true
	}
	exact := m.precision.Multiply == FP32 && m.precision.Accumulate == FP32 && m.precision.Context == FP32
	return exact && (m.narrow != nil || m.mapping.chipElements() == decodedElements) && axpyRounds()
}

// axpyRounds reports whether blas32.Axpy rounds products before it adds them, as all arithmetic here
// does: it does in assembly, but not where a compiler may fuse the two.
var axpyRounds = sync.OnceValue(func() bool {
	// (1 + 2^-12)² - 1 - 2^-11 is 2^-24, which the product loses when it is rounded.
	x, y := make([]float32, 37), make([]float32, 37)
	for i := range x {
		x[i], y[i] = 1+0x1p-12, -1-0x1p-11
	}
	axpy(1+0x1p-12, x, y)
	for _, v := range y {
		if v != 0 {
			return false
		}
	}
	return true
})

// axpy adds a·x to y.
func axpy(a float32, x, y []float32) {
	blas32.Axpy(a, blas32.Vector{N: len(x), Inc: 1, Data: x}, blas32.Vector{N: len(y), Inc: 1, Data: y})
}

// decode turns the shortcut on, before anything is written.
func (m *valueMachine) decode() {
	g := &m.mapping
	m.decoded.values = make([]float32, m.rows*g.rowBursts*g.Banks*g.burstElements())
	fillNaN(m.decoded.values)
	m.decodeSums()
}

// decodeSums makes the sums of contexts, not a number until they are set: what reads a sum that nothing wrote
// spoils its result, and is seen.
func (m *valueMachine) decodeSums() {
	m.decoded.sums = make([]float32, m.shape.Queries*m.mapping.Banks*m.mapping.burstElements())
	fillNaN(m.decoded.sums)
}

// decodedColumn returns where the values of bank 0 at row and column begin.
func (m *valueMachine) decodedColumn(row, column int32) int {
	g := &m.mapping
	return (int(row)*g.rowBursts + int(column)) * g.Banks * g.burstElements()
}

// decodeBurst reads back what a chip has stored of a burst.
func (m *valueMachine) decodeBurst(row, column int32, ordinal, chip int, stored []byte) {
	n := m.mapping.chipElements()
	values := m.decoded.values[m.decodedColumn(row, column)+ordinal*m.mapping.burstElements():]
	if m.unit == nil {
		m.unpack(values[chip*n:(chip+1)*n], stored)
		return
	}
	var wide [64]float32 // heads are stored side by side
	m.unpack(wide[:n], stored)
	for i, x := range wide[:n] {
		values[m.unit.order[chip*n+i]] = x
	}
}

// scoreDecoded is scoreFP32 for one chip on decoded values, whose column begins at at.
func (m *valueMachine) scoreDecoded(at, chip int, q *[decodedElements]float32, partial []float32) {
	step := m.mapping.Chips * decodedElements
	values := m.decoded.values[at+chip*decodedElements : at+step*m.mapping.Banks]
	q0, q1, q2, q3 := q[0], q[1], q[2], q[3]
	for b := range partial {
		k := (*[decodedElements]float32)(values[b*step:])
		partial[b] += (float32(q0*k[0]) + float32(q1*k[1])) + (float32(q2*k[2]) + float32(q3*k[3]))
	}
}

// contextDecoded is contextFP32 for all chips.
func (m *valueMachine) contextDecoded(in *instruction, query int, weights []float32) {
	all := m.mapping.Banks * m.mapping.burstElements()
	at := m.decodedColumn(in.row, in.column)
	values, sums := m.decoded.values[at:at+all], m.decoded.sums[query*all:(query+1)*all]
	if in.first {
		clear(sums)
	}
	n := all / len(weights)
	for i, w := range weights {
		axpy(w, values[i*n:(i+1)*n], sums[i*n:(i+1)*n]) // a zero changes nothing, whatever the cells hold
	}
}

// readDecoded moves the accumulators [from, to) of a chip, by bank and element, into reads.
func (m *valueMachine) readDecoded(reads []float32, query, chip, from, to int) {
	chips, n := m.mapping.Chips, m.mapping.chipElements()
	for i := from; i < to; i++ {
		bank, e := i/n, i%n
		reads[i] = m.decoded.sums[((query*m.mapping.Banks+bank)*chips+chip)*n+e]
	}
}
