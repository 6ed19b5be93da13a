package machine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
)

// TestActivityByHand: ACTA opens each of the 16 banks, and MACA reads each for its unit. A sum adds each count separately.
func TestActivityByHand(t *testing.T) {
	var c counters
	for cmd, n := range map[dram.Command]int64{dram.ACT: 3, dram.ACTA: 2, dram.MACA: 5, dram.RD: 7, dram.RDRES: 11, dram.WR: 13, dram.WRBUF: 17, dram.REF: 100, dram.PREA: 100} {
		c.Commands[cmd] = n
	}
	c.open = 40
	one := c.activity(90, 16)
	if one != (Activity{Activates: 3 + 32, UnitReads: 80, Reads: 18, Writes: 30, Open: 40, Clocks: 90}) {
		t.Errorf("%+v", one)
	}
	if got := (Activity{1, 2, 3, 4, 5, 6}).Plus(one, 2.5); got != (Activity{1 + 87.5, 2 + 200, 3 + 45, 4 + 75, 5 + 100, 6 + 225}) {
		t.Errorf("%+v", got)
	}
}

// TestCountsOfRepeats: four skipped blocks count four times as much as the block before them.
func TestCountsOfRepeats(t *testing.T) {
	c := counters{open: 1, phases: Phases{1, 2, 3, 4, 5, 6, 7}}
	c.Commands[dram.RD], c.ops[OpScore] = 8, 9
	behind := counters{open: 30, phases: Phases{20, 22, 24, 26, 28, 30, 32}}
	behind.Commands[dram.RD], behind.ops[OpScore] = 50, 60
	before := counters{open: 20, phases: Phases{19, 20, 21, 22, 23, 24, 25}}
	before.Commands[dram.RD], before.ops[OpScore] = 45, 54
	c.add(4, &behind, &before)
	if c.open != 1+40 || c.phases != (Phases{1 + 4, 2 + 8, 3 + 12, 4 + 16, 5 + 20, 6 + 24, 7 + 28}) || c.Commands[dram.RD] != 8+20 || c.ops[OpScore] != 9+24 {
		t.Errorf("%+v", c)
	}
}

// TestReportByHand: each number of a measurement is in its place, with its share of a query head's clocks or its unit.
func TestReportByHand(t *testing.T) {
	d := *parts.DDR4(t)
	m := &Measurement{
		Cycles: 1000, Phases: Phases{Load: 100, Score: 210, Context: 320, RowSwitches: 150, ReadOut: 30, Drain: 190, Stall: 40}, AppendCycles: 70, PeakShare: 0.625,
		Occupancy: Occupancy{0.11, 0.12, 0.13, 0.14, 0.15}, AllCycles: 5000, AllAppends: 600, RefreshCycles: 400, TotalCycles: 6000, Refreshes: 9,
		TotalOccupancy: Occupancy{0.21, 0.22, 0.23, 0.24, 0.25}, Energy: dram.Energy{ActivateJoules: 1e-3, ReadJoules: 2e-3, UnitReadJoules: 6e-3, WriteJoules: 4e-3, RefreshJoules: 5e-3, BackgroundJoules: 7e-3},
	}
	m.Commands[dram.ACT] = 12
	m.Geometry.HeadDim, m.Geometry.PaddedDim, m.Geometry.ValueDim, m.Geometry.PaddedValueDim = 100, 112, 60, 64
	spec := pim.Default()
	load := Load{Context: 800, KVHeads: 3, Shape: pim.HeadShape{HeadDim: 100, ValueDim: 60, Queries: 4, ElementBits: 16, KVBits: 8}}
	r := NewReport(load, spec, &d, m, 0.5)
	var text strings.Builder
	r.WriteLines(&text)
	want := fmt.Sprintf(`one query head alone, 800 tokens, d = 100, values of 60, precision %s, keys and values of 8 bits, %s activation

load	100	10.0%%
score	210	21.0%%
context	320	32.0%%
row switches	150	15.0%%
read-out, softmax	30	3.0%%
drain	190	19.0%%
clocks	1000	0.001 ms, 62.5%% of the peak
bubbles	40	of score and context: the bank PUs wait for the rank's bus
append	70	on top
padding	12 of 112 elements	zeros
padding	4 of 64 elements of a value	zeros
busy		bank PUs 11.0%%, command bus 12.0%%, data bus 13.0%%, adders 14.0%%, softmax 15.0%%

12 query heads on 3 KV heads, with append and refresh

clocks	6000	0.004 ms
appends	600	of it
refresh	400	9 REFs
`, spec.Precision.Preset, spec.Activation)
	if got, _, _ := strings.Cut(text.String(), "energy"); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if !strings.HasSuffix(text.String(), "busy\t\tbank PUs 21.0%, command bus 22.0%, data bus 23.0%, adders 24.0%, softmax 25.0%\n") {
		t.Errorf("the end is\n%s", text.String())
	}
	// A read for a unit takes half the energy of a read over the pins. 6,000 clocks of 625 ps are 3.75
	// µs.
	if e := &r.EnergyMJ; e.Activate != 1 || e.Read != 2 || e.UnitRead != 3 || e.Write != 4 || e.Refresh != 5 || e.Background != 7 || r.TotalMS != 6000*625e-9 || r.TCKps != 625 || r.Clocks != 5000 || r.Commands["ACT"] != 12 || len(r.Commands) != 1 {
		t.Errorf("%+v", r)
	}
	m.Geometry.HeadDim, m.Geometry.ValueDim, m.Geometry.PaddedDim, m.Geometry.PaddedValueDim = 112, 112, 112, 112
	load.Shape.HeadDim = 112
	text.Reset()
	if NewReport(load, spec, &d, m, 1).WriteLines(&text); strings.Contains(text.String(), "padding") || strings.Contains(text.String(), "values of 112") {
		t.Errorf("without padding\n%s", text.String())
	}
}

