package dram

import (
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// Where the check bits of a rank are, by the configuration key ecc. All correct a bit and find two in what they cover.
const (
	NoECC = "none"
	// SideBandECC has them in chips beside the data's, an eighth of the bus's width in whole chips (DIMMs of 72 bits, of 40 in DDR5):
	// capacity and bandwidth stay, every command costs the energy of more chips.
	SideBandECC = "side-band"
	// InlineECC has them in the last eighth of each row, InlineECC16 in the last sixteenth: capacity is lost, and accesses take
	// bursts of check bits besides.
	InlineECC   = "inline"
	InlineECC16 = "inline-16"
)

func (s *Spec) checkECC(c *input.Check) {
	input.OneOf(c, "ecc", s.ECC, NoECC, SideBandECC, InlineECC, InlineECC16)
	c.That(s.ECC != SideBandECC || s.Chips() > 1, "ecc", s.ECC, "%s or %s: a rank of %s is one chip, with no room for chips beside it", NoECC, InlineECC, s.Name)
	c.That(s.RowBursts() >= s.CheckCovers(), "ecc", s.ECC, "another: a row of %d bursts has no room for a burst of check bits to every %d", s.RowBursts(), s.CheckCovers())
}

// Devices returns the chips of a rank with those for check bits.
func (s *Spec) Devices() int {
	if s.ECC != SideBandECC {
		return s.Chips()
	}
	return s.Chips() + (s.BusWidth/8+s.DeviceWidth-1)/s.DeviceWidth
}

// CheckCovers returns how many bursts of data have their check bits in one burst of the same row, 0 without in-line ECC.
func (s *Spec) CheckCovers() int {
	switch s.ECC {
	case InlineECC:
		return 8
	case InlineECC16:
		return 16
	}
	return 0
}

// DataBursts returns the bursts of a row that hold data: those from there on hold the check bits of in-line ECC.
func (s *Spec) DataBursts() int {
	if n := s.CheckCovers(); n > 0 {
		return s.RowBursts() - s.RowBursts()/n
	}
	return s.RowBursts()
}

// Usable returns what is left for data of a capacity.
func (s *Spec) Usable(capacity units.Bytes) units.Bytes {
	return capacity / units.Bytes(max(1, s.RowBursts())) * units.Bytes(s.DataBursts())
}
