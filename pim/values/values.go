package values

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
)

// headData is a head's input: bits in the machine's storage format; keys and values of 8 or 4 bits are in two's complement or FP8.
type headData struct {
	query [][]uint16 // by query head of the group, HeadDim elements
	// key and value of the newest token, HeadDim and ValueDim elements; only if the head appends it.
	key, value []uint16
	scale      float32       // factor on scores before the softmax; 0: 1/√HeadDim
	scales     [2]pim.Scales // of the newest key and value, if elements are narrow
}

// headResult is the buffer unit's output for a head.
type headResult struct {
	out [][]float32 // by query head, as many elements as a value
	lse []float64   // by query head, natural log-sum-exp from the softmax unit's maximum and sum
}

// valueMachine executes programs on stored bytes: the second interpretation of a program. It has the chips of one rank, each with its cells
// and buffers, and the buffer unit. All its memory is NaN until written.
//
// It uses only the chips, buffers and slots that instructions name, and an instruction whose row is not open is an error. The program alone
// thus determines what is computed.
type valueMachine struct {
	mapping    pim.Mapping
	shape      pim.HeadShape
	precision  pim.Precision
	storage    Storage
	macs       int
	normalised bool
	scale      float32 // 1/√d
	mistake    Mistake // planted

	rows      int
	openRow   []int32 // by bank ordinal, -1 if closed
	chips     []chipState
	weights   []float32 // weight slots of the shared buffers, equal in every chip: by slot, multiplier set and token
	buffer    bufferUnit
	rankLevel *rankLevelUnit // nil: units at the banks
	narrow    *narrowCells   // nil: 16-bit keys and values
	// rowScales has the scales of open rows that the unit has read, nil if rows have no scales.
	rowScales rowScales
	columns

	running
}

// columns are the data that the units read and multiply.
type columns struct {
	width int       // elements of a chip that a set multiplies at once
	wide  []float32 // a column, unpacked: by bank, chip and element
	// decoded has all columns in that form, by row and column. It is an exact shortcut: each write decodes its data once, so that reads
	// need not. nil: reads decode.
	decoded      []float32
	accumulators []float32 // of the context: by query head, burst of the value, bank, chip and element
	// valueBursts is the number of bursts of a value with separate accumulators: 1, or all if values are parts of keys.
	valueBursts int
}

// running is the program and its heads' results so far.
type running struct {
	program *machine.Program
	data    []headData
	results []headResult
	scratch []machine.Instruction
}

// newValueMachine returns a machine with the given number of rows in all banks, for heads of shape. It returns an input.Error for queries
// of other than 16 bits, and for shapes that NewMapping refuses.
func newValueMachine(spec *pim.Spec, d *dram.Spec, shape pim.HeadShape, storage Storage, rows int) (*valueMachine, error) {
	if shape.ElementBits != 16 {
		return nil, &input.Error{Key: "element_bits", Value: fmt.Sprint(shape.ElementBits),
			Expected: "16: the functional model multiplies with FP16 and BF16"}
	}
	mapping, err := pim.NewMapping(d, shape)
	if err != nil {
		return nil, err
	}
	m := &valueMachine{
		mapping: mapping, shape: shape, precision: spec.Precision.Resolve(), storage: storage,
		macs: spec.MACsPerRead, normalised: spec.NormalizedWeights,
		scale: float32(1 / math.Sqrt(float64(shape.HeadDim))), rows: rows,
	}
	// The plan gives the sizes of the buffers.
	p, err := machine.NewProgram(spec, d, shape, nil)
	if err != nil {
		return nil, err
	}
	g, elements := &m.mapping, m.mapping.ChipElements()
	m.width, m.wide = min(p.Multipliers, elements), make([]float32, g.Banks*g.BurstElements())
	m.chips = make([]chipState, g.Chips)
	for c := range m.chips {
		m.chips[c] = chipState{
			cells:    make([]byte, rows*g.RowBursts*g.Banks*g.BurstBytes/g.Chips),
			query:    make([]float32, shape.Queries*g.KeyBursts*elements),
			partials: make([]float32, machine.ResultSlots*m.macs*g.Banks),
		}
		m.chips[c].fillNaN(storage)
	}
	m.weights = make([]float32, machine.WeightSlots*m.macs*p.SetTokens)
	if m.valueBursts = 1; g.InKey {
		m.valueBursts = g.ValueBursts
	}
	m.accumulators, m.decoded = make([]float32, shape.Queries*m.valueBursts*len(m.wide)), make([]float32, rows*g.RowBursts*len(m.wide))
	fillNaN(m.weights)
	fillNaN(m.accumulators)
	fillNaN(m.decoded)
	m.openRow = make([]int32, g.Banks)
	for b := range m.openRow {
		m.openRow[b] = -1
	}
	m.buffer.init(&p.Plan, g, shape.Queries, m.precision)
	if p.RankLevel {
		m.initRankLevel(p.Multipliers)
	}
	if shape.StoredBits() != 16 {
		m.narrow = newNarrowCells(&g.Geometry, shape, rows)
	}
	m.rowScales = newRowScales(&g.Geometry, shape)
	return m, nil
}

