package pim

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
)

// HeadData is what a Head computes on: bits in the machine's storage format.
type HeadData struct {
	Query [][]uint16 // by query head of the group, HeadDim elements
	// Key and Value of the newest token, HeadDim elements each; only where the
	// head appends it.
	Key, Value []uint16
}

// HeadResult is what the rank PU returns for a Head.
type HeadResult struct {
	Out [][]float32 // by query head, HeadDim elements
	LSE []float64   // by query head, natural log-sum-exp from the softmax unit's maximum and sum
}

// ValueMachine executes Programs on the bytes that the mapping stored: the
// second interpretation of a Program. It holds the chips of one rank, each with
// its cells and buffers, and the rank PU. All of it is NaN before anything is
// written.
//
// Chips, buffers and slots are those that the instructions name, and an
// instruction that finds another row open than its own is an error: nothing but
// the program says what is computed.
type ValueMachine struct {
	mapping    Mapping
	shape      HeadShape
	precision  Precision
	storage    Storage
	macs       int
	normalised bool
	scale      float32 // 1/√d

	rows    int
	openRow []int32 // by bank ordinal, -1 where closed
	chips   []chipState
	weights []float32 // weight slots of the shared buffers, alike in every chip: by slot, multiplier set and token
	rank    rankUnit

	program *Program
	data    []HeadData
	results []HeadResult
	scratch []Instruction
}

// NewValueMachine returns a machine that holds rows rows of all banks for heads
// of shape. Elements of other than 16 bits, a rank-level PU, and what NewMapping
// refuses are InputErrors.
func NewValueMachine(spec *Spec, d *dram.Spec, shape HeadShape, storage Storage, rows int) (*ValueMachine, error) {
	if shape.ElementBits != 16 {
		return nil, &input.Error{Key: "element_bits", Value: fmt.Sprint(shape.ElementBits),
			Expected: "16: the functional model multiplies FP16 and BF16"}
	}
	if spec.ProcessingUnit != BankPU {
		return nil, &input.Error{Key: "processing_unit", Value: fmt.Sprintf("%q", spec.ProcessingUnit),
			Expected: fmt.Sprintf("%q: the functional model computes in the banks", BankPU)}
	}
	mapping, err := NewMapping(d, shape)
	if err != nil {
		return nil, err
	}
	m := &ValueMachine{
		mapping: mapping, shape: shape, precision: spec.Precision.Resolve(), storage: storage,
		macs: spec.MACsPerRead, normalised: spec.NormalisedWeights,
		scale: float32(1 / math.Sqrt(float64(shape.HeadDim))), rows: rows,
	}
	// The plan gives the sizes of the buffers.
	p, err := NewProgram(spec, d, shape, nil)
	if err != nil {
		return nil, err
	}
	g, elements := &m.mapping, m.mapping.ChipElements()
	m.chips = make([]chipState, g.Chips)
	for c := range m.chips {
		m.chips[c] = chipState{
			cells:        make([]byte, rows*g.RowBursts*g.Banks*g.BurstBytes/g.Chips),
			query:        make([]float32, shape.Queries*g.TokenBursts*elements),
			partials:     make([]float32, resultSlots*m.macs*g.Banks),
			accumulators: make([]float32, shape.Queries*g.Banks*elements),
		}
		m.chips[c].fillNaN(storage)
	}
	m.weights = make([]float32, weightSlots*m.macs*p.SetTokens)
	fillNaN(m.weights)
	m.openRow = make([]int32, g.Banks)
	for b := range m.openRow {
		m.openRow[b] = -1
	}
	m.rank.init(&p.plan, g, shape.Queries, m.precision)
	return m, nil
}

// Store writes the key and value of a token of the head that begins at
// firstRow, as a transfer from the host does: through the re-layout, burst by
// burst. They have HeadDim elements in the machine's storage format.
func (m *ValueMachine) Store(firstRow int32, token int, key, value []uint16) error {
	for kv, vector := range [][]uint16{Key: key, Value: value} {
		for burst := range m.mapping.TokenBursts {
			ordinal, row, column := m.mapping.BurstPlace(KV(kv), token, burst)
			if err := m.writeBurst(ordinal, firstRow+row, column, vector, burst); err != nil {
				return err
			}
		}
	}
	return nil
}

