package pim

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
)

// headData is what a head computes on: bits in the machine's storage format, keys and values of 8 or 4 bits as
// elements in two's complement.
type headData struct {
	query [][]uint16 // by query head of the group, HeadDim elements
	// key and value of the newest token, HeadDim elements each; only where the head appends it.
	key, value []uint16
	scales     [2]Scales // of these, where they are narrow
}

// headResult is what the buffer unit returns for a head.
type headResult struct {
	out [][]float32 // by query head, HeadDim elements
	lse []float64   // by query head, natural log-sum-exp from the softmax unit's maximum and sum
}

// valueMachine executes programs on the bytes that the mapping stored: the second interpretation of a program. It holds the
// chips of one rank, each with its cells and buffers, and the buffer unit. All of it is NaN before anything is written.
//
// Chips, buffers and slots are those that the instructions name, and an instruction that finds another row open than its own
// is an error: nothing but the program says what is computed.
type valueMachine struct {
	mapping    Mapping
	shape      HeadShape
	precision  Precision
	storage    Storage
	macs       int
	normalised bool
	scale      float32 // 1/√d
	mistake    Mistake // planted

	rows      int
	openRow   []int32 // by bank ordinal, -1 where closed
	chips     []chipState
	weights   []float32 // weight slots of the shared buffers, alike in every chip: by slot, multiplier set and token
	buffer    bufferUnit
	rankLevel *rankLevelUnit // nil: units beside the banks
	narrow    *narrowCells   // nil: keys and values of 16 bits
	// rowScales has the scales of the open rows that the unit has read, nil where rows have none.
	rowScales rowScales
	width     int       // elements of a chip that a set multiplies at once
	wide      []float32 // a column, unpacked: by bank, chip and element
	// decoded has all columns so, by row and column: an exact shortcut, in which each write decodes what it has stored,
	// once, so that reads need not. nil: they do.
	decoded      []float32
	accumulators []float32 // of the context: by query head, bank, chip and element

	program *program
	data    []headData
	results []headResult
	scratch []instruction
}

// newValueMachine returns a machine that holds rows rows of all banks for heads
// of shape. Queries of other than 16 bits and what NewMapping refuses are InputErrors.
func newValueMachine(spec *Spec, d *dram.Spec, shape HeadShape, storage Storage, rows int) (*valueMachine, error) {
	if shape.ElementBits != 16 {
		return nil, &input.Error{Key: "element_bits", Value: fmt.Sprint(shape.ElementBits),
			Expected: "16: the functional model multiplies with FP16 and BF16"}
	}
	mapping, err := NewMapping(d, shape)
	if err != nil {
		return nil, err
	}
	m := &valueMachine{
		mapping: mapping, shape: shape, precision: spec.Precision.resolve(), storage: storage,
		macs: spec.MACsPerRead, normalised: spec.NormalizedWeights,
		scale: float32(1 / math.Sqrt(float64(shape.HeadDim))), rows: rows,
	}
	// The plan gives the sizes of the buffers.
	p, err := newProgram(spec, d, shape, nil)
	if err != nil {
		return nil, err
	}
	g, elements := &m.mapping, m.mapping.chipElements()
	m.width, m.wide = min(p.multipliers, elements), make([]float32, g.Banks*g.burstElements())
	m.chips = make([]chipState, g.Chips)
	for c := range m.chips {
		m.chips[c] = chipState{
			cells:    make([]byte, rows*g.rowBursts*g.Banks*g.burstBytes/g.Chips),
			query:    make([]float32, shape.Queries*g.TokenBursts*elements),
			partials: make([]float32, resultSlots*m.macs*g.Banks),
		}
		m.chips[c].fillNaN(storage)
	}
	m.weights = make([]float32, weightSlots*m.macs*p.setTokens)
	m.accumulators, m.decoded = make([]float32, shape.Queries*len(m.wide)), make([]float32, rows*g.rowBursts*len(m.wide))
	fillNaN(m.weights)
	fillNaN(m.accumulators)
	fillNaN(m.decoded)
	m.openRow = make([]int32, g.Banks)
	for b := range m.openRow {
		m.openRow[b] = -1
	}
	m.buffer.init(&p.plan, g, shape.Queries, m.precision)
	if p.rankLevel {
		m.initRankLevel(p.multipliers)
	}
	if shape.storedBits() != 16 {
		m.narrow = newNarrowCells(&g.Geometry, shape, rows)
	}
	m.rowScales, err = newRowScales(&g.Geometry, shape)
	return m, err
}

