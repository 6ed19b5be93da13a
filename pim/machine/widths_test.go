package machine

import (
	"errors"
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/check"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
)

// latentHead is the KV head of a latent with 128 query heads in absorbed form: keys of 576 elements, values of 512.
var latentHead = pim.HeadShape{HeadDim: 576, ValueDim: 512, Queries: 128, ElementBits: 16}

// closedFormOf is closedForm for keys of `key` bursts and values of `value` bursts, in rows of
// rowTokens.
func closedFormOf(key, value, rowTokens, context int) int64 {
	const a, rp, rcd, rtp, cl, cwl, burst, ccdl = 3*34 + 3*4, 22, 22, 12, 22, 16, 4, 8
	const mac, softmax, partialBursts, contextBursts = 4, 28, 4, 16
	reopen := rtp + rp + a + rcd
	rows, column := (context+rowTokens-1)/rowTokens-1, 16/value
	reads := ((context+15)/16*key + (context+column-1)/column) * ccdl
	load, readOut := max(cwl+key*burst, a+rcd), mac+cl+partialBursts*burst+softmax+cwl+burst
	drain := max(mac+cl+contextBursts*burst, rtp+rp)
	return int64(reads + 2*rows*(reopen-ccdl) + load + max(reopen, readOut) - ccdl + drain - ccdl)
}

// TestWidthsInClocks: scores take tCCD_L = 8 clocks for each burst of a key, context 8 for each column of values, which is one for each burst
// where all banks hold one value. 16 latent tokens: 18·8 = 144 and 16·8 = 128. A row of 112 of them: 7·144 and 7·128.
func TestWidthsInClocks(t *testing.T) {
	for _, c := range []struct{ dim, valueDim, key, value, row int }{{576, 512, 18, 16, 112}, {192, 128, 6, 4, 320}, {128, 256, 4, 8, 256}, {128, 128, 4, 4, 512}} {
		shape := pim.HeadShape{HeadDim: c.dim, ValueDim: c.valueDim, Queries: 1, ElementBits: 16}
		for _, context := range []int{16, 32, 96, 112, 128, 320, 336, 1024, 5000} {
			clocks, m := runHead(t, pim.Default(), shape, context, false)
			if want := closedFormOf(c.key, c.value, c.row, context); clocks != want {
				t.Errorf("%d and %d, %d tokens: %d clocks, closed form %d", c.dim, c.valueDim, context, clocks, want)
			}
			phases, chunks := m.Counters.phases, int64(context+15)/16
			columns := int64((context + 16/c.value - 1) / (16 / c.value))
			if phases.Score != 8*chunks*int64(c.key) || phases.Context != 8*columns || phases.Stall != 0 {
				t.Errorf("%d and %d, %d tokens: %+v", c.dim, c.valueDim, context, phases)
			}
		}
	}
}

// TestWidthsAppended: an append writes every burst of the newest key and value once, and opens each bank once. A bank that holds bursts of
// both opens twice, as always if a value is spread over all banks.
func TestWidthsAppended(t *testing.T) {
	for _, c := range []struct{ dim, valueDim, key, value int64 }{{576, 512, 18, 16}, {192, 128, 6, 4}, {128, 256, 4, 8}} {
		b, err := NewRunner(pim.Default(), parts.DDR4(t), pim.HeadShape{HeadDim: int(c.dim), ValueDim: int(c.valueDim), Queries: 1, ElementBits: 16})
		if err != nil {
			t.Fatal(err)
		}
		b.Machine.Repeats.On = false
		for context := 1; context <= 40; context++ {
			b.Attention(context)
			without := b.Machine.Counters
			b.Run(Head{Context: context, Appends: true})
			with := b.Machine.Counters
			if opened := with.Commands[dram.ACT] - without.Commands[dram.ACT]; with.ops[OpAppendKey] != c.key || with.ops[OpAppendValue] != c.value || opened != 1+c.value {
				t.Errorf("%+v, token %d: %d and %d bursts, %d banks opened", c, context, with.ops[OpAppendKey], with.ops[OpAppendValue], opened)
			}
		}
	}
}

// TestLatentIsLegal: the commands of a latent head with 128 query heads break no rule. HBM2 has bursts of 32 B, of which a value takes 16 with
// 8 bits and more than there are banks with 16. With one set of multipliers for 128 query heads, banks stay open longer than REFs can wait
// where chunks are slow: on the rank's bus, and on HBM2.
func TestLatentIsLegal(t *testing.T) {
	for i, c := range []struct {
		standard, unit string
		bits, sets     int
		bad            string
	}{
		{"ddr4", pim.BankUnits, 16, 1, ""}, {"ddr4", pim.BankUnits, 8, 16, ""}, {"ddr4", pim.RankLevelUnit, 16, 16, ""}, {"ddr5", pim.BankUnits, 16, 1, ""},
		{"ddr5", pim.RankLevelUnit, 16, 16, ""}, {"hbm2", pim.BankUnits, 8, 8, ""}, {"hbm2", pim.RankLevelUnit, 8, 32, ""}, {"hbm2", pim.BankUnits, 16, 1, "head_dim"},
		{"ddr5", pim.RankLevelUnit, 16, 1, "dram.tREFI"}, {"gddr6", pim.BankUnits, 16, 1, "value_dim"}, {"hbm3", pim.BankUnits, 16, 1, "dram.standard"},
	} {
		if !deep.Case(i, 3) {
			continue
		}
		var part *dram.Spec
		for _, s := range dram.Standards() {
			if s.Name == c.standard {
				part = withUnits(t, s, burstRule, "")
			}
		}
		spec, shape := pim.Default(), latentHead
		spec.ProcessingUnit, spec.MACsPerRead, shape.KVBits = c.unit, c.sets, c.bits
		checker, commands := check.NewChecker(part, 1, true), 0
		_, err := Measure(t.Context(), spec, part, Load{Context: 200, KVHeads: 1, Shape: shape}, func(clock int64, cmd dram.Command, a dram.Address, _ *Instruction) {
			commands++
			checker.Check(check.Record{Clock: clock, Command: cmd, Address: a})
		}, nil)
		var fault *input.Error
		if c.bad != "" {
			if !errors.As(err, &fault) || fault.Key != c.bad {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		if v := checker.Violations(); err != nil || len(v) > 0 || commands == 0 {
			t.Errorf("%+v: %v, %d commands, %d violations: %+v", c, err, commands, len(v), v[:min(1, len(v))])
		}
	}
}
