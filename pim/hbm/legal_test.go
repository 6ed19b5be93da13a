package hbm

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/check"
	"github.com/l3sim/l3sim/input"
)

// checked measures a load under the checker, which knows the rules apart from the machine.
func checked(t tester, spec Spec, load Load) Run {
	t.Helper()
	part, err := spec.Part()
	if err != nil {
		t.Fatal(err)
	}
	c := check.NewChecker(part, ranks*spec.lanes(), false)
	run, err := Measure(spec, load, func(step int64, cmd dram.Command, a dram.Address) {
		c.Check(check.Record{Clock: step, Command: cmd, Address: a})
	})
	if err != nil {
		t.Fatal(err)
	}
	if v := c.Violations(); len(v) > 0 {
		t.Fatalf("%+v, %+v: %d violations, the first %+v", spec, load, len(v), v[0])
	}
	return run
}

// tester is what testing.T and rapid.T have in common.
type tester interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// legal checks a load, and that each row is opened once in each bank and each column read once.
func legal(t tester, spec Spec, load Load) {
	t.Helper()
	run := checked(t, spec, load)
	reads := int64(2 * load.Heads * ceil(load.Context, ways) * load.columns())
	if load.Heads > 1 {
		reads++ // AttAcc's first one is there twice
	}
	if run.Commands[dram.MACA] != pseudoChannels*reads {
		t.Fatalf("%d reads of all banks, expected %d in each pseudo-channel", run.Commands[dram.MACA], reads)
	}
	if run.Commands[dram.ACT]%(ranks*groups*banks) != 0 {
		t.Fatalf("%d activations are no whole rows of %d banks", run.Commands[dram.ACT], ranks*groups*banks)
	}
}

// TestLegal: by JEDEC's rules no command breaks one, of any load, and each head's tokens are read once.
func TestLegal(t *testing.T) {
	legal(t, Spec{JEDEC, 6400, false, false}, StackLoad(Shape{80, 2}, 529, 51)) // refreshes are due while rows are being opened
	rapid.Check(t, func(t *rapid.T) {
		spec := Spec{JEDEC, 6400, rapid.Bool().Draw(t, "limited"), rapid.Bool().Draw(t, "no refresh")}
		load := StackLoad(Shape{rapid.SampledFrom([]int{64, 80, 128, 256}).Draw(t, "dim"), rapid.IntRange(1, 2).Draw(t, "bytes")},
			rapid.IntRange(1, 1200).Draw(t, "context"), rapid.IntRange(1, 40).Draw(t, "heads"))
		if spec.NoRefresh {
			load.Context = min(load.Context, 1500/load.Heads) // the checker would report the debt
		}
		legal(t, spec, load)
	})
}

// TestRowTime: in a long run without refresh a row takes, in closed form, ACT to first read, its reads, read to precharge, precharge, and by
// JEDEC's rules the time in which tFAW lets 32 banks open.
func TestRowTime(t *testing.T) {
	for _, spec := range []Spec{{AttAcc, 5200, true, true}, {AttAcc, 5200, false, true}, {AttAcc, 6400, true, true}, {JEDEC, 6400, true, true}, {JEDEC, 6400, false, true}} {
		part, err := spec.Part()
		if err != nil {
			t.Fatal(err)
		}
		between, ok := part.Timing("tCCDAB")
		if !ok {
			t.Fatal("no tCCDAB")
		}
		row := int64(part.TRCD + (rowColumns-1)*between + part.TRTP + part.TRP)
		if spec.Rules == JEDEC {
			row += int64(7*part.TFAW + 3*part.TRRDS)
		}
		length := func(tokens int) int64 {
			run, err := Measure(spec, StackLoad(Shape{128, 2}, tokens, 16), nil)
			if err != nil {
				t.Fatal(err)
			}
			return run.Clocks
		}
		const more = 8 * 256 // eight rows of keys and eight of values
		got := length(1024+more) - length(1024)
		moves := got - 16*row // of the probabilities, between scores and context
		if moves < 0 || moves > more/(ways*16)*ranks*groups*int64(part.TCCDL) {
			t.Errorf("%+v: 16 rows take %d clocks, each %d in closed form", spec, got, row)
		}
	}
}

// TestRefusals: what units cannot compute, and rates without timings, are errors that name the key.
func TestRefusals(t *testing.T) {
	good, shape := Spec{AttAcc, 5200, true, false}, Shape{128, 2}
	for _, c := range []struct {
		key  string
		spec Spec
		load Load
	}{
		{"", good, StackLoad(shape, 1, 1)}, {"", good, StackLoad(shape, 4096, 512*16)}, {"heads", good, StackLoad(shape, 4097, 512*16)},
		{"rate", Spec{AttAcc, 5000, true, false}, StackLoad(shape, 1, 1)}, {"rate", Spec{JEDEC, 5200, true, false}, StackLoad(shape, 1, 1)},
		{"rules", Spec{"none", 5200, true, false}, StackLoad(shape, 1, 1)}, {"context", good, StackLoad(shape, 0, 1)}, {"heads", good, StackLoad(shape, 1, 0)},
		{"head_dim", good, StackLoad(Shape{513, 2}, 1, 1)}, {"element_bytes", good, StackLoad(Shape{128, 4}, 1, 1)},
	} {
		_, err := c.spec.Part()
		if err == nil {
			err = c.load.check()
		}
		var bad *input.Error
		if c.key == "" && err != nil || c.key != "" && (!errors.As(err, &bad) || bad.Key != c.key) {
			t.Errorf("%+v, %+v: %v, expected one of %q", c.spec, c.load, err, c.key)
		}
	}
}
