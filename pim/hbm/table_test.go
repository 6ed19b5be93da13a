package hbm

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
)

// costs are those of lab/docs/energy.md.
var costs = Costs{Row: 0.9e-9, Array: 0.44e-12, Group: 1.01e-12, Die: 1.73e-12, Pins: 0.3e-12, Multiply: 0.32e-12}

// TestTable: a table agrees with runs in time and energy within 2%, and with refresh within one refresh more or
// less.
func TestTable(t *testing.T) {
	deep.Heavy(t)
	specs := []Spec{{Bank, AttAcc, 5200, true, true}, {Bank, AttAcc, 5200, true, false}, {Bank, JEDEC, 6400, true, true}, {BankGroup, AttAcc, 5200, true, false},
		{BankGroup, JEDEC, 6400, false, true}, {Buffer, AttAcc, 5200, true, false}}
	if deep.Long() {
		specs = append(specs, Spec{BankGroup, JEDEC, 6400, true, false}, Spec{Buffer, JEDEC, 6400, true, false})
	}
	for i, spec := range specs {
		if !deep.Case(i, 3) {
			continue
		}
		part, err := spec.Part()
		if err != nil {
			t.Fatal(err)
		}
		shapes, shorter := []Shape{{HeadDim: 128, ElementBytes: 2}, {HeadDim: 64, ElementBytes: 2}, {HeadDim: 128, ElementBytes: 1}}, 1
		if spec.Level != Bank { // more commands
			shapes, shorter = shapes[:1], 4
		}
		for _, shape := range shapes[:deep.Of(1, len(shapes), len(shapes))] {
			table, err := NewTable(spec, shape)
			if err != nil {
				t.Fatal(err)
			}
			for j, size := range [][2]int{{1, 16}, {128, 640}, {700, 160}, {1300, 112}, {7777, 32}, {10000, 16}} {
				if !deep.Case(i+j, 3) {
					continue
				}
				load := StackLoad(shape, ceil(size[0], shorter), size[1])
				run, err := Measure(spec, load, nil)
				if err != nil {
					t.Fatal(err)
				}
				got := table.Clocks(load.Heads, load.Context)
				within := 0.02 * float64(run.Clocks)
				if !spec.NoRefresh {
					within += float64(part.TRFC + part.TRAS + part.TRP)
				}
				if off := math.Abs(got - float64(run.Clocks)); off > within {
					t.Errorf("%+v, %+v: %.0f clocks, run by its commands %d", spec, load, got, run.Clocks)
				}
				did, want := table.Tally(load.Heads, load.Context), run.Tally(spec)
				each := costs.Each(spec.Level)
				within = 0.02 * want.Joules(each)
				if !spec.NoRefresh {
					within += banksOfChannel * costs.Row // reopened after one more refresh
				}
				if off := math.Abs(did.Joules(each) - want.Joules(each)); off > within || math.Abs(did.Reads-want.Reads) > 0.01*want.Reads {
					t.Errorf("%+v, %+v: %v J, %+v, run by its commands %v J, %+v", spec, load, did.Joules(each), did, want.Joules(each), want)
				}
			}
		}
	}
}

// TestTableGrows: more heads and longer ones never take less.
func TestTableGrows(t *testing.T) {
	table, err := NewTable(Spec{Bank, AttAcc, 5200, true, false}, Shape{HeadDim: 128, ElementBytes: 2})
	if err != nil {
		t.Fatal(err)
	}
	for heads := range 9 {
		before := 0.0
		for context := range 9000 {
			got := table.Clocks(heads, context)
			if got < before || got > table.Clocks(heads+1, context) {
				t.Fatalf("%d heads of %d tokens: %v clocks, after %v", heads, context, got, before)
			}
			before = got
		}
	}
}

// TestNominal: while all banks read, units get 64 columns of 32 B for every 2 that a channel moves in 2 clocks, each in the clocks of the
// power limit, or in 4: the paper's factor of 16. At bank groups it is a quarter.
func TestNominal(t *testing.T) {
	for spec, want := range map[Spec]float64{
		{Bank, AttAcc, 5200, false, false}: 16, {Bank, AttAcc, 5200, true, false}: 64.0 / 6, {Bank, AttAcc, 6400, true, false}: 64.0 / 7,
		{Bank, JEDEC, 6400, false, false}: 16, {Bank, JEDEC, 6400, true, false}: 64.0 / 7,
		{BankGroup, AttAcc, 5200, false, false}: 4, {BankGroup, AttAcc, 5200, true, false}: 16.0 / 6, {BankGroup, JEDEC, 6400, true, false}: 2, {Buffer, AttAcc, 5200, true, false}: 1,
	} {
		if got, err := spec.Nominal(); err != nil || math.Abs(got-want) > 1e-12 {
			t.Errorf("%+v: %v, %v, expected %v", spec, got, err, want)
		}
	}
}
