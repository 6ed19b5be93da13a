package controller

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/check"
	"github.com/l3sim/l3sim/input"
	"pgregory.net/rapid"
)

// drawECC draws where the part stores check bits.
func drawECC(t *rapid.T, spec *dram.Spec) {
	kinds := []string{dram.NoECC, dram.NoECC, dram.InlineECC, dram.InlineECC16}
	if spec.Chips() > 1 {
		kinds = append(kinds, dram.SideBandECC)
	}
	spec.ECC = rapid.SampledFrom(kinds).Draw(t, "ecc")
}

// checkedAlike requires, with in-line ECC, that the log reads the check bits of all bursts that it reads (or has written them and never
// reads them), and reads and writes those of all bursts that it writes.
func checkedAlike(t helper, spec *dram.Spec, records []check.Record) {
	covers, first := int32(spec.CheckCovers()), int32(spec.DataBursts())
	if covers == 0 {
		return
	}
	need, have := [2]map[dram.Address]bool{{}, {}}, [2]map[dram.Address]bool{{}, {}}
	for _, r := range records {
		write := 0
		switch {
		case r.Command.IsWrite():
			write = 1
		case !r.Command.IsRead():
			continue
		}
		if a := r.Address; a.Column >= first {
			have[write][a] = true
		} else {
			a.Column = first + a.Column/covers
			need[write][a], need[0][a] = true, true
		}
	}
	for write := range need {
		for a := range need[write] {
			if !have[write][a] {
				t.Fatal("no access to check bits", write, a)
			}
		}
		if len(have[write]) > len(need[write]) {
			t.Fatal("check bits that no data asks for", write)
		}
	}
}

// withECC returns the default set-up of one rank with a value of the key ecc.
func withECC(tb helper, ecc string) *Setup {
	s := setup(tb, "default")
	s.Ranks, s.Spec.ECC = 1, ecc
	return s
}

// TestECCLog compares commands and clocks with timing diagrams.
func TestECCLog(t *testing.T) {
	const group = nextGroup / 8 * 7 // a row has 112 bursts of data
	for _, c := range []struct {
		name, ecc string
		requests  []Request
		want      string
		longest   int64
	}{
		{"closed bank", dram.InlineECC, []Request{{}}, "2 ACT, 24 RD 0, 32 RD 112", 58},
		{"side-band", dram.SideBandECC, []Request{{}}, "2 ACT, 24 RD 0", 50},
		// The second read has the check bits of the first. The third is in another group of eight and needs its own; it is accepted at
		// clock 3.
		{"neighbours", dram.InlineECC, []Request{{}, {Address: 7 * nextColumn}, {Address: 8 * nextColumn}}, "2 ACT, 24 RD 0, 32 RD 112, 40 RD 7, 48 RD 8, 56 RD 113", 79},
		{"sixteen", dram.InlineECC16, []Request{{}, {Address: 15 * nextColumn}}, "2 ACT, 24 RD 0, 32 RD 120, 40 RD 15", 64},
		{"kept", dram.InlineECC, []Request{{}, {Clock: 200, Address: nextColumn}}, "2 ACT, 24 RD 0, 32 RD 112, 202 RD 1", 58},
		// Another row of the bank is accessed in between; unchanged check bits are not written.
		{"lost", dram.InlineECC, []Request{{}, {Clock: 200, Address: 4 * group * 4}, {Clock: 400, Address: nextColumn}},
			"2 ACT, 24 RD 0, 32 RD 112, 202 PRE, 224 ACT, 246 RD 0, 254 RD 112, 402 PRE, 424 ACT, 446 RD 1, 454 RD 112", 80},
		// CWL + BL/2 + tWTR_L from the write to the read of its check bits, then CL + BL/2 + 2 - CWL.
		{"write", dram.InlineECC, []Request{{Write: true}}, "2 ACT, 24 RD 112, 36 WR 0, 44 WR 112", 0},
		{"partial write", dram.SideBandECC, []Request{{Write: true, Partial: true}}, "2 ACT, 24 RD 0, 36 WR 0", 0},
		{"partial write without ECC", dram.NoECC, []Request{{Write: true, Partial: true}}, "2 ACT, 24 WR 0", 0},
	} {
		stats, records := replayLog(t, withECC(t, c.ecc), c.requests)
		var got []string
		for _, r := range records {
			text := recordText(r)
			if r.Command.IsColumn() {
				text += " " + string(rune('0'+r.Address.Column/100)) + string(rune('0'+r.Address.Column/10%10)) + string(rune('0'+r.Address.Column%10))
			}
			got = append(got, text)
		}
		text := strings.NewReplacer(" 00", " ", " 0", " ").Replace(strings.Join(got, ", "))
		if text != c.want || stats.Latency.Max() != c.longest {
			t.Errorf("%s: %s, longest read %d; want %s, %d", c.name, text, stats.Latency.Max(), c.want, c.longest)
		}
	}
}

