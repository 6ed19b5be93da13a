package ranks

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/energy"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
	"github.com/l3sim/l3sim/system/flow"
	"pgregory.net/rapid"
)

// TestPaceByHand: one head of 512 tokens of the default model at 10 W a DIMM, from the part's currents and the constants of
// [energy]: 256 column accesses of all banks, a row of keys and one of values in 16 banks, and, for the append, the newest
// key's bank and its value's four.
func TestPaceByHand(t *testing.T) {
	b := benchOf(t, "pim.power_limit=10")
	table, s := b.kernels.Table, &b.cfg.DRAM.Spec
	a := table.Activity(512)
	if a.UnitReads != 256*16 || a.Activates != 2*16+1+4 {
		t.Fatalf("%+v", a)
	}
	const tCK, chips, vdd = 625e-12, 8, 1.2
	i := &s.Power
	mA := vdd * 1e-3 * chips // watts of a rank's chips for a milliampere of each
	row := mA * tCK * (i.IDD0*float64(s.TRAS+s.TRP) - i.IDD3N*float64(s.TRAS) - i.IDD2N*float64(s.TRP))
	read, write := mA*tCK*4*(i.IDD4R-i.IDD3N), mA*tCK*4*(i.IDD4W-i.IDD3N)
	pins := 64 * 8 * 2.7e-12
	joules := a.Activates*row + 4096*read*0.54 + a.Reads*(read+pins) + a.Writes*(write+pins) + a.Open*tCK*mA*(i.IDD3N-i.IDD2N) +
		4096*8*tCK*chips*1.129e-3 + a.Clocks*tCK*b.units()
	dies := 4.0 // at each position of 32 GiB
	static := dies * (mA*i.IDD2N + mA*(i.IDD5B-i.IDD2N)*float64(s.TRFC)/float64(s.TREFI) + chips*7.5e-3)
	share := (10-1.5)/2 - static
	// The refreshes in between lengthen a clock of work beyond tCK.
	want := joules / share / tCK * (1 - float64(s.TRFC)/float64(s.TREFI))
	for what, got := range map[string]int64{"alone": table.Alone(512), "in sequence": table.InSequence(512), "read out": b.kernels.Sequence.At(512)} {
		if math.Abs(float64(got)-want) > 1+1e-6*want {
			t.Errorf("%s: %d clocks, by hand %.1f", what, got, want)
		}
	}
	if table.Drain(512) != 0 {
		t.Error("a drain hides behind what waits for power")
	}
	if unlimited := benchOf(t).kernels.Table.InSequence(512); float64(unlimited) > 0.5*want || float64(unlimited) < 0.3*want {
		t.Errorf("%d clocks without a limit", unlimited)
	}
}

// units returns the watts of the units on the buffer chip: adders and softmax.
func (b *bench) units() float64 {
	e := b.cfg.Energy.At(energy.Mid)
	return e.AdderUnit + e.SoftmaxUnit
}

// TestPaceKeepsTheLimit: in every look-up a head takes the longer of its commands' clocks and its joules at the limit; less power is
// never faster; a limit above a DIMM's draw changes nothing; a head has the same joules at any limit.
func TestPaceKeepsTheLimit(t *testing.T) {
	deep.Heavy(t)
	for _, sets := range [][]string{nil, {"pim.processing_unit=rank"}, {"dram.preset=ddr5-4800-16gb-x8", "node.channels=16"}, {"run.model=llama-3-8b", "pim.macs_per_read=4"}, {"comm.stripe=channels"}}[:deep.Of(2, 5, 5)] {
		free := benchOf(t, sets...)
		d := AttentionDraw(free.cfg, &free.cfg.PIM, energy.Mid)
		static := float64(DIMMRanks(free.cfg))*d.Idle() + free.cfg.Energy.At(energy.Mid).DIMMBuffer
		var lower []*bench // by falling limits
		for _, over := range []float64{1000, 4, 0.5} {
			lower = append(lower, benchOf(t, append(sets, fmt.Sprintf("pim.power_limit=%v", static+over))...))
		}
		each := d.OfEach()
		rapid.Check(t, func(t *rapid.T) {
			tokens := rapid.IntRange(1, 20_000).Draw(t, "tokens")
			rows := rapid.IntRange(1, 60).Draw(t, "rows")
			last := rapid.IntRange(1, free.kernels.Table.RowTokens()).Draw(t, "last")
			for what, of := range map[string]func(k *Kernels) int64{
				"alone": func(k *Kernels) int64 { return k.Table.Alone(tokens) }, "in sequence": func(k *Kernels) int64 { return k.Sequence.At(tokens) },
				"stored": func(k *Kernels) int64 { return k.Stored.At(tokens) }, "attention": func(k *Kernels) int64 { return k.Table.Attention(tokens) },
				"list": func(k *Kernels) int64 { return k.Table.ListInSequence(tokens, rows, last) }, "list alone": func(k *Kernels) int64 { return k.Table.ListAlone(tokens, rows) },
			} {
				commands := of(free.kernels)
				before := commands
				for i, b := range lower {
					got := of(b.kernels)
					if got < before || i == 0 && got != commands {
						t.Fatalf("%v, %s: %d clocks at limit %d, %d before, %d without one", sets, what, got, i, before, commands)
					}
					before = got
				}
			}
			a := free.kernels.Table.Activity(tokens)
			joules := dot(&a, &each)
			s := &free.cfg.DRAM.Spec
			for _, b := range lower {
				stored := b.kernels.Stored.Table.Activity(tokens)
				if at := dot(&stored, &each) / b.kernels.Table.Pace.Clock; float64(b.kernels.Stored.At(tokens)) < at-1 {
					t.Fatalf("%d tokens, all stored: %d clocks, by power %v", tokens, b.kernels.Stored.At(tokens), at)
				}
				if b.kernels.Table.Activity(tokens) != a {
					t.Fatal("another activity")
				}
				wall := float64(b.kernels.Sequence.At(tokens)) * s.TCK.Seconds() / (1 - float64(s.TRFC)/float64(s.TREFI))
				ranks := float64(DIMMRanks(b.cfg))
				if draw := float64(ranks*(joules/wall)) + static; draw > b.cfg.PIM.PowerLimit*(1+1e-9) {
					t.Fatalf("%d tokens: a DIMM draws %v W of %v", tokens, draw, b.cfg.PIM.PowerLimit)
				} else if b.kernels.Sequence.At(tokens) > free.kernels.Sequence.At(tokens)+1 && draw < b.cfg.PIM.PowerLimit*(1-1e-2) && wall > 1e-6 {
					t.Fatalf("%d tokens wait, and a DIMM draws %v W of %v", tokens, draw, b.cfg.PIM.PowerLimit)
				}
			}
		})
	}
}

