package pim

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/units"
)

// drawSpec draws a configuration that takes every branch of the program.
func drawSpec(t *rapid.T) (*Spec, HeadShape) {
	spec := Default()
	spec.Activation = rapid.SampledFrom([]string{Staggered, Simultaneous}).Draw(t, "activation")
	spec.ProcessingUnit = rapid.SampledFrom([]string{BankPU, BankPU, BankPU, RankPU}).Draw(t, "unit")
	spec.Precision.Preset = rapid.SampledFrom(PrecisionNames()).Draw(t, "precision")
	spec.BeyondBuffer = rapid.SampledFrom([]string{Refetch, Segment}).Draw(t, "beyond")
	spec.ScoreBuffer = rapid.SampledFrom([]units.Bytes{256 * units.KiB, 256 * units.KiB, 24 * units.KiB, units.KiB}).Draw(t, "buffer")
	spec.MACLatency = rapid.IntRange(1, 20).Draw(t, "mac")
	spec.SoftmaxLatency = rapid.IntRange(0, 100).Draw(t, "softmax")
	shape := HeadShape{
		HeadDim:     rapid.SampledFrom([]int{8, 64, 80, 128, 256, 512}).Draw(t, "d"),
		Queries:     rapid.IntRange(1, 9).Draw(t, "g"),
		ElementBits: rapid.SampledFrom([]int{8, 16}).Draw(t, "bits"),
	}
	spec.MACsPerRead = rapid.IntRange(1, shape.Queries).Draw(t, "macs")
	return spec, shape
}

// drawDevice draws a part, most often L3's, that can hold the shape.
func drawDevice(t *rapid.T, shape HeadShape) *dram.Spec {
	part := rapid.SampledFrom([]string{"ddr4-3200-8gb-x8", "ddr4-3200-8gb-x8", "ddr4-3200-8gb-x4", "ddr4-2400-16gb-x16"}).Draw(t, "part")
	d, err := dram.LookupSpec(part)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewGeometry(d, shape); err != nil {
		t.Skip(err)
	}
	return d
}

// tableIsTheRun compares the table with the command-by-command run at one
// length: without append, alone, and within a sequence.
func tableIsTheRun(t failer, spec *Spec, d *dram.Spec, shape HeadShape, context int) {
	t.Helper()
	table, err := NewKernelTable(spec, d, shape)
	if err != nil {
		t.Fatal(err)
	}
	b, err := newTableBuilder(spec, d, shape)
	if err != nil {
		t.Fatal(err)
	}
	b.machine.SkipRepetitions(false)
	if got, want := table.Attention(context), b.attention(context); got != want {
		t.Fatalf("%d tokens: table %d, run %d", context, got, want)
	}
	h := Head{Context: context, Append: true}
	if got, want := table.Alone(context), b.run(h); got != want {
		t.Fatalf("%d tokens alone: table %d, run %d", context, got, want)
	}
	ends := b.ends(h, h, h, h)
	if got, want := table.InSequence(context), ends[2]-ends[1]; got != want {
		t.Fatalf("%d tokens in sequence: table %d, run %d", context, got, want)
	}
}

func TestTableIsTheRun(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and one goroutine")
	}
	rapid.Check(t, func(t *rapid.T) {
		spec, shape := drawSpec(t)
		d := drawDevice(t, shape)
		longest := 8_000 / shape.Queries
		context := rapid.OneOf(rapid.IntRange(1, 40), rapid.IntRange(1, 2000), rapid.IntRange(1, longest)).Draw(t, "context")
		tableIsTheRun(t, spec, d, shape, context)
	})
}

