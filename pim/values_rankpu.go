package pim

import "encoding/binary"

// rankPU is a rank-level unit in values (generate_rank.go). It has what the banks have with L3 in the buffer chip: q,
// partial sums, weights and accumulators. A burst that it reads goes back through the re-layout, so that elements are in
// their own order. What follows the partial sums is the rank unit's, as with L3.
type rankPU struct {
	order    []int     // place in a burst of each element of the chips' shares, chip after chip
	head     int32     // whose q is loaded, -1: none
	query    []float32 // by query head and element
	partials []float32 // by query head and token of a row
	weights  []float32 // likewise
	sums     []float32 // accumulators: by query head, bank and element of a burst
	burst    []float32 // being read
	products []float32
}

func (m *valueMachine) initRankPU() {
	g, queries, n := &m.mapping, m.shape.Queries, m.mapping.burstElements()
	m.unit = &rankPU{
		order: make([]int, n), query: make([]float32, queries*g.PaddedDim), partials: make([]float32, queries*g.RowTokens),
		weights: make([]float32, queries*g.RowTokens), sums: make([]float32, queries*g.Banks*n),
		burst: make([]float32, n), products: make([]float32, n),
	}
	for i := range m.unit.order {
		m.unit.order[i] = g.Exchange.element(i/g.chipElements(), i%g.chipElements()*g.elementBits)
	}
	for _, x := range [][]float32{m.unit.partials, m.unit.weights, m.unit.sums} {
		fillNaN(x)
	}
}

// loadHead takes the queries of an instruction's head.
func (m *valueMachine) loadHead(head int32) {
	u, widen := m.unit, m.storage.table()
	if u.head == head {
		return
	}
	u.head = head
	clear(u.query)
	for q, vector := range m.data[head].query {
		for e, x := range vector {
			u.query[q*m.mapping.PaddedDim+e] = widen[x]
		}
	}
}

// read returns the elements of a burst in a bank's open row.
func (m *valueMachine) read(in *instruction) ([]float32, error) {
	if err := m.checkRow(in); err != nil {
		return nil, err
	}
	g, u, widen, ordinal := &m.mapping, m.unit, m.storage.table(), m.ordinal(in)
	n := len(u.burst)
	if m.decoded.values != nil {
		at := m.decodedColumn(in.row, in.column) + ordinal*n
		return m.decoded.values[at : at+n], nil
	}
	size, elements := g.burstBytes/g.Chips, g.chipElements()
	at := m.cell(in.row, in.column) + ordinal*size
	for c := range m.chips {
		for e := range elements {
			u.burst[u.order[c*elements+e]] = widen[binary.LittleEndian.Uint16(m.chips[c].cells[at+2*e:])]
		}
	}
	return u.burst, nil
}

// readKey multiplies a burst of a token's key with the queries' and adds it to their partial sums. The last burst of a
// chunk sends the chunk through the softmax unit.
func (m *valueMachine) readKey(in *instruction) error {
	x, err := m.read(in)
	if err != nil {
		return err
	}
	m.loadHead(in.head)
	g, u, r := &m.mapping, m.unit, rounding{m.precision.Multiply == FP16, m.precision.Accumulate == FP16}
	ends := m.ordinal(in) == g.Banks-1 && int(in.burst) == g.TokenBursts-1
	for query := int(in.query); query < int(in.query)+int(in.queries); query++ {
		q := u.query[query*g.PaddedDim+int(in.burst)*len(x):]
		for e, k := range x {
			u.products[e] = round(float32(q[e]*k), r.products)
		}
		partials := part(u.partials, query, g.RowTokens)
		partial := &partials[int(in.token)%g.RowTokens]
		if in.burst == 0 {
			*partial = 0
		}
		*partial = round(*partial+tree(u.products, r.sums), r.sums)
		if !ends {
			continue
		}
		chunk := int(in.token) - (g.Banks - 1)
		for i := range m.rank.chunk {
			m.rank.chunk[i] = round(partials[(chunk+i)%g.RowTokens], m.rank.score)
		}
		if err := m.endChunk(in, query, chunk); err != nil {
			return err
		}
	}
	return nil
}

// readValue multiplies a burst of a token's value with its weights and adds it to the accumulators of its bank. The last
// one of a segment completes the outputs.
func (m *valueMachine) readValue(in *instruction) error {
	x, err := m.read(in)
	if err != nil {
		return err
	}
	g, u, r := &m.mapping, m.unit, rounding{m.precision.Multiply == FP16, m.precision.Context == FP16}
	for query := int(in.query); query < int(in.query)+int(in.queries); query++ {
		weight := &part(u.weights, query, g.RowTokens)[int(in.token)%g.RowTokens]
		if in.burst == 0 {
			*weight = m.weight(in, query, int(in.token))
		}
		sums := part(u.sums, query*g.Banks+m.ordinal(in), len(x))
		if in.first {
			clear(sums)
		}
		switch w := *weight; {
		case w == 0: // whatever the cells hold
		case r == rounding{} && axpyRounds():
			axpy(w, x, sums)
		default:
			for e, v := range x {
				sums[e] = round(sums[e]+round(float32(w*v), r.products), r.sums)
			}
		}
	}
	for query := 0; in.last && query < m.shape.Queries; query++ {
		m.endSegment(in, query)
	}
	return nil
}
