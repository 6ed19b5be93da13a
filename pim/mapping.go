package pim

import "github.com/l3sim/l3sim/dram"

// KV says which of a token's two vectors is meant.
type KV uint8

// The two vectors of a token.
const (
	Key KV = iota
	Value
)

// String returns "k" or "v".
func (kv KV) String() string { return [...]string{"k", "v"}[kv] }

// Mapping says where every element of the keys and values of one head lies on
// a rank: Geometry gives bank, row and column of each burst, Exchange the chip
// and the bit within the chip's share of it.
type Mapping struct {
	Geometry
	Exchange Exchange
}

// Place is the place of one element.
type Place struct {
	Chip            int   // 0 to Chips-1
	BankGroup, Bank int32 // of the rank
	Row             int32 // from the head's first row
	Column          int32 // burst column of the row
	Bit             int   // first bit within the chip's share of the burst
}

// NewMapping returns the mapping of heads of that shape on ranks of d; a shape
// or device that cannot hold them is an input.Error.
func NewMapping(d *dram.Spec, shape HeadShape) (Mapping, error) {
	g, err := NewGeometry(d, shape)
	if err != nil {
		return Mapping{}, err
	}
	x, err := NewExchange(shape.kvBits(), d)
	if err != nil {
		return Mapping{}, err
	}
	return Mapping{Geometry: g, Exchange: x}, nil
}

// burstElements returns the elements of one burst.
func (m *Mapping) burstElements() int { return m.burstBytes * 8 / m.elementBits }

// chipElements returns the elements of one burst on one chip.
func (m *Mapping) chipElements() int { return m.burstElements() / m.Chips }

// burstPlace returns bank ordinal, row and column of one burst of a token's key or
// value; the row counts from the head's first.
func (m *Mapping) burstPlace(kv KV, token, burst int) (ordinal int, row, column int32) {
	if kv == Key {
		return m.keyBank(token), m.keyRow(token), m.keyColumn(token) + int32(burst)
	}
	return m.valueBank(token) + burst, m.valueRow(token), m.valueColumn(token)
}

// Place returns where element (0 to PaddedDim-1) of token's key or value lies.
func (m *Mapping) Place(kv KV, token, element int) Place {
	n := m.burstElements()
	ordinal, row, column := m.burstPlace(kv, token, element/n)
	group, bank := m.bank(ordinal)
	chip, bit := m.Exchange.chip(element % n)
	return Place{Chip: chip, BankGroup: group, Bank: bank, Row: row, Column: column, Bit: bit}
}