// store writes the key and value of a token of the head that begins at firstRow, as a transfer from the host does: through
// the re-layout, burst by burst. They have HeadDim elements in the machine's storage format; a nil one is left out.
func (m *valueMachine) store(firstRow int32, token int, key, value []uint16) error {
	for kv, vector := range [][]uint16{Key: key, Value: value} {
		if vector == nil {
			continue
		}
		for burst := range m.mapping.TokenBursts {
			ordinal, row, column := m.mapping.burstPlace(KV(kv), token, burst)
			if err := m.writeBurst(ordinal, firstRow+row, column, vector, burst); err != nil {
				return err
			}
		}
	}
	return nil
}

// beats returns one burst of a vector as the re-layout unit passes it on; what lies beyond the vector is zero.
func (m *valueMachine) beats(vector []uint16, burst int) [maxBeats]uint64 {
	var bytes [burstBits / 8]byte
	n := m.mapping.burstElements()
	for i, x := range vector[min(burst*n, len(vector)):min((burst+1)*n, len(vector))] {
		switch m.mapping.elementBits {
		case 4:
			bytes[i/2] |= byte(x&0xf) << (i % 2 * 4)
		case 8:
			bytes[i] = byte(x)
		default:
			binary.LittleEndian.PutUint16(bytes[2*i:], x)
		}
	}
	var beats [maxBeats]uint64
	count := burstBits / m.mapping.Exchange.lanes
	for b := range beats[:count] {
		if count == maxBeats {
			beats[b] = uint64(binary.LittleEndian.Uint32(bytes[4*b:]))
		} else {
			beats[b] = binary.LittleEndian.Uint64(bytes[8*b:])
		}
	}
	if m.mistake == MistakeLane {
		for b, x := range beats[:count] {
			beats[b] = x&^0xff00ff00 | x&0xff00<<16 | x>>16&0xff00
		}
	}
	m.mapping.Exchange.beats(beats[:count])
	return beats
}

// writeBurst puts one burst of a vector into the cells.
func (m *valueMachine) writeBurst(ordinal int, row, column int32, vector []uint16, burst int) error {
	if row < 0 || int(row) >= m.rows {
		return fmt.Errorf("row %d of a machine with %d rows", row, m.rows)
	}
	beats := m.beats(vector, burst)
	m.putBurst(ordinal, row, column, &beats)
	if m.mistake == MistakeBank && ordinal/2 == wrongBanks/2 {
		m.putBurst(ordinal^1, row, column, &beats)
	}
	return nil
}

// putBurst puts what the re-layout unit passes on into the cells of a bank.
func (m *valueMachine) putBurst(ordinal int, row, column int32, beats *[maxBeats]uint64) {
	size := m.mapping.burstBytes / m.mapping.Chips
	for c := range m.chips {
		at := m.cell(row, column) + ordinal*size
		share(m.chips[c].cells[at:at+size], beats[:burstBits/m.mapping.Exchange.lanes], c, m.mapping.Exchange.deviceWidth)
		if m.decoded != nil {
			m.decodeBurst(m.decoded[m.decodedColumn(row, column)+ordinal*m.mapping.burstElements():], c, m.chips[c].cells[at:at+size])
		}
	}
}

// cell returns the index in a chip's cells of bank 0 at row and column.
func (m *valueMachine) cell(row, column int32) int {
	g := &m.mapping
	return (int(row)*g.rowBursts + int(column)) * g.Banks * g.burstBytes / g.Chips
}

// run executes the program, one instruction after the other, on data, which has
// an entry for each of its heads. The results are valid until the next run.
func (m *valueMachine) run(p *program, data []headData) ([]headResult, error) {
	if err := m.begin(p, data); err != nil {
		return nil, err
	}
	for {
		m.scratch = p.next(m.scratch[:0])
		if len(m.scratch) == 0 {
			return m.results, nil
		}
		for i := range m.scratch {
			if err := m.execute(&m.scratch[i]); err != nil {
				return nil, err
			}
		}
	}
}

// begin makes room for the results of a program.
func (m *valueMachine) begin(p *program, data []headData) error {
	if p.shape != m.shape || p.macs != m.macs || p.rankLevel != (m.rankLevel != nil) {
		return fmt.Errorf("a program for %+v on a machine for %+v", p.shape, m.shape)
	}
	if len(data) != len(p.heads) {
		return fmt.Errorf("%d heads, data for %d", len(p.heads), len(data))
	}
	m.program, m.data = p, data
	for q := range m.buffer.folds {
		m.buffer.folds[q].head = -1
	}
	if m.rankLevel != nil {
		m.rankLevel.head = -1
	}
	m.results = slices.Grow(m.results[:0], len(data))[:len(data)]
	for i := range m.results {
		r := &m.results[i]
		if len(r.out) != m.shape.Queries {
			r.out, r.lse = make([][]float32, m.shape.Queries), make([]float64, m.shape.Queries)
			for q := range r.out {
				r.out[q] = make([]float32, m.shape.HeadDim)
			}
		}
	}
	return nil
}

