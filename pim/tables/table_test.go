package tables

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
	"github.com/l3sim/l3sim/units"
)

// tableIsTheRun compares the table with the command-by-command run at one
// length: without append, alone with all that the rank does, and within a sequence.
func tableIsTheRun(t parts.T, spec *pim.Spec, d *dram.Spec, shape pim.HeadShape, context int) {
	t.Helper()
	for _, table := range bothTables(t, spec, d, shape) {
		tableIsTheRunOf(t, table, spec, d, shape, context)
	}
}

// bothTables returns the tables of steps with and without an append.
func bothTables(t parts.T, spec *pim.Spec, d *dram.Spec, shape pim.HeadShape) [2]*KernelTable {
	t.Helper()
	appends, err := NewKernelTable(spec, d, shape)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := NewStoredTable(spec, d, shape)
	if err != nil {
		t.Fatal(err)
	}
	return [2]*KernelTable{appends, stored}
}

// tableIsTheRunOf is tableIsTheRun for a table that is there.
func tableIsTheRunOf(t parts.T, table *KernelTable, spec *pim.Spec, d *dram.Spec, shape pim.HeadShape, context int) {
	t.Helper()
	if err := tableDiffers(table, spec, d, shape, context); err != nil {
		t.Fatal(err)
	}
}

// tableDiffers returns where a table is not the run.
func tableDiffers(table *KernelTable, spec *pim.Spec, d *dram.Spec, shape pim.HeadShape, context int) error {
	b, err := machine.NewRunner(spec, d, shape)
	if err != nil {
		return err
	}
	b.Machine.Repeats.On = false
	if got, want := table.Attention(context), b.Attention(context); got != want {
		return fmt.Errorf("%d tokens: table %d, run %d", context, got, want)
	}
	h := machine.Head{Context: context, Appends: table.appends}
	alone := counted(b, d, h)
	if got, want := table.Alone(context), int64(alone.Clocks); got != want {
		return fmt.Errorf("%d tokens alone (append: %v): table %d, run %d", context, h.Appends, got, want)
	}
	if got := table.Activity(context); got != alone {
		return fmt.Errorf("%d tokens alone (append: %v):\ntable %+v\nrun   %+v", context, h.Appends, got, alone)
	}
	turns := !h.Appends && context <= 4096 // short heads may repeat in cycles of two, three or four
	heads := 5
	if turns {
		heads = 17
	}
	ends := b.Ends(slices.Repeat([]machine.Head{h}, heads)...)
	want := ends[2] - ends[1]
	if turns {
		want = (ends[15] - ends[3] + 11) / 12
	}
	if got := table.InSequence(context); got != want {
		return fmt.Errorf("%d tokens in sequence (append: %v): table %d, run %d", context, h.Appends, got, want)
	}
	return nil
}

// shrinkTime bounds how long TestTableIsTheRun looks for a smaller failing shape. Rapid rarely checks its time limit: it may
// draw the same shape hundreds of times, and each takes seconds.
const shrinkTime = 20 * time.Second

func TestTableIsTheRun(t *testing.T) {
	deep.Heavy(t)
	if testing.Short() {
		t.Skip("long, and one goroutine")
	}
	outcomes := map[string]error{}      // by what was drawn
	var last time.Time                  // after a failure, no further shapes are tried then
	deep.Cases(t, 3, func(t *rapid.T) { // the tables take most of the time: several lengths for each
		spec, d, shape := drawRank(t)
		longest := 8_000 / shape.Queries
		contexts := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(1, 40), rapid.IntRange(1, 2000), rapid.IntRange(1, longest)), 1, 4).Draw(t, "contexts")
		drawn := fmt.Sprintf("%+v %s %+v %v", *spec, d.Name, shape, contexts)
		err, known := outcomes[drawn]
		if !known {
			if !last.IsZero() && time.Now().After(last) {
				t.Skip("the shapes tried are enough")
			}
			for _, table := range bothTables(t, spec, d, shape) {
				for i := 0; i < len(contexts) && err == nil; i++ {
					err = tableDiffers(table, spec, d, shape, contexts[i])
				}
			}
			outcomes[drawn] = err
		}
		if err != nil {
			if last.IsZero() {
				last = time.Now().Add(shrinkTime)
			}
			t.Fatal(err)
		}
	})
}

