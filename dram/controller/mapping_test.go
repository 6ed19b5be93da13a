package controller

import (
	"testing"

	"github.com/l3sim/l3sim/dram"
	"pgregory.net/rapid"
)

func TestMapping(t *testing.T) {
	m, err := newMapping("rochrababgco", part(t, ddr43200), 2, 4)
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
		channel, a, wrapped := m.decode(c.address)
		if channel != c.channel || a != c.want || wrapped != c.wrapped {
			t.Errorf("%#x: got %d, %+v, %v", c.address, channel, a, wrapped)
		}
	}
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
		text := ""
		for _, p := range rapid.Permutation(mappingNames[:]).Draw(t, "order") {
			text += p
		}
		m, err := newMapping(text, spec, rapid.IntRange(1, 6).Draw(t, "channels"), rapid.IntRange(1, 6).Draw(t, "ranks"))
		if err != nil {
			t.Fatal(err)
		}
		burst := uint64(spec.BurstBytes())
		address := rapid.Uint64Range(0, m.Capacity()/burst-1).Draw(t, "burst") * burst
		channel, a, wrapped := m.decode(address)
		if back := m.Encode(channel, a); back != address || wrapped {
			t.Fatalf("%s: %#x is %d, %+v (wrapped %v), which is %#x", text, address, channel, a, wrapped, back)
		}
	})
}

// Encode returns the first byte address of the burst at a in channel; it is the
// inverse of Decode.
func (m *Mapping) Encode(channel int, a dram.Address) uint64 {
	v := [...]uint64{uint64(channel), uint64(a.Rank), uint64(a.BankGroup), uint64(a.Bank), uint64(a.Row), uint64(a.Column)}
	var address uint64
	for i := len(m.parts) - 1; i >= 0; i-- {
		p := m.parts[i]
		address = address*p.size + v[p.which]
	}
	return address * m.offset
}
