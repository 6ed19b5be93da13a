package machine

import (
	"slices"
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
)

// Keys and values narrower than queries: each further chunk takes the slower of multipliers and rank bus, and
// each further row a switch. So L3's units read them no faster. Twice the multipliers read them twice as
// fast, but not four times: the partial sums of 16 tokens take 16 clocks.
func TestNarrowKeysAndValues(t *testing.T) {
	const bus, rowSwitch = 16, 48 + 114 // clocks: partial sums of a chunk and query head; a staggered activation
	clocks := func(bits, multipliers, queries, context int) int64 {
		t.Helper()
		spec := pim.Default()
		spec.Multipliers = multipliers
		table, err := NewRunner(spec, parts.DDR4(t), pim.HeadShape{HeadDim: 128, Queries: queries, ElementBits: 16, KVBits: bits})
		if err != nil {
			t.Fatal(err)
		}
		return table.Attention(context)
	}
	for _, c := range []struct{ bits, multipliers, steps int }{
		{16, 0, 1}, {16, 4, 1}, {16, 8, 1}, {8, 0, 2}, {8, 4, 2}, {8, 8, 1}, {8, 2, 4}, {4, 0, 4}, {4, 4, 4}, {4, 8, 2}, {4, 16, 1},
	} {
		for _, queries := range []int{1, 4} {
			if (queries > 1 || c.multipliers == 8) && !deep.On() {
				continue
			}
			columns := c.bits * 128 / 512 // of a key: 512 bits over eight chips
			chunk := max(8*columns*c.steps*queries, bus*queries)
			row := 128 * 16 / columns // tokens
			const from, to = 8192, 32768
			// The banks close during the multipliers' work on a row's last read.
			want := int64((to-from)/16*2*chunk + 2*(to-from)/row*(rowSwitch-8*(c.steps-1)))
			got := clocks(c.bits, c.multipliers, queries, to) - clocks(c.bits, c.multipliers, queries, from)
			if more := got - want; more != 0 && (8*columns*c.steps >= bus || more < 0 || 50*more > want) { // a bus that is behind delays switches
				t.Errorf("%d bits, %d multipliers, %d queries: %d more tokens take %d clocks, want %d", c.bits, c.multipliers, queries, to-from, got, want)
			}
		}
	}
	wide, half, quarter := clocks(16, 0, 1, 32768), clocks(8, 8, 1, 32768), clocks(4, 8, 1, 32768)
	if a, b := float64(wide)/float64(half), float64(half)/float64(quarter); a < 1.99 || a > 2.01 || b < 1.06 || b > 1.09 {
		t.Errorf("8 bits are %.3f times as fast as 16, 4 bits %.3f as 8", a, b)
	}
}

// Scales in the rows: each row begins with reading the scales of its chunks, 16 tokens a burst; the staggered activation hides some
// of it. 8-bit keys are therefore 1.7 times as fast as 16-bit ones, not twice: 60 chunks of 8 bits, or 120 of 4, leave room for their
// scales.
func TestScalesInRows(t *testing.T) {
	for _, c := range []struct{ bits, chunks, bursts int }{{8, 60, 64}, {4, 120, 128}} {
		for _, multipliers := range []int{8, 4}[:deep.Of(1, 2, 2)] {
			spec := pim.Default()
			spec.Multipliers = multipliers
			table, err := NewRunner(spec, parts.DDR4(t), pim.HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16, KVBits: c.bits, ScaleBytes: 4})
			if err != nil {
				t.Fatal(err)
			}
			row := 16 * c.chunks
			if table.Program.Geometry.RowTokens != row {
				t.Fatalf("%d bits: %d tokens a row, want %d", c.bits, table.Program.Geometry.RowTokens, row)
			}
			steps := max(1, 64/c.bits/multipliers)
			columns := c.bits / 4
			chunk := max(8*columns*steps, 16)
			// From the first bank's activation: tRCD, then 4 clocks a burst, since four banks open faster than their scales are read. A key is
			// read tCCD_L later. For values, the weights follow once a burst (CL and 4) has passed the softmax unit (28), and a value is read
			// once it has its weight (CWL and 4).
			last := 22 + 4*(c.bursts-1)
			keys, values := last+8, last+22+4+28+16+4
			got := table.Attention(5*row) - table.Attention(4*row)
			want := int64(2*(c.chunks*chunk+12+22-8*steps) + keys + values)
			if got < want || 50*(got-want) > want { // a full bus is a little behind
				t.Errorf("%d bits, %d multipliers: a row takes %d clocks, want %d", c.bits, multipliers, got, want)
			}
			if sum := 151864 / float64(table.Attention(32768)); multipliers == 8 && (sum < 1.65 || sum > 1.75) {
				t.Errorf("%d bits: %.3f times as fast as 16", c.bits, sum)
			}
		}
	}
}

