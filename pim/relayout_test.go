package pim

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/dram"
)

// widths are the element, chip and bus widths that the unit serves: of a DIMM's 64 pins and of a sub-channel's 32.
var widths = []struct{ element, chip, bus, group, delay int }{
	{16, 4, 64, 4, 2}, {16, 8, 64, 2, 1}, {16, 16, 64, 1, 0},
	{8, 4, 64, 2, 1}, {8, 8, 64, 1, 0}, {8, 16, 64, 1, 0},
	{16, 4, 32, 4, 2}, {16, 8, 32, 2, 1}, {16, 16, 32, 1, 0},
	{8, 4, 32, 2, 1}, {8, 8, 32, 1, 0}, {8, 16, 32, 1, 0},
	{4, 4, 64, 1, 0}, {4, 8, 64, 1, 0}, {4, 16, 64, 1, 0}, {32, 4, 64, 8, 4}, {32, 8, 64, 4, 2}, {32, 16, 64, 2, 1},
	{4, 4, 32, 1, 0}, {4, 8, 32, 1, 0}, {4, 16, 32, 1, 0}, {32, 4, 32, 8, 4}, {32, 8, 32, 4, 2}, {32, 16, 32, 2, 1},
}

// exchangeOf returns the exchange on chips and a bus of these widths.
func exchangeOf(element, chip, bus int) (Exchange, error) {
	return NewExchange(element, &dram.Spec{Organisation: dram.Organisation{DeviceWidth: chip, BusWidth: bus, BurstLength: 512 / max(bus, 1)}})
}

// FP16 on x8, byte by byte: beat 0 lane 2j+1 changes places with beat 1 lane
// 2j, and element j is then on chip 2j, element 4+j on chip 2j+1.
func TestExchangeHalfOnX8(t *testing.T) {
	x, _ := exchangeOf(16, 8, 64)
	var beats [2][8]byte // [beat][lane]: 16·beat + lane
	for b := range beats {
		for l := range beats[b] {
			beats[b][l] = byte(16*b + l)
		}
	}
	words := []uint64{binary.LittleEndian.Uint64(beats[0][:]), binary.LittleEndian.Uint64(beats[1][:])}
	x.Beats(words)
	for j := range 4 {
		beats[0][2*j+1], beats[1][2*j] = beats[1][2*j], beats[0][2*j+1]
	}
	for b := range beats {
		if words[b] != binary.LittleEndian.Uint64(beats[b][:]) {
			t.Errorf("beat %d: %x, want %x", b, words[b], beats[b])
		}
	}
	for i := range 8 {
		chip, bit := x.Chip(i)
		if want := i%4*2 + i/4; chip != want || bit != 0 {
			t.Errorf("element %d on chip %d, bit %d; want chip %d", i, chip, bit, want)
		}
	}
}

// shareBits returns what a chip gets of a burst, as one number a beat.
func shareBits(beats []uint64, chip, width int) []uint64 {
	var share []uint64
	for _, b := range beats {
		share = append(share, b>>(chip*width)&(1<<width-1))
	}
	return share
}

// After the exchange every element of a random burst is whole on the chip and at the bits that Chip
// returns; Element is its inverse; a second exchange restores the burst; and transposition by a CPU
// gives the same bytes.
func TestExchange(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, w := range widths {
		x, err := exchangeOf(w.element, w.chip, w.bus)
		if err != nil {
			t.Fatal(err)
		}
		if x.Group != w.group || x.Delay() != w.delay {
			t.Errorf("%d bits on x%d: group %d, delay %d; want %d, %d", w.element, w.chip, x.Group, x.Delay(), w.group, w.delay)
		}
		var src, dst [64]byte
		beats := make([]uint64, 512/w.bus)
		for i := range beats {
			beats[i] = r.Uint64() >> (64 - w.bus)
			for b := range w.bus / 8 {
				src[w.bus/8*i+b] = byte(beats[i] >> (8 * b))
			}
		}
		before := slices.Clone(beats)
		x.Beats(beats)
		x.CPUTransposition(dst[:], src[:])
		for i := range beats {
			var got uint64
			for b := range w.bus / 8 {
				got |= uint64(dst[w.bus/8*i+b]) << (8 * b)
			}
			if got != beats[i] {
				t.Errorf("%d bits on x%d, beat %d: CPU %x, unit %x", w.element, w.chip, i, got, beats[i])
			}
		}
		for i := range 512 / w.element {
			chip, bit := x.Chip(i)
			if back := x.Element(chip, bit); back != i {
				t.Errorf("%d bits on x%d: element %d comes back as %d", w.element, w.chip, i, back)
			}
			var got uint64
			for b := w.element - 1; b >= 0; b-- {
				beat, pin := (bit+b)/w.chip, (bit+b)%w.chip
				got = got<<1 | shareBits(beats, chip, w.chip)[beat]>>pin&1
			}
			at := i * w.element
			if want := before[at/w.bus] >> (at % w.bus) & (1<<w.element - 1); got != want {
				t.Errorf("%d bits on x%d, element %d: chip %d holds %x, want %x", w.element, w.chip, i, chip, got, want)
			}
		}
		x.Beats(beats)
		if !slices.Equal(beats, before) {
			t.Errorf("%d bits on x%d: the exchange is no involution", w.element, w.chip)
		}
	}
}

