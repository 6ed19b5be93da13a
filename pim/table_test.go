package pim

import (
	"testing"

	"pgregory.net/rapid"
)

// drawSpec draws a configuration that takes every branch of the program.
func drawSpec(t *rapid.T) (*Spec, HeadShape) {
	spec := Default()
	spec.Activation = rapid.SampledFrom([]string{Staggered, Simultaneous}).Draw(t, "activation")
	spec.ProcessingUnit = rapid.SampledFrom([]string{BankPU, BankPU, BankPU, RankPU}).Draw(t, "unit")
	spec.Precision.Preset = rapid.SampledFrom(PrecisionNames()).Draw(t, "precision")
	spec.BeyondBuffer = rapid.SampledFrom([]string{Refetch, Segment}).Draw(t, "beyond")
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

// The table is the command-by-command run, at every length.
func TestTableIsTheRun(t *testing.T) {
	d := ddr4(t)
	rapid.Check(t, func(t *rapid.T) {
		spec, shape := drawSpec(t)
		longest := 131072 / shape.Queries
		if testing.Short() {
			longest /= 16
		}
		context := rapid.OneOf(rapid.IntRange(1, 40), rapid.IntRange(1, 2000), rapid.IntRange(1, longest)).Draw(t, "context")
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
			t.Errorf("%d tokens: table %d, run %d", context, got, want)
		}
		h := Head{Context: context, Append: true}
		if got, want := table.Alone(context), b.run(h); got != want {
			t.Errorf("%d tokens alone: table %d, run %d", context, got, want)
		}
		ends := b.ends(h, h, h, h)
		if got, want := table.InSequence(context), ends[2]-ends[1]; got != want {
			t.Errorf("%d tokens in sequence: table %d, run %d", context, got, want)
		}
	})
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
