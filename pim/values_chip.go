package pim

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"

	"github.com/l3sim/l3sim/attention"
)

// Storage is the number format of q, k and v in the banks.
type Storage uint8

// The storage formats, both of 16 bits.
const (
	StoreFP16 Storage = iota
	StoreBF16
)

// String returns "fp16" or "bf16".
func (s Storage) String() string { return [...]string{"fp16", "bf16"}[s] }

// encode returns the bits of x rounded to the format.
func (s Storage) encode(x float32) uint16 {
	if s == StoreBF16 {
		return attention.Float32ToBFloat16(x)
	}
	return attention.Float32ToHalf(x)
}

// nan returns the bits that fill memory before anything is stored.
func (s Storage) nan() uint16 { return s.encode(float32(math.NaN())) }

// table returns the values of all bit patterns.
func (s Storage) table() *[1 << 16]float32 {
	if s == StoreBF16 {
		return bfloat16Table()
	}
	return attention.HalfTable()
}

// bfloat16Table converts bfloat16 to float32 by table, made once.
var bfloat16Table = sync.OnceValue(func() *[1 << 16]float32 {
	table := new([1 << 16]float32)
	for b := range table {
		table[b] = attention.BFloat16ToFloat32(uint16(b))
	}
	return table
})

// chipState is one DRAM chip with its bank PUs. Its methods see nothing of the
// other chips.
type chipState struct {
	// cells holds the rows that a program uses: row by row, column by column,
	// bank by bank, the chip's share of one burst each. Banks lie side by side because
	// a MACA reads the same column of all of them.
	cells []byte
	// query is the chip's part of q in the shared buffer: for each query head, the
	// chip's elements of each burst.
	query []float32
	// partials are the bank PUs' result slots: by slot, multiplier set and bank.
	partials []float32
}

// share returns the chip's share of a burst as bytes: deviceWidth bits
// of each beat, first beat lowest.
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

// fillNaN fills what the chip holds with NaN.
func (c *chipState) fillNaN(s Storage) {
	for i := 0; i+1 < len(c.cells); i += 2 {
		binary.LittleEndian.PutUint16(c.cells[i:], s.nan())
	}
	fillNaN(c.query)
	fillNaN(c.partials)
}

// fillNaN fills x with NaN.
func fillNaN(x []float32) {
	for i := range x {
		x[i] = float32(math.NaN())
	}
}

// ordinal returns the bank ordinal that an instruction for one bank names.
func (m *valueMachine) ordinal(in *instruction) int {
	return int(in.bank)*m.mapping.bankGroups + int(in.bankGroup)
}

// setRow opens row in the banks that the instruction names, or closes them.
func (m *valueMachine) setRow(in *instruction, row int32) {
	first, end := 0, len(m.openRow)
	if in.bank >= 0 {
		first, end = m.ordinal(in), m.ordinal(in)+1
	}
	for b := first; b < end; b++ {
		m.openRow[b] = row
	}
}

// checkRow reports a bank in which the instruction's row is not open.
func (m *valueMachine) checkRow(in *instruction) error {
	if in.bank >= 0 {
		if open := m.openRow[m.ordinal(in)]; open != in.row {
			return fmt.Errorf("%s to row %d of bank %d while row %d is open", in.command, in.row, m.ordinal(in), open)
		}
		return nil
	}
	for b, open := range m.openRow {
		if open != in.row {
			return fmt.Errorf("%s to row %d of bank %d while row %d is open", in.command, in.row, b, open)
		}
	}
	return nil
}
