package hbm

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
)

// TestOpeningByHand: at the banks a row holds 3 keys of 576 FP16 elements (9 columns each) in each of 16 ways, or 32 values. A further
// row adds the time to close a row after its last read and open the next, less the clocks between two reads.
func TestOpeningByHand(t *testing.T) {
	deep.Heavy(t)
	shape := Shape{HeadDim: 576, ElementBytes: 2, ValueDim: 512}
	for _, spec := range []Spec{{Bank, AttAcc, 5200, true, true}, {Bank, AttAcc, 5200, false, true}} {
		part, err := spec.Part()
		if err != nil {
			t.Fatal(err)
		}
		table, err := NewTable(spec, shape)
		if err != nil {
			t.Fatal(err)
		}
		if k, v, passes := table.RowTokens(); k != 3*16 || v != 32*16 || passes != 8 {
			t.Errorf("%d tokens of keys and %d of values in a row, %d passes", k, v, passes)
		}
		between, _ := part.Timing("tCCDAB")
		want := float64(part.TRTP + part.TRP + part.TRCD - between)
		if got := table.Opening(); math.Abs(got-want) > 0.1*want {
			t.Errorf("%+v: a further row takes %v clocks, by hand %v", spec, got, want)
		}
		if did := table.OpeningTally(); math.Abs(did.Rows-banksOfChannel) > 1e-9 || did.Reads != 0 || did.Queries != 0 || did.Moves != 0 {
			t.Errorf("a further row is %+v, want %d rows", did, banksOfChannel)
		}
	}
}

// TestOpenings: a further row adds at most the time between two activations of a bank, or between those of a row's banks one by one. Bank
// groups open the next row while they read.
func TestOpenings(t *testing.T) {
	for i, spec := range []Spec{{Bank, JEDEC, 6400, true, true}, {BankGroup, AttAcc, 5200, true, true}, {BankGroup, JEDEC, 6400, true, true}, {Buffer, AttAcc, 5200, true, true}} {
		if !deep.Case(i, 4) {
			continue
		}
		part, err := spec.Part()
		if err != nil {
			t.Fatal(err)
		}
		table, err := NewTable(spec, Shape{HeadDim: 128, ElementBytes: 2})
		if err != nil {
			t.Fatal(err)
		}
		most := float64(part.TRC)
		if spec.Rules == JEDEC || spec.Level == Buffer { // bank by bank within tFAW
			most += float64(banksOfChannel / pseudoChannels / 4 * part.TFAW)
		}
		if got := table.Opening(); got > most || (got == 0) != (spec.Level == BankGroup) {
			t.Errorf("%+v: a further row takes %v clocks, want at most %v", spec, got, most)
		}
	}
}