// TestECCTraffic: a stream reads and writes one burst of check bits for every eight or sixteen of data; each random access has one.
func TestECCTraffic(t *testing.T) {
	const n = 112 * 120 / 8 // whole rows of both: 15 of 112 bursts, 14 of 120
	for _, c := range []struct {
		ecc               string
		row, checks, lone int64
	}{{dram.NoECC, 128, 0, 0}, {dram.SideBandECC, 128, 0, 0}, {dram.InlineECC, 112, 14, 1}, {dram.InlineECC16, 120, 8, 1}} {
		s := withECC(t, c.ecc)
		var stream, lone []Request
		for i := range uint64(n) {
			stream = append(stream, Request{Address: i * 64})
			lone = append(lone, Request{Address: i * uint64(c.row) * 64 * 16})
		}
		rows := int64(n) / c.row
		stats, _ := replayLog(t, s, stream)
		if got := stats.CheckReads; stats.CheckWrites != 0 || got < rows*c.checks || got > (rows+1)*c.checks {
			t.Errorf("%s: a stream reads %d bursts of check bits in %d rows, writes %d", c.ecc, got, rows, stats.CheckWrites)
		}
		if got, _ := replayLog(t, s, lone); got.CheckReads != n*c.lone {
			t.Errorf("%s: %d lone reads read %d bursts of check bits", c.ecc, n, got.CheckReads)
		}
		for i := range stream {
			stream[i].Write = true
		}
		stats, _ = replayLog(t, s, stream)
		if got := stats.CheckWrites; got != stats.CheckReads || got < rows*c.checks || got > (rows+1)*c.checks {
			t.Errorf("%s: a stream of writes reads %d bursts of check bits, writes %d", c.ecc, stats.CheckReads, got)
		}
	}
}

// TestECCCapacity: in-line check bits take an eighth or a sixteenth of the capacity, and no address is mapped to them.
func TestECCCapacity(t *testing.T) {
	for ecc, left := range map[string]uint64{dram.NoECC: 16, dram.SideBandECC: 16, dram.InlineECC: 14, dram.InlineECC16: 15} {
		s := withECC(t, ecc)
		for _, mapping := range []string{"rochrababgco", "corochrababg"} {
			s.Policy.Mapping = mapping
			m, err := s.Mapping()
			if err != nil || m.Capacity() != 8<<30/16*left {
				t.Fatalf("%s: %v, capacity %d", ecc, err, m.Capacity())
			}
			seen := map[dram.Address]bool{}
			for i := range uint64(2000) {
				var a dram.Address
				_, wrapped := m.Decode(m.Capacity()/2000/64*64*i+i*64, &a)
				if seen[a] || wrapped || int(a.Column) >= s.Spec.DataBursts() {
					t.Fatalf("%s, %s: %+v twice or among check bits", ecc, mapping, a)
				}
				seen[a] = true
			}
		}
	}
	s := withECC(t, dram.InlineECC)
	s.Policy.Mapping = "co=6-12 bg=13,14 ba=15,16 ro=17-32"
	var in *input.Error
	if err := s.Validate(); !errors.As(err, &in) || in.Key != "mapping" {
		t.Errorf("bits of a mapping with in-line ECC: %v", err)
	}
	hbm := &Setup{Spec: part(t, "hbm2-2000-8gb-4h"), Policy: s.Policy, Channels: 1, Ranks: 2}
	hbm.Spec.ECC = dram.SideBandECC
	if err := hbm.Validate(); !errors.As(err, &in) || in.Key != "ecc" {
		t.Errorf("side-band ECC of one chip: %v", err)
	}
}

