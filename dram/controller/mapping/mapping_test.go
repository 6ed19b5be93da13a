package mapping

import (
	"errors"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
	"pgregory.net/rapid"
)

// ddr43200 returns a part of DDR4-3200.
func ddr43200(t *testing.T) *dram.Spec {
	t.Helper()
	spec, err := dram.LookupSpec("ddr4-3200-8gb-x8")
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func TestMapping(t *testing.T) {
	m, err := New("rochrababgco", ddr43200(t), 2, 4)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		address uint64
		channel int
		want    dram.Address
		wrapped bool
	}{
		{0, 0, dram.Address{Rank: 0, BankGroup: 0, Bank: 0, Row: 0, Column: 0}, false},
		{63, 0, dram.Address{Rank: 0, BankGroup: 0, Bank: 0, Row: 0, Column: 0}, false},
		{64, 0, dram.Address{Rank: 0, BankGroup: 0, Bank: 0, Row: 0, Column: 1}, false},
		{1 << 13, 0, dram.Address{Rank: 0, BankGroup: 1, Bank: 0, Row: 0, Column: 0}, false},
		{1 << 15, 0, dram.Address{Rank: 0, BankGroup: 0, Bank: 1, Row: 0, Column: 0}, false},
		{1 << 17, 0, dram.Address{Rank: 1, BankGroup: 0, Bank: 0, Row: 0, Column: 0}, false},
		{1 << 19, 1, dram.Address{Rank: 0, BankGroup: 0, Bank: 0, Row: 0, Column: 0}, false},
		{1 << 20, 0, dram.Address{Rank: 0, BankGroup: 0, Bank: 0, Row: 1, Column: 0}, false},
		{1<<36 - 64, 1, dram.Address{Rank: 3, BankGroup: 3, Bank: 3, Row: 65535, Column: 127}, false},
		{1 << 36, 0, dram.Address{Rank: 0, BankGroup: 0, Bank: 0, Row: 0, Column: 0}, true},
		{1<<36 + 64, 0, dram.Address{Rank: 0, BankGroup: 0, Bank: 0, Row: 0, Column: 1}, true},
		{1<<64 - 1, 1, dram.Address{Rank: 3, BankGroup: 3, Bank: 3, Row: 65535, Column: 127}, true},
	} {
		channel, a, wrapped := decoded(m, c.address)
		if channel != c.channel || a != c.want || wrapped != c.wrapped {
			t.Errorf("%#x: got %d, %+v, %v", c.address, channel, a, wrapped)
		}
	}
}

// TestPseudoChannels: with pc lowest the bursts of consecutive addresses go to the pseudo-channels by turns, on parts without them it changes nothing, and
// lists of bits have it as orders do. Ranks that the pseudo-channels do not share alike are refused.
func TestPseudoChannels(t *testing.T) {
	for _, name := range dram.SpecNames() {
		spec, err := dram.LookupSpec(name)
		if err != nil {
			t.Fatal(err)
		}
		pseudo := spec.Rules().PseudoChannels
		m, err := New("rochrababgcopc", spec, 1, 2*pseudo)
		if err != nil {
			t.Fatal(name, err)
		}
		for i := range 2 * pseudo {
			_, a, _ := decoded(m, uint64(i*spec.BurstBytes()))
			if want := (dram.Address{Rank: int32(i % pseudo * 2), Column: int32(i / pseudo)}); a != want {
				t.Errorf("%s: burst %d lies at %+v, want %+v", name, i, a, want)
			}
		}
		if pseudo > 1 {
			if _, err := New("rochrababgcopc", spec, 1, pseudo+1); err == nil {
				t.Errorf("%s: %d ranks of %d pseudo-channels", name, pseudo+1, pseudo)
			}
		}
	}
	spec, err := dram.LookupSpec("hbm3-6400-16gb-8h")
	if err != nil {
		t.Fatal(err)
	}
	listed, err := New("pc=5 co=6-10 bg=11,12 ba=13,14 ra=15 ro=16-29", spec, 1, 4)
	if err != nil {
		t.Fatal(err)
	}
	if _, a, _ := decoded(listed, 1<<5|1<<15|1<<16); a != (dram.Address{Rank: 3, Row: 1}) {
		t.Errorf("by bits: %+v", a)
	}
}