// burstOf is a burst of a key or a value, and its place.
type burstOf struct {
	kv           pim.KV
	token, burst int
	group, bank  int8
	row, column  int32
}

// burstsOf returns the places of the bursts of a head's tokens; the head begins at firstRow.
func burstsOf(g *pim.Geometry, firstRow int32, first, end int) map[burstOf]bool {
	all := map[burstOf]bool{}
	for token := first; token < end; token++ {
		for _, kv := range []pim.KV{pim.Key, pim.Value} {
			if kv == pim.Value && g.InKey {
				continue // a value inside its key
			}
			for burst := range g.Bursts(kv) {
				ordinal, row, column := (&pim.Mapping{Geometry: *g}).BurstPlace(kv, token, burst)
				group, bank := g.Bank(ordinal)
				all[burstOf{kv, token, burst, int8(group), int8(bank), firstRow + row, column}] = true
			}
		}
	}
	return all
}

// TestBurstsOfTransfers: a transfer of 600 tokens after the first 500 writes each burst of their keys and values once to its place, or reads it
// back, across row ends. A value that is part of its key moves with it.
func TestBurstsOfTransfers(t *testing.T) {
	wide := fp16Head
	wide.ValueDim = 64
	once := latentHead
	once.ValueInKey, once.Queries = true, 16 // with more the banks are busy longer than refreshes can wait
	for _, shape := range []pim.HeadShape{fp16Head, wide, latentHead, once} {
		p, err := NewProgram(pim.Default(), parts.DDR4(t), shape, []Head{{Context: 1}})
		if err != nil {
			t.Fatal(err)
		}
		g := &p.Geometry
		for _, back := range []bool{false, true} {
			move := &Transfer{Geometry: *g, FirstRow: 10, First: 500, Tokens: 600, ReadBack: back}
			want := burstsOf(g, 10, 500, 1100)
			if n := move.Bursts(); n != int64(len(want)) {
				t.Errorf("%+v: %d bursts, want %d", shape, n, len(want))
			}
			h, op, cmd := NewHostStream(parts.DDR4(t)), OpAppendKey, dram.WR
			if back {
				op, cmd = OpReadKey, dram.RD
			}
			open := map[[2]int8]int32{}
			h.Observe = func(_ int64, in *Instruction) {
				switch in.Command {
				case dram.ACT:
					open[[2]int8{in.BankGroup, in.Bank}] = in.Row
				case dram.PREA:
					clear(open)
				case cmd:
					at := burstOf{pim.KV(in.Op - op), int(in.Token), int(in.Burst), in.BankGroup, in.Bank, in.Row, in.Column}
					if !want[at] || open[[2]int8{in.BankGroup, in.Bank}] != in.Row {
						t.Fatalf("%+v, back %v: %+v is not to move, or its row is not open", shape, back, at)
					}
					delete(want, at)
				}
			}
			if closed, last := h.Move(move); len(want) > 0 || closed <= 0 || last <= 0 || len(open) > 0 {
				t.Errorf("%+v, back %v: %d bursts do not move", shape, back, len(want))
			}
		}
	}
}

