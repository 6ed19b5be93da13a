package pim

import (
	"encoding/binary"
	"math"

	"github.com/l3sim/l3sim/attention"
)

// The arithmetic of one bank PU, for all banks of one chip: what a MACA does.
// The chip's cells at the open row and the column come as one slice, bank after
// bank. Two routines of each kind serve x8 chips, four elements a column access:
// one without roundings, one with. scoreAny and contextAny serve every width and
// mixture of formats, and the same bits where both apply.

// maxChipElements is the most elements of a burst on one chip: FP16 on x16 in DDR5.
const maxChipElements = 16

// rounding says which results of a bank PU are rounded to FP16.
type rounding struct{ products, sums bool }

// round rounds x to FP16 if half.
func round(x float32, half bool) float32 {
	if half {
		return attention.RoundHalf(x)
	}
	return x
}

// scoreBanks adds q·k over this column access to each bank's partial sum: products,
// then the adder tree, then the sum so far.
func scoreBanks(cells []byte, widen *[1 << 16]float32, q, partial []float32, r rounding) {
	switch {
	case len(q) == 4 && r == rounding{}:
		scoreFP32(cells, widen, (*[4]float32)(q), partial)
	case len(q) == 4:
		scoreRounded(cells, widen, (*[4]float32)(q), partial, rounderTo(r.products), rounderTo(r.sums))
	default:
		scoreAny(cells, widen, q, partial, r)
	}
}

// scoreFP32 adds to each bank's partial sum the products of a chip's four elements, all in FP32. cells is a burst,
// bank after bank.
func scoreFP32(cells []byte, widen *[1 << 16]float32, q *[4]float32, partial []float32) {
	q0, q1, q2, q3 := q[0], q[1], q[2], q[3]
	for b := 0; b < len(partial) && len(cells) >= 8; b++ {
		x := binary.LittleEndian.Uint64(cells)
		cells = cells[8:]
		p0 := float32(q0 * widen[uint16(x)])
		p1 := float32(q1 * widen[uint16(x>>16)])
		p2 := float32(q2 * widen[uint16(x>>32)])
		p3 := float32(q3 * widen[x>>48])
		partial[b] += (p0 + p1) + (p2 + p3)
	}
}

// halfUnits has for each exponent of a float32 a number so large that the unit of its last place is FP16's there:
// adding it rounds. What overflows in any case, from 2^16 on, has 0.
var halfUnits = func() *[1 << 8]float32 {
	table := new([1 << 8]float32)
	for e := range 127 + 16 {
		table[e] = math.Float32frombits(uint32(max(e, 127-14)+13)<<23 | 1<<22)
	}
	return table
}()

var noUnits [1 << 8]float32

// rounder is round without a branch, but for the sign of zero. That does not show in a sum of FP16 numbers that begins at
// +0.
type rounder struct {
	units    *[1 << 8]float32
	up, down float32
}

// rounderTo returns the rounding to FP16, or one that changes nothing. 65504·2^112 is finite, 65536·2^112 is not.
func rounderTo(half bool) rounder {
	if half {
		return rounder{halfUnits, 0x1p112, 0x1p-112}
	}
	return rounder{&noUnits, 1, 1}
}

// round rounds to the nearest, to even: adding and taking off a number of the right size drops the bits that do
// not fit.
func (r rounder) round(x float32) float32 {
	m := r.units[uint8(math.Float32bits(x)>>23)]
	return float32(float32(float32(x+m-m)*r.up) * r.down)
}

// scoreRounded is scoreFP32 with each product and each sum rounded to its format.
func scoreRounded(cells []byte, widen *[1 << 16]float32, q *[4]float32, partial []float32, product, sum rounder) {
	q0, q1, q2, q3 := q[0], q[1], q[2], q[3]
	for b := 0; b < len(partial) && len(cells) >= 8; b++ {
		x := binary.LittleEndian.Uint64(cells)
		cells = cells[8:]
		p0 := product.round(float32(q0 * widen[uint16(x)]))
		p1 := product.round(float32(q1 * widen[uint16(x>>16)]))
		p2 := product.round(float32(q2 * widen[uint16(x>>32)]))
		p3 := product.round(float32(q3 * widen[x>>48]))
		tree := sum.round(sum.round(p0+p1) + sum.round(p2+p3))
		partial[b] = sum.round(partial[b] + tree)
	}
}