// Key scales for each element, in groups of 128 tokens: before a group's first keys q is loaded again, with the scales that were read when the
// row opened. Values do not change.
func TestKeyGroups(t *testing.T) {
	deep.Only(t)
	for _, rows := range []int{0, 4} {
		clocks := func(group int) int64 {
			spec := pim.Default()
			spec.Multipliers = 8
			table, err := NewRunner(spec, parts.DDR4(t), pim.HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16, KVBits: 4, ScaleBytes: rows, KeyGroup: group})
			if err != nil {
				t.Fatal(err)
			}
			row := table.Program.Geometry.RowTokens
			return table.Attention(4*row) - table.Attention(2*row)
		}
		groups := int64(2 * 2048 / 128)
		if rows > 0 {
			groups = 2 * 1920 / 128
		}
		// The multipliers stop for tRP after their last read, as if q followed an append, and for four bursts, each of CWL and 4 clocks from its command.
		loads := clocks(128) - clocks(0)
		if each := float64(loads) / float64(groups); each < 22 || each > 22+12+16+4+16 {
			t.Errorf("scales in %d bytes of rows: q takes %.1f clocks more a group", rows, each)
		}
	}
}

// An append stores the scale of the new key and that of the new value, each while its bank has the row open.
func TestScalesAreAppended(t *testing.T) {
	for _, bits := range []int{4, 8, 16} {
		b, err := NewRunner(pim.Default(), parts.DDR4(t), pim.HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16, KVBits: bits, ScaleBytes: 4})
		if err != nil {
			t.Fatal(err)
		}
		g := &b.Program.Geometry
		type place struct {
			bank   int
			row    int32
			column int32
		}
		var seen []place
		open := map[int]int32{}
		b.Machine.Observe = func(_ int64, cmd dram.Command, a dram.Address, in *Instruction) {
			bank := int(a.Bank)*g.BankGroups + int(a.BankGroup)
			if cmd == dram.ACT {
				open[bank] = a.Row
			}
			if in.Op == OpAppendScale {
				if open[bank] != a.Row {
					t.Fatalf("%d bits: a scale of row %d, bank %d has %d open", bits, a.Row, bank, open[bank])
				}
				seen = append(seen, place{bank, a.Row, a.Column})
			}
		}
		for _, context := range []int{1, 2, 15, 16, 17, 100, 257, g.RowTokens, g.RowTokens + 5} {
			seen = seen[:0]
			b.Run(Head{Context: context, Appends: true})
			token := context - 1
			want := []place{
				{g.KeyBank(token), g.KeyRow(token), g.ScaleColumn(token)}, {g.ValueScaleBank(token), g.ValueRow(token), g.ScaleColumn(token)},
			}
			if !slices.Equal(seen, want) {
				t.Errorf("%d bits, %d tokens: scales go to %v, want %v", bits, context, seen, want)
			}
		}
	}
}

// A row's scales are read before its keys; have passed the softmax unit before its weights are broadcast; and are there before q is loaded for
// a group. Each row has the scales of its own chunks, in every bank.
func TestScalesComeFirst(t *testing.T) {
	for _, group := range []int{0, 128} {
		d := parts.DDR4(t)
		b, err := NewRunner(pim.Default(), d, pim.HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16, KVBits: 8, ScaleBytes: 4, KeyGroup: group})
		if err != nil {
			t.Fatal(err)
		}
		b.Machine.Repeats.On = false
		g := &b.Program.Geometry
		context := g.RowTokens + 300
		last, reads, weights, columns := int64(0), map[int32]int{}, map[int32]int{}, map[int32]map[int32]bool{}
		b.Machine.Observe = func(clock int64, _ dram.Command, a dram.Address, in *Instruction) {
			switch in.Op {
			case OpReadScale:
				if last = clock; columns[a.Row] == nil {
					columns[a.Row] = map[int32]bool{}
				}
				reads[a.Row]++
				columns[a.Row][a.Column] = true
				if weights[a.Row] > 0 {
					t.Fatalf("group %d: scales of row %d after its reads", group, a.Row)
				}
			case OpScore, OpContext:
				weights[in.Row]++
				if clock < last+int64(d.TCCDL) {
					t.Fatalf("group %d: a read %d clocks after scales", group, clock-last)
				}
			case OpLoadWeights:
				if clock < last+int64(d.CL+d.BurstClocks()) {
					t.Fatalf("group %d: weights %d clocks after scales", group, clock-last)
				}
			case OpLoadQuery:
				if group > 0 && (last == 0 || clock < last+int64(d.CL+d.BurstClocks())) {
					t.Fatalf("q for a group of keys %d clocks after scales", clock-last)
				}
			}
		}
		b.Attention(context)
		for row, blocks := range map[int32]int{0: (g.RowTokens + 255) / 256, 1: (g.RowTokens + 255) / 256, 2: 2, 3: 2} {
			if reads[row] != 16*blocks || len(columns[row]) != blocks {
				t.Errorf("group %d: %d bursts of scales of row %d in %d columns, want %d a bank", group, reads[row], row, len(columns[row]), blocks)
			}
		}
	}
}