// TestAppendsWriteWhereTheyBelong: an append writes each burst of the newest key and value to its place, in rows that it opens and closes. The
// value of a latent is part of its key: one write, one row.
func TestAppendsWriteWhereTheyBelong(t *testing.T) {
	once := latentHead
	once.ValueInKey, once.Queries = true, 16 // with more the banks are busy longer than refreshes can wait
	for _, shape := range []pim.HeadShape{fp16Head, latentHead, once} {
		for _, context := range []int{1, 17, 200, 700} {
			p, err := NewProgram(pim.Default(), parts.DDR4(t), shape, []Head{{Context: context, FirstRow: 6, Appends: true}})
			if err != nil {
				t.Fatal(err)
			}
			want, all := burstsOf(&p.Geometry, 6, context-1, context), 0
			open, opened := map[[2]int8]int32{}, 0
			for _, in := range p.Next(nil) {
				if in.Command == dram.PREA {
					break // the attention begins
				}
				switch bank := [2]int8{in.BankGroup, in.Bank}; in.Command {
				case dram.ACT:
					open[bank], opened = in.Row, opened+1
				case dram.PRE:
					delete(open, bank)
				case dram.WR:
					at := burstOf{pim.KV(in.Op - OpAppendKey), int(in.Token), int(in.Burst), in.BankGroup, in.Bank, in.Row, in.Column}
					if row, is := open[bank]; !want[at] || !is || row != in.Row {
						t.Errorf("%+v, %d tokens: %+v is written", shape, context, at)
					}
					delete(want, at)
					all++
				}
			}
			if len(want) > 0 || shape.ValueInKey && (opened != 1 || all != p.Geometry.KeyBursts) {
				t.Errorf("%+v, %d tokens: %d bursts are not written of %d, %d rows are opened", shape, context, len(want), all, opened)
			}
		}
	}
}

// TestScoresAlone: a head that only computes scores ends when the last score has left the rank, or when its banks are closed.
func TestScoresAlone(t *testing.T) {
	for _, c := range []struct {
		unit string
		op   Operation
		cl   int // with the longer one the last beat follows the closing
	}{{pim.BankUnits, OpReadPartials, 22}, {pim.RankLevelUnit, OpReadKey, 22}, {pim.BankUnits, OpReadPartials, 60}, {pim.RankLevelUnit, OpReadKey, 60}} {
		unit, op, spec, part := c.unit, c.op, pim.Default(), *parts.DDR4(t)
		d := &part
		spec.ProcessingUnit, d.CL = unit, c.cl
		b, err := NewRunner(spec, d, fp16Head)
		if err != nil {
			t.Fatal(err)
		}
		b.Machine.Repeats.On = false
		var read, closed int64
		values := 0
		b.Machine.Observe = func(clock int64, _ dram.Command, _ dram.Address, in *Instruction) {
			switch {
			case in.Op == op:
				read = clock
			case in.Op == OpContext || in.Op == OpReadValue:
				values++
			case in.Op == OpPrecharge:
				closed = clock
			}
		}
		for _, context := range []int{1, 100, 700} {
			end := b.Run(Head{Context: context, Scores: true})
			if want := max(read+int64(d.CL+d.BurstClocks()), closed+int64(d.TRP)); end != want || values > 0 || b.Machine.Counters.ops[op] == 0 {
				t.Errorf("%s, %d tokens: ends at %d, want %d: the last is read at %d, banks close at %d; %d values are read", unit, context, end, want, read, closed, values)
			}
		}
	}
}

// TestContextOfLatents: banks multiply with a value in place, in the first columns of its key, in chunks of 16 tokens. All accumulators of the
// head start from zero in the first chunk.
func TestContextOfLatents(t *testing.T) {
	once := latentHead
	once.ValueInKey, once.Queries = true, 1
	p, err := NewProgram(pim.Default(), parts.DDR4(t), once, []Head{{Context: 40}})
	if err != nil {
		t.Fatal(err)
	}
	g, n := &p.Geometry, 0
	for buffer := p.Next(nil); len(buffer) > 0; buffer = p.Next(buffer[:0]) {
		for _, in := range buffer {
			if in.Op != OpContext {
				continue
			}
			token, burst := n/g.ValueBursts*g.ChunkTokens, n%g.ValueBursts
			if int(in.Token) != token || int(in.Burst) != burst || in.Column != g.KeyColumn(token)+int32(burst) || in.Row != g.KeyRow(token) || in.First != (token == 0) || in.Command != dram.MACA {
				t.Errorf("read %d: %+v", n, in)
			}
			n++
		}
	}
	if n != 3*g.ValueBursts {
		t.Errorf("%d reads of values, want those of 3 chunks of %d", n, g.ValueBursts)
	}
}

// TestProgressOfMeasurements: progress rises to the total clocks of the runs; the total is known from the first call.
func TestProgressOfMeasurements(t *testing.T) {
	var done, all []int64
	m, err := Measure(t.Context(), pim.Default(), parts.DDR4(t), Load{Context: 30_000, KVHeads: 12, Shape: fp16Head}, nil, func(n, of int64) { done, all = append(done, n), append(all, of) })
	if err != nil {
		t.Fatal(err)
	}
	of := m.AllCycles + m.AllAppends + 2*m.Cycles
	for i := range done {
		if done[i] <= 0 || done[i] > of+of/20 || all[i] != of || i > 0 && done[i] <= done[i-1] {
			t.Errorf("call %d: %d of %d, of %d", i, done[i], all[i], of)
		}
	}
	if len(done) < 2 || done[len(done)-1] < of/2 {
		t.Errorf("%d of %d clocks", done, of)
	}
}
