package pim

import (
	"fmt"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
)

// BurstBits is the number of bits of a burst for which the re-layout unit is made, without ECC: 8 beats of a DDR4 DIMM's 64 bits
// (JESD79-4), or 16 beats of the 32 bits of a DDR5 sub-channel (JESD79-5).
const BurstBits = 512

// MaxBeats is the largest number of beats of a burst.
const MaxBeats = 16

// Exchange is the permutation of the re-layout unit (L3, section 4.1). It determines the chip on which each element of a burst is stored. A
// beat carries one bit of each lane, DeviceWidth of them to each chip. A wider element, of elementBits, takes Group =
// elementBits/DeviceWidth neighbouring lanes of one beat; after the exchange it takes Group successive beats of one lane. Within each Group
// beats, lane Group·j+b of beat a swaps with lane Group·j+a of beat b: a transposition, which is its own inverse.
//
// For FP16 on x8 chips these are four byte swaps over two beats; for FP16 on x4, a 4×4 exchange of half bytes over four. If an element fits
// a chip's lanes, Group is 1 and nothing moves.
type Exchange struct {
	elementBits int // 4, 8, 16 or 32
	DeviceWidth int // data pins of a chip: 4, 8 or 16
	Lanes       int // data pins of the bus: 32 or 64
	Group       int // beats, and lanes, of one exchange
}

// NewExchange returns the exchange for elements of elementBits on the chips and the bus of d. It returns an input.Error for unsupported
// widths.
func NewExchange(elementBits int, d *dram.Spec) (Exchange, error) {
	if err := d.Given(); err != nil {
		return Exchange{}, err
	}
	deviceWidth := d.DeviceWidth
	if deviceWidth != 4 && deviceWidth != 8 && deviceWidth != 16 {
		return Exchange{}, &input.Error{Key: "device_width", Value: fmt.Sprint(deviceWidth), Expected: "4, 8 or 16"}
	}
	if elementBits != 4 && elementBits != 8 && elementBits != 16 && elementBits != 32 {
		return Exchange{}, &input.Error{Key: "element_bits", Value: fmt.Sprint(elementBits), Expected: "4, 8, 16 or 32"}
	}
	if d.BusWidth != 32 && d.BusWidth != 64 || d.BusWidth*d.BurstLength != BurstBits {
		return Exchange{}, &input.Error{Key: "bus_width", Value: fmt.Sprintf("%d, burst_length = %d", d.BusWidth, d.BurstLength),
			Expected: fmt.Sprintf("64 or 32, and bursts of %d bits, for which the re-layout is made", BurstBits)}
	}
	return Exchange{elementBits, deviceWidth, d.BusWidth, max(1, elementBits/deviceWidth)}, nil
}

// Rearranges reports whether elements of elementBits are spread over chips of d until the re-layout, or the CPU, brings each to one chip.
// Elements no wider than a chip's pins arrive whole on any bus. The error gives the reason why wider ones are unsupported.
func Rearranges(elementBits int, d *dram.Spec) (bool, error) {
	if err := d.Given(); err != nil {
		return false, err
	}
	if elementBits <= d.DeviceWidth {
		return false, nil
	}
	if _, err := NewExchange(elementBits, d); err != nil {
		return false, input.Edit(err, func(e *input.Error) {
			e.Key = "dram." + e.Key
			e.Expected += fmt.Sprintf("; or chips of %d pins or more, which take an element of %d bits whole", elementBits, elementBits)
		})
	}
	return true, nil
}

// Delay returns n, the clocks by which the unit delays data: the beats of a group at two beats a clock. The DIMM advertises CWL − n, WR +
// n, WTR_S + n and WTR_L + n.
func (x Exchange) Delay() int { return x.Group / 2 }

// Beats performs the exchange in place. The number of beats must be a multiple of Group.
//
// Like the transposition of a bit matrix, it proceeds by powers of two. Stage s works on pairs of beats whose indices differ in bit s. It
// swaps lanes with bit s set in one beat with lanes with bit s clear in the other.
func (x Exchange) Beats(beats []uint64) {
	if x.Group == 1 {
		return
	}
	if x.Group == 2 && x.DeviceWidth == 8 {
		for i := 0; i+1 < len(beats); i += 2 {
			t := (beats[i]>>8 ^ beats[i+1]) & 0x00ff00ff00ff00ff
			beats[i] ^= t << 8
			beats[i+1] ^= t
		}
		return
	}
	for ; len(beats) >= x.Group; beats = beats[x.Group:] {
		for s := 1; s < x.Group; s *= 2 {
			shift, mask := s*x.DeviceWidth, x.clearLanes(s)
			for a := range x.Group {
				if a&s != 0 {
					continue
				}
				t := (beats[a]>>shift ^ beats[a|s]) & mask
				beats[a] ^= t << shift
				beats[a|s] ^= t
			}
		}
	}
}

// clearLanes returns the bits of the lanes whose index has bit s clear.
func (x Exchange) clearLanes(s int) uint64 {
	var mask uint64
	for lane := 0; lane*x.DeviceWidth < x.Lanes; lane++ {
		if lane&s == 0 {
			mask |= (1<<x.DeviceWidth - 1) << (lane * x.DeviceWidth)
		}
	}
	return mask
}

// Chip returns the position of element i of a burst after the exchange: the chip, and the bit within that chip's share of the burst, beat
// by beat, low bit first.
func (x Exchange) Chip(i int) (chip, bit int) {
	chips := x.Lanes / x.DeviceWidth
	if x.elementBits < x.DeviceWidth {
		n := x.DeviceWidth / x.elementBits // elements of a beat on a chip
		return i / n % chips, i/(n*chips)*x.DeviceWidth + i%n*x.elementBits
	}
	group, j := i/chips, i%chips
	return j*x.Group%chips + j*x.Group/chips, group * x.elementBits
}

// Element is the inverse of Chip for the first bit of an element.
func (x Exchange) Element(chip, bit int) int {
	chips := x.Lanes / x.DeviceWidth
	if x.elementBits < x.DeviceWidth {
		n := x.DeviceWidth / x.elementBits
		return (bit/x.DeviceWidth*chips+chip)*n + bit%x.DeviceWidth/x.elementBits
	}
	return bit/x.elementBits*chips + chip%x.Group*(chips/x.Group) + chip/x.Group
}

// CPUTranspositionClocks returns the clocks of one channel's bus that transposition of n bursts by the CPU costs beyond storing them. Each
// burst is read and written once more, a row of bursts at a time, with a bus turnaround in between. Rows are assumed open, and the CPU's
// own work hidden. Storing the bursts alone takes n·BL/2.
func CPUTranspositionClocks(d *dram.Spec, n int64) int64 {
	if n == 0 {
		return 0
	}
	state := dram.NewState(d, 1)
	open := int64(0)
	for group := range d.BankGroups {
		a := dram.Address{BankGroup: int32(group)}
		open = max(open, state.Earliest(dram.ACT, a))
		state.Issue(dram.ACT, a, open)
	}
	block := min(n, int64(d.RowBursts()))
	now := open
	pass := func(cmd dram.Command) int64 {
		first := int64(-1)
		for i := range block {
			a := dram.Address{BankGroup: int32(i) % int32(d.BankGroups), Column: int32(i)}
			now = max(now+1, state.Earliest(cmd, a))
			state.Issue(cmd, a, now)
			if first < 0 {
				first = now
			}
		}
		return first
	}
	start := pass(dram.RD)
	pass(dram.WR)
	period := pass(dram.RD) - start
	return (n + block - 1) / block * period
}