// A row is not closed before its scales have been read, however few reads follow.
func TestScalesBeforeClosing(t *testing.T) {
	for _, unit := range []string{pim.BankUnits, pim.RankLevelUnit} {
		for _, dim := range []int{8, 128} {
			spec := pim.Default()
			spec.ProcessingUnit, spec.Precision.Preset, spec.MACLatency, spec.SoftmaxLatency = unit, "fp32", 1, 0
			spec.PostponedRefreshes = 0
			heads := []Head{{Context: 1}, {Context: 1, FirstRow: 256}, {Context: 20, FirstRow: 512, Appends: true}}
			checkProgram(t, spec, parts.DDR4(t), pim.HeadShape{HeadDim: dim, Queries: 1, ElementBits: 8, ScaleBytes: 4}, heads)
		}
	}
}

// Multipliers that need several steps for a read delay the next read, their results, and the weights that they use.
func TestMultipliersTakeTheirTime(t *testing.T) {
	for _, c := range []struct{ bits, multipliers, steps int }{{16, 4, 1}, {8, 4, 2}, {4, 4, 4}, {4, 8, 2}} {
		spec := pim.Default()
		spec.Multipliers = c.multipliers
		b, err := NewRunner(spec, parts.DDR4(t), pim.HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16, KVBits: c.bits})
		if err != nil {
			t.Fatal(err)
		}
		b.Machine.Repeats.On = false
		last, context := int64(-1000), int64(-1000)
		slots := map[[2]int]int64{}
		b.Machine.Observe = func(clock int64, cmd dram.Command, _ dram.Address, in *Instruction) {
			after := func(from int64, least int, what string) {
				if clock < from+int64(least) {
					t.Fatalf("%+v: %s %d clocks after a read, want %d at least", c, what, clock-from, least)
				}
			}
			more := 8 * (c.steps - 1)
			at := [2]int{int(in.Slot)}
			switch in.Op {
			case OpScore, OpContext:
				after(last, 8*c.steps, "the next read")
				last = clock
				if in.Op == OpContext {
					context, at[1] = clock, 1
				}
				slots[at] = clock
			case OpReadPartials:
				after(slots[at], spec.MACLatency+more, "partial sums")
			case OpReadContext:
				after(context, spec.MACLatency+more, "the context")
			case OpLoadWeights:
				if at[1] = 1; slots[at] > 0 {
					after(slots[at], 1+more, "weights of the next tokens")
				}
			}
		}
		b.Attention(300)
	}
}

// Every token's scales have a place of their own behind the keys and values, in a bank of the same
// vector.
func TestScalePlaces(t *testing.T) {
	for _, bits := range []int{4, 8, 16} {
		for _, part := range []string{"ddr4-3200-8gb-x8", "ddr4-3200-8gb-x4", "ddr4-2400-16gb-x16"} {
			d, err := dram.LookupSpec(part)
			if err != nil {
				t.Fatal(err)
			}
			g, err := pim.NewGeometry(d, pim.HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16, KVBits: bits, ScaleBytes: 4})
			if err != nil {
				t.Fatal(err)
			}
			tokens := map[[3]int]int{} // by bank, burst, and key or value
			for token := range g.RowTokens {
				column := int(g.ScaleColumn(token))
				if data := max(int(g.KeyColumn(token))+g.KeyBursts, int(g.ValueColumn(token))+1); column < data || column >= g.RowBursts {
					t.Fatalf("%s, %d bits, token %d: scales in column %d of %d, data to %d", part, bits, token, column, g.RowBursts, data)
				}
				bank := g.ValueScaleBank(token)
				if first := g.ValueBank(token); bank < first || bank >= first+g.ValueBursts {
					t.Fatalf("%s, %d bits, token %d: the value's scale in bank %d, the value from %d on", part, bits, token, bank, first)
				}
				tokens[[3]int{0, g.KeyBank(token), column}]++
				tokens[[3]int{1, bank, column}]++
			}
			for at, n := range tokens {
				if n*4 > g.BurstBytes {
					t.Fatalf("%s, %d bits: %d scales in a burst of bank %v", part, bits, n, at)
				}
			}
		}
	}
}

// A query is as wide as model elements, however narrow keys and values are.
func TestNarrowQueryBursts(t *testing.T) {
	for bits, want := range map[int]pim.Geometry{
		16: {KeyBursts: 4, ValueBursts: 4, ColumnTokens: 4, RowTokens: 512}, 8: {KeyBursts: 2, ValueBursts: 2, ColumnTokens: 8, RowTokens: 1024}, 4: {KeyBursts: 1, ValueBursts: 1, ColumnTokens: 16, RowTokens: 2048},
	} {
		g, err := pim.NewGeometry(parts.DDR4(t), pim.HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16, KVBits: bits})
		if err != nil {
			t.Fatal(err)
		}
		if g.QueryBursts != 4 || g.KeyBursts != want.KeyBursts || g.ValueBursts != want.ValueBursts || g.ColumnTokens != want.ColumnTokens || g.RowTokens != want.RowTokens {
			t.Errorf("%d bits: %+v", bits, g)
		}
	}
}
