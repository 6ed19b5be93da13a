package values

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	"gonum.org/v1/gonum/blas/blas32"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
)

// The arithmetic of a MACA: one bank PU, computed for all banks of one chip. The elements of the open row's column are given as numbers.
// scoreBanks and contextBanks serve L3's case, four elements a column access, with a routine without roundings and one with. scoreAny and
// contextAny serve every width and mixture of formats, and give the same bits where both apply.

// maxChipElements is the largest number of elements of a burst on one chip: FP16 on x16 in DDR5. maxBurstElements is the largest number in
// a burst: 4-bit elements.
const (
	maxChipElements  = 16
	maxBurstElements = pim.BurstBits / 4
)

type rounding struct{ products, sums bool } // which results of a bank PU are rounded to FP16

func round(x float32, half bool) float32 {
	if half {
		return attention.RoundHalf(x)
	}
	return x
}

// scoreBanks adds q·k over this column access to each bank's partial sum: products, then the adder tree, then the sum so far. Banks are
// stride elements apart. A set's multipliers take width elements at a time.
func scoreBanks(values []float32, stride, width int, q, partial []float32, r rounding) {
	switch {
	case len(q) == 4 && width == 4 && r == rounding{}:
		scoreFP32(values, stride, (*[4]float32)(q), partial)
	case len(q) == 4 && width == 4:
		scoreRounded(values, stride, (*[4]float32)(q), partial, rounderTo(r.products), rounderTo(r.sums))
	default:
		scoreAny(values, stride, width, q, partial, r)
	}
}

func scoreFP32(values []float32, stride int, q *[4]float32, partial []float32) {
	q0, q1, q2, q3 := q[0], q[1], q[2], q[3]
	for b := range partial {
		k := (*[4]float32)(values[b*stride:])
		partial[b] += (float32(q0*k[0]) + float32(q1*k[1])) + (float32(q2*k[2]) + float32(q3*k[3]))
	}
}

// halfUnits has, for each exponent of a float32, a number whose last place has the weight of FP16's last place for that exponent: adding it
// rounds to FP16. Exponents from 2^16 on, which always overflow, have 0.
var halfUnits = func() *[1 << 8]float32 {
	table := new([1 << 8]float32)
	for e := range 127 + 16 {
		table[e] = math.Float32frombits(uint32(max(e, 127-14)+13)<<23 | 1<<22)
	}
	return table
}()

var noUnits [1 << 8]float32

// rounder rounds without branches. It may change the sign of zero, which does not affect a sum of FP16 numbers that starts at +0.
type rounder struct {
	units    *[1 << 8]float32
	up, down float32
}

// rounderTo returns the rounding to FP16, or one that changes nothing. It detects overflow by a factor: 65504·2^112 is finite, 65536·2^112
// is not.
func rounderTo(half bool) rounder {
	if half {
		return rounder{halfUnits, 0x1p112, 0x1p-112}
	}
	return rounder{&noUnits, 1, 1}
}

// round rounds to nearest, ties to even: adding and subtracting a number of the right magnitude drops the bits that do not fit.
func (r rounder) round(x float32) float32 {
	m := r.units[uint8(math.Float32bits(x)>>23)]
	return float32(float32(float32(x+m-m)*r.up) * r.down)
}

func scoreRounded(values []float32, stride int, q *[4]float32, partial []float32, product, sum rounder) {
	q0, q1, q2, q3 := q[0], q[1], q[2], q[3]
	for b := range partial {
		k := (*[4]float32)(values[b*stride:])
		p0, p1 := product.round(float32(q0*k[0])), product.round(float32(q1*k[1]))
		p2, p3 := product.round(float32(q2*k[2])), product.round(float32(q3*k[3]))
		tree := sum.round(sum.round(p0+p1) + sum.round(p2+p3))
		partial[b] = sum.round(partial[b] + tree)
	}
}

func scoreAny(values []float32, stride, width int, q, partial []float32, r rounding) {
	var products [maxBurstElements]float32
	for b := range partial {
		k := values[b*stride:][:len(q)]
		for e := 0; e < len(q); e += width {
			n := min(width, len(q)-e)
			for i := range n {
				products[i] = round(float32(q[e+i]*k[e+i]), r.products)
			}
			partial[b] = round(partial[b]+tree(padded(products[:], n), r.sums), r.sums)
		}
	}
}

// padded returns the first n elements, followed by zeros up to a power of two.
func padded(x []float32, n int) []float32 {
	size := 1
	for size < n {
		size *= 2
	}
	clear(x[n:size])
	return x[:size]
}

// tree adds numbers, a power of two of them, like a tree of adders: neighbours first, each sum rounded to FP16 if half. It overwrites them.
func tree(x []float32, half bool) float32 {
	for n := len(x); n > 1; n /= 2 {
		for i := range n / 2 {
			x[i] = round(x[2*i]+x[2*i+1], half)
		}
	}
	return x[0]
}

// contextBanks adds weight·v to the accumulators of all banks and chips. weights has one weight for each token of the column, whose values
// are in as many groups of banks. A zero weight gates the multipliers: the accumulators keep their values whatever the cells hold.
func contextBanks(values, weights, accumulators []float32, r rounding) {
	product, sum := rounderTo(true), rounderTo(r.sums)
	n := len(accumulators) / len(weights) // elements of one token
	for i, w := range weights {
		v, sums := values[i*n:(i+1)*n], accumulators[i*n:(i+1)*n]
		switch {
		case w == 0:
		case r == rounding{} && axpyRounds():
			axpy(w, v, sums)
		case r.products: // unrounded products may add up to -0
			for e, x := range v {
				sums[e] = sum.round(sums[e] + product.round(float32(w*x)))
			}
		default:
			contextAny(v, w, sums, r)
		}
	}
}

