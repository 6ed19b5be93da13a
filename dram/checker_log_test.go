package dram

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestOwnLogs replays random traces under random policies: every request
// completes, the log obeys every rule, and the counts agree with the log.
func TestOwnLogs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := setup(t, rapid.SampledFrom(PolicyNames()).Draw(t, "policy"))
		spec, err := LookupSpec(rapid.SampledFrom(SpecNames()).Draw(t, "spec"))
		if err != nil {
			t.Fatal(err)
		}
		s.Spec = spec
		s.Policy.Page = rapid.SampledFrom([]string{"open", "closed"}).Draw(t, "page")
		s.Policy.StarvationClocks = rapid.SampledFrom([]int{200, 2000, 10_000}).Draw(t, "starvation")
		s.Policy.RefreshPostpone = rapid.IntRange(0, 8).Draw(t, "postpone")
		s.Policy.RefreshPullIn = rapid.IntRange(0, 8).Draw(t, "pull in")
		s.Policy.RefreshClose = rapid.SampledFrom([]string{"all", "each"}).Draw(t, "close")
		s.Policy.Mapping = rapid.SampledFrom([]string{"rochrababgco", "rorabgbachco", "chrarobabgco", "robabgracoch"}).Draw(t, "mapping")
		s.Ranks = rapid.IntRange(1, 4).Draw(t, "ranks")
		requests := drawTrace(t, 300)
		var b bytes.Buffer
		log := NewLogWriter(&b, LogHeader{Spec: spec, Ranks: s.Ranks})
		stats, err := s.Replay(t.Context(), requests, []*LogWriter{log})
		if err != nil {
			t.Fatal(err)
		}
		if err := log.Flush(); err != nil {
			t.Fatal(err)
		}
		_, records, err := readLog(&b)
		if err != nil {
			t.Fatal(err)
		}
		if found := checkRecords(spec, s.Ranks, false, records); len(found) > 0 {
			t.Fatalf("%+v", found[0])
		}
		var reads, writes int64
		for _, r := range requests {
			if r.Write {
				writes++
			} else {
				reads++
			}
		}
		if stats.Requests != int64(len(requests)) || int64(len(stats.Latency.clocks)) != reads {
			t.Fatalf("%d of %d requests, %d of %d reads", stats.Requests, len(requests), len(stats.Latency.clocks), reads)
		}
		if got := stats.Count(RD, RDA) + stats.MergedReads + stats.ForwardedReads; got != reads {
			t.Fatalf("%d reads issued, merged or forwarded, want %d", got, reads)
		}
		if got := stats.Count(WR, WRA) + stats.MergedWrites; got != writes {
			t.Fatalf("%d writes issued or merged, want %d", got, writes)
		}
		var logged [commands]int64
		for _, r := range records {
			logged[r.Command]++
		}
		if logged != stats.commands {
			t.Fatalf("log %v, counts %v", logged, stats.commands)
		}
	})
}

// TestMutatedOwnLog breaks a log of ours that has what DRAMsim3's have not:
// writes and reads over four ranks, with auto-precharge.
func TestMutatedOwnLog(t *testing.T) {
	var requests []Request
	for i := range uint64(4000) {
		requests = append(requests, Request{Address: i * 0x9E3779B97F4A7C15 % (1 << 35), Write: i%3 == 0})
	}
	s := setup(t, "default")
	var b strings.Builder
	log := NewLogWriter(&b, LogHeader{})
	if _, err := s.Replay(t.Context(), requests, []*LogWriter{log}); err != nil {
		t.Fatal(err)
	}
	if err := log.Flush(); err != nil {
		t.Fatal(err)
	}
	_, records, err := readLog(strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	checkMutations(t, s.Spec, s.Ranks, records)
}
