package dram

import (
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// Positions of a rank's check bits, values of the configuration key ecc. All correct single-bit and detect double-bit errors in the covered
// data.
const (
	NoECC = "none"
	// SideBandECC puts check bits in additional chips, an eighth of the bus's width rounded up to whole chips (DIMMs of 72 bits, of 40 in
	// DDR5). Capacity and bandwidth are unchanged, and every command costs the energy of more chips.
	SideBandECC = "side-band"
	// InlineECC puts check bits in the last eighth of each row, InlineECC16 in the last sixteenth. This takes capacity, and accesses need
	// additional bursts of check bits.
	InlineECC   = "inline"
	InlineECC16 = "inline-16"
)

func (s *Spec) checkECC(c *input.Check) {
	input.OneOf(c, "ecc", s.ECC, NoECC, SideBandECC, InlineECC, InlineECC16)
	c.That(s.ECC != SideBandECC || s.Chips() > 1, "ecc", s.ECC, "%s or %s: a rank of %s is one chip, with no room for chips beside it", NoECC, InlineECC, s.Name)
	c.That(s.RowBursts() >= s.CheckCovers(), "ecc", s.ECC, "another: a row of %d bursts has no room for a burst of check bits to every %d", s.RowBursts(), s.CheckCovers())
}

// Devices returns the chips of a rank, including those for check bits.
func (s *Spec) Devices() int {
	if s.ECC != SideBandECC {
		return s.Chips()
	}
	return s.Chips() + (s.BusWidth/8+s.DeviceWidth-1)/s.DeviceWidth
}

// CheckCovers returns the number of data bursts whose check bits share one burst of the same row, 0 without in-line ECC.
func (s *Spec) CheckCovers() int {
	switch s.ECC {
	case InlineECC:
		return 8
	case InlineECC16:
		return 16
	}
	return 0
}

// DataBursts returns the number of a row's bursts that hold data. The rest hold the check bits of in-line ECC.
func (s *Spec) DataBursts() int {
	if n := s.CheckCovers(); n > 0 {
		return s.RowBursts() - s.RowBursts()/n
	}
	return s.RowBursts()
}

// Usable returns the part of a capacity that holds data.
func (s *Spec) Usable(capacity units.Bytes) units.Bytes {
	return capacity / units.Bytes(max(1, s.RowBursts())) * units.Bytes(s.DataBursts())
}