// TestECCEnergy: chips for check bits draw as much as the others: they are one of nine (x8), two of 18 (x4), one of five (x16, and x8 on
// the 32 bits of DDR5).
func TestECCEnergy(t *testing.T) {
	for name, ratio := range map[string]float64{ddr43200: 9. / 8, "ddr4-3200-8gb-x4": 18. / 16, "ddr4-3200-8gb-x16": 5. / 4, "ddr5-4800-16gb-x8": 5. / 4, "ddr5-4800-16gb-x4": 9. / 8} {
		var joules [2]float64
		for i, ecc := range []string{dram.NoECC, dram.SideBandECC} {
			s := withECC(t, ecc)
			s.Spec = part(t, name)
			s.Spec.ECC = ecc
			stats, err := s.Replay(t.Context(), mixedRandom(500), nil)
			if err != nil {
				t.Fatal(err)
			}
			joules[i] = stats.Energy.TotalJoules()
		}
		if got := joules[1] / joules[0]; got < ratio*(1-1e-12) || got > ratio*(1+1e-12) {
			t.Errorf("%s: %v times the energy, want %v", name, got, ratio)
		}
	}
}

// TestECCDrain: check bits that are held in the controller are written back when no request is left, and not before.
func TestECCDrain(t *testing.T) {
	stats, records := replayLog(t, withECC(t, dram.InlineECC), []Request{{Write: true}, {Clock: 5000, Address: nextColumn, Write: true}})
	var got []string
	for _, r := range records {
		if r.Command == dram.WR {
			got = append(got, fmt.Sprint(r.Clock, " ", r.Address.Column))
		}
	}
	if want := "[36 0 5002 1 5010 112]"; stats.CheckWrites != 1 || fmt.Sprint(got) != want {
		t.Errorf("%d bursts of check bits written: %v, want %s", stats.CheckWrites, got, want)
	}
}

// TestCheckedReadsEnd: a read ends no earlier than its data, even if its check bits arrive first or are forwarded from a pending write.
// Queues are short, so that check bits are requested when the data are already on their way.
func TestCheckedReadsEnd(t *testing.T) {
	const row, bursts, latency = 16 * nextGroup / 8 * 7, 112, 22 + 4
	rapid.Check(t, func(t *rapid.T) {
		s := withECC(t, dram.InlineECC)
		s.Policy.ReadQueue, s.Policy.WriteBuffer = rapid.IntRange(1, 3).Draw(t, "read queue"), 16
		s.Policy.DrainHigh, s.Policy.DrainIdle = 16, 16 // writes wait
		var requests []Request
		for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, 2*bursts-1), 10, 60, rapid.ID[int]).Draw(t, "bursts") {
			requests = append(requests, Request{Address: uint64(i/bursts*row + i%bursts*nextColumn), Write: rapid.IntRange(0, 2).Draw(t, "write") == 0})
		}
		stats, records := replayLog(t, s, requests)
		var data []int64 // the end of each read's data
		for _, r := range records {
			if r.Command.IsRead() && r.Address.Column < bursts {
				data = append(data, r.Clock+latency)
			}
		}
		ends := slices.Clone(stats.ArrivalLatency.clocks) // all arrive at clock 0
		slices.Sort(ends)
		for i, end := range ends {
			if len(data) != len(ends) || end < data[i] {
				t.Fatalf("of %d reads number %d ends at %d, its data are there at %v", len(ends), i, end, data)
			}
		}
	})
}

// TestDataOfRequests: the reported GB/s are of the requests' bursts alone; the bus also carries check bits and the reads of partial writes.
func TestDataOfRequests(t *testing.T) {
	for _, c := range []struct {
		ecc                   string
		checks, reads, writes int64
		data                  int
	}{{dram.NoECC, 0, 0, 0, 35}, {dram.InlineECC, 3, 4, 2, 26}, {dram.InlineECC16, 1, 0, 0, 34}} {
		s := withECC(t, c.ecc)
		st := &Stats{EndClock: 1000, CheckReads: c.checks, CheckWrites: c.writes, ModifyReads: c.reads}
		st.commands[dram.RD], st.commands[dram.RDA], st.commands[dram.WR] = 20, 5, 10
		r := NewReport(s, "x", st, 0)
		if want := float64(c.data*64) / (1000 * s.Spec.TCK.Seconds()) / 1e9; math.Abs(r.GBPerS/want-1) > 1e-12 {
			t.Errorf("%s: %v GB/s, by hand %v", c.ecc, r.GBPerS, want)
		}
		if want := 35 * 4 / 1000.; math.Abs(r.BusUtilization/want-1) > 1e-12 {
			t.Errorf("%s: the bus is busy for %v of the time, by hand %v", c.ecc, r.BusUtilization, want)
		}
	}
}
