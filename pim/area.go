package pim

import (
	"math/bits"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
)

// Area is µm² of logic in 28 nm, the process of L3's Table 5: a low and a high estimate.
type Area struct{ Low, High float64 }

// times returns the area of n of them.
func (a Area) times(n int) Area { return Area{float64(n) * a.Low, float64(n) * a.High} }

func (a Area) plus(b Area) Area { return Area{a.Low + b.Low, a.High + b.High} }

// Areas of L3's units (L3, Table 5: synthesised in TSMC 28 nm). A bank PU is four multipliers and four adders
// beside a bank of a chip, an adder unit eight adders; in a DRAM process they take ten times the area.
const (
	L3RelayoutArea = 948.0
	L3AdderArea    = 3446.0
	L3SoftmaxArea  = 18506.0
	L3BankArea     = 3323.0
	DRAMProcess    = 10.0
	BufferChipArea = 100e6 // of a DIMM (L3, section 6.4)
)

// Part is a kind of cell or unit that areas are added up of.
type Part int

// The parts.
const (
	RegisterBit Part = iota
	MultiplexerBit
	Adder16      // of 16-bit integers; as large as a comparator
	Comparator16 // of FP16: of sign and magnitude
	FP16Adder
	FP16Multiplier
	NarrowMultiplier // of FP16 by an integer of at most 8 bits
	SRAMByte
	Parts int = iota
)

// partNames are as tables and JSON have them.
var partNames = [Parts]string{"register_bits", "multiplexer_bits", "adders_16bit", "comparators", "fp16_adders", "fp16_multipliers", "narrow_multipliers", "sram_bytes"}

// String returns the part's name.
func (p Part) String() string { return partNames[p] }

// from45 and from130 scale areas with the square of the process, full is the share of an area that cells
// fill in the high estimate.
const (
	from45  = 28.0 * 28 / (45 * 45)
	from130 = 28.0 * 28 / (130 * 130)
	full    = 0.7
)

// partAreas are from published cells and units.
//
//   - Registers and multiplexers: low is SkyWater's sky130 (dfxtp_1 7.36 × 2.72 µm, mux2_1 4.14 × 2.72 µm,
//     https://github.com/google/skywater-pdk-libs-sky130_fd_sc_hd), high Nangate's 45 nm (DFF_X1 3.23 × 1.4 µm, MUX2_X1
//     1.33 × 1.4 µm, https://github.com/The-OpenROAD-Project/OpenROAD-flow-scripts) filled to 70%. The multiplexers' sizes
//     are from memory, not looked up.
//   - 16-bit adders and comparators: low is TSMC 45 nm (67 µm²), high 16 full adders of Nangate's (FA_X1 3.04 × 1.4 µm).
//   - FP16: low is L3's Table 5, high TSMC 45 nm (an adder 1,360, a multiplier 1,640 µm²). These and the 67, 36 and 282 µm² of
//     integers are those of Dally's tutorial at NIPS 2015 beside Horowitz's energies (ISSCC 2014); from memory, not looked up.
//   - FP16 by integer: low is the significand's 11 by 8 bits, of 8 by 8 (282 µm²), and the exponent's adder (36 µm²); high a whole
//     FP16 multiplier behind a conversion, for which an adder of 16 bits stands. An exact 8 by 8 bits of an open library has 618 µm² in
//     45 nm (mul8_364, https://github.com/ehw-fit/evoapprox8b), which is between both.
//   - SRAM: cells of 0.16 µm² (TSMC 28 nm: Chipworks, December 2012), of which small arrays fill 25% to 70%, our assumption.
var partAreas = [Parts]Area{
	RegisterBit:      {7.36 * 2.72 * from130, 3.23 * 1.4 * from45 / full},
	MultiplexerBit:   {4.14 * 2.72 * from130, 1.33 * 1.4 * from45 / full},
	Adder16:          {67 * from45, 16 * 3.04 * 1.4 * from45 / full},
	Comparator16:     {67 * from45, 16 * 3.04 * 1.4 * from45 / full},
	FP16Adder:        {L3AdderArea / 8, 1360 * from45},
	FP16Multiplier:   {L3BankArea/4 - L3AdderArea/8, 1640 * from45},
	NarrowMultiplier: {(282*11/8 + 36) * from45, 1640*from45 + 16*3.04*1.4*from45/full},
	SRAMByte:         {8 * 0.16 / 0.7, 8 * 0.16 / 0.25},
}

