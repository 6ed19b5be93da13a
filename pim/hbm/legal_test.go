package hbm

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/check"
	"github.com/l3sim/l3sim/input"
)

// checked measures a load under the checker, an implementation of the rules apart from the
// machine's.
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
	run, y := checked(t, spec, load), layouts[spec.Level]
	reads := int64(load.Heads * ceil(load.Context, y.ways) * (y.columns(load.Shape) + y.passes(load.Shape)))
	if load.Heads > 1 {
		reads++ // AttAcc's programs issue the first one twice
	}
	if run.Commands[y.mac] != pseudoChannels*reads {
		t.Fatalf("%+v, %+v: %d reads, expected %d in each pseudo-channel", spec, load, run.Commands[y.mac], reads)
	}
	if each := int64(ranks * groups * banks / y.sets); run.Commands[dram.ACT]%each != 0 {
		t.Fatalf("%+v, %+v: %d activations are no whole rows of %d banks", spec, load, run.Commands[dram.ACT], each)
	}
}

// TestLegal: by JEDEC's rules no command breaks one, of any load, and each head's tokens are read once.
func TestLegal(t *testing.T) {
	legal(t, Spec{Bank, JEDEC, 6400, false, false}, StackLoad(Shape{HeadDim: 80, ElementBytes: 2}, 529, 51)) // refreshes fall due while rows open
	legal(t, Spec{BankGroup, JEDEC, 6400, false, false}, StackLoad(Shape{HeadDim: 80, ElementBytes: 2}, 529, 51))
	rapid.Check(t, func(t *rapid.T) {
		spec := Spec{Level(rapid.SampledFrom(Levels()).Draw(t, "level")), JEDEC, 6400, rapid.Bool().Draw(t, "limited"), rapid.Bool().Draw(t, "no refresh")}
		load := StackLoad(Shape{HeadDim: rapid.SampledFrom([]int{64, 80, 128, 256}).Draw(t, "dim"), ElementBytes: rapid.IntRange(1, 2).Draw(t, "bytes"), ValueDim: rapid.SampledFrom([]int{0, 0, 0, 64, 200}).Draw(t, "value dim")},
			rapid.IntRange(1, 1200).Draw(t, "context"), rapid.IntRange(1, 40).Draw(t, "heads"))
		if spec.Level != Bank {
			load.Context = max(1, load.Context/4) // as many commands
		}
		if spec.NoRefresh {
			load.Context = max(1, min(load.Context, map[Level]int{Bank: 1500, BankGroup: 400, Buffer: 80}[spec.Level]/load.Heads)) // else the checker reports too many owed refreshes
		}
		legal(t, spec, load)
	})
}

// longer returns the extra clocks of a head that is longer by eight rows of the banks.
func longer(t *testing.T, spec Spec, tokens int) int64 {
	t.Helper()
	length := func(tokens int) int64 {
		run, err := Measure(spec, StackLoad(Shape{HeadDim: 128, ElementBytes: 2}, tokens, 16), nil)
		if err != nil {
			t.Fatal(err)
		}
		return run.Clocks
	}
	return length(1024+tokens) - length(1024)
}

// TestRowTime: in a long run without refresh, a row of all banks takes, in closed form, ACT to first read, its reads, read to
// precharge, precharge, and with JEDEC's rules the time that tFAW needs to open 32 banks.
func TestRowTime(t *testing.T) {
	for _, spec := range []Spec{{Bank, AttAcc, 5200, true, true}, {Bank, AttAcc, 5200, false, true}, {Bank, AttAcc, 6400, true, true}, {Bank, JEDEC, 6400, true, true}, {Bank, JEDEC, 6400, false, true}} {
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
		const more = 8 * 256 // eight rows of keys and eight of values
		got := longer(t, spec, more)
		moves := got - 16*row // of the probabilities, between scores and context
		if moves < 0 || moves > more/(ways*16)*ranks*groups*int64(part.TCCDL) {
			t.Errorf("%+v: 16 rows take %d clocks, each %d in closed form", spec, got, row)
		}
	}
}

// TestRowsHide: units at bank groups read without a pause: while one of their banks reads, the next row opens in another. In the buffer
// die a row of all 32 banks costs less than opening one.
func TestRowsHide(t *testing.T) {
	for _, spec := range []Spec{{BankGroup, AttAcc, 5200, true, true}, {BankGroup, AttAcc, 5200, false, true}, {BankGroup, AttAcc, 6400, true, true}, {BankGroup, JEDEC, 6400, true, true},
		{BankGroup, JEDEC, 6400, false, true}, {Buffer, AttAcc, 5200, true, true}, {Buffer, JEDEC, 6400, true, true}} {
		part, err := spec.Part()
		if err != nil {
			t.Fatal(err)
		}
		y, between := layouts[spec.Level], part.TCCDS
		if spec.Level == BankGroup {
			between, _ = part.Timing("tCCDSB")
		}
		more := 8 * 256
		if spec.Level == Buffer {
			more /= 4
		}
		reads, moves := 2*more/y.ways*8, y.ways/pseudoChannels*more/(y.ways*16)
		got := longer(t, spec, more) - int64(reads*between)
		rest := int64(moves * part.TCCDL)
		if spec.Level == Buffer {
			extra, _ := part.Timing("tCCD_R")
			rest += int64(reads/rowColumns/y.sets*(part.TRTP+part.TRP+part.TRCD) + reads/4*max(0, extra-between))
		}
		if got < int64(moves*part.TCCDS) || got > rest {
			t.Errorf("%+v: %d reads, %d apart, take %d clocks more, at most %d", spec, reads, between, got, rest)
		}
	}
}