// TestAppendBesideOneChunk: on these ranks an append to a head of several chunks takes two clocks longer than to a head of
// one.
func TestAppendBesideOneChunk(t *testing.T) {
	spec := pim.Default()
	spec.Activation, spec.Precision.Preset, spec.MACLatency, spec.SoftmaxLatency, spec.MACsPerRead, spec.Multipliers = pim.Simultaneous, "fp32", 4, 3, 1, 4
	d, err := dram.LookupSpec("ddr5-4800-16gb-x8")
	if err != nil {
		t.Fatal(err)
	}
	shape := pim.HeadShape{HeadDim: 8, Queries: 1, ElementBits: 8}
	for _, table := range bothTables(t, spec, d, shape) {
		for _, context := range []int{33, 2048, 1, 31, 32, 63, 64, 65, 2049, 8000}[:deep.Of(2, 10, 10)] {
			tableIsTheRunOf(t, table, spec, d, shape, context)
		}
	}
}

// TestAppendSettlesLate: on this rank a head's second chunk regains a clock that the append lost, and the third chunk loses it again.
func TestAppendSettlesLate(t *testing.T) {
	deep.Heavy(t)
	spec := pim.Default()
	spec.Activation, spec.Precision.Preset, spec.BeyondBuffer, spec.ScoreBuffer = pim.Simultaneous, "paper", pim.Segment, units.KiB
	spec.MACLatency, spec.SoftmaxLatency, spec.MACsPerRead, spec.Multipliers = 1, 0, 1, 8
	d := parts.Of(t, "ddr5-4800an-32gb-x4")
	shape := pim.HeadShape{HeadDim: 64, Queries: 1, ElementBits: 8, KVBits: 8}
	table, err := NewKernelTable(spec, d, shape)
	parts.Must(t, err)
	for context, want := range map[int]int64{1: 362, 32: 362, 33: 361, 64: 361, 65: 362, 710: 362, 20_000: 362} {
		if got := table.Alone(context) - table.Attention(context); got != want {
			t.Errorf("%d tokens: the append adds %d clocks, want %d", context, got, want)
		}
		tableIsTheRunOf(t, table, spec, d, shape, context)
	}
}

// TestAppendFarAhead: if tRC is half a row, the append delays the opening of a bank's rows, more with every row and chunk, so the time that
// rows stay open depends on the newest token's place. The table models this without running every length.
func TestAppendFarAhead(t *testing.T) {
	for _, name := range []string{"tRC", "tRRD_L", "tFAW"}[:deep.Of(1, 3, 3)] {
		d := *parts.DDR4(t)
		parts.Must(t, d.Set(name, "4096"))
		b, err := machine.NewRunner(pim.Default(), &d, oneHead)
		parts.Must(t, err)
		table := measureTable(b, true)
		if b.Issued > 5_000_000 {
			t.Errorf("%s: a table of %d commands", name, b.Issued)
		}
		for _, context := range []int{6, 22, 511, 512, 518, 1029, 5000} {
			if got, want := table.Activity(context), b.Measure(machine.Head{Context: context, Appends: true}); got != want {
				t.Errorf("%s, %d tokens:\ntable %+v\nrun   %+v", name, context, got, want)
			}
		}
	}
}

// TestThreeTakeTurns: heads without an append whose ends repeat every third head.
func TestThreeTakeTurns(t *testing.T) {
	spec := pim.Default()
	spec.Activation, spec.Precision.Preset, spec.BeyondBuffer, spec.MACLatency, spec.SoftmaxLatency, spec.MACsPerRead = pim.Simultaneous, "paper", pim.Refetch, 1, 29, 2
	d, err := dram.LookupSpec("ddr5-5600-16gb-x16")
	if err != nil {
		t.Fatal(err)
	}
	for _, context := range []int{2, 30} {
		tableIsTheRun(t, spec, d, pim.HeadShape{HeadDim: 64, Queries: 5, ElementBits: 16, KVBits: 8}, context)
	}
}

// TestEndsBehindOddRows: on this rank a head's end shifts by up to eight clocks after an odd number of rows.
func TestEndsBehindOddRows(t *testing.T) {
	deep.Only(t)
	spec := pim.Default()
	spec.Activation, spec.Precision.Preset, spec.BeyondBuffer, spec.MACLatency, spec.SoftmaxLatency, spec.MACsPerRead = pim.Simultaneous, "paper", pim.Segment, 18, 70, 6
	d := parts.Of(t, "ddr5-5600-16gb-x16")
	shape := pim.HeadShape{HeadDim: 80, Queries: 6, ElementBits: 8, KeyGroup: 128}
	table, err := NewStoredTable(spec, d, shape)
	parts.Must(t, err)
	for _, context := range []int{1016, 1032, 1080, 1470, 1560, 2064, 2104} {
		tableIsTheRunOf(t, table, spec, d, shape, context)
	}
}

