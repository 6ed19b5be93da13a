package hbm

import (
	"math"
	"testing"
)

// TestEnergyByHand: energy of a head of 2,048 tokens without refresh, by the bytes that each level moves. Keys and values are 2 x 524,288 bytes in rows of 1 KB;
// each pseudo-channel receives a query of 256 bytes.
func TestEnergyByHand(t *testing.T) {
	costs := Costs{Row: 1e-9, Array: 1e-12, Group: 10e-12, Die: 100e-12, Pins: 1000e-12, Multiply: 1e-12}
	const bits, macs = 8 << 20, 2 << 18
	for _, rules := range []Rules{AttAcc, JEDEC} {
		rate := 5200
		if rules == JEDEC {
			rate = 6400
		}
		for level, want := range map[Level]struct{ rows, reads, queries, moves float64 }{
			Bank:      {1e-9, 1e-12, 4 * 4 * 1110e-12, 110e-12},
			BankGroup: {1e-9, 11e-12, 8 * 2 * 1100e-12, 100e-12},
			Buffer:    {1e-9, 111e-12, 8 * 2 * 1000e-12, 0},
		} {
			spec := Spec{level, rules, rate, true, true}
			run, err := Measure(spec, StackLoad(Shape{HeadDim: 128, ElementBytes: 2}, 2048, 16), nil)
			if err != nil {
				t.Fatal(err)
			}
			did, each := run.Tally(spec), costs.Each(level)
			// Scores of 16 tokens of a way are 32 bytes, and so are the probabilities that come back. Sums are 32 bytes for each 16 dimensions, from each stack or from the unit
			// in the buffer die.
			moves := 2*2048.0/16 + 2*map[Level]float64{Bank: 16, BankGroup: 16, Buffer: 8}[level]
			got := did.Joules(each)
			hand := bits/8192*want.rows + bits*want.reads + macs*1e-12 + 256*want.queries + 256*moves*want.moves
			if math.Abs(got/hand-1) > 1e-12 {
				t.Errorf("%+v: %v J, by hand %v J: %+v", spec, got, hand, did)
			}
		}
	}
}

// TestPower: at bank groups and in the buffer die, AttAcc's power limit is below what a stack draws at peak read rate with as many row activations as
// tFAW allows. At the banks the draw is 5 to 30% above the limit, by AttAcc's own energies, and never above the unlimited draw.
func TestPower(t *testing.T) {
	watts := func(spec Spec, context int) float64 {
		part, err := spec.Part()
		if err != nil {
			t.Fatal(err)
		}
		run, err := Measure(spec, StackLoad(Shape{HeadDim: 128, ElementBytes: 2}, context, Channels), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, interleaved := costs.PlainWatts(part)
		return Channels * run.Tally(spec).Joules(costs.Each(spec.Level)) / (float64(run.Clocks) * part.TCK.Seconds()) / interleaved
	}
	for _, context := range []int{512, 2048} {
		for level, most := range map[Level]float64{Bank: 1.3, BankGroup: 1, Buffer: 1} {
			limited, free := watts(Spec{level, AttAcc, 5200, true, false}, context), watts(Spec{level, AttAcc, 5200, false, false}, context)
			if limited > most || level == Bank && limited < 1.05 || limited > free {
				t.Errorf("%s, %d tokens: %.3f times the power of reads with rows opened, %.3f without the limit", level, context, limited, free)
			}
			if jedec := watts(Spec{level, JEDEC, 6400, true, false}, context); jedec > 1 {
				t.Errorf("%s, %d tokens, jedec: %.3f times it", level, context, jedec)
			}
		}
	}
}

// TestPlainWatts: 665.8 GB/s at 3.48 pJ a bit, and rows of 0.9 nJ: one for each 32 columns of a pseudo-channel, or four in each 39 clocks.
func TestPlainWatts(t *testing.T) {
	part, err := Spec{Bank, AttAcc, 5200, true, false}.Part()
	if err != nil {
		t.Fatal(err)
	}
	plain, interleaved := costs.PlainWatts(part)
	bytes := 512 / 769e-12
	if want := 8*bytes*3.48e-12 + bytes/1024*0.9e-9; math.Abs(plain/want-1) > 1e-12 {
		t.Errorf("%v W, expected %v", plain, want)
	}
	if want := 8*bytes*3.48e-12 + 32*4*0.9e-9/(39*769e-12); math.Abs(interleaved/want-1) > 1e-12 {
		t.Errorf("%v W with rows opened, expected %v", interleaved, want)
	}
}
