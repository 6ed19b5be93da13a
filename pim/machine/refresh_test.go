package machine

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/check"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
)

// checkedRun feeds a run's commands to dram's independent checker.
type checkedRun struct{ checker *check.Checker }

func (c checkedRun) Command(clock int64, cmd dram.Command, a dram.Address, _ *Instruction) {
	c.checker.Check(check.Record{Clock: clock, Command: cmd, Address: a})
}

// checkProgram runs heads with refresh under the checker and returns the
// machine.
func checkProgram(t parts.T, spec *pim.Spec, d *dram.Spec, shape pim.HeadShape, heads []Head) *Machine {
	t.Helper()
	p, err := NewProgram(spec, d, shape, heads)
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewMachine(spec, d)
	if err != nil {
		t.Fatal(err)
	}
	m.Refresh.On = true
	checker := check.NewChecker(d, 1, true)
	m.Observe = checkedRun{checker}.Command
	m.Run(p)
	allowed := map[string]bool{}
	if spec.Activation == pim.Simultaneous {
		for _, rule := range WaivedRules(spec) {
			allowed[rule] = true
		}
	}
	for _, v := range checker.Violations() {
		if !allowed[v.Rule] {
			t.Fatalf("the checker rejects the run: %+v", v)
		}
	}
	return m
}

// Every program obeys the standard, including the limit on owed REFs, however long its heads are.
func TestProgramsPassTheChecker(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec, shape := drawSpec(t)
		d := drawDevice(t, spec, shape)
		spec.PostponedRefreshes = rapid.IntRange(0, 8).Draw(t, "postponed")
		var heads []Head
		row := int32(0)
		for range rapid.IntRange(1, 4).Draw(t, "heads") {
			context := rapid.OneOf(rapid.IntRange(1, 100), rapid.IntRange(1, 30000/shape.Queries)).Draw(t, "context")
			heads = append(heads, Head{Context: context, FirstRow: row, Appends: rapid.Bool().Draw(t, "append")})
			row += 256
		}
		checkProgram(t, spec, d, shape, heads)
	})
}

func TestRefreshDebt(t *testing.T) {
	deep.Heavy(t)
	for _, c := range []struct {
		name      string
		d         *dram.Spec
		unit      string
		context   int
		heads     int
		queries   int
		postponed int
		most      int64 // REFs ever owed
	}{
		{"heads of 8K tokens flush between heads", parts.DDR4(t), pim.BankUnits, 8192, 12, 1, 8, 8},
		{"a head of 128K tokens passes 9 tREFI and refreshes at row switches", parts.DDR4(t), pim.BankUnits, 131072, 1, 1, 8, 8},
		{"refresh on time", parts.DDR4(t), pim.BankUnits, 8192, 6, 1, 0, 2},
		{"a row of 128 query heads takes 10 tREFI and is paid in advance", parts.DDR4(t), pim.BankUnits, 2048, 1, 128, 8, 8},
		{"DDR5 lets four be owed", parts.DDR5(t), pim.BankUnits, 8192, 12, 1, 8, 4},
		{"a head of 128K tokens on DDR5", parts.DDR5(t), pim.BankUnits, 131072, 1, 1, 8, 4},
		{"a row of 128 query heads takes 10 tREFI on DDR5: its banks close in between", parts.DDR5(t), pim.BankUnits, 2048, 1, 128, 8, 4},
		{"a rank-level unit reads a row eight times", parts.DDR5(t), pim.RankLevelUnit, 2048, 2, 8, 8, 4},
		{"a rank-level unit reads a row 24 times", parts.DDR4(t), pim.RankLevelUnit, 2048, 2, 24, 8, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.context > 8192 || c.queries > 8 || c.heads > 6 {
				deep.Only(t)
			}
			spec, d := pim.Default(), c.d
			spec.ProcessingUnit = c.unit
			spec.PostponedRefreshes = c.postponed
			shape := fp16Head
			shape.Queries = c.queries
			heads := make([]Head, c.heads)
			for i := range heads {
				heads[i] = Head{Context: c.context, FirstRow: int32(i) * 512, Appends: true}
			}
			m := checkProgram(t, spec, d, shape, heads)
			if got := m.Refresh.maxDebt; got > c.most {
				t.Errorf("%d REFs were owed, want at most %d", got, c.most)
			}
			ends := m.ends
			end := ends[len(ends)-1]
			issued := m.Counters.Commands[dram.REF]
			if due := end / int64(d.TREFI); issued < due-8 || issued > due+8 {
				t.Errorf("%d REFs in %d clocks, want %d give or take 8", issued, end, due)
			}
		})
	}
}

// In the long run a rank computes all the time but tRFC of each tREFI: heads run in sequence until
// a few hundred REFs are due.
func TestWithRefreshIsTheLongRun(t *testing.T) {
	deep.Only(t)
	d := parts.DDR4(t)
	for _, context := range []int{600, 6000, 100_000} {
		heads := make([]Head, 3_000_000/context)
		for i := range heads {
			heads[i] = Head{Context: context, Appends: true}
		}
		p, _ := NewProgram(pim.Default(), d, fp16Head, heads)
		m, _ := NewMachine(pim.Default(), d)
		m.Refresh.On = true
		got := m.Run(p)
		b, err := NewRunner(pim.Default(), d, fp16Head)
		parts.Must(t, err)
		ends := b.Ends(heads[:3]...)
		want := int64(len(heads)) * (ends[2] - ends[1]) * int64(d.TREFI) / int64(d.TREFI-d.TRFC)
		if diff := float64(got-want) / float64(want); diff < -0.001 || diff > 0.001 {
			t.Errorf("heads of %d tokens: %d clocks, want %d (%+.3f%%)", context, got, want, 100*diff)
		}
	}
}

// TestPulledIn: successive boundaries before a REF is due pull in at most eight REFs together
// (JESD79-4, section 4.26).
func TestPulledIn(t *testing.T) {
	r := &refreshManager{interval: 100, ahead: 8}
	for ahead := range int64(10) {
		r.done = ahead
		if n := r.toPay(10, r.owed(10), 5000, 5000); ahead+n != max(r.ahead, ahead) {
			t.Errorf("%d REFs ahead, then %d more", ahead, n)
		}
	}
}
