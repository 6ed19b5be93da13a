package controller

import (
	"slices"
	"testing"

	"github.com/l3sim/l3sim/dram"
	"pgregory.net/rapid"
)

// TestLatencies compares with the sorted list, for one channel and for two.
func TestLatencies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, 1<<rapid.IntRange(1, 40).Draw(t, "bits")), 1, 200).Draw(t, "latencies")
		var one, first, second Stats
		var sum int64
		for i, v := range values {
			one.Latency.add(v)
			sum += v
			if i%2 == 0 {
				first.Latency.add(v)
			} else {
				second.Latency.add(v)
			}
		}
		slices.Sort(values)
		first.add(&second)
		for _, s := range []*Stats{&one, &first} {
			l := &s.Latency
			if len(l.clocks) != len(values) || l.Max() != values[len(values)-1] || l.Mean() != float64(sum)/float64(len(values)) {
				t.Fatalf("count %d, max %d, mean %v of %v", len(l.clocks), l.Max(), l.Mean(), values)
			}
			for _, p := range []int{1, 50, 90, 99, 100} {
				if got, want := l.Percentile(float64(p)), values[(p*len(values)+99)/100-1]; got != want {
					t.Fatalf("p%d is %d, want %d of %v", p, got, want, values)
				}
			}
		}
	})
	var nothing Latencies
	if nothing.Mean() != 0 || nothing.Max() != 0 || nothing.Percentile(99) != 0 {
		t.Error("statistics over nothing must be 0")
	}
}

// TestRanksAndBanks: the counts of ranks and banks add up, and a turnaround, a rank switch, a hit and a conflict are counted where they
// happen.
func TestRanksAndBanks(t *testing.T) {
	s := setup(t, "default")
	s.Policy.DrainHigh, s.Policy.DrainLow = 1, 0
	stats, _ := replayLog(t, s, []Request{{}, {Address: nextColumn}, {Clock: 200, Address: nextRow}, {Clock: 400, Address: nextRank}, {Clock: 600, Address: nextRank + nextColumn, Write: true}})
	// Rank 0 is closed until its ACT at 2, and from the PRE at 202 for tRP; rank 1 until 402.
	wantRanks := []RankStats{{Reads: 3, Standby: dram.StandbyClocks{598, 24}, OpenBanks: 598},
		{Reads: 1, Writes: 1, Turnarounds: 1, Switches: 1, Standby: dram.StandbyClocks{220, 402}, OpenBanks: 220},
		{Standby: dram.StandbyClocks{0, 622}}, {Standby: dram.StandbyClocks{0, 622}}}
	if !slices.Equal(stats.Ranks, wantRanks) {
		t.Errorf("ranks %+v, want %+v", stats.Ranks, wantRanks)
	}
	// Each first access waits in its bank's queue for tRCD and one clock, the third one for tRP as well.
	if b := stats.Banks[0]; b.RowHits != 1 || b.Conflicts != 1 || b.QueueClocks != 23+30+1+22+22 {
		t.Errorf("bank 0: %+v", b)
	}
	if b := stats.Banks[16]; b.RowHits != 1 || b.Conflicts != 0 || len(stats.Banks) != 64 {
		t.Errorf("bank 0 of rank 1: %+v of %d banks", b, len(stats.Banks))
	}
	total, _ := replayLog(t, setup(t, "default"), mixedRandom(3000))
	var reads, writes, hits int64
	for _, r := range total.Ranks {
		reads, writes = reads+r.Reads, writes+r.Writes
	}
	for _, b := range total.Banks {
		hits += b.RowHits
	}
	if reads != total.Count(dram.RD) || writes != total.Count(dram.WR) || hits != total.RowHits {
		t.Errorf("%d reads, %d writes, %d hits by ranks and banks: %+v", reads, writes, hits, total)
	}
}

// TestArrivalLatency: a backlog increases the latency from arrival, not that from acceptance.
func TestArrivalLatency(t *testing.T) {
	stats, _ := replayLog(t, setup(t, "default"), randomReads(5000))
	if stats.ArrivalLatency.Max() < stats.EndClock-100 || stats.Latency.Max() > 5000 || stats.ArrivalLatency.Count() != 5000 {
		t.Errorf("end %d: from arrival at most %d, from acceptance %d", stats.EndClock, stats.ArrivalLatency.Max(), stats.Latency.Max())
	}
}

// TestWriteLatency: a lone write takes two stages, then tRCD + CWL + BL/2.
func TestWriteLatency(t *testing.T) {
	stats, _ := replayLog(t, setup(t, "default"), []Request{{Write: true}})
	if stats.WriteLatency.Count() != 1 || stats.WriteLatency.Max() != 2+22+16+4 {
		t.Errorf("%d writes, longest %d", stats.WriteLatency.Count(), stats.WriteLatency.Max())
	}
}

// TestLatenciesInClocks: a request that finds an idle memory is accepted at its own clock, however many steps a clock has.
func TestLatenciesInClocks(t *testing.T) {
	for name, ranks := range map[string]int{ddr43200: 1, "ddr5-4800-16gb-x8": 1, "lpddr5x-6400-16gb-x16": 1, "hbm3-6400-16gb-8h": 4} {
		s := setup(t, "default")
		s.Spec, s.Ranks = part(t, name), ranks
		var requests []Request
		for i := range int64(5) {
			requests = append(requests, Request{Clock: 1001 * i, Address: uint64(i) << 12})
		}
		stats, _ := replayLog(t, s, requests)
		if got := stats.Latency.clocks; len(got) != 5 || slices.Min(got) < 1 || !slices.Equal(got, stats.ArrivalLatency.clocks) {
			t.Errorf("%s: latencies of %v, from arrival of %v", name, got, stats.ArrivalLatency.clocks)
		}
	}
}

// TestHistogram: bins are powers of two and cover all values.
func TestHistogram(t *testing.T) {
	l := Latencies{clocks: []int64{1, 4, 5, 7, 8, 100}}
	if got, want := l.Histogram(), []Bin{{1, 1}, {2, 0}, {4, 3}, {8, 1}, {16, 0}, {32, 0}, {64, 1}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if nothing := (&Latencies{}).Histogram(); len(nothing) != 0 {
		t.Errorf("%v", nothing)
	}
}