func contextAny(values []float32, w float32, sums []float32, r rounding) {
	for e, x := range values {
		sums[e] = round(sums[e]+round(float32(w*x), r.products), r.sums)
	}
}

// axpyRounds reports whether blas32.Axpy rounds products before it adds them, as all arithmetic here does. Its assembly does; where a
// compiler fuses the two, it does not.
var axpyRounds = sync.OnceValue(func() bool {
	// (1 + 2^-12)² - 1 - 2^-11 is 2^-24, which rounding the product loses.
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

// loadQuery passes a burst of q through the re-layout into the shared buffers.
func (m *valueMachine) loadQuery(in *machine.Instruction) {
	if m.narrow != nil {
		m.loadNarrowQuery(in)
		return
	}
	beats := m.beats(m.data[in.Head].query[in.Query], int(in.Burst))
	n, widen := m.mapping.ChipElements(), m.storage.table()
	at := (int(in.Query)*m.mapping.KeyBursts + int(in.Burst)) * n
	var bytes [2 * maxChipElements]byte
	for c := range m.chips {
		share(bytes[:], beats[:pim.BurstBits/m.mapping.Exchange.Lanes], c, m.mapping.Exchange.DeviceWidth)
		for e := range n {
			m.chips[c].query[at+e] = widen[binary.LittleEndian.Uint16(bytes[2*e:])]
		}
	}
}

// Storage is the number format of q, k and v in the banks.
type Storage uint8

// The storage formats, both with 16 bits.
const (
	StoreFP16 Storage = iota
	StoreBF16
)

// String returns "fp16" or "bf16".
func (s Storage) String() string { return [...]string{"fp16", "bf16"}[s] }

func (s Storage) encode(x float32) uint16 {
	if s == StoreBF16 {
		return attention.Float32ToBFloat16(x)
	}
	return attention.Float32ToHalf(x)
}

func (s Storage) table() *[1 << 16]float32 {
	if s == StoreBF16 {
		return bfloat16Table()
	}
	return attention.HalfTable()
}

// bfloat16Table converts bfloat16 to float32 by a table, built once.
var bfloat16Table = sync.OnceValue(func() *[1 << 16]float32 {
	table := new([1 << 16]float32)
	for b := range table {
		table[b] = attention.BFloat16ToFloat32(uint16(b))
	}
	return table
})

// chipState is one DRAM chip with its bank PUs. Its methods have no access to other chips.
type chipState struct {
	// cells holds the rows that a program uses: row by row, column by column, bank by bank, each with the chip's share of one burst. Banks
	// are adjacent, since a MACA reads the same column of all of them.
	cells []byte
	// query is the chip's share of q in the shared buffer: for each query head, the chip's elements of each burst.
	query []float32
	// partials are the bank PUs' result slots: by slot, multiplier set and bank.
	partials []float32
}

// share returns the chip's share of a burst as bytes: its width bits of each beat, first beat lowest.
func share(dst []byte, beats []uint64, chip, width int) {
	switch width {
	case 8:
		for b, beat := range beats {
			dst[b] = byte(beat >> (8 * chip))
		}
	case 16:
		for b, beat := range beats {
			binary.LittleEndian.PutUint16(dst[2*b:], uint16(beat>>(16*chip)))
		}
	default: // 4
		for b := 0; b+1 < len(beats); b += 2 {
			low, high := beats[b]>>(4*chip)&0xf, beats[b+1]>>(4*chip)&0xf
			dst[b/2] = byte(low | high<<4)
		}
	}
}

func (c *chipState) fillNaN(s Storage) {
	for i := 0; i+1 < len(c.cells); i += 2 {
		binary.LittleEndian.PutUint16(c.cells[i:], s.encode(float32(math.NaN())))
	}
	fillNaN(c.query)
	fillNaN(c.partials)
}

func fillNaN(x []float32) {
	for i := range x {
		x[i] = float32(math.NaN())
	}
}

func (m *valueMachine) ordinal(in *machine.Instruction) int {
	return int(in.Bank)*m.mapping.BankGroups + int(in.BankGroup)
}

// banksOf returns the ordinals of the banks that an instruction names, from first up to, excluding, end.
func (m *valueMachine) banksOf(in *machine.Instruction) (first, end int) {
	if in.Bank < 0 {
		return 0, len(m.openRow)
	}
	return m.ordinal(in), m.ordinal(in) + 1
}

// setRow opens row in the banks that the instruction names, or closes them.
func (m *valueMachine) setRow(in *machine.Instruction, row int32) {
	for b, end := m.banksOf(in); b < end; b++ {
		m.openRow[b] = row
	}
}

// checkRow returns an error for a bank in which the instruction's row is not open.
func (m *valueMachine) checkRow(in *machine.Instruction) error {
	first, end := m.banksOf(in)
	for i, open := range m.openRow[first:end] {
		if open != in.Row {
			return fmt.Errorf("%s to row %d of bank %d while row %d is open", in.Command, in.Row, first+i, open)
		}
	}
	return nil
}
