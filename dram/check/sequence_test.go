package check

import (
	"errors"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
)

// TestSequenceByHand: a place is a rank, a bank group and a bank, in this order, from 0. This part has four groups of four banks; the
// channel has as many ranks as given. A command of a whole rank has its number alone.
func TestSequenceByHand(t *testing.T) {
	spec := part(t, ddr43200)
	bank := func(rank, group, bank int32) dram.Address { // in its first row
		return dram.Address{Rank: rank, BankGroup: group, Bank: bank, Column: -1}
	}
	rank := func(rank int32) dram.Address {
		return dram.Address{Rank: rank, BankGroup: -1, Bank: -1, Row: -1, Column: -1}
	}
	got, err := ParseSequence("--commands", spec, 2, "ACT 1.2.3, RD 1.2.3 x2, ACT 0.3.1, REF 1, PREA 0")
	want := []Record{{Command: dram.ACT, Address: bank(1, 2, 3)}, {Command: dram.RD, Address: bank(1, 2, 3)}, {Command: dram.RD, Address: bank(1, 2, 3)},
		{Command: dram.ACT, Address: bank(0, 3, 1)}, {Command: dram.REF, Address: rank(1)}, {Command: dram.PREA, Address: rank(0)}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v, by hand %+v", got, err, want)
	}
	for i, text := range []string{"1.2.3", "1.2.3", "1.2.3", "0.3.1", "1", "0"} {
		if place := Place(want[i].Address); place != text {
			t.Errorf("%+v is written %s, want %s", want[i].Address, place, text)
		}
	}
	for text, legal := range map[string]bool{
		"ACT 1.3.3": true, "ACT 2.0.0": false, "ACT 0.4.0": false, "ACT 0.0.4": false, "ACT -1.0.0": false, "ACT 0.0": false, "ACT 0.0.0.0": false, "ACT 0": false,
		"REF 0.0.0": false, "REF 2": false, "RD 0.0.0 x200": true, "RD 0.0.0 x201": false, "RD 0.0.0 x0": false, "RD 0.0.0 x100, RD 0.0.0 x101": false,
	} {
		if _, err := ParseSequence("--commands", spec, 2, text); (err == nil) != legal {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestPlacesOfSameBank: a same-bank refresh has a rank and a bank; its group may be anything and is written with a star.
func TestPlacesOfSameBank(t *testing.T) {
	spec := part(t, "ddr5-4800-16gb-x8")
	got, err := ParseSequence("--commands", spec, 2, "REFsb 1.*.3, REFsb 0.7.2")
	want := []dram.Address{{Rank: 1, BankGroup: -1, Bank: 3, Row: -1, Column: -1}, {Rank: 0, BankGroup: -1, Bank: 2, Row: -1, Column: -1}}
	if err != nil || len(got) != 2 || got[0].Address != want[0] || got[1].Address != want[1] {
		t.Fatalf("%+v, %v, want %+v", got, err, want)
	}
	if place := Place(want[0]); place != "1.*.3" {
		t.Errorf("written %s", place)
	}
}

// FuzzSequence: a sequence is refused with an input.Error that names the flag, or has commands at valid places, which can be timed.
func FuzzSequence(f *testing.F) {
	spec := part(f, ddr43200)
	for _, text := range []string{"ACT 0.1.2, RD 0.1.2 x4, PRE 0.1.2", "REF 1", "ACT 0.1", "ACT 0.1.2 x201", "ACT 0.1.2 x0", "WR 0.-1.2", "PREA 0, , "} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		records, err := ParseSequence("--commands", spec, 2, text)
		if err != nil {
			var bad *input.Error
			if !errors.As(err, &bad) || bad.Key != "--commands" {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		if len(records) == 0 || len(records) > maxSequence {
			t.Fatalf("%d commands", len(records))
		}
		for _, r := range records {
			if r.Address.Rank < 0 || r.Address.Rank > 1 || int(r.Address.BankGroup) >= spec.BankGroups || int(r.Address.Bank) >= spec.BanksPerGroup {
				t.Fatalf("%q: %+v", text, r)
			}
		}
	})
}