// scoreAny is scoreRounded for any number of elements: it is what the two faster ones are tested against.
func scoreAny(cells []byte, widen *[1 << 16]float32, q, partial []float32, r rounding) {
	var products [maxChipElements]float32
	for b := range partial {
		for e, x := range q {
			h := binary.LittleEndian.Uint16(cells[2*(b*len(q)+e):])
			products[e] = round(float32(x*widen[h]), r.products)
		}
		partial[b] = round(partial[b]+tree(products[:len(q)], r.sums), r.sums)
	}
}

// tree adds a power of two of numbers as a tree of adders does, neighbours
// first, each sum rounded to FP16 if half. It overwrites them.
func tree(x []float32, half bool) float32 {
	for n := len(x); n > 1; n /= 2 {
		for i := range n / 2 {
			x[i] = round(x[2*i]+x[2*i+1], half)
		}
	}
	return x[0]
}

// contextBanks adds weight·v to the accumulators of each bank; weights has one weight
// for each token of the column, whose values lie side by side in as many banks. A
// zero weight gates the multipliers: the accumulators keep their value whatever
// the cells hold.
func contextBanks(cells []byte, widen *[1 << 16]float32, weights []float32, accumulators []float32, r rounding) {
	n := len(accumulators) / len(weights) // elements of one token on the chip
	switch {
	case n%4 == 0 && r == rounding{}:
		contextFP32(cells, widen, weights, accumulators, n)
	case n%4 == 0 && r.products: // unrounded products may add up to -0
		contextRounded(cells, widen, weights, accumulators, n, rounderTo(true), rounderTo(r.sums))
	default:
		contextAny(cells, widen, weights, accumulators, n, r)
	}
}

// contextFP32 adds to each bank's accumulators its values times its weight, all in FP32. n is a chip's elements of
// a burst; a bank with weight 0 adds nothing.
func contextFP32(cells []byte, widen *[1 << 16]float32, weights, accumulators []float32, n int) {
	for _, w := range weights {
		v, sums := cells[:2*n], accumulators[:n]
		cells, accumulators = cells[2*n:], accumulators[n:]
		if w == 0 {
			continue
		}
		for len(v) >= 8 && len(sums) >= 4 {
			x, s := binary.LittleEndian.Uint64(v), (*[4]float32)(sums)
			s[0] += float32(w * widen[uint16(x)])
			s[1] += float32(w * widen[uint16(x>>16)])
			s[2] += float32(w * widen[uint16(x>>32)])
			s[3] += float32(w * widen[x>>48])
			v, sums = v[8:], sums[4:]
		}
	}
}

// contextRounded is contextFP32 with each product and each sum rounded to its format.
func contextRounded(cells []byte, widen *[1 << 16]float32, weights, accumulators []float32, n int, product, sum rounder) {
	for _, w := range weights {
		v, sums := cells[:2*n], accumulators[:n]
		cells, accumulators = cells[2*n:], accumulators[n:]
		if w == 0 {
			continue
		}
		for len(v) >= 8 && len(sums) >= 4 {
			x, s := binary.LittleEndian.Uint64(v), (*[4]float32)(sums)
			s[0] = sum.round(s[0] + product.round(float32(w*widen[uint16(x)])))
			s[1] = sum.round(s[1] + product.round(float32(w*widen[uint16(x>>16)])))
			s[2] = sum.round(s[2] + product.round(float32(w*widen[uint16(x>>32)])))
			s[3] = sum.round(s[3] + product.round(float32(w*widen[x>>48])))
			v, sums = v[8:], sums[4:]
		}
	}
}

// contextAny is contextRounded for any number of elements.
func contextAny(cells []byte, widen *[1 << 16]float32, weights, accumulators []float32, n int, r rounding) {
	for i := range accumulators {
		if w := weights[i/n]; w != 0 {
			product := round(float32(w*widen[binary.LittleEndian.Uint16(cells[2*i:])]), r.products)
			accumulators[i] = round(accumulators[i]+product, r.sums)
		}
	}
}

// loadQuery passes a burst of q through the re-layout into the shared buffers.
func (m *valueMachine) loadQuery(in *instruction) {
	if m.narrow != nil {
		m.loadNarrowQuery(in)
		return
	}
	beats := m.beats(m.data[in.head].query[in.query], int(in.burst))
	n, widen := m.mapping.chipElements(), m.storage.table()
	at := (int(in.query)*m.mapping.TokenBursts + int(in.burst)) * n
	var bytes [2 * maxChipElements]byte
	for c := range m.chips {
		share(bytes[:], beats[:burstBits/m.mapping.Exchange.lanes], c, m.mapping.Exchange.deviceWidth)
		for e := range n {
			m.chips[c].query[at+e] = widen[binary.LittleEndian.Uint16(bytes[2*e:])]
		}
	}
}