// execute does what one instruction says.
func (m *valueMachine) execute(in *instruction) error {
	switch in.op {
	case opActivate:
		m.setRow(in, in.row)
	case opPrecharge:
		m.setRow(in, -1)
	case opAppendKey, opAppendValue:
		return m.appendBurst(in)
	case opLoadQuery:
		m.loadQuery(in)
	case opScore:
		return m.score(in)
	case opReadPartials:
		return m.readPartials(in)
	case opLoadWeights:
		m.loadWeights(in)
	case opContext:
		return m.context(in)
	case opReadContext:
		m.readContext(in)
	case opAppendScale:
		return m.appendScale(in)
	case opReadScale:
		return m.readScale(in)
	case opReadKey:
		return m.readKey(in)
	case opReadValue:
		return m.readValue(in)
	}
	return nil
}

// appendBurst writes a burst of the step's own key or value where the mapping has its token.
func (m *valueMachine) appendBurst(in *instruction) error {
	if err := m.checkRow(in); err != nil {
		return err
	}
	vector := m.data[in.head].key
	if in.op == opAppendValue {
		vector = m.data[in.head].value
	}
	if m.narrow != nil {
		h := &m.program.heads[in.head]
		m.noteScales(h.firstRow, m.slot(h, h.context-1)-int(h.firstRow)/2*m.mapping.RowTokens, m.data[in.head].scales)
	}
	return m.writeBurst(m.ordinal(in), in.row, in.column, vector, int(in.burst))
}

// score is the MACA of a column of keys.
func (m *valueMachine) score(in *instruction) error {
	if err := m.checkRow(in); err != nil {
		return err
	}
	g, n := &m.mapping, m.mapping.chipElements()
	r := rounding{m.precision.Multiply == FP16, m.precision.Accumulate == FP16}
	values := m.column(in)
	for c := range m.chips {
		chip := &m.chips[c]
		for set := range int(in.queries) {
			slot := (int(in.slot)*m.macs + set) * g.Banks
			partial := chip.partials[slot : slot+g.Banks]
			if in.burst == 0 {
				clear(partial)
			}
			q := ((int(in.query)+set)*g.TokenBursts + int(in.burst)) * n
			scoreBanks(values[c*n:], g.burstElements(), m.width, chip.query[q:q+n], partial, r)
		}
	}
	return nil
}

// column returns the column that an instruction reads as numbers, by bank, chip and element.
func (m *valueMachine) column(in *instruction) []float32 {
	g, n := &m.mapping, m.mapping.chipElements()
	if m.decoded != nil {
		at := m.decodedColumn(in.row, in.column)
		return m.decoded[at : at+g.Banks*g.burstElements()]
	}
	at, size := m.cell(in.row, in.column), g.Banks*g.burstBytes/g.Chips
	for c := range m.chips {
		m.unpack(m.wide[c*n:], n, g.burstElements(), m.chips[c].cells[at:at+size])
	}
	return m.wide
}

// decodedColumn returns where the numbers of bank 0 at row and column begin.
func (m *valueMachine) decodedColumn(row, column int32) int {
	return (int(row)*m.mapping.rowBursts + int(column)) * len(m.wide)
}

// decodeBurst sets a chip's share of a burst to the numbers of what it has stored. A rank-level unit has them in the order
// of elements.
func (m *valueMachine) decodeBurst(burst []float32, chip int, stored []byte) {
	n := m.mapping.chipElements()
	if m.rankLevel == nil {
		m.unpack(burst[chip*n:], n, n, stored)
		return
	}
	var wide [64]float32 // heads are stored side by side
	m.unpack(wide[:], n, n, stored)
	for i, x := range wide[:n] {
		burst[m.rankLevel.order[chip*n+i]] = x
	}
}

// context is the MACA of a column of values.
func (m *valueMachine) context(in *instruction) error {
	if err := m.checkRow(in); err != nil {
		return err
	}
	values, r := m.column(in), rounding{m.precision.Multiply == FP16, m.precision.Context == FP16}
	set := m.program.setTokens
	first := int(in.token) % set // the column's first token within its slot
	for i := range int(in.queries) {
		sums := part(m.accumulators, int(in.query)+i, len(values))
		if in.first {
			clear(sums)
		}
		slot := (int(in.slot)*m.macs+i)*set + first
		contextBanks(values, m.weights[slot:slot+m.mapping.ColumnTokens], sums, r)
	}
	return nil
}
