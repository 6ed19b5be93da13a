package ranks

import (
	"strings"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// TestBoundsOfNarrowKeys: bounds of pages are FP16 without scales, in any format of keys and values.
func TestBoundsOfNarrowKeys(t *testing.T) {
	deep.Heavy(t)
	of := func(sets string) *Devices {
		return devicesOf(benchOf(t, append(strings.Fields(sets), "run.model=llama-3-8b", "policy.name=quest", "policy.quest.select_device=bank")...))
	}
	wide := of("").written
	for _, sets := range []string{"model.kv_bits=8", "model.kv_bits=4", "model.kv_format=fp8", "model.kv_bits=8 model.kv_scales=tensor"} {
		got := of(sets).written
		if got.KVBursts() != 8 || got.ScaleBursts(1, 30) != 0 || got.Write(1, 30) != wide.Write(1, 30) {
			t.Errorf("%s: %d bursts of two bounds, %d of scales, %d clocks for 30; want 8, 0 and %d", sets, got.KVBursts(), got.ScaleBursts(1, 30), got.Write(1, 30), wide.Write(1, 30))
		}
	}
}

// TestMergedVectorsByHand: lists of pages, and merged parts beyond 8 queries, add their bursts to the channels and their bytes to the
// links.
func TestMergedVectorsByHand(t *testing.T) {
	n := benchOf(t, "run.model=llama-3-8b", "pcie.gpus_per_uplink=4", "model.kv_bits=8", "pim.descriptor=192B")
	d := devicesOf(n)
	if d.descriptor != 3 { // bursts of 64 B
		t.Fatal(d.descriptor)
	}
	plain := vectors{}
	plain.take(8, 32)
	more := plain
	more.bursts, more.Down, more.parts, more.partsAll = 1000, 1<<20, 500, 1<<16
	a, b := d.transfersOf(3, &plain), d.transfersOf(3, &more)
	// tokens' scales follow their keys and values
	sent := 8 * (int64(4*d.transfers.QueryBursts()) + d.verified*(int64(d.transfers.KVBursts())+d.scales))
	if d.scales == 0 || a.Down.Data != units.Duration(sent+8*d.descriptor)*d.burst || b.Down.Data != a.Down.Data+1000*d.burst {
		t.Errorf("%d bursts on a channel take %v, 1,000 more %v", sent, a.Down.Data, b.Down.Data)
	}
	tail := d.Clock.Time(d.transfers.Stage(8 * d.descriptor))
	if a.Down.End != d.Clock.Time(d.transfers.Stage(sent))+tail || b.Down.End != d.Clock.Time(d.transfers.Stage(sent+1000))+tail {
		t.Errorf("channels are held %v and %v", a.Down.End, b.Down.End)
	}
	down, up := d.Attends.VectorsOf(32, 32)
	if a.Down.Last != max(flow.TransferTime(d.link, down), a.Down.End-tail)+tail || b.Down.Last != max(flow.TransferTime(d.link, down+1<<20), b.Down.End-tail)+tail {
		t.Errorf("links are held %v and %v", a.Down.Last, b.Down.Last)
	}
	// 4 query heads send 4 B of a maximum and a sum for each part of 65,536; 500 of them are on the fullest
	// channel
	if want := flow.TransferTime(d.link, up+1<<16*softmaxBytes*4); b.Up != want || a.Up == want {
		t.Errorf("outputs take %v, with sums %v, want %v", a.Up, b.Up, want)
	}
	if want := d.bursts(units.Bytes(8*d.sums+500*4*softmaxBytes)) - d.bursts(units.Bytes(8*d.sums)); b.UpBus-a.UpBus != units.Duration(want)*d.burst || want == 0 {
		t.Errorf("sums hold the channels for %v", b.UpBus-a.UpBus)
	}
}

// TestSumsOfParts: if heads are striped, maxima and sums of all parts come up with their outputs, 4 B for each of four query heads.
func TestSumsOfParts(t *testing.T) {
	for stripe, of := range map[string]units.Bytes{"channels": 16, "ranksets": 16, "none": 0} {
		d := devicesOf(benchOf(t, "run.model=llama-3-8b", "comm.stripe="+stripe))
		v := vectors{heads: 1, All: 1 << 16, fresh: 1, freshAll: 1 << 12}
		_, up := d.Attends.VectorsOf(v.All, v.freshAll)
		if got, want := d.transfersOf(3, &v).Up, flow.TransferTime(d.link, up+1<<16*of); got != want {
			t.Errorf("%s: outputs take %v, by hand %v", stripe, got, want)
		}
	}
}

// TestDuplexByHand: channels serve one direction at a time if the links, including padding on the channels, carry more both ways.
func TestDuplexByHand(t *testing.T) {
	d := devicesOf(benchOf(t, "run.model=llama-3-8b"))
	for _, c := range []struct {
		link, padding, channel units.Bandwidth
		want                   bool
	}{{10, 0, 10, false}, {10, 0.5, 10, true}, {10, 0.5, 15, false}, {10, 0.5, 14.9, true}, {10, 1, 20, false}} {
		d.link, d.padding, d.channel = c.link, c.padding, c.channel
		if got := d.HalfDuplex(); got != c.want {
			t.Errorf("links of %v (1 + %v) and channels of %v: %v", c.link, c.padding, c.channel, got)
		}
	}
}