// TestReadsAreReads: with JEDEC's rules, reads by units keep RD's distances from activations, refreshes and precharges.
func TestReadsAreReads(t *testing.T) {
	part, err := Spec{Bank, JEDEC, 6400, true, false}.Part()
	if err != nil {
		t.Fatal(err)
	}
	most := map[[2]dram.Command]int{}
	for _, row := range part.Constraints() {
		pair := [2]dram.Command{row.Command, row.Next}
		most[pair] = max(most[pair], row.Clocks)
	}
	for _, read := range []dram.Command{dram.MACA, dram.MACsb, dram.MAC} {
		for _, c := range []dram.Command{dram.ACT, dram.REF} {
			if got, want := most[[2]dram.Command{c, read}], most[[2]dram.Command{c, dram.RD}]; got != want || got == 0 {
				t.Errorf("%v to %v: %d steps, to RD %d", c, read, got, want)
			}
		}
		for _, c := range []dram.Command{dram.PRE, dram.PREA} {
			if got, want := most[[2]dram.Command{read, c}], most[[2]dram.Command{dram.RD, c}]; got != want || got == 0 {
				t.Errorf("%v to %v: %d steps, from RD %d", read, c, got, want)
			}
		}
	}
}

// TestRefusals: what units cannot compute, and rates without timings, are errors that name the key.
func TestRefusals(t *testing.T) {
	good, shape := Spec{Bank, AttAcc, 5200, true, false}, Shape{HeadDim: 128, ElementBytes: 2}
	for _, c := range []struct {
		key  string
		spec Spec
		load Load
	}{
		{"", good, StackLoad(shape, 1, 1)}, {"", good, StackLoad(shape, 4096, 512*16)}, {"heads", good, StackLoad(shape, 4097, 512*16)},
		{"rate", Spec{Bank, AttAcc, 5000, true, false}, StackLoad(shape, 1, 1)}, {"rate", Spec{Bank, JEDEC, 5200, true, false}, StackLoad(shape, 1, 1)},
		{"rules", Spec{Bank, "none", 5200, true, false}, StackLoad(shape, 1, 1)}, {"level", Spec{"die", AttAcc, 5200, true, false}, StackLoad(shape, 1, 1)},
		{"", Spec{Buffer, AttAcc, 5200, true, false}, StackLoad(shape, 4096, 512*16)}, {"heads", Spec{BankGroup, AttAcc, 5200, true, false}, StackLoad(shape, 4097, 512*16)}, {"context", good, StackLoad(shape, 0, 1)}, {"heads", good, StackLoad(shape, 1, 0)},
		{"", good, StackLoad(Shape{HeadDim: 1024, ElementBytes: 2}, 1, 1)}, {"head_dim", good, StackLoad(Shape{HeadDim: 1025, ElementBytes: 2}, 1, 1)},
		{"", good, StackLoad(Shape{HeadDim: 576, ElementBytes: 2, ValueDim: 512}, 1, 1)}, {"value_dim", good, StackLoad(Shape{HeadDim: 576, ElementBytes: 2, ValueDim: 1025}, 1, 1)}, {"value_dim", good, StackLoad(Shape{HeadDim: 576, ElementBytes: 2, ValueDim: -1}, 1, 1)},
		{"heads", good, StackLoad(Shape{HeadDim: 64, ElementBytes: 2, ValueDim: 128}, 4097, 512*16)}, {"element_bytes", good, StackLoad(Shape{HeadDim: 128, ElementBytes: 4}, 1, 1)},
	} {
		_, err := c.spec.Part()
		if err == nil {
			err = c.load.check(c.spec.Level)
		}
		var bad *input.Error
		if c.key == "" && err != nil || c.key != "" && (!errors.As(err, &bad) || bad.Key != c.key) {
			t.Errorf("%+v, %+v: %v, expected one of %q", c.spec, c.load, err, c.key)
		}
	}
}

// TestCheckerOfBankGroups: the checker compares a read of bank groups with earlier commands in each stack of its pseudo-channel, and
// only of the same bank number.
func TestCheckerOfBankGroups(t *testing.T) {
	part, err := Spec{BankGroup, JEDEC, 6400, true, false}.Part()
	if err != nil {
		t.Fatal(err)
	}
	first := func(late int32, by int64, then check.Record) string {
		c, step := check.NewChecker(part, ranks*pseudoChannels, false), int64(0)
		for i := range int32(ranks * groups) {
			step += part.BusSteps(part.TFAW)
			c.Check(check.Record{Clock: step, Command: dram.ACT, Address: dram.Address{Rank: (i/groups + late) % ranks, BankGroup: i % groups, Bank: 2, Row: 5, Column: -1}})
		}
		then.Clock = step + by
		c.Check(then)
		if v := c.Violations(); len(v) > 0 {
			return v[0].Rule
		}
		return ""
	}
	read := func(bank, row int32) check.Record {
		return check.Record{Command: dram.MACsb, Address: dram.Address{Rank: 0, BankGroup: -1, Bank: bank, Row: row, Column: 0}}
	}
	const clock = 2 // steps
	trcd := int64(part.TRCD) * clock
	for _, late := range []int32{0, 1} { // the stack whose rows open first
		for _, c := range []struct {
			by   int64
			then check.Record
			want string
		}{
			{trcd + 2*clock, read(2, 5), ""}, {trcd - 2*clock, read(2, 5), "tRCD"}, {trcd + 2*clock, read(1, 5), "bank state"}, {trcd + 2*clock, read(2, 6), "row"},
		} {
			if got := first(late, c.by, c.then); got != c.want {
				t.Errorf("%d steps behind the last ACT, %+v: %q, expected %q", c.by, c.then, got, c.want)
			}
		}
	}
}
