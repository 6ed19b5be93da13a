package tables

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/check"
	"github.com/l3sim/l3sim/dram/controller"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
)

// hostLog runs requests on one rank under the host's view of its timing and
// returns the commands.
func hostLog(t *testing.T, d *dram.Spec, requests []controller.Request) ([]check.Record, *controller.Stats) {
	t.Helper()
	policy, err := controller.LookupPolicy("default")
	if err != nil {
		t.Fatal(err)
	}
	setup := controller.Setup{Spec: d, Policy: policy, Channels: 1, Ranks: 1}
	var text bytes.Buffer
	log := check.NewLogWriter(&text, check.LogHeader{})
	stats, err := setup.Replay(context.Background(), requests, []dram.Observe{log.Write})
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Flush(); err != nil {
		t.Fatal(err)
	}
	r, err := check.NewLogReader("log", &text)
	if err != nil {
		t.Fatal(err)
	}
	var records []check.Record
	for {
		rec, err := r.Next()
		if err == io.EOF {
			return records, stats
		}
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, rec)
	}
}

// violations returns how many rules of d the records break.
func violations(d *dram.Spec, records []check.Record) []check.Violation {
	c := check.NewChecker(d, 1, false)
	for _, r := range records {
		c.Check(r)
	}
	return c.Violations()
}

// writes and reads of random rows, and a stream of writes.
func transferRequests(n int, share float64) []controller.Request {
	rng := rand.New(rand.NewPCG(1, 2))
	var rs []controller.Request
	for i := range n {
		address := uint64(i) * 64
		if i%3 == 0 {
			address = rng.Uint64N(1<<26) * 64
		}
		rs = append(rs, controller.Request{Clock: int64(i), Address: address, Write: rng.Float64() < share})
	}
	return rs
}

// The host's schedule is legal by the advertised numbers and, at the same clocks,
// by the device's real ones: the exchange takes n clocks on the way, and the
// data arrives n clocks earlier on the host's side.
func TestSpoofedTimingIsLegalOnBothSides(t *testing.T) {
	deep.Heavy(t)
	for _, c := range []struct {
		part string
		n    int
	}{{"ddr4-3200-8gb-x8", 1}, {"ddr4-3200-8gb-x4", 2}} {
		d, err := dram.LookupSpec(c.part)
		if err != nil {
			t.Fatal(err)
		}
		x, err := pim.NewExchange(16, d)
		if err != nil {
			t.Fatal(err)
		}
		if x.Delay() != c.n {
			t.Fatalf("%s: the exchange delays by %d clocks, want %d", c.part, x.Delay(), c.n)
		}
		for _, readBack := range []bool{false, true} {
			advertised := AdvertisedTiming(d, c.n, readBack)
			records, _ := hostLog(t, advertised, transferRequests(4000, 0.7))
			if v := violations(advertised, records); len(v) > 0 {
				t.Errorf("%s: the host breaks the advertised timing: %+v", c.part, v[0])
			}
			if v := violations(d, records); len(v) > 0 {
				t.Errorf("%s: the host's schedule breaks the real timing: %+v", c.part, v[0])
			}
		}
		// Without the longer write recovery the same trick would hurt the chips.
		careless := *d
		careless.CWL -= c.n
		records, _ := hostLog(t, &careless, transferRequests(4000, 0.7))
		if v := violations(d, records); len(v) == 0 {
			t.Errorf("%s: an earlier CWL alone is legal for the chips: the test sees nothing", c.part)
		}
	}
}

// Streaming writes issue at the very clocks at which they would without
// re-layout: the bus loses no cycle.
func TestRelayoutLosesNoCycle(t *testing.T) {
	d := parts.DDR4(t)
	requests := transferRequests(4000, 1.1)
	plain, before := hostLog(t, d, requests)
	spoofed, after := hostLog(t, AdvertisedTiming(d, 1, false), requests)
	if len(plain) != len(spoofed) {
		t.Fatalf("%d commands became %d", len(plain), len(spoofed))
	}
	for i := range plain {
		if plain[i] != spoofed[i] {
			t.Fatalf("command %d: %+v became %+v", i, plain[i], spoofed[i])
		}
	}
	if after.EndClock != before.EndClock-1 {
		t.Errorf("the last beat on the host's side comes at %d, want %d: one clock before it reaches the chips", after.EndClock, before.EndClock-1)
	}
}

// Data that is read back passes the unit too: the host expects it later.
func TestAdvertisedReadLatency(t *testing.T) {
	d := parts.DDR4(t)
	for n := range 3 {
		if without, with := AdvertisedTiming(d, n, false).CL, AdvertisedTiming(d, n, true).CL; without != d.CL || with != d.CL+n {
			t.Errorf("n = %d: CL %d, with read-back %d, want %d, %d", n, without, with, d.CL, d.CL+n)
		}
	}
}

// AdvertisedTiming returns the timing that the DIMM's SPD declares so that the
// re-layout unit may delay data by n clocks (L3, section 4.1, "spoofed timing
// constraints"; n is Exchange.Delay). The host sends write data n clocks early,
// so that it reaches the chips when they expect it, and counts what follows the end of
// write data from n clocks later: CWL - n, tWR + n, tWTR_S + n, tWTR_L + n. Every
// distance between commands that starts at a write stays what it was.
//
// With readBack, data that is read also passes the unit, as when a KV cache is
// swapped out: CL + n. Only then does the bus's turnaround from reads to writes
// grow, by 2n; otherwise by n.
//
// A CWL of 15 is none of JESD79-4's: a modelling assumption of the paper.
func AdvertisedTiming(d *dram.Spec, n int, readBack bool) *dram.Spec {
	a := *d
	a.CWL -= n
	a.TWR += n
	a.TWTRS += n
	a.TWTRL += n
	if readBack {
		a.CL += n
	}
	return &a
}