// TestHighParts: parts that lie beyond 4 GiB.
func TestHighParts(t *testing.T) {
	m, err := New("rachrobabgco", ddr43200(t), 2, 4)
	if err != nil {
		t.Fatal(err)
	}
	if channel, a, _ := decoded(m, 1<<35|1<<33|64); channel != 1 || a != (dram.Address{Rank: 2, Column: 1}) {
		t.Errorf("channel %d, %+v", channel, a)
	}
}

// TestPartsThatAreNoPowersOfTwo: three channels and five ranks, the highest part and one between others. A burst is 64 bytes, a row of all banks 128 of
// them, a step of ranks 128·16 bursts, and five of these one of rows.
func TestPartsThatAreNoPowersOfTwo(t *testing.T) {
	m, err := New("chrorababgco", ddr43200(t), 3, 5)
	if err != nil {
		t.Fatal(err)
	}
	const rank = 64 * 128 * 16
	for _, c := range []struct {
		address uint64
		channel int
		want    dram.Address
	}{
		{64 * 127, 0, dram.Address{Column: 127}}, {64*128*5 + 64*3, 0, dram.Address{BankGroup: 1, Bank: 1, Column: 3}}, {4 * rank, 0, dram.Address{Rank: 4}},
		{5*rank + 64, 0, dram.Address{Row: 1, Column: 1}}, {rank * (5*77 + 3), 0, dram.Address{Rank: 3, Row: 77}}, {rank * 5 << 16, 1, dram.Address{}}, {rank*5<<17 + rank*2, 2, dram.Address{Rank: 2}},
	} {
		if channel, a, wrapped := decoded(m, c.address); channel != c.channel || a != c.want || wrapped {
			t.Errorf("%#x: channel %d, %+v, want %d, %+v", c.address, channel, a, c.channel, c.want)
		}
	}
	if channel, a, wrapped := decoded(m, 3*rank*5<<16+128); channel != 0 || a != (dram.Address{Column: 2}) || !wrapped || m.Capacity() != 3*rank*5<<16 {
		t.Errorf("beyond %d bytes: channel %d, %+v, %t", m.Capacity(), channel, a, wrapped)
	}
}

// decoded returns where an address lies.
func decoded(m *Mapping, address uint64) (channel int, a dram.Address, wrapped bool) {
	channel, wrapped = m.Decode(address, &a)
	return channel, a, wrapped
}

// TestMappingIsOneToOne: decode and encode are inverse for every order of the
// parts and any number of ranks and channels.
func TestMappingIsOneToOne(t *testing.T) {
	names := dram.SpecNames()
	rapid.Check(t, func(t *rapid.T) {
		spec, err := dram.LookupSpec(rapid.SampledFrom(names).Draw(t, "spec"))
		if err != nil {
			t.Fatal(err)
		}
		names, ranks := mappingNames[:partPseudo], rapid.IntRange(1, 6).Draw(t, "ranks")
		if rapid.Bool().Draw(t, "pseudo-channels") {
			names, ranks = mappingNames[:], ranks*spec.Rules().PseudoChannels
		}
		text := ""
		for _, p := range rapid.Permutation(names).Draw(t, "order") {
			text += p
		}
		m, err := New(text, spec, rapid.IntRange(1, 6).Draw(t, "channels"), ranks)
		if err != nil {
			t.Fatal(err)
		}
		burst := uint64(spec.BurstBytes())
		address := rapid.Uint64Range(0, m.Capacity()/burst-1).Draw(t, "burst") * burst
		channel, a, wrapped := decoded(m, address)
		if back := m.Encode(channel, a); back != address || wrapped {
			t.Fatalf("%s: %#x is %d, %+v (wrapped %v), which is %#x", text, address, channel, a, wrapped, back)
		}
	})
}

