package ranks

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/energy"
	"github.com/l3sim/l3sim/pim/machine"
)

// TestDrawByHand: the power of a rank of eight DDR4 chips, from the part's currents at 1.2 V.
func TestDrawByHand(t *testing.T) {
	s, err := dram.LookupSpec("ddr4-3200-8gb-x8")
	if err != nil {
		t.Fatal(err)
	}
	e := energy.Point{DRAMCurrents: 0.5, DRAMIO: 3e-12, DRAMVPP: 7e-3, PIMRead: 0.25, BankUnit: 2e-3, AdderUnit: 0.01, SoftmaxUnit: 0.02}
	d := NewDraw(s, &e)
	const tCK = 625e-12
	i, w := &s.Power, 0.5*8*1.2e-3 // watts of the rank for a milliampere of each chip
	one := s.StandbyJoules(dram.ActiveStandby, s.BusSteps(1<<20), s.BusSteps(1<<20)) * 0.5 / (1 << 20 * tCK)
	act := w * tCK * (i.IDD0*float64(s.TRAS+s.TRP) - i.IDD3N*float64(s.TRAS) - i.IDD2N*float64(s.TRP))
	read, write, pins := w*tCK*4*(i.IDD4R-i.IDD3N), w*tCK*4*(i.IDD4W-i.IDD3N), 64*8*3e-12
	closed, refresh := w*i.IDD2N, w*(i.IDD5B-i.IDD2N)*float64(s.TRFC)/float64(s.TREFI)
	for what, x := range map[string][2]float64{
		"ACT": {d.activate, act}, "RD": {d.read, read}, "WR": {d.write, write}, "pins": {d.io, pins}, "closed": {d.Closed, closed}, "refresh": {d.Refresh, refresh},
		"open banks": {d.opensAll, w * (i.IDD3N - i.IDD2N)}, "an open bank": {d.opens, one - closed}, "VPP": {d.VPP, 8 * 7e-3}, "idle": {d.Idle(), closed + refresh + 8*7e-3}, "bytes": {d.Rate, 25.6e9},
	} {
		if math.Abs(x[0]/x[1]-1) > 1e-6 {
			t.Errorf("%s: %v, by hand %v", what, x[0], x[1])
		}
	}
	compare := func(what string, got, want Joules) {
		t.Helper()
		sum := 0.0
		for k := range got {
			if sum += want[k]; math.Abs(got[k]-want[k]) > 1e-6*want[k] {
				t.Errorf("%s: part %d takes %v J, by hand %v", what, k, got[k], want[k])
			}
		}
		if math.Abs(got.Total()-sum) > 1e-6*sum {
			t.Errorf("%s: %v J in all, by hand %v", what, got.Total(), sum)
		}
	}
	// 1 MiB read twice and written three times: 128 rows of 8 KiB and 16,384 bursts of four clocks each time.
	var want Joules
	want[DrawActivate], want[DrawRead], want[DrawWrite], want[DrawIO] = 5*128*act, 2*16_384*read, 3*16_384*write, 5*16_384*pins
	want[DrawOpen] = 5 * 16_384 * 4 * tCK * d.opens
	compare("a stream", d.Stream(1<<20, 2, 3), want)
	a := machine.Activity{Activates: 2, UnitReads: 3, Reads: 5, Writes: 7, Open: 11, Clocks: 13}
	want = Joules{DrawActivate: 2 * act, DrawUnitRead: 3 * read * 0.25, DrawRead: 5 * read, DrawWrite: 7 * write, DrawIO: 12 * pins, DrawOpen: 11 * tCK * w * (i.IDD3N - i.IDD2N),
		DrawBankUnits: 3 * float64(s.TCCDL) * tCK * 8 * 2e-3, DrawRankUnits: 13 * tCK * 0.03}
	compare("attention", d.Attention(&a), want)
	each := d.OfEach()
	whole := d.Attention(&a)
	if got := 2*each.Activates + 3*each.UnitReads + 5*each.Reads + 7*each.Writes + 11*each.Open + 13*each.Clocks; math.Abs(got/whole.Total()-1) > 1e-9 {
		t.Errorf("of each %v J, together %v", got, whole.Total())
	}
	d.RankLevel = true // multipliers on the buffer chip work while bursts arrive
	want[DrawBankUnits] = 5 * 4 * tCK * 8 * 2e-3
	compare("attention on the buffer chip", d.Attention(&a), want)
}

// TestPinsOfECC: pins of the chips for check bits draw like all others.
func TestPinsOfECC(t *testing.T) {
	for _, c := range []struct {
		part string
		more float64 // share of the pins
	}{{"ddr4-3200-8gb-x8", 1. / 8}, {"ddr5-4800-16gb-x8", 1. / 4}} {
		s, err := dram.LookupSpec(c.part)
		if err != nil {
			t.Fatal(err)
		}
		e := energy.Point{DRAMIO: 3e-12}
		plain := NewDraw(s, &e)
		s.ECC = dram.SideBandECC
		if got, want := NewDraw(s, &e).io, 8*64*3e-12*(1+c.more); math.Abs(plain.io/(8*64*3e-12)-1) > 1e-9 || math.Abs(got/want-1) > 1e-9 {
			t.Errorf("%s: %v J a burst, %v with check bits, by hand %v", c.part, plain.io, got, want)
		}
	}
}