// Addition is hardware that L3 does not have.
type Addition struct {
	Name, What string
	// Bank says that it is beside each bank of each chip, else once a rank, in the buffer chip.
	Bank  bool
	Count int        // of it on a rank
	Parts [Parts]int // of one
}

// Area returns that of one, in a logic process.
func (a *Addition) Area() Area {
	var sum Area
	for p, n := range a.Parts {
		sum = sum.plus(partAreas[p].times(n))
	}
	return sum
}

// AreaSpec is what additions are for.
type AreaSpec struct {
	Shape   HeadShape // with its KVBits
	Entries int       // of a list of pages
	Context int       // tokens at most
	Page    int       // tokens
	Logical int       // tokens with bounds of their own
}

// Check has the rules of the sizes.
func (s AreaSpec) Check(c *input.Check) {
	s.Shape.Check(c)
	input.Within(c, "entries", s.Entries, 1, 1<<12)
	input.Within(c, "context", s.Context, 1, 1<<30)
	input.Within(c, "page", s.Page, 1, s.Context)
	c.That(s.Logical >= 1 && s.Page%max(1, s.Logical) == 0, "logical_page", s.Logical, "a divisor of the page of %d tokens", s.Page)
}

// width returns the bits that count to n things.
func width(n int) int { return bits.Len(uint(max(n-1, 1))) }

// Additions returns the units that policies, layouts and widths need beyond L3's, on ranks of d with the multipliers of
// spec. Settings that do not fit together are an *input.Error.
func Additions(spec *Spec, d *dram.Spec, s AreaSpec) ([]Addition, error) {
	if err := input.Validate(s); err != nil {
		return nil, err
	}
	g, err := NewGeometry(d, s.Shape)
	if err != nil {
		return nil, err
	}
	pages := (s.Context + s.Page - 1) / s.Page
	row, chunk := width(d.Rows), width(g.RowTokens/g.ChunkTokens)+1
	score, index := 16, width(pages)
	burst := d.BurstBytes() / d.Chips() // of a chip
	banks := d.Banks() * d.Chips()
	lanes := 2 * d.BusWidth / 16 // FP16 elements that the rank's bus brings in a clock
	entry := score + index
	all := []Addition{
		{"selector: sign split", "positive and negative parts of a query, and room for a query of twice the elements", false, 1, [Parts]int{
			MultiplexerBit: lanes * 2 * 16, SRAMByte: 2 * s.Shape.HeadDim * 2}},
		{"selector: largest logical page", "the largest score of a page so far", false, 1, [Parts]int{
			Comparator16: 1, RegisterBit: score + width(s.Page/s.Logical), MultiplexerBit: score}},
		{"selector: top-k", "an entry of score and page for each page of a list, filled by insertion in passing", false, 1, [Parts]int{
			RegisterBit: s.Entries * entry, MultiplexerBit: s.Entries * entry, Comparator16: s.Entries}},
		{"row list", "row, first chunk and chunks of each entry, and the sum with the head's first row", false, 1, [Parts]int{
			SRAMByte: (s.Entries*(row+2*chunk) + 7) / 8, Adder16: 2, RegisterBit: row + 2*chunk + width(s.Entries)}},
		{"quad layout", "a row and a first token for each of four quads, and four lists' ends", false, 1, [Parts]int{
			RegisterBit: 4 * (row + width(s.Context) + width(s.Entries)), MultiplexerBit: 3 * row, Adder16: 4}},
		{"bounds of keys", "smallest and largest element of keys that pass the re-layout unit, one stream", false, 1, [Parts]int{
			Comparator16: 2 * lanes, MultiplexerBit: 2 * lanes * 16, SRAMByte: 2 * s.Shape.HeadDim * 2}},
		{"window and merge", "maximum and sum of the softmax of each query head, in FP32, to be read", false, 1, [Parts]int{
			RegisterBit: s.Shape.Queries * 64, MultiplexerBit: 64}},
		{"second multiplier set", "macs_per_read = 2: L3's multipliers, adders and accumulators once more", true, banks, [Parts]int{
			FP16Multiplier: burst / 2, FP16Adder: burst / 2, RegisterBit: 16*burst/2 + resultSlots*16 + 8*burst}},
	}
	return append(all, narrowAdditions(spec, d, &g, s)...), nil
}

