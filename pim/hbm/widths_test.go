package hbm

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/internal/deep"
)

// latent is a latent in 16 bits: keys of 576 elements, values of 512. thin is a head of MiMo-V2.
var latent, thin = Shape{HeadDim: 576, ElementBytes: 2, ValueDim: 512}, Shape{HeadDim: 192, ElementBytes: 2, ValueDim: 128}

// TestEqualWidths: equal widths of values and keys take the same clocks as one shared width, by both sets of rules.
func TestEqualWidths(t *testing.T) {
	deep.Heavy(t)
	for at, c := range []struct {
		rules Rules
		rate  int
		level Level
		want  [2]int64 // of 80 elements and of 192
	}{
		{AttAcc, 5200, Bank, [2]int64{6505, 9125}}, {AttAcc, 5200, BankGroup, [2]int64{12785, 31151}}, {AttAcc, 5200, Buffer, [2]int64{34247, 82707}},
		{JEDEC, 6400, Bank, [2]int64{14305, 19003}}, {JEDEC, 6400, BankGroup, [2]int64{17286, 41822}}, {JEDEC, 6400, Buffer, [2]int64{36174, 86396}},
	} {
		for i, dim := range []int{80, 192} {
			if !deep.Case(at+i, 3) {
				continue
			}
			for _, valueDim := range []int{0, dim} {
				run, err := Measure(Spec{c.level, c.rules, c.rate, true, false}, StackLoad(Shape{HeadDim: dim, ElementBytes: 2, ValueDim: valueDim}, 777, 50), nil)
				if err != nil || run.Clocks != c.want[i] {
					t.Errorf("%+v, %d elements, values of %d: %d clocks, %v", c, dim, valueDim, run.Clocks, err)
				}
			}
		}
	}
}

// TestWidthsByHand: a unit at a bank has a quarter of a key (144 of 576 elements, 9 columns of 16) and 128 elements of a value in 8 passes. A unit at a bank
// group or in the buffer die has everything: 36 and 32. A head of 160 tokens has 10 in each of 16 ways, 80 in each of two.
func TestWidthsByHand(t *testing.T) {
	for _, c := range []struct {
		level           Level
		columns, passes int
		reads, queries  int64 // of a pseudo-channel and head
		results         int64
	}{
		{Bank, 9, 8, 10 * 17, 36, 8 + 8*8}, {BankGroup, 36, 32, 10 * 68, 36, 8 + 32*2}, {Buffer, 36, 32, 80 * 68, 36, 5 + 32},
	} {
		y := layouts[c.level]
		if y.columns(latent) != c.columns || y.passes(latent) != c.passes {
			t.Errorf("%s: %d columns, %d passes", c.level, y.columns(latent), y.passes(latent))
		}
		run := checked(t, Spec{c.level, JEDEC, 6400, false, false}, StackLoad(latent, 160, Channels))
		if n := run.Commands; n[y.mac] != pseudoChannels*c.reads || n[dram.WRGB] != pseudoChannels*c.queries || n[dram.MVSB] != pseudoChannels*c.results {
			t.Errorf("%s: %d reads, %d queries, %d results", c.level, n[y.mac], n[dram.WRGB], n[dram.MVSB])
		}
	}
	if bytes := latent.bytes(10); bytes != 10*1088*2 {
		t.Errorf("10 tokens have %d bytes", bytes)
	}
}

// TestWidthsAreLegal: heads with different widths of keys and values break no JEDEC rule, alone or
// several at once.
func TestWidthsAreLegal(t *testing.T) {
	deep.Heavy(t)
	for _, level := range []Level{Bank, BankGroup, Buffer} {
		for _, shape := range []Shape{latent, thin, {HeadDim: 64, ElementBytes: 1, ValueDim: 1024}} {
			legal(t, Spec{level, JEDEC, 6400, true, false}, StackLoad(shape, 150, 3*Channels))
		}
	}
}

// TestWidthsInTables: tables for heads with two widths agree with runs within 2% of clocks and energy.
func TestWidthsInTables(t *testing.T) {
	deep.Heavy(t)
	for i, c := range []struct {
		spec  Spec
		shape Shape
	}{{Spec{Bank, AttAcc, 5200, true, true}, latent}, {Spec{Bank, JEDEC, 6400, true, true}, thin}, {Spec{BankGroup, AttAcc, 5200, true, true}, latent}, {Spec{Buffer, AttAcc, 5200, true, true}, thin}} {
		if !deep.Case(i, 4) {
			continue
		}
		table, err := NewTable(c.spec, c.shape)
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range [][2]int{{1, 16}, {128, 64}, {700, 160}, {3000, 16}} {
			if c.spec.Level != Bank {
				size[0] = ceil(size[0], 4)
			}
			load := StackLoad(c.shape, size[0], size[1])
			run, err := Measure(c.spec, load, nil)
			if err != nil {
				t.Fatal(err)
			}
			each := costs.Each(c.spec.Level)
			got, did := table.Clocks(load.Heads, load.Context), table.Tally(load.Heads, load.Context)
			if want := run.Tally(c.spec); math.Abs(got-float64(run.Clocks)) > 0.02*float64(run.Clocks) || math.Abs(did.Reads-want.Reads) > 0.01*want.Reads || math.Abs(did.Joules(each)-want.Joules(each)) > 0.02*want.Joules(each) {
				t.Errorf("%+v, %+v: %.0f clocks, %+v, run by its commands %d, %+v", c.spec, load, got, did, run.Clocks, want)
			}
		}
	}
}

// TestSwappedWidthsShow: a program that swaps the widths of keys and values computes something else.
func TestSwappedWidthsShow(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	vector := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		return x
	}
	for _, level := range []Level{Bank, BankGroup, Buffer} {
		head := headValues{query: vector(latent.HeadDim)}
		for range 50 {
			head.keys, head.values = append(head.keys, vector(latent.HeadDim)), append(head.values, vector(latent.ValueDim))
		}
		want := exact(&head)
		for _, shape := range []Shape{latent, {HeadDim: 512, ElementBytes: 2, ValueDim: 512}} {
			load := StackLoad(latent, len(head.keys), Channels)
			v := newValueMachine(layouts[level], load, []headValues{head})
			load.Shape = shape
			for _, in := range load.program(Spec{Level: level, Rules: JEDEC}) {
				v.execute(&in)
			}
			off := 0.0
			for d, x := range want {
				if e := math.Abs(float64(v.out[0][d]) - x); !(e <= off) {
					off = e
				}
			}
			if right := off < 2e-5; right != (shape == latent) {
				t.Errorf("%s, a program for %+v: off by %v", level, shape, off)
			}
		}
	}
}