// beats returns one burst of a vector as the re-layout unit passes it on; what
// lies beyond the vector is zero.
func (m *ValueMachine) beats(vector []uint16, burst int) [burstBeats]uint64 {
	var bytes [burstBeats * busLanes / 8]byte
	n := m.mapping.BurstElements()
	for i := range n {
		if e := burst*n + i; e < len(vector) {
			binary.LittleEndian.PutUint16(bytes[2*i:], vector[e])
		}
	}
	var beats [burstBeats]uint64
	for b := range beats {
		beats[b] = binary.LittleEndian.Uint64(bytes[8*b:])
	}
	m.mapping.Exchange.Beats(beats[:])
	return beats
}

// writeBurst puts one burst of a vector into the cells.
func (m *ValueMachine) writeBurst(ordinal int, row, column int32, vector []uint16, burst int) error {
	if row < 0 || int(row) >= m.rows {
		return fmt.Errorf("row %d of a machine with %d rows", row, m.rows)
	}
	beats := m.beats(vector, burst)
	size := m.mapping.BurstBytes / m.mapping.Chips
	for c := range m.chips {
		at := m.cell(row, column) + ordinal*size
		share(m.chips[c].cells[at:at+size], &beats, c, m.mapping.Exchange.DeviceWidth)
	}
	return nil
}

// cell returns the index in a chip's cells of bank 0 at row and column.
func (m *ValueMachine) cell(row, column int32) int {
	g := &m.mapping
	return (int(row)*g.RowBursts + int(column)) * g.Banks * g.BurstBytes / g.Chips
}