// Encode returns the first byte address of the burst at a in channel; it is the
// inverse of Decode.
func (m *Mapping) Encode(channel int, a dram.Address) uint64 {
	pseudo := uint64(m.pseudo)
	v := [...]uint64{uint64(channel), uint64(a.Rank) % pseudo, uint64(a.BankGroup), uint64(a.Bank), uint64(a.Row), uint64(a.Column), uint64(a.Rank) / pseudo}
	var address uint64
	for i := len(m.parts) - 1; i >= 0; i-- {
		p := m.parts[i]
		address = address*p.size + v[p.which]
	}
	return address * m.offset
}

// TestBitMapping: bits by number, ranges and XORs give the parts by hand; an order of parts is the same
// as its list of bits.
func TestBitMapping(t *testing.T) {
	spec := ddr43200(t)
	xor, err := New("co=6-12 bg=13^17,14^18 ba=15,16 ra=17,18 ch=19^20 ro=20-35", spec, 2, 4)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		address uint64
		channel int
		want    dram.Address
	}{
		{1 << 6, 0, dram.Address{Column: 1}},
		{1 << 13, 0, dram.Address{BankGroup: 1}},
		{1 << 17, 0, dram.Address{BankGroup: 1, Rank: 1}},
		{1<<17 | 1<<13, 0, dram.Address{Rank: 1}},
		{1 << 20, 1, dram.Address{Row: 1}},
		{1<<20 | 1<<19, 0, dram.Address{Row: 1}},
	} {
		if channel, a, _ := decoded(xor, c.address); channel != c.channel || a != c.want {
			t.Errorf("%#x: channel %d, %+v, want %d, %+v", c.address, channel, a, c.channel, c.want)
		}
	}
	plain, err := New("rochrababgco", spec, 2, 4)
	if err != nil {
		t.Fatal(err)
	}
	listed, err := New("ro=20-35 ch=19 ra=17,18 ba=15,16 bg=13-14 co=6-12", spec, 2, 4)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		address := rapid.Uint64().Draw(t, "address")
		channel, a, wrapped := decoded(plain, address)
		if c, b, w := decoded(listed, address); c != channel || a != b || w != wrapped {
			t.Fatalf("%#x: parts %d %+v, bits %d %+v", address, channel, a, c, b)
		}
	})
}

