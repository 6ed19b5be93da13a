package check

import (
	"errors"
	"testing"

	"github.com/l3sim/l3sim/input"
)

// FuzzSequence: a sequence is refused with an input.Error that names the flag, or has commands at places of the rank, which can be timed.
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