// The same at random lengths to 131,072 and beyond the score buffer.
func TestTableIsTheRunAtLength(t *testing.T) {
	deep.Only(t)
	if testing.Short() {
		t.Skip("long, and one goroutine")
	}
	d := parts.DDR4(t)
	rng := rand.New(rand.NewPCG(3, 4))
	for _, preset := range []string{"fp32", "paper"} {
		spec := pim.Default()
		spec.Precision.Preset = preset
		for _, context := range []int{131_072, 131_073, 1 + rng.IntN(131_072), 1 + rng.IntN(131_072), 131_072 + rng.IntN(131_072)} {
			tableIsTheRun(t, spec, d, oneHead, context)
		}
	}
	shape := oneHead
	shape.Queries = 8
	tableIsTheRun(t, pim.Default(), d, shape, 1+rng.IntN(65_536))
}

// The switch that turns the skipping of repetitions off changes nothing.
func TestPeriodicSwitch(t *testing.T) {
	deep.Heavy(t)
	spec := pim.Default()
	fast, err := NewKernelTable(spec, parts.DDR4(t), pim.HeadShape{HeadDim: 256, Queries: 2, ElementBits: 16})
	if err != nil {
		t.Fatal(err)
	}
	spec.Periodic = false
	spec.ScoreBuffer = 8 * units.KiB
	slow, err := NewKernelTable(spec, parts.DDR4(t), pim.HeadShape{HeadDim: 256, Queries: 2, ElementBits: 16})
	if err != nil {
		t.Fatal(err)
	}
	spec.Periodic = true
	small, err := NewKernelTable(spec, parts.DDR4(t), pim.HeadShape{HeadDim: 256, Queries: 2, ElementBits: 16})
	if err != nil {
		t.Fatal(err)
	}
	for context := 1; context < 20_000; context += 7 {
		if small.Alone(context) != slow.Alone(context) || small.InSequence(context) != slow.InSequence(context) {
			t.Fatalf("%d tokens: %d and %d with repetitions skipped, %d and %d without", context,
				small.Alone(context), small.InSequence(context), slow.Alone(context), slow.InSequence(context))
		}
		if got, want := small.Drain(context), small.Alone(context)-small.InSequence(context); got != want {
			t.Fatalf("%d tokens: a drain of %d, want %d", context, got, want)
		}
		if context <= 2048 && fast.Attention(context) != slow.Attention(context) {
			t.Fatalf("%d tokens within both score buffers: %d and %d", context, fast.Attention(context), slow.Attention(context))
		}
	}
}