// The same at random lengths to 131,072 and beyond the score buffer.
func TestTableIsTheRunAtLength(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and one goroutine")
	}
	d := ddr4(t)
	rng := rand.New(rand.NewPCG(3, 4))
	for _, preset := range PrecisionNames() {
		spec := Default()
		spec.Precision.Preset = preset
		for _, context := range []int{131_072, 131_073, 1 + rng.IntN(131_072), 1 + rng.IntN(131_072), 131_072 + rng.IntN(131_072)} {
			tableIsTheRun(t, spec, d, fp16Head, context)
		}
	}
	shape := fp16Head
	shape.Queries = 8
	tableIsTheRun(t, Default(), d, shape, 1+rng.IntN(65_536))
}

// The switch that turns the skipping of repetitions off changes nothing.
func TestPeriodicSwitch(t *testing.T) {
	spec := Default()
	fast, err := NewKernelTable(spec, ddr4(t), HeadShape{HeadDim: 256, Queries: 2, ElementBits: 16})
	if err != nil {
		t.Fatal(err)
	}
	spec.Periodic = false
	spec.ScoreBuffer = 8 * units.KiB
	slow, err := NewKernelTable(spec, ddr4(t), HeadShape{HeadDim: 256, Queries: 2, ElementBits: 16})
	if err != nil {
		t.Fatal(err)
	}
	spec.Periodic = true
	small, err := NewKernelTable(spec, ddr4(t), HeadShape{HeadDim: 256, Queries: 2, ElementBits: 16})
	if err != nil {
		t.Fatal(err)
	}
	for context := 1; context < 20_000; context += 7 {
		if small.Alone(context) != slow.Alone(context) || small.InSequence(context) != slow.InSequence(context) {
			t.Fatalf("%d tokens: %d and %d with repetitions skipped, %d and %d without", context,
				small.Alone(context), small.InSequence(context), slow.Alone(context), slow.InSequence(context))
		}
		if context <= 2048 && fast.Attention(context) != slow.Attention(context) {
			t.Fatalf("%d tokens within both score buffers: %d and %d", context, fast.Attention(context), slow.Attention(context))
		}
	}
}

func BenchmarkNewKernelTable(b *testing.B) {
	d := ddr4(b)
	for _, c := range []struct {
		name, unit string
		queries    int
	}{{"mha", BankPU, 1}, {"gqa8", BankPU, 8}, {"rank-pu", RankPU, 1}} {
		b.Run(c.name, func(b *testing.B) {
			spec := Default()
			spec.ProcessingUnit = c.unit
			b.ReportAllocs()
			for b.Loop() {
				if _, err := NewKernelTable(spec, d, HeadShape{HeadDim: 128, Queries: c.queries, ElementBits: 16}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestLookUpsDoNotAllocate(t *testing.T) {
	table, err := NewKernelTable(Default(), ddr4(t), fp16Head)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { table.WithRefresh(table.Alone(777_777) + table.InSequence(13)) }); n != 0 {
		t.Errorf("%v allocations a look-up", n)
	}
}

// Heads whose newest token begins a row, or a segment of the score buffer, or
// lies just behind: in sequence these end otherwise than all others.
func TestTableWhereRowsAndSegmentsBegin(t *testing.T) {
	for _, c := range []struct {
		name     string
		beyond   string
		buffer   units.Bytes
		queries  int // share the buffer
		contexts []int
	}{
		{"segments of a row", Segment, units.KiB, 1, []int{1, 2, 16, 17, 512, 513, 514, 528, 529, 1025, 1041}},
		{"segments of two rows", Segment, 2 * units.KiB, 1, []int{513, 520, 1025, 1026, 1033, 1537, 2049}},
		{"keys fetched twice", Refetch, 2 * units.KiB, 1, []int{513, 1025, 1026, 1033, 1537, 2049}},
		{"segments of a part of a row", Segment, units.KiB, 2, []int{1, 129, 257, 258, 273, 513, 514, 769}},
	} {
		spec := Default()
		spec.BeyondBuffer, spec.ScoreBuffer = c.beyond, c.buffer
		shape := fp16Head
		shape.Queries = c.queries
		for _, context := range c.contexts {
			tableIsTheRun(t, spec, ddr4(t), shape, context)
		}
	}
}