// Run executes the program, one instruction after the other, on data, which has
// an entry for each of its heads. The results are valid until the next run.
func (m *ValueMachine) Run(p *Program, data []HeadData) ([]HeadResult, error) {
	if err := m.begin(p, data); err != nil {
		return nil, err
	}
	for {
		m.scratch = p.Next(m.scratch[:0])
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
func (m *ValueMachine) begin(p *Program, data []HeadData) error {
	if p.Shape != m.shape || p.macs != m.macs {
		return fmt.Errorf("a program for %+v on a machine for %+v", p.Shape, m.shape)
	}
	if len(data) != len(p.Heads) {
		return fmt.Errorf("%d heads, data for %d", len(p.Heads), len(data))
	}
	m.program, m.data = p, data
	m.results = slices.Grow(m.results[:0], len(data))[:len(data)]
	for i := range m.results {
		r := &m.results[i]
		if len(r.Out) != m.shape.Queries {
			r.Out, r.LSE = make([][]float32, m.shape.Queries), make([]float64, m.shape.Queries)
			for q := range r.Out {
				r.Out[q] = make([]float32, m.shape.HeadDim)
			}
		}
	}
	return nil
}

// execute does what one instruction says.
func (m *ValueMachine) execute(in *Instruction) error {
	switch in.Op {
	case OpActivate:
		m.setRow(in, in.Row)
	case OpPrecharge:
		m.setRow(in, -1)
	case OpAppendKey, OpAppendValue:
		return m.appendBurst(in)
	case OpLoadQuery:
		m.loadQuery(in)
	case OpScore:
		return m.score(in)
	case OpReadPartials:
		return m.readPartials(in)
	case OpLoadWeights:
		m.loadWeights(in)
	case OpContext:
		return m.context(in)
	case OpReadContext:
		m.readContext(in)
	default:
		return fmt.Errorf("operation %d is not the bank PUs'", in.Op)
	}
	return nil
}

// ordinal returns the bank ordinal that an instruction for one bank names.
func (m *ValueMachine) ordinal(in *Instruction) int {
	return int(in.Bank)*m.mapping.BankGroups + int(in.BankGroup)
}

// setRow opens row in the banks that the instruction names, or closes them.
func (m *ValueMachine) setRow(in *Instruction, row int32) {
	if in.Bank >= 0 {
		m.openRow[m.ordinal(in)] = row
		return
	}
	for b := range m.openRow {
		m.openRow[b] = row
	}
}

// checkRow reports a bank in which the instruction's row is not open.
func (m *ValueMachine) checkRow(in *Instruction) error {
	if in.Bank >= 0 {
		if open := m.openRow[m.ordinal(in)]; open != in.Row {
			return fmt.Errorf("%s to row %d of bank %d while row %d is open", in.Command, in.Row, m.ordinal(in), open)
		}
		return nil
	}
	for b, open := range m.openRow {
		if open != in.Row {
			return fmt.Errorf("%s to row %d of bank %d while row %d is open", in.Command, in.Row, b, open)
		}
	}
	return nil
}

func (m *ValueMachine) appendBurst(in *Instruction) error {
	if err := m.checkRow(in); err != nil {
		return err
	}
	vector := m.data[in.Head].Key
	if in.Op == OpAppendValue {
		vector = m.data[in.Head].Value
	}
	return m.writeBurst(m.ordinal(in), in.Row, in.Column, vector, int(in.Burst))
}

// loadQuery passes a burst of q through the re-layout into the shared buffers.
func (m *ValueMachine) loadQuery(in *Instruction) {
	beats := m.beats(m.data[in.Head].Query[in.Query], int(in.Burst))
	n, widen := m.mapping.ChipElements(), m.storage.table()
	at := (int(in.Query)*m.mapping.TokenBursts + int(in.Burst)) * n
	var bytes [2 * maxChipElements]byte
	for c := range m.chips {
		share(bytes[:], &beats, c, m.mapping.Exchange.DeviceWidth)
		for e := range n {
			m.chips[c].query[at+e] = widen[binary.LittleEndian.Uint16(bytes[2*e:])]
		}
	}
}

// score is the MACA of a column of keys.
func (m *ValueMachine) score(in *Instruction) error {
	if err := m.checkRow(in); err != nil {
		return err
	}
	g, n, widen := &m.mapping, m.mapping.ChipElements(), m.storage.table()
	r := rounding{m.precision.Multiply == FP16, m.precision.Accumulate == FP16}
	at, size := m.cell(in.Row, in.Column), g.Banks*g.BurstBytes/g.Chips
	for c := range m.chips {
		chip := &m.chips[c]
		for set := range int(in.Queries) {
			query := int(in.Query) + set
			slot := (int(in.Slot)*m.macs + set) * g.Banks
			partial := chip.partials[slot : slot+g.Banks]
			if in.Burst == 0 {
				clear(partial)
			}
			q := (query*g.TokenBursts + int(in.Burst)) * n
			scoreBanks(chip.cells[at:at+size], widen, chip.query[q:q+n], partial, r)
		}
	}
	return nil
}

// context is the MACA of a column of values.
func (m *ValueMachine) context(in *Instruction) error {
	if err := m.checkRow(in); err != nil {
		return err
	}
	g, n, widen := &m.mapping, m.mapping.ChipElements(), m.storage.table()
	r := rounding{m.precision.Multiply == FP16, m.precision.Context == FP16}
	at, size := m.cell(in.Row, in.Column), g.Banks*g.BurstBytes/g.Chips
	set := m.program.SetTokens
	first := int(in.Token) % set // the column's first token within its slot
	for c := range m.chips {
		chip := &m.chips[c]
		for i := range int(in.Queries) {
			query := int(in.Query) + i
			accumulators := chip.accumulators[query*g.Banks*n : (query+1)*g.Banks*n]
			if in.First {
				clear(accumulators)
			}
			slot := (int(in.Slot)*m.macs+i)*set + first
			contextBanks(chip.cells[at:at+size], widen, m.weights[slot:slot+g.ColumnTokens], accumulators, r)
		}
	}
	return nil
}
