package controller

import (
	"testing"

	"github.com/l3sim/l3sim/dram"
	"pgregory.net/rapid"
)

// TestOwnLogs replays random traces under random policies: every request completes, the log satisfies every rule, and the counts agree with
// the log.
func TestOwnLogs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := setup(t, rapid.SampledFrom(PolicyNames()).Draw(t, "policy"))
		spec, err := dram.LookupSpec(rapid.SampledFrom(dram.SpecNames()).Draw(t, "spec"))
		if err != nil {
			t.Fatal(err)
		}
		s.Spec = spec
		s.Policy.Page = rapid.SampledFrom([]string{"open", "closed"}).Draw(t, "page")
		s.Policy.AgeBound = rapid.SampledFrom([]int{200, 2000, 10_000}).Draw(t, "age bound")
		table := spec.Rules()
		if len(table.Refreshes) > 1 && rapid.Bool().Draw(t, "refresh of banks") {
			s.Policy.Refresh = "bank"
			s.Policy.RefreshPostpone = rapid.IntRange(0, table.Postpone-1).Draw(t, "postpone")
		} else {
			s.Policy.RefreshPostpone = rapid.IntRange(0, table.Postpone).Draw(t, "postpone")
		}
		s.Policy.RefreshPullIn = rapid.IntRange(0, table.PullIn).Draw(t, "pull in")
		s.Policy.RefreshClose = rapid.SampledFrom([]string{"all", "each"}).Draw(t, "close")
		s.Policy.Mapping = rapid.SampledFrom([]string{"rochrababgco", "rorabgbachco", "chrarobabgco", "robabgracoch", "rochrababgcopc"}).Draw(t, "mapping")
		drawPower(t, s)
		drawECC(t, s.Spec)
		s.Ranks = table.PseudoChannels * rapid.IntRange(1, 4).Draw(t, "ranks")
		s.RequestBytes = rapid.SampledFrom([]int{0, OneBurst}).Draw(t, "bytes")
		requests := drawTrace(t, 300)
		drawSizes(t, s, requests)
		stats, records := replayLog(t, s, requests)
		if found := checkRecords(spec, s.Ranks, records); len(found) > 0 {
			t.Fatalf("%+v", found[0])
		}
		if s.Policy.Refresh == "bank" {
			if r := outOfRound(spec, s.Ranks, records); r != nil {
				t.Fatalf("%+v: another bank of the rank has had a refresh less", *r)
			}
		}
		var whole, reads, writes int64 // reads, and bursts of reads and writes
		for _, r := range requests {
			bursts := burstsOf(s, &r)
			if r.Write {
				writes += bursts
			} else {
				reads += bursts
				whole++
			}
		}
		if stats.Requests != int64(len(requests)) || int64(len(stats.Latency.clocks)) != whole {
			t.Fatalf("%d of %d requests, %d of %d reads", stats.Requests, len(requests), len(stats.Latency.clocks), whole)
		}
		if got := stats.Count(dram.RD, dram.RDA) - stats.CheckReads - stats.ModifyReads + stats.MergedReads + stats.ForwardedReads; got != reads {
			t.Fatalf("%d reads issued, merged or forwarded, want %d", got, reads)
		}
		if got := stats.Count(dram.WR, dram.WRA) - stats.CheckWrites + stats.MergedWrites; got != writes {
			t.Fatalf("%d writes issued or merged, want %d", got, writes)
		}
		checkedAlike(t, spec, records)
		var logged [dram.Commands]int64
		for _, r := range records {
			logged[r.Command]++
		}
		if logged != stats.commands {
			t.Fatalf("log %v, counts %v", logged, stats.commands)
		}
	})
}

// drawTrace draws a trace of a kind that is difficult for controllers.
func drawTrace(t *rapid.T, n int) []Request {
	requests := make([]Request, rapid.IntRange(1, n).Draw(t, "requests"))
	kind := rapid.SampledFrom([]string{"random", "hot rows", "repeated", "stream", "sparse"}).Draw(t, "kind")
	writes := rapid.IntRange(0, 4).Draw(t, "writes")
	clock := int64(0)
	for i := range requests {
		address := rapid.Uint64Range(0, 1<<35).Draw(t, "address")
		switch kind {
		case "hot rows":
			address &= 0x1ff3ffff
		case "repeated":
			address &= 0x61fc0
		case "stream":
			address = uint64(i) * 64
		case "sparse":
			clock += rapid.Int64Range(0, 30_000).Draw(t, "gap")
		}
		requests[i] = Request{Clock: clock, Address: address, Write: rapid.IntRange(0, 3).Draw(t, "write") < writes, Partial: rapid.IntRange(0, 3).Draw(t, "partial") == 0}
	}
	return requests
}