// dot returns the joules of an activity.
func dot(a, each *machine.Activity) float64 {
	x, y, sum := reflect.ValueOf(*a), reflect.ValueOf(*each), 0.0
	for i := range x.NumField() {
		sum += float64(x.Field(i).Float() * y.Field(i).Float())
	}
	return sum
}

// TestPaceOfBounds: scoring pages' bounds keeps to the limit, too.
func TestPaceOfBounds(t *testing.T) {
	quest := []string{"policy.name=quest", "policy.quest.select_device=bank", "policy.quest.top_k_latency=0"}
	free, slow := benchOf(t, quest...).kernels, benchOf(t, append(quest, "pim.power_limit=9")...).kernels
	a := free.bounds.Activity(5000)
	want := int64(math.Ceil(dot(&a, &slow.Table.Pace.Each) / slow.Table.Pace.Clock))
	if got := slow.bounds.Select(5000); got < want-1 || got > want+1 || got <= free.bounds.Select(5000) {
		t.Errorf("%d clocks, want %d; %d without a limit", got, want, free.bounds.Select(5000))
	}
	if slow.bounds.Select(0) != 0 || slow.Table.Alone(0) != 0 || slow.Table.InSequence(0) != 0 || slow.Table.ListInSequence(0, 0, 0) != 0 {
		t.Error("nothing takes time")
	}
}

// TestFurtherRowsCostPower: further rows of a list cost their activations under the limit, and the clocks of switching, during most of which
// rows are open.
func TestFurtherRowsCostPower(t *testing.T) {
	free, b := benchOf(t).kernels.Table, benchOf(t, "pim.power_limit=9")
	table, d := b.kernels.Table, AttentionDraw(b.cfg, &b.cfg.PIM, energy.Mid)
	each, clocks := d.OfEach(), float64(free.ListAlone(4096, 8+10)-free.Alone(4096))
	least := (10*2*16*each.Activates + clocks*each.Clocks) / table.Pace.Clock
	most := least + clocks*each.Open/table.Pace.Clock
	for _, added := range []int64{table.ListAlone(4096, 8+10) - table.Alone(4096), table.ListInSequence(4096, 8+10, 512) - table.InSequence(4096)} {
		if n := float64(added); n < least+(most-least)/2 || n > most+2 {
			t.Errorf("ten rows more take %d clocks, by their activations and clocks %.1f to %.1f", added, least, most)
		}
	}
}

// TestInfeasibleLimit: standby, refresh and buffers alone exceed the limit.
func TestInfeasibleLimit(t *testing.T) {
	for _, c := range []struct {
		sets []string
		bad  string
	}{
		{[]string{"pim.power_limit=5.5"}, "pim.power_limit = 5.5: expected at least "}, {[]string{"pim.power_limit=5.5", "node.memory_capacity=512GiB"}, ""},
		{[]string{"pim.power_limit=3", "energy.ranks_per_dimm=4", "node.memory_capacity=512GiB"}, "a DIMM of 4 ranks draws"},
	} {
		cfg, err := benches.Load(configs.Options{Sets: c.sets})
		if err != nil {
			t.Fatal(err)
		}
		_, err = KernelsOf(&flow.Hardware{Config: cfg, KV: flow.Place{InDIMM: true}, GPUShare: 1})
		if c.bad == "" && err != nil || c.bad != "" && (!errors.As(err, new(*input.Error)) || !strings.Contains(err.Error(), c.bad)) {
			t.Errorf("%v: %v", c.sets, err)
		}
		if c.bad != "" { // a tenth of a watt is left for attention, rounded up to hundredths
			text := err.Error()
			var least, static float64
			var ranks int
			if _, err := fmt.Sscanf(text[strings.Index(text, "expected "):], "expected at least %f W, or 0 for no limit: a DIMM of %d ranks draws %f W", &least, &ranks, &static); err != nil || least-static < 0.094 || least-static > 0.116 {
				t.Errorf("at least %v W where %v W are drawn, %v", least, static, err)
			}
		}
		if _, table := HeadTable(cfg, &cfg.PIM, pim.HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16}); (table == nil) != (c.bad == "") {
			t.Errorf("%v: %v", c.sets, table)
		}
	}
}
