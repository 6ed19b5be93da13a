package mapping

import (
	"errors"
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
