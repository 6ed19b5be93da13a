package mapping

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
)

// Mapping splits a byte address into channel, rank, bank group, bank, row and column. Its text names the parts from the highest bits to the
// lowest, as in DRAMsim3: "rochrababgco" has the row highest and the column lowest; below the lowest part are the bytes of a burst. Sizes
// that are not powers of two (three ranks) divide the address instead of taking bits. Alternatively, the text lists the bits of each part,
// possibly XORed; see parseBits.
//
// The pseudo-channel may be a part of its own, "rochrababgcopc": then ranks are those of one pseudo-channel. Otherwise ranks are those of
// all pseudo-channels, which dram.Address numbers one pseudo-channel after another.
type Mapping struct {
	bits     *bitMapping   // nil if parts are used
	parts    []mappingPart // lowest first
	pseudo   int32         // ranks of a pseudo-channel, if the text has pseudo-channels as a part
	offset   uint64        // bytes of a burst, a power of two
	shift    int           // log2 of offset
	capacity uint64        // bytes of all channels
	whole    bool          // each part is a range of address bits, with shifts and masks by part
	shifts   [len(mappingNames)]uint8
	masks    [len(mappingNames)]uint64
}

// mappingPart is one part of an address, with its number of values.
type mappingPart struct {
	which int
	size  uint64
	shift int // log2 of size, -1 if size is not a power of two
}

// The parts of an address, as indices into mappingNames.
const (
	partChannel = iota
	partRank
	partGroup
	partBank
	partRow
	partColumn
	partPseudo
)

// mappingNames are the parts of an address in a mapping's text.
var mappingNames = [...]string{"ch", "ra", "bg", "ba", "ro", "co", "pc"}

// New parses text for a number of channels, each with a number of ranks of spec. The error is an *input.Error.
func New(text string, spec *dram.Spec, channels, ranks int) (*Mapping, error) {
	sizes := [...]int{channels, ranks, spec.BankGroups, spec.BanksPerGroup, spec.RankRows(), spec.DataBursts(), 1}
	names := len(mappingNames) - 1
	bad := &input.Error{Key: "mapping", Value: text,
		Expected: "each of ch, ra, bg, ba, ro, co once, and pc or not, highest bits first, such as rochrababgcopc, or lists of bits, such as co=6-12 bg=13^18,14"}
	if strings.Contains(strings.ToLower(text), mappingNames[partPseudo]) {
		sizes[partPseudo] = spec.Rules().PseudoChannels
		if ranks%sizes[partPseudo] != 0 {
			return nil, &input.Error{Key: "mapping", Value: text, Expected: fmt.Sprintf("no pc: %d pseudo-channels do not divide %d ranks", sizes[partPseudo], ranks)}
		}
		sizes[partRank] /= sizes[partPseudo]
		names++
	}
	m := &Mapping{pseudo: int32(sizes[partRank]), offset: uint64(spec.BurstBytes()), shift: bits.TrailingZeros(uint(spec.BurstBytes())), capacity: uint64(spec.RankBytes()) * uint64(ranks) * uint64(channels)}
	if strings.Contains(text, "=") {
		if spec.CheckCovers() > 0 {
			return nil, &input.Error{Key: "mapping", Value: text,
				Expected: fmt.Sprintf("an order of parts, such as rochrababgco: with ecc = %s a row has %d bursts of data, no power of two", spec.ECC, spec.DataBursts())}
		}
		return m, m.parseBits(text, sizes[:])
	}
	if len(text) != 2*names {
		return nil, bad
	}
	m.parts = make([]mappingPart, names)
	m.whole = true
	shift := m.shift
	seen := map[int]bool{}
	for i := range m.parts { // lowest first: the last part of the text
		at := len(text) - 2*i - 2
		which := slices.Index(mappingNames[:], strings.ToLower(text[at:at+2]))
		if which < 0 || seen[which] {
			return nil, bad
		}
		seen[which] = true
		p := mappingPart{which, uint64(sizes[which]), -1}
		if bits.OnesCount64(p.size) == 1 {
			p.shift = bits.TrailingZeros64(p.size)
		}
		m.parts[i] = p
		m.shifts[which], m.masks[which] = uint8(shift), p.size-1
		shift += p.shift
		m.whole = m.whole && p.shift >= 0
	}
	return m, nil
}

