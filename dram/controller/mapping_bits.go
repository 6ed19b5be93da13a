package controller

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
)

// bitMapping is an address mapping by bits: of each part the address bits, lowest first, whose
// parity each of its bits is.
type bitMapping [len(mappingNames)][]uint64

// parseBits reads a mapping such as "co=6-12 bg=13^18,14^19 ba=15,16 ra=17 ro=18-33": for each part its bits from
// the lowest on, each an address bit, a range of them or some that are XORed. Parts of
// size 1 are left out. The error is an *input.Error.
func (m *Mapping) parseBits(text string, sizes []int) error {
	bad := func(value, expected string, of ...any) error {
		return &input.Error{Key: "mapping", Value: value, Expected: fmt.Sprintf(expected, of...)}
	}
	m.bits = &bitMapping{}
	for _, field := range strings.Fields(text) {
		name, list, _ := strings.Cut(field, "=")
		which := -1
		for i, n := range mappingNames {
			if n == name {
				which = i
			}
		}
		if which < 0 || m.bits[which] != nil {
			return bad(field, "each of %s at most once, such as ba=15,16", strings.Join(mappingNames[:], ", "))
		}
		for _, item := range strings.Split(list, ",") {
			masks, ok := parseBit(item)
			if !ok {
				return bad(field, "numbers of address bits, 0 to 63: 17, a range 6-12, or 13^18")
			}
			m.bits[which] = append(m.bits[which], masks...)
		}
	}
	var rows []uint64
	for which, size := range sizes {
		if want := bits.Len(uint(size)) - 1; size&(size-1) != 0 || len(m.bits[which]) != want {
			return bad(text, "%d bits of %s: %d of them are %d", want, mappingNames[which], size, len(m.bits[which]))
		}
		rows = append(rows, m.bits[which]...)
	}
	if !oneToOne(rows, m.offset) {
		return bad(text, "bits that tell all bursts apart: of address bits %d to %d none too often or left out", bits.TrailingZeros64(m.offset), bits.TrailingZeros64(m.offset)+len(rows)-1)
	}
	return nil
}

// parseBit reads "17", "6-12" or "13^18" and returns the mask of each bit.
func parseBit(text string) (masks []uint64, ok bool) {
	number := func(s string) (int, bool) {
		n, err := strconv.Atoi(s)
		return n, err == nil && n >= 0 && n < 64
	}
	if low, high, isRange := strings.Cut(text, "-"); isRange {
		a, okA := number(low)
		b, okB := number(high)
		for i := a; okA && okB && i <= b; i++ {
			masks = append(masks, 1<<i)
		}
		return masks, len(masks) > 0
	}
	var mask uint64
	for _, s := range strings.Split(text, "^") {
		n, ok := number(s)
		if !ok || mask>>n&1 != 0 {
			return nil, false
		}
		mask |= 1 << n
	}
	return []uint64{mask}, true
}

// oneToOne reports whether the parities of the masks tell apart all bursts of as many address bits as
// there are masks, those above a burst's bytes: whether the matrix has full rank over GF(2).
func oneToOne(masks []uint64, burst uint64) bool {
	rows := append([]uint64(nil), masks...)
	low := bits.TrailingZeros64(burst)
	if low+len(rows) > 64 {
		return false
	}
	for i := range rows {
		bit := uint64(1) << (low + i)
		pivot := -1
		for j := i; j < len(rows); j++ {
			if rows[j]&bit != 0 {
				pivot = j
			}
		}
		if pivot < 0 {
			return false
		}
		rows[i], rows[pivot] = rows[pivot], rows[i]
		for j := range rows {
			if j != i && rows[j]&bit != 0 {
				rows[j] ^= rows[i]
			}
		}
	}
	for i, row := range rows { // nothing below the bursts or above the capacity
		if row != 1<<(low+i) {
			return false
		}
	}
	return true
}

// split returns the parts of an address.
func (b *bitMapping) split(address uint64) (v [len(mappingNames)]uint64) {
	for which := range b {
		for i, mask := range b[which] {
			v[which] |= uint64(bits.OnesCount64(address&mask)&1) << i
		}
	}
	return v
}