// TestBitMappingErrors: a mapping by bits that two bursts share, or that leaves one out, is refused.
func TestBitMappingErrors(t *testing.T) {
	for _, text := range []string{
		"co=6-12 bg=13,14 ba=15,16 ra=17,18 ro=19-33",            // a row too few
		"co=6-12 bg=13,13 ba=15,16 ra=17,18 ro=19-34",            // one bit twice
		"co=6-12 bg=13^14,14^13 ba=15,16 ra=17,18 ro=19-34",      // the same parity twice
		"co=5-11 bg=13,14 ba=15,16 ra=17,18 ro=19-34",            // within a burst
		"co=6-12 bg=13^5,14 ba=15,16 ra=17,18 ro=19-34",          // the same
		"co=6-12 bg=13,14 ba=15,16 ra=17,18 ro=20-35",            // bit 19 is left out
		"co=6-12 bg=13,14 ba=15,16 ra=17,18 ro=19-34 ch=35",      // one channel
		"co=6-12 bg=13,14 ba=15,16 ra=17,18 ro=19-34 xx=1",       // no such part
		"co=6-12 bg=13,14 ba=15,16 ra=17,18 ro=19-34 ra=17,18",   // twice
		"co=6-12 bg=13,14 ba=15,16 ra=17,18 ro=19-64", "co=a bg", // no numbers
		"co=6-12 bg=13^13,14 ba=15,16 ra=17,18 ro=19-34",
	} {
		var in *input.Error
		if _, err := New(text, ddr43200(t), 1, 4); !errors.As(err, &in) || in.Key != "mapping" {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestTextsOfBitErrors: each error names the part of the text at fault, and says what is expected in its place.
func TestTextsOfBitErrors(t *testing.T) {
	const (
		once    = "each of ch, ra, bg, ba, ro, co, pc at most once, such as ba=15,16"
		numbers = "numbers of address bits, 0 to 63: 17, a range 6-12, or 13^18"
		apart   = "bits that tell all bursts apart: of address bits 6 to 34 none too often or left out" // 7 + 2 + 2 + 2 + 16 bits above those of 64 bytes
		orders  = "each of ch, ra, bg, ba, ro, co once, and pc or not, highest bits first, such as rochrababgcopc, or lists of bits, such as co=6-12 bg=13^18,14"
	)
	for _, c := range []struct{ text, value, expected string }{
		{"co=6-12 bg=13,14 ba=15,16 ra=17,18 ro=19-34", "", ""},
		{"co=6-12 bg=13^14,14^15 ba=13^14^15,16 ra=17,18 ro=19-34", "", ""}, // 15 is the first and the third, and so on
		{"co=12,11,10,9,8,7,6 bg=34^13,14 ba=15,16 ra=17,18 ro=19-34", "", ""},
		{"co=6-12 bg=13^14,14^15 ba=13^15,16 ra=17,18 ro=19-34", "", apart}, // the first two are the third
		{"co=6-12 bg=13,13 ba=15,16 ra=17,18 ro=19-34", "", apart},
		{"co=6-12 bg=13^35,14 ba=15,16 ra=17,18 ro=19-34", "", apart}, // above the capacity
		{"co=6-12 bg=13,14 ba=15,16 ra=17,18 ro=19-33,34^35", "", apart},
		{"co=6-12 bg=13^5,14 ba=15,16 ra=17,18 ro=19-34", "", apart},
		{"co=6-12 bg=13,14 ba=15,16 ra=17,18 ro=20-35", "", apart},
		{"co=0-6 bg=13,14 ba=15,16 ra=17,18 ro=48-63", "", apart},
		{"co=6-12 bg=13,14 ba=15,16 ra=17,18 ro=19-33", "", "16 bits of ro: 65536 of them are 15"},
		{"co=6-13 bg=13,14 ba=15,16 ra=17,18 ro=19-34", "", "7 bits of co: 128 of them are 8"},
		{"co=6-12 bg=13,14 ba=15,16 ra=17 ro=19-34", "", "2 bits of ra: 4 of them are 1"},
		{"co=6-12 bg=13,14 ba=15,16 ra=17,18 ro=19-34 ch=35", "", "0 bits of ch: 1 of them are 1"},
		{"co=6-12 bg=13 ba=15,16 ra=17,18 ro=19-34", "", "2 bits of bg: 4 of them are 1"},
		{"co=6-12 bg=13,14 ba=15,16 ra=17,18 ro=19-34 xx=1", "xx=1", once},
		{"co=6-12 bg=13,14 ba=15,16 ra=17,18 ro=19-34 ra=17,18", "ra=17,18", once},
		{"co=6-12 bg=64,14 ba=15,16 ra=17,18 ro=19-34", "bg=64,14", numbers},
		{"co=6-12 bg=13,-1 ba=15,16 ra=17,18 ro=19-34", "bg=13,-1", numbers},
		{"co=6-12 bg=13^13,14 ba=15,16 ra=17,18 ro=19-34", "bg=13^13,14", numbers},
		{"co=6-12 bg=13^x,14 ba=15,16 ra=17,18 ro=19-34", "bg=13^x,14", numbers},
		{"co=12-6 bg=13,14 ba=15,16 ra=17,18 ro=19-34", "co=12-6", numbers},
		{"co=6-12 bg=13,14 ba=15,16 ra=17,18 ro=19-64", "ro=19-64", numbers},
		{"co=6-x bg=13,14 ba=15,16 ra=17,18 ro=19-34", "co=6-x", numbers},
		{"co=x-12 bg=13,14 ba=15,16 ra=17,18 ro=19-34", "co=x-12", numbers},
		{"co=6-6,7-12 bg=13-13,14 ba=15,16 ra=17,18 ro=19-34", "", ""}, // ranges of one bit
		{"rochrababg", "", orders}, {"rochrababgcoco", "", orders}, {"rochrababgbg", "", orders}, {"rochrababgxx", "", orders}, {"", "", orders},
	} {
		_, err := New(c.text, ddr43200(t), 1, 4)
		var in input.Error
		if e := (*input.Error)(nil); errors.As(err, &e) {
			in = *e
		}
		want := input.Error{Key: "mapping", Value: c.value, Expected: c.expected}
		if c.value == "" {
			want.Value = c.text
		}
		if c.expected == "" {
			want = input.Error{}
		}
		if (err == nil) != (c.expected == "") || in.Key != want.Key || in.Value != want.Value || in.Expected != want.Expected {
			t.Errorf("%s:\ngot  %+v\nwant %+v", c.text, in, want)
		}
	}
	spec, err := dram.LookupSpec("hbm3-6400-16gb-8h")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New("rochrababgcopc", spec, 1, 3); err == nil || !strings.Contains(err.Error(), `mapping = rochrababgcopc: expected no pc: 2 pseudo-channels do not divide 3 ranks`) {
		t.Errorf("3 ranks: %v", err)
	}
	coded := *ddr43200(t)
	coded.ECC = dram.InlineECC
	if _, err := New("co=6-12 bg=13,14 ba=15,16 ra=17,18 ro=19-34", &coded, 1, 4); err == nil || !strings.Contains(err.Error(), `mapping = co=6-12 bg=13,14 ba=15,16 ra=17,18 ro=19-34: expected an order of parts, such as rochrababgco: with ecc = inline a row has 112 bursts of data, no power of two`) {
		t.Errorf("inline ECC: %v", err)
	}
}

// FuzzMapping: a text is refused with an input.Error, or maps each burst of the capacity to a place of its own.
func FuzzMapping(f *testing.F) {
	spec, err := dram.LookupSpec("ddr4-3200-8gb-x8")
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{"rochrababgco", "ROCHRABABGCO", "co=6-12 bg=13^18,14^19 ba=15,16 ra=17 ro=18-33 ch=", "co=6-12 bg=13^18,14^19 ba=15,16 ra=17 ro=18-33", "ch=", "co=0-63", "ro=63^63", "rochrababgcopc", "pcpcpcpcpcpcpc", "pc= co=6-12"} {
		f.Add(text, uint64(1<<33-64), 1, 2)
		f.Add(text, uint64(64), 3, 3)
	}
	f.Fuzz(func(t *testing.T, text string, address uint64, channels, ranks int) {
		if channels < 1 || channels > 16 || ranks < 1 || ranks > 16 {
			return
		}
		m, err := New(text, spec, channels, ranks)
		if err != nil {
			var bad *input.Error
			if !errors.As(err, &bad) {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		channel, a, wrapped := decoded(m, address)
		if channel < 0 || channel >= channels || a.Rank < 0 || int(a.Rank) >= ranks || int(a.BankGroup) >= spec.BankGroups || int(a.Bank) >= spec.BanksPerGroup ||
			int(a.Row) >= spec.RankRows() || int(a.Column) >= spec.DataBursts() || min(a.BankGroup, a.Bank, a.Row, a.Column) < 0 || wrapped != (address >= m.Capacity()) {
			t.Fatalf("%q of %d channels with %d ranks maps %#x to channel %d, %+v, %v", text, channels, ranks, address, channel, a, wrapped)
		}
		for bit := m.offset; bit < m.Capacity(); bit *= 2 { // the next burst, and those that differ by one bit
			other := address%m.Capacity() ^ bit
			if c, b, _ := decoded(m, other); other < m.Capacity() && c == channel && b == a {
				t.Fatalf("%q maps %#x and %#x to channel %d, %+v", text, address, other, c, b)
			}
		}
	})
}