// Capacity returns the number of bytes that the mapping covers.
func (m *Mapping) Capacity() uint64 { return m.capacity }

// Decode sets a to the burst that holds the byte at address. It returns the channel, and whether the address exceeded the capacity and
// wrapped. It takes a pointer since returning an Address would copy it while its fields are still being written, which stalls.
func (m *Mapping) Decode(address uint64, a *dram.Address) (channel int, wrapped bool) {
	if address >= m.capacity {
		address, wrapped = address%m.capacity, true
	}
	if m.whole {
		part := func(i int) int32 { return int32(address >> (m.shifts[i] & 63) & m.masks[i]) }
		a.Rank = part(partRank) + part(partPseudo)*m.pseudo
		a.BankGroup, a.Bank, a.Row, a.Column = part(partGroup), part(partBank), part(partRow), part(partColumn)
		return int(part(partChannel)), wrapped
	}
	v := m.split(address)
	a.Rank = int32(v[partRank]) + int32(v[partPseudo])*m.pseudo
	a.BankGroup, a.Bank, a.Row, a.Column = int32(v[partGroup]), int32(v[partBank]), int32(v[partRow]), int32(v[partColumn])
	return int(v[partChannel]), wrapped
}

// split returns the parts of an address within the capacity.
func (m *Mapping) split(address uint64) (v [len(mappingNames)]uint64) {
	if m.bits != nil {
		return m.bits.split(address)
	}
	rest := address >> m.shift
	for i := range m.parts {
		p := &m.parts[i]
		if p.shift >= 0 {
			v[p.which] = rest & (p.size - 1)
			rest >>= p.shift
		} else {
			v[p.which] = rest % p.size
			rest /= p.size
		}
	}
	return v
}

// bitMapping is an address mapping by bits. For each bit of a part, lowest first, it has a mask of address bits; the bit is their parity.
type bitMapping [len(mappingNames)][]uint64

// parseBits reads a mapping such as "co=6-12 bg=13^18,14^19 ba=15,16 ra=17 ro=18-33". It lists each part's bits from the lowest: an address
// bit, a range of bits, or several bits XORed. Parts of size 1 are left out. The error is an *input.Error.
func (m *Mapping) parseBits(text string, sizes []int) error {
	bad := func(value, expected string, of ...any) error {
		return &input.Error{Key: "mapping", Value: value, Expected: fmt.Sprintf(expected, of...)}
	}
	m.bits = &bitMapping{}
	for _, field := range strings.Fields(text) {
		name, list, _ := strings.Cut(field, "=")
		which := slices.Index(mappingNames[:], name)
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
		n, err := strconv.Atoi(s) // never negative: "-" separates a range
		return n, err == nil && n < 64
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

// oneToOne reports whether the masks map the bursts one-to-one, over as many address bits above the burst's bytes as there are masks:
// whether the matrix has full rank over GF(2).
func oneToOne(masks []uint64, burst uint64) bool {
	rows := slices.Clone(masks)
	low := bits.TrailingZeros64(burst)
	for i := range rows {
		bit := uint64(1) << (low + i)
		pivot := slices.IndexFunc(rows[i:], func(row uint64) bool { return row&bit != 0 })
		if pivot < 0 {
			return false
		}
		rows[i], rows[i+pivot] = rows[i+pivot], rows[i]
		for j := range rows {
			if j != i && rows[j]&bit != 0 {
				rows[j] ^= rows[i]
			}
		}
	}
	for i, row := range rows { // no mask may use bits below a burst or above the capacity
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
