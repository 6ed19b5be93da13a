package values

import (
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
)

// rankLevelUnit computes the values of a rank-level unit (pim/machine/generate_rank_level.go). It keeps in the buffer chip what the banks
// have in L3: q, partial sums, weights and accumulators. A burst that it reads passes the re-layout in reverse, so that elements are in
// their original order. After the partial sums, the computation is the buffer unit's, as in L3.
type rankLevelUnit struct {
	order    []int     // position in a burst of each element of the chips' shares, chip after chip
	head     int32     // head whose q is loaded, -1: none
	group    int       // group of keys whose scales are multiplied into q
	width    int       // elements of a burst that a set multiplies at once
	query    []float32 // by query head and element
	partials []float32 // by query head and token of a row
	weights  []float32 // likewise
	burst    []float32 // the burst being read
}

// initRankLevel gives the machine the rank's one unit, whose memory is NaN until written.
func (m *valueMachine) initRankLevel(multipliers int) {
	g, queries, n := &m.mapping, m.shape.Queries, m.mapping.BurstElements()
	m.rankLevel = &rankLevelUnit{
		order: make([]int, n), query: make([]float32, queries*g.PaddedDim), partials: make([]float32, queries*g.RowTokens),
		weights: make([]float32, queries*g.RowTokens), burst: make([]float32, n), width: min(multipliers*g.Chips, n),
	}
	for i := range m.rankLevel.order {
		m.rankLevel.order[i] = g.Exchange.Element(i/g.ChipElements(), i%g.ChipElements()*g.ElementBits)
	}
	fillNaN(m.rankLevel.partials)
	fillNaN(m.rankLevel.weights)
}

// loadHead loads the queries of an instruction's head, scaled for the group of a token's key.
func (m *valueMachine) loadHead(in *machine.Instruction) {
	u, group := m.rankLevel, m.group(&m.program.Heads[in.Head], int(in.Token))
	if u.head == in.Head && u.group == group {
		return
	}
	u.head, u.group = in.Head, group
	for q, vector := range m.data[in.Head].query {
		m.numbers(part(u.query, q, m.mapping.PaddedDim), vector, group)
	}
}

// read returns the elements of a burst in a bank's open row.
func (m *valueMachine) read(in *machine.Instruction) ([]float32, error) {
	if err := m.checkRow(in); err != nil {
		return nil, err
	}
	g, u, ordinal := &m.mapping, m.rankLevel, m.ordinal(in)
	n := len(u.burst)
	if m.decoded != nil {
		return part(m.decoded[m.decodedColumn(in.Row, in.Column):], ordinal, n), nil
	}
	size := g.BurstBytes / g.Chips
	at := m.cell(in.Row, in.Column) + ordinal*size
	for c := range m.chips {
		m.decodeBurst(u.burst, c, m.chips[c].cells[at:at+size])
	}
	return u.burst, nil
}

// readKey multiplies a burst of a token's key with the queries and adds the products to their partial sums. The last burst of a chunk
// passes the chunk to the softmax unit.
func (m *valueMachine) readKey(in *machine.Instruction) error {
	x, err := m.read(in)
	if err != nil {
		return err
	}
	m.loadHead(in)
	g, u, r := &m.mapping, m.rankLevel, rounding{m.precision.Multiply == pim.FP16, m.precision.Accumulate == pim.FP16}
	ends := m.ordinal(in) == g.Banks-1 && int(in.Burst) == g.KeyBursts-1
	for query := int(in.Query); query < int(in.Query)+int(in.Queries); query++ {
		q := u.query[query*g.PaddedDim+int(in.Burst)*len(x):]
		partials := part(u.partials, query, g.RowTokens)
		partial := part(partials, int(in.Token)%g.RowTokens, 1)
		if in.Burst == 0 {
			clear(partial)
		}
		scoreAny(x, len(x), u.width, q[:len(x)], partial, r)
		if !ends {
			continue
		}
		chunk := int(in.Token) - (g.Banks - 1)
		for i := range m.buffer.chunk {
			m.buffer.chunk[i] = partials[(chunk+i)%g.RowTokens]
		}
		if err := m.endChunk(in, query, chunk); err != nil {
			return err
		}
	}
	return nil
}

// readValue multiplies a burst of a token's value with its weights and adds the products to its bank's accumulators. The last burst of a
// segment completes the outputs.
func (m *valueMachine) readValue(in *machine.Instruction) error {
	x, err := m.read(in)
	if err != nil {
		return err
	}
	g, u, r := &m.mapping, m.rankLevel, rounding{m.precision.Multiply == pim.FP16, m.precision.Context == pim.FP16}
	for query := int(in.Query); query < int(in.Query)+int(in.Queries); query++ {
		weight := &part(u.weights, query, g.RowTokens)[int(in.Token)%g.RowTokens]
		if in.Burst == 0 {
			*weight = m.weight(in, query, int(in.Token))
		}
		sums := part(m.accumulators, query*g.Banks+m.ordinal(in), len(x))
		if in.First {
			clear(sums)
		}
		contextBanks(x, []float32{*weight}, sums, r)
	}
	for query := 0; in.Last && query < m.shape.Queries; query++ {
		m.endSegment(in, query)
	}
	return nil
}