// Bursts with gaps of any length leave the unit exchanged, n clocks later, at full rate.
func TestRelayoutUnitStream(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, w := range widths {
		x, _ := exchangeOf(w.element, w.chip, w.bus)
		unit := RelayoutUnit{Exchange: x}
		want := map[int]uint64{}
		clock, last := 0, 0
		beat := func(in uint64, present bool) {
			out, leaves := unit.Beat(in, present)
			v, due := want[clock]
			if leaves != due || leaves && out != v {
				t.Fatalf("%d bits on x%d, beat %d: %x %v, want %x %v", w.element, w.chip, clock, out, leaves, v, due)
			}
			clock++
		}
		for range 200 {
			burst := make([]uint64, 512/w.bus)
			for i := range burst {
				burst[i] = r.Uint64() >> (64 - w.bus)
			}
			after := slices.Clone(burst)
			x.Beats(after)
			for i, v := range after {
				last = clock + i + 2*x.Delay()
				want[last] = v
			}
			for _, v := range burst {
				beat(v, true)
			}
			for range r.IntN(4) * 2 { // gaps are whole clocks
				beat(0xdead, false)
			}
		}
		for clock <= last {
			beat(0, false)
		}
	}
}

func TestNewExchangeRefuses(t *testing.T) {
	for _, c := range [][3]int{{16, 32, 64}, {12, 8, 64}, {0, 8, 64}, {16, 0, 64}, {16, 8, 128}, {16, 8, 16}} {
		if _, err := exchangeOf(c[0], c[1], c[2]); err == nil {
			t.Errorf("%d bits on x%d is accepted on %d pins", c[0], c[1], c[2])
		}
	}
}

// CPU transposition costs more than twice the transfer itself (L3, section
// 2.5): the data crosses the bus twice more, and the bus turns around.
func TestCPUTranspositionClocks(t *testing.T) {
	d, err := dram.LookupSpec("ddr4-3200-8gb-x8")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int64{1, 128, 128 * 1000} {
		cost, base := CPUTranspositionClocks(d, n), n*int64(d.BurstClocks())
		// A block is read, then written back in one rank. The next read goes to another bank group than
		// the last write, unless there is only one burst.
		block, write := min(n, 128), d.CWL+d.BurstClocks()+d.TWTRS
		if n == 1 {
			write = d.CWL + d.BurstClocks() + d.TWTRL
		}
		turns := int64(d.CL + d.BurstClocks() + 2 - d.CWL + write)
		want := n / block * (2*(block-1)*int64(d.BurstClocks()) + turns)
		if cost != want || cost <= 2*base {
			t.Errorf("%d bursts: %d clocks, base %d, want %d", n, cost, base, want)
		}
	}
	if CPUTranspositionClocks(d, 0) != 0 {
		t.Error("nothing costs something")
	}
}

func BenchmarkExchange(b *testing.B) {
	x, _ := exchangeOf(16, 8, 64)
	beats := make([]uint64, 8)
	b.SetBytes(64)
	b.ReportAllocs()
	for b.Loop() {
		x.Beats(beats)
	}
}

// RelayoutUnit is the re-layout unit at work on the bus, beat by beat. It holds two groups of
// beats: one arrives while the other, exchanged, leaves. Data leaves exactly Group beats after it
// came, at the bus's full rate.
type RelayoutUnit struct {
	Exchange
	filling, leaving [MaxBeats]uint64
	filled           int // beats that have arrived
	left             int // beats of leaving still to leave
}

// Beat takes the bus's input on one beat, if any, and returns the output on that beat, if any.
// Bursts are whole groups of successive beats, with any gap between them.
func (u *RelayoutUnit) Beat(in uint64, present bool) (out uint64, leaves bool) {
	if u.Group == 1 {
		return in, present
	}
	if u.left > 0 {
		out, leaves = u.leaving[u.Group-u.left], true
		u.left--
	}
	if present {
		u.filling[u.filled] = in
		u.filled++
		if u.filled == u.Group {
			u.filling, u.leaving = u.leaving, u.filling
			u.Beats(u.leaving[:u.Group])
			u.filled, u.left = 0, u.Group
		}
	}
	return out, leaves
}

// CPUTransposition is the work that the unit replaces: the CPU moves each element of a buffer so
// that the plain bus takes all of it to one chip. It moves element by element, and yields the bytes
// that Exchange yields. src and dst have the same length, whole bursts; dst is overwritten.
func (x Exchange) CPUTransposition(dst, src []byte) {
	const bytes = BurstBits / 8
	for base := 0; base+bytes <= len(src); base += bytes {
		for i := range bytes * 8 / x.elementBits {
			chip, bit := x.Chip(i)
			for b := 0; b < x.elementBits; b += 4 {
				beat, pin := (bit+b)/x.DeviceWidth, (bit+b)%x.DeviceWidth
				from := i*x.elementBits + b
				to := beat*x.Lanes + chip*x.DeviceWidth + pin
				setNibble(dst[base:], to/4, nibble(src[base:], from/4))
			}
		}
	}
}

func nibble(b []byte, i int) byte { return b[i/2] >> (i % 2 * 4) & 0xf }

func setNibble(b []byte, i int, v byte) {
	shift := i % 2 * 4
	b[i/2] = b[i/2]&^(0xf<<shift) | v<<shift
}