// store writes the key and value of a token of the head that begins at firstRow, as a transfer from the host does: through the re-layout,
// burst by burst. They have HeadDim and ValueDim elements in the machine's storage format. A nil one is left out, and so is a value that is
// part of its key.
func (m *valueMachine) store(firstRow int32, token int, key, value []uint16) error {
	for kv, vector := range [][]uint16{pim.Key: key, pim.Value: value} {
		if vector == nil || pim.KV(kv) == pim.Value && m.mapping.InKey {
			continue
		}
		for burst := range m.mapping.Bursts(pim.KV(kv)) {
			ordinal, row, column := m.mapping.BurstPlace(pim.KV(kv), token, burst)
			if err := m.writeBurst(ordinal, firstRow+row, column, vector, burst); err != nil {
				return err
			}
		}
	}
	return nil
}

// beats returns one burst of a vector after the re-layout unit; elements beyond the vector are zero.
func (m *valueMachine) beats(vector []uint16, burst int) [pim.MaxBeats]uint64 {
	var bytes [pim.BurstBits / 8]byte
	n := m.mapping.BurstElements()
	for i, x := range vector[min(burst*n, len(vector)):min((burst+1)*n, len(vector))] {
		switch m.mapping.ElementBits {
		case 4:
			bytes[i/2] |= byte(x&0xf) << (i % 2 * 4)
		case 8:
			bytes[i] = byte(x)
		default:
			binary.LittleEndian.PutUint16(bytes[2*i:], x)
		}
	}
	var beats [pim.MaxBeats]uint64
	count := pim.BurstBits / m.mapping.Exchange.Lanes
	for b := range beats[:count] {
		if count == pim.MaxBeats {
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
	m.mapping.Exchange.Beats(beats[:count])
	return beats
}

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

// putBurst writes a burst after the re-layout unit into the cells of a bank.
func (m *valueMachine) putBurst(ordinal int, row, column int32, beats *[pim.MaxBeats]uint64) {
	size := m.mapping.BurstBytes / m.mapping.Chips
	for c := range m.chips {
		at := m.cell(row, column) + ordinal*size
		share(m.chips[c].cells[at:at+size], beats[:pim.BurstBits/m.mapping.Exchange.Lanes], c, m.mapping.Exchange.DeviceWidth)
		if m.decoded != nil {
			m.decodeBurst(m.decoded[m.decodedColumn(row, column)+ordinal*m.mapping.BurstElements():], c, m.chips[c].cells[at:at+size])
		}
	}
}

// cell returns the index in a chip's cells of bank 0 at row and column.
func (m *valueMachine) cell(row, column int32) int {
	g := &m.mapping
	return (int(row)*g.RowBursts + int(column)) * g.Banks * g.BurstBytes / g.Chips
}

// run executes the program, one instruction after another, on data, which has an entry for each head. The results are valid until the next
// run.
func (m *valueMachine) run(p *machine.Program, data []headData) ([]headResult, error) {
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

func (m *valueMachine) begin(p *machine.Program, data []headData) error {
	if p.Shape != m.shape || p.MACs != m.macs || p.RankLevel != (m.rankLevel != nil) {
		return fmt.Errorf("a program for %+v on a machine for %+v", p.Shape, m.shape)
	}
	if len(data) != len(p.Heads) {
		return fmt.Errorf("%d heads, data for %d", len(p.Heads), len(data))
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
				r.out[q] = make([]float32, m.shape.ValueWidth())
			}
		}
	}
	return nil
}

func (m *valueMachine) execute(in *machine.Instruction) error {
	switch in.Op {
	case machine.OpActivate:
		m.setRow(in, in.Row)
	case machine.OpPrecharge:
		m.setRow(in, -1)
	case machine.OpAppendKey, machine.OpAppendValue:
		return m.appendBurst(in)
	case machine.OpLoadQuery:
		m.loadQuery(in)
	case machine.OpScore:
		return m.score(in)
	case machine.OpReadPartials:
		return m.readPartials(in)
	case machine.OpLoadWeights:
		m.loadWeights(in)
	case machine.OpContext:
		return m.context(in)
	case machine.OpReadContext:
		m.readContext(in)
	case machine.OpAppendScale:
		return m.appendScale(in)
	case machine.OpReadScale:
		return m.readScale(in)
	case machine.OpReadKey:
		return m.readKey(in)
	case machine.OpReadValue:
		return m.readValue(in)
	}
	return nil
}

// appendBurst writes a burst of the new key or value to its position in the mapping.
func (m *valueMachine) appendBurst(in *machine.Instruction) error {
	if err := m.checkRow(in); err != nil {
		return err
	}
	vector := m.data[in.Head].key
	if in.Op == machine.OpAppendValue {
		vector = m.data[in.Head].value
	}
	if m.narrow != nil {
		h := &m.program.Heads[in.Head]
		m.noteScales(h.FirstRow, m.slot(h, h.Context-1)-int(h.FirstRow)/2*m.mapping.RowTokens, m.data[in.Head].scales)
	}
	return m.writeBurst(m.ordinal(in), in.Row, in.Column, vector, int(in.Burst))
}

// score executes the MACA of a column of keys.
func (m *valueMachine) score(in *machine.Instruction) error {
	if err := m.checkRow(in); err != nil {
		return err
	}
	g, n := &m.mapping, m.mapping.ChipElements()
	r := rounding{m.precision.Multiply == pim.FP16, m.precision.Accumulate == pim.FP16}
	values := m.column(in)
	for c := range m.chips {
		chip := &m.chips[c]
		for set := range int(in.Queries) {
			slot := (int(in.Slot)*m.macs + set) * g.Banks
			partial := chip.partials[slot : slot+g.Banks]
			if in.Burst == 0 {
				clear(partial)
			}
			q := ((int(in.Query)+set)*g.KeyBursts + int(in.Burst)) * n
			scoreBanks(values[c*n:], g.BurstElements(), m.width, chip.query[q:q+n], partial, r)
		}
	}
	return nil
}

// column returns the column that an instruction reads, as numbers by bank, chip and element.
func (m *valueMachine) column(in *machine.Instruction) []float32 {
	g, n := &m.mapping, m.mapping.ChipElements()
	if m.decoded != nil {
		at := m.decodedColumn(in.Row, in.Column)
		return m.decoded[at : at+g.Banks*g.BurstElements()]
	}
	at, size := m.cell(in.Row, in.Column), g.Banks*g.BurstBytes/g.Chips
	for c := range m.chips {
		m.unpack(m.wide[c*n:], n, g.BurstElements(), m.chips[c].cells[at:at+size])
	}
	return m.wide
}

// decodedColumn returns the index of bank 0's numbers at row and column.
func (m *valueMachine) decodedColumn(row, column int32) int {
	return (int(row)*m.mapping.RowBursts + int(column)) * len(m.wide)
}

// decodeBurst decodes a chip's stored share of a burst. A rank-level unit keeps the elements in their original order.
func (m *valueMachine) decodeBurst(burst []float32, chip int, stored []byte) {
	n := m.mapping.ChipElements()
	if m.rankLevel == nil {
		m.unpack(burst[chip*n:], n, n, stored)
		return
	}
	var wide [64]float32 // a local array, since heads are stored in parallel
	m.unpack(wide[:], n, n, stored)
	for i, x := range wide[:n] {
		burst[m.rankLevel.order[chip*n+i]] = x
	}
}

func (m *valueMachine) context(in *machine.Instruction) error {
	if err := m.checkRow(in); err != nil {
		return err
	}
	values, r := m.column(in), rounding{m.precision.Multiply == pim.FP16, m.precision.Context == pim.FP16}
	set := m.program.SetTokens
	first, burst := int(in.Token)%set, 0 // the column's first token within its slot
	if m.mapping.InKey {
		burst = int(in.Burst)
	}
	for i := range int(in.Queries) {
		sums := part(m.accumulators, (int(in.Query)+i)*m.valueBursts+burst, len(values))
		if in.First {
			clear(sums)
		}
		slot := (int(in.Slot)*m.macs+i)*set + first
		contextBanks(values, m.weights[slot:slot+m.mapping.ColumnTokens], sums, r)
	}
	return nil
}