// narrowAdditions are those of keys and values narrower than 16 bits.
func narrowAdditions(spec *Spec, d *dram.Spec, g *Geometry, s AreaSpec) []Addition {
	if s.Shape.kvBits() >= 16 {
		return nil
	}
	wide := d.BurstBytes() * 8 / d.Chips() / 16 // elements of 16 bits in a read, and L3's multipliers
	elements := d.BurstBytes() * 8 / d.Chips() / g.elementBits
	const scaleBytes = 4 // of a token's key or value
	banks := d.Banks() * d.Chips()
	more := max(spec.Multipliers, wide) - wide
	return []Addition{
		{"narrow multipliers", "multipliers beyond L3's, with adders; conversion before L3's; accumulators and operands of all elements of a read", true, banks, [Parts]int{
			NarrowMultiplier: more, FP16Adder: more, Adder16: wide, RegisterBit: 16*(elements-wide) + 16*more, MultiplexerBit: 16 * (wide + more)}},
		{"scales of keys and values", "a row's scales and zeros, multiplied into scores and weights; sums of a query and of weights times zeros", false, 1, [Parts]int{
			FP16Multiplier: 3, FP16Adder: 3, SRAMByte: scaleBytes * g.RowTokens, RegisterBit: 2 * 32}},
	}
}

// Unit is a kind of hardware that L3 has on a chip, beside its banks, or on a rank's share of the buffer chip.
type Unit struct {
	Name string
	Bank bool // beside banks, in a DRAM process, else in the buffer chip
	// Count is how many a chip has, or a rank.
	Count int
	// Each is the area of one in logic of 28 nm, nil where nothing is published that it could be estimated from.
	Each *Area
}

// Total returns the area of all, µm², in the process where they are; false where it is not estimated.
func (u *Unit) Total() (Area, bool) {
	if u.Each == nil {
		return Area{}, false
	}
	a := u.Each.times(u.Count)
	if u.Bank {
		a = Area{DRAMProcess * a.Low, DRAMProcess * a.High}
	}
	return a, true
}

// Units returns L3's own hardware on ranks of d: Table 5 of the paper, the score buffer by its cells, and what neither has.
func Units(spec *Spec, d *dram.Spec) []Unit {
	exact := func(area float64) *Area { return &Area{area, area} }
	buffer := partAreas[SRAMByte].times(int(spec.ScoreBuffer))
	all := []Unit{
		{"re-layout unit", false, 1, exact(L3RelayoutArea)}, {"adder unit", false, 1, exact(L3AdderArea)}, {"softmax unit", false, 1, exact(L3SoftmaxArea)},
		{"score buffer", false, 1, &buffer},
		{"staging, commands, refresh", false, 1, nil}, {"host's links and polling", false, 1, nil},
	}
	if spec.ProcessingUnit == RankPU { // the same multipliers and adders, for the share of each chip
		return append(all, Unit{"multipliers and adders", false, d.Chips(), exact(L3BankArea)})
	}
	return append(all, Unit{"bank PU", true, d.Banks(), exact(L3BankArea)}, Unit{"shared and result buffers", true, 1, nil})
}
