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

// TestRanksAndBanks: what ranks and banks report adds up, and a turn, a switch, a hit and a conflict are
// counted where they happen.
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
	// Each first access waits in its bank's queue for tRCD and a clock, the third for tRP besides.
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