func BenchmarkNewKernelTable(b *testing.B) {
	d := parts.DDR4(b)
	for _, c := range []struct {
		name, unit string
		queries    int
		buffer     units.Bytes
	}{
		{"mha", pim.BankUnits, 1, 256 * units.KiB}, {"gqa8", pim.BankUnits, 8, 256 * units.KiB}, {"gqa5-1KiB", pim.BankUnits, 5, units.KiB},
		{"rank-pu", pim.RankLevelUnit, 1, 256 * units.KiB}, {"rank-pu-gqa5-1KiB", pim.RankLevelUnit, 5, units.KiB},
	} {
		b.Run(c.name, func(b *testing.B) {
			spec := pim.Default()
			spec.ProcessingUnit, spec.ScoreBuffer = c.unit, c.buffer
			b.ReportAllocs()
			for b.Loop() {
				if _, err := NewKernelTable(spec, d, pim.HeadShape{HeadDim: 128, Queries: c.queries, ElementBits: 16}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestLookUpsDoNotAllocate(t *testing.T) {
	table, err := NewKernelTable(pim.Default(), parts.DDR4(t), oneHead)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { table.WithRefresh(table.Alone(777_777) + table.InSequence(13)) }); n != 0 {
		t.Errorf("%v allocations a look-up", n)
	}
}

// Heads whose newest token begins a row or a segment of the score buffer, or is the next one: in
// sequence these end unlike all others. So does a context of many rows and segments.
func TestTableWhereRowsAndSegmentsBegin(t *testing.T) {
	x16, x8 := "ddr4-2400-16gb-x16", "ddr4-3200-8gb-x8"
	for i, c := range []struct {
		activation, precision, beyond string
		buffer                        units.Bytes
		mac, softmax, macs            int
		dim, queries                  int
		part                          string
		rtp                           int // tRTP, 0 for the part's
	}{
		{pim.Staggered, "paper", pim.Segment, units.KiB, 4, 28, 1, 128, 1, x8, 0},
		{pim.Staggered, "paper", pim.Segment, 2 * units.KiB, 4, 28, 1, 128, 1, x8, 0},
		{pim.Staggered, "paper", pim.Segment, units.KiB, 4, 28, 1, 128, 2, x8, 0}, // segments of half a row
		{pim.Staggered, "paper", pim.Refetch, 4 * units.KiB, 9, 95, 1, 128, 1, x16, 0},
		{pim.Simultaneous, "paper", pim.Refetch, 4 * units.KiB, 8, 19, 1, 256, 4, x8, 0},
		{pim.Simultaneous, "fp32", pim.Refetch, 4 * units.KiB, 7, 86, 1, 512, 3, x8, 0},
		{pim.Simultaneous, "paper", pim.Segment, 4 * units.KiB, 5, 54, 2, 256, 3, x16, 0},
		{pim.Staggered, "paper", pim.Segment, 4 * units.KiB, 11, 13, 1, 512, 1, x8, 0},
		{pim.Staggered, "paper", pim.Refetch, 4 * units.KiB, 9, 95, 1, 32, 1, x16, 2}, // tRAS, not tRTP, closes a row of four columns
	} {
		if i%8 != 0 && !deep.On() {
			continue
		}
		spec := pim.Default()
		spec.Activation, spec.BeyondBuffer, spec.ScoreBuffer = c.activation, c.beyond, c.buffer
		spec.Precision.Preset, spec.MACLatency, spec.SoftmaxLatency, spec.MACsPerRead = c.precision, c.mac, c.softmax, c.macs
		shape := pim.HeadShape{HeadDim: c.dim, Queries: c.queries, ElementBits: 16}
		d, err := dram.LookupSpec(c.part)
		if err != nil {
			t.Fatal(err)
		}
		if c.rtp > 0 {
			d.TRTP = c.rtp
		}
		tables := bothTables(t, spec, d, shape)
		table := tables[0]
		row := table.geometry.RowTokens
		for _, base := range []int{0, row, table.segment, 2 * table.segment, table.segment + row, 12 * row, 37 * max(row, table.segment)} {
			if base > deep.Of(6_000, 40_000, 40_000)/c.queries {
				continue
			}
			for _, behind := range []int{1, 2, 4, table.geometry.ColumnTokens + 1, 3*table.geometry.ColumnTokens + 1, table.geometry.ChunkTokens, table.geometry.ChunkTokens + 1, 3 * table.geometry.ChunkTokens} {
				for _, table := range tables {
					tableIsTheRunOf(t, table, spec, d, shape, base+behind)
				}
			}
		}
	}
}

// A REF in each tREFI: computing takes the rest, and a started clock counts as one.
func TestWithRefreshByHand(t *testing.T) {
	table, err := NewKernelTable(pim.Default(), parts.DDR4(t), oneHead)
	if err != nil {
		t.Fatal(err)
	}
	for computing, want := range map[int64]int64{0: 0, 1: 2, 11_920: 12_480, 11_921: 12_482, 119_200: 124_800} {
		if got := table.WithRefresh(computing); got != want {
			t.Errorf("%d clocks take %d with refresh, want %d", computing, got, want)
		}
	}
}

// A burst may have room for the weights of more tokens than the banks score at once; it then carries only one chunk's.
func TestSkippingWithFewBanks(t *testing.T) {
	d := parts.Of(t, "ddr5-4800-16gb-x16")
	d.BankGroups = 2
	b, err := machine.NewRunner(pim.Default(), d, pim.HeadShape{HeadDim: 8, Queries: 4, ElementBits: 16})
	parts.Must(t, err)
	for _, context := range []int{8, 128, 512, 520, 2666} {
		b.Machine.Repeats.On = true
		got := b.Attention(context)
		b.Machine.Repeats.On = false
		if want := b.Attention(context); got != want {
			t.Errorf("%d tokens: %d clocks with repetitions skipped, %d without", context, got, want)
		}
	}
}

// Tables of rank-level units take as few runs as others: repeated columns of a visit and visits of a row are skipped, too. With seven query
// heads or more, a visit is half of a row of 4 bits. With a small score buffer segments are skipped.
func TestTablesOfRankLevelUnitsAreShort(t *testing.T) {
	deep.Heavy(t)
	for _, c := range []struct {
		queries, bits int
		buffer        units.Bytes
		most          int64 // commands; without skipping, 4 bits took 133 and 275 million, 1 KiB 19 and 11 million, each token's end 5 million
	}{{7, 4, 256 * units.KiB, 7e6}, {5, 16, units.KiB, 3e6}} {
		spec := pim.Default()
		spec.ProcessingUnit, spec.ScoreBuffer = pim.RankLevelUnit, c.buffer
		for _, appends := range []bool{true, false}[:deep.Of(1, 2, 2)] {
			b, err := machine.NewRunner(spec, parts.DDR4(t), pim.HeadShape{HeadDim: 128, Queries: c.queries, ElementBits: 16, KVBits: c.bits, ScaleBytes: 4 * (16 - c.bits) / 12})
			parts.Must(t, err)
			if measureTable(b, appends); b.Issued > c.most {
				t.Errorf("%d query heads, %d bits, %v (append: %v): %d commands", c.queries, c.bits, c.buffer, appends, b.Issued)
			}
		}
	}
}

// A rank-level unit reads open banks for one query head after another: after the first, reads follow at the bus's rate and do not wait for the
// next banks' activation, even with few tokens.
func TestPassesReadOpenBanks(t *testing.T) {
	spec := pim.Default()
	spec.ProcessingUnit, spec.Multipliers = pim.RankLevelUnit, 16
	b, err := machine.NewRunner(spec, parts.Of(t, "ddr4-2400-16gb-x16"), pim.HeadShape{HeadDim: 64, Queries: 3, ElementBits: 16, KVBits: 8})
	parts.Must(t, err)
	last := int64(0)
	b.Machine.Observe = func(clock int64, _ dram.Command, a dram.Address, in *machine.Instruction) {
		if in.Op == machine.OpReadKey {
			if in.Query > 0 && clock != last+4 {
				t.Errorf("bank %d of group %d is read for query head %d %d clocks after the read before", a.Bank, a.BankGroup, in.Query, clock-last)
			}
			last = clock
		}
	}
	b.Attention(1)
}

// If keys have scales by element, q is loaded again for each group: the first chunk of a group is not skipped, even if the chunks before
// it repeated.
func TestSkippingStopsAtGroups(t *testing.T) {
	for _, queries := range []int{40, 100} {
		spec := pim.Default()
		spec.MACsPerRead = 4
		b, err := machine.NewRunner(spec, parts.Of(t, "ddr4-2400-16gb-x16"), pim.HeadShape{HeadDim: 128, Queries: queries, ElementBits: 8, KeyGroup: 128})
		parts.Must(t, err)
		for _, context := range []int{128, 139, 145, 300, 400} {
			b.Machine.Repeats.On = true
			got := b.Attention(context)
			b.Machine.Repeats.On = false
			if want := b.Attention(context); got != want {
				t.Errorf("%d query heads, %d tokens: %d clocks with repetitions skipped, %d without", queries, context, got, want)
			}
		}
	}
}

// These banks read a row of 3,840 tokens in two visits, with a switch between them: chunks of the second do not repeat those of the
// first, even if they begin alike.
func TestSkippingStopsAtVisits(t *testing.T) {
	spec := pim.Default()
	spec.BeyondBuffer, spec.Precision.Preset, spec.ScoreBuffer, spec.MACLatency, spec.SoftmaxLatency = pim.Refetch, "fp32", units.KiB, 1, 0
	b, err := machine.NewRunner(spec, parts.Of(t, "ddr5-4800an-32gb-x4"), pim.HeadShape{HeadDim: 8, Queries: 4, ElementBits: 8, ScaleBytes: 4})
	parts.Must(t, err)
	if got := b.Program.VisitTokens; got != 1920 {
		t.Fatalf("visits of %d tokens, want 1,920", got)
	}
	for _, context := range []int{1920, 1952, 2048, 2049, 4097} {
		b.Machine.Repeats.On = true
		got := b.Attention(context)
		b.Machine.Repeats.On = false
		if want := b.Attention(context); got != want {
			t.Errorf("%d tokens: %d clocks with repetitions skipped, %d without", context, got, want)
		}
	}
}

// If a constraint reaches back over many chunks, a shorter repetition is not skipped.
func TestSkippingUnderLongConstraints(t *testing.T) {
	for _, ras := range []int{500, 1000, 3000} {
		d := parts.DDR4(t)
		d.TRAS, d.TRC = ras, ras+22
		b, err := machine.NewRunner(pim.Default(), d, oneHead)
		if err != nil {
			t.Fatal(err)
		}
		for context := 16; context < 6000; context += 331 {
			b.Machine.Repeats.On = true
			got := b.Attention(context)
			b.Machine.Repeats.On = false
			if want := b.Attention(context); got != want {
				t.Errorf("tRAS = %d, %d tokens: %d clocks with repetitions skipped, %d without", ras, context, got, want)
			}
		}
	}
}
