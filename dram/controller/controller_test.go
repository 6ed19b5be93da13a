package controller

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/check"
	"github.com/l3sim/l3sim/dram/controller/mapping"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/deep"
)

// replayLog replays requests and returns the statistics and the command log. The log's header names no part, since a test may have changed
// its part.
func replayLog(tb helper, s *Setup, requests []Request) (*Stats, []check.Record) {
	tb.Helper()
	var b bytes.Buffer
	log := check.NewLogWriter(&b, check.LogHeader{})
	stats, err := s.Replay(context.Background(), requests, []dram.Observe{log.Write})
	if err != nil {
		tb.Fatal(err)
	}
	if err := log.Flush(); err != nil {
		tb.Fatal(err)
	}
	records, err := readLog(&b)
	if err != nil {
		tb.Fatal(err)
	}
	return stats, records
}

// Distances of byte addresses under rochrababgco with four ranks.
const (
	nextColumn = 64
	nextGroup  = 1 << 13
	nextBank   = 1 << 15
	nextRank   = 1 << 17
	nextRow    = 1 << 19
)

// TestSingleAccesses compares commands and clocks with timing diagrams.
func TestSingleAccesses(t *testing.T) {
	for _, c := range []struct {
		name     string
		requests []Request
		want     string // "clock COMMAND" for each command
		end      int64
		latency  float64
	}{
		{"closed bank", []Request{{}}, "2 ACT, 24 RD", 24 + 22 + 4, 50},
		{"row hit", []Request{{}, {Address: nextColumn}}, "2 ACT, 24 RD, 32 RD", 58, (50 + 57) / 2.},
		{"other bank group", []Request{{}, {Address: nextGroup}}, "2 ACT, 6 ACT, 24 RD, 28 RD", 54, (50 + 53) / 2.},
		{"other rank", []Request{{}, {Address: nextRank}}, "2 ACT, 3 ACT, 24 RD, 29 RD", 55, (50 + 54) / 2.},
		// The PRE waits for tRAS after the ACT at 2, not for tRTP after the RD at 24.
		{"row conflict", []Request{{}, {Address: nextRow}}, "2 ACT, 24 RD, 54 PRE, 76 ACT, 98 RD", 124, (50 + 123) / 2.},
		{"write", []Request{{Write: true}}, "2 ACT, 24 WR", 24 + 16 + 4, 0},
		// The read waits until its bank's write has drained: 24 + CWL + BL/2 + tWTR_L.
		{"write, then read", []Request{{Write: true}, {Clock: 30, Address: nextColumn}}, "2 ACT, 24 WR, 56 RD", 82, 52},
		// CL + BL/2 + 2 - CWL.
		{"read, then write", []Request{{}, {Clock: 1, Address: nextColumn, Write: true}}, "2 ACT, 24 RD, 36 WR", 56, 50},
	} {
		stats, records := replayLog(t, setup(t, "default"), c.requests)
		var got []string
		for _, r := range records {
			got = append(got, strings.Fields(recordText(r))...)
		}
		if s := strings.Join(got, " "); s != strings.ReplaceAll(c.want, ",", "") {
			t.Errorf("%s: %s, want %s", c.name, s, c.want)
		}
		if stats.EndClock != c.end || stats.Latency.Mean() != c.latency {
			t.Errorf("%s: end %d, latency %v, want %d, %v", c.name, stats.EndClock, stats.Latency.Mean(), c.end, c.latency)
		}
	}
}

// recordText is "clock COMMAND".
func recordText(r check.Record) string {
	var b bytes.Buffer
	w := check.NewLogWriter(&b, check.LogHeader{})
	w.Write(r.Clock, r.Command, r.Address)
	_ = w.Flush()
	f := strings.Split(strings.Split(b.String(), "\n")[1], ",")
	return f[0] + " " + f[1]
}

// TestMergingAndForwarding: a burst that several requests want is transferred once.
func TestMergingAndForwarding(t *testing.T) {
	for _, c := range []struct {
		name                      string
		requests                  []Request
		rd, wr                    int64
		mergedReads, mergedWrites int64
		forwarded                 int64
	}{
		{"reads", []Request{{}, {}, {}}, 1, 0, 2, 0, 0},
		{"writes", []Request{{Write: true}, {Write: true}}, 0, 1, 0, 1, 0},
		{"read after write", []Request{{Write: true}, {}}, 0, 1, 0, 0, 1},
		{"write after read", []Request{{}, {Write: true}}, 1, 1, 0, 0, 0},
		{"read, write, read", []Request{{}, {Write: true}, {}}, 1, 1, 0, 0, 1},
		{"not the same burst", []Request{{}, {Address: nextColumn}, {Address: nextRow}, {Address: nextRank}}, 4, 0, 0, 0, 0},
		{"too late to merge", []Request{{}, {Clock: 1000}}, 2, 0, 0, 0, 0},
	} {
		s, records := replayLog(t, setup(t, "default"), c.requests)
		if s.Count(dram.RD) != c.rd || s.Count(dram.WR) != c.wr || s.MergedReads != c.mergedReads || s.MergedWrites != c.mergedWrites || s.ForwardedReads != c.forwarded {
			t.Errorf("%s: %+v", c.name, s)
		}
		if c.name == "read after write" && (len(s.Latency.clocks) != 1 || s.Latency.Mean() != 1) {
			t.Errorf("%s: the read takes %v clocks, want 1", c.name, s.Latency.Mean())
		}
		if c.name == "write after read" && slices.IndexFunc(records, func(r check.Record) bool { return r.Command == dram.RD }) >
			slices.IndexFunc(records, func(r check.Record) bool { return r.Command == dram.WR }) {
			t.Errorf("%s: the write goes first: %v", c.name, records)
		}
	}
}

// TestClosedPage: the last access to a row precharges it.
func TestClosedPage(t *testing.T) {
	s := setup(t, "default")
	s.Policy.Page = "closed"
	requests := []Request{{}, {Address: nextColumn}, {Clock: 500, Address: nextRow, Write: true}}
	stats, records := replayLog(t, s, requests)
	if stats.Count(dram.RD) != 1 || stats.Count(dram.RDA) != 1 || stats.Count(dram.WRA) != 1 || stats.Count(dram.PRE, dram.PREA) != 0 || stats.Count(dram.ACT) != 2 {
		t.Errorf("%v", records)
	}
}

// TestAgeBoundOfHits: a stream of row hits delays a request for another row of the bank at most as long as the policy allows.
func TestAgeBoundOfHits(t *testing.T) {
	s := setup(t, "default")
	s.Policy.RowHitLimit = 1 << 30
	s.Policy.AgeBound = 1000
	var requests []Request
	for i := range uint64(3000) {
		requests = append(requests, Request{Clock: int64(8 * i), Address: i % 128 * nextColumn})
		if i == 20 {
			requests = append(requests, Request{Clock: int64(8 * i), Address: 7 * nextRow})
		}
	}
	stats, _ := replayLog(t, s, requests)
	// After the bound come, at worst, a REF of the rank, then PRE, ACT and RD.
	if limit := int64(1000 + 560 + 74 + 22 + 26 + 100); stats.Latency.Max() > limit {
		t.Errorf("a read waits %d clocks, bound %d", stats.Latency.Max(), limit)
	}
	s.Policy.AgeBound = 1 << 30
	if stats, _ := replayLog(t, s, requests); stats.Latency.Max() < 3000 {
		t.Errorf("without the bound the longest read takes %d clocks: the test shows nothing", stats.Latency.Max())
	}
}

// TestWritesDrain: all writes are done by the end, and they do not starve reads.
func TestWritesDrain(t *testing.T) {
	for _, policy := range PolicyNames() {
		for n := 1; n < 70; n += 7 {
			var requests []Request
			for i := range n {
				requests = append(requests, Request{Address: uint64(i) * nextColumn, Write: true})
			}
			if s, _ := replayLog(t, setup(t, policy), requests); s.Count(dram.WR) != int64(n) {
				t.Errorf("%s: %d of %d writes", policy, s.Count(dram.WR), n)
			}
		}
	}
}

// TestDrainIdle: without commands in the queues, writes drain once more than the policy's limit wait.
func TestDrainIdle(t *testing.T) {
	s := setup(t, "default")
	s.Policy.DrainIdle = 3
	for n := 1; n <= 5; n++ {
		requests := []Request{{Clock: 5000}} // keeps the trace from ending
		for i := range n {
			requests = append(requests, Request{Address: uint64(i) * nextColumn, Write: true})
		}
		slices.SortStableFunc(requests, func(a, b Request) int { return int(a.Clock - b.Clock) })
		_, records := replayLog(t, s, requests)
		early := slices.ContainsFunc(records, func(r check.Record) bool { return r.Command == dram.WR && r.Clock < 5000 })
		if early != (n > 3) {
			t.Errorf("%d writes: written before the next request: %v", n, early)
		}
	}
}

// TestChannels: each of several channels gives the results of one alone, and together they have all of the bandwidth.
func TestChannels(t *testing.T) {
	requests := randomReads(8000)
	s := setup(t, "default")
	s.Channels, s.Policy.Mapping = 4, "rorababgcoch"
	all, err := s.Replay(context.Background(), requests, nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.Mapping()
	if err != nil {
		t.Fatal(err)
	}
	sum := &Stats{}
	parts, _ := newSplitter(s.Spec, m, s.Channels, s.requestBytes()).deal(requests)
	for _, part := range parts {
		one, err := newController(s.Spec, s.Policy, m, s.Ranks, nil).run(context.Background(), part)
		if err != nil {
			t.Fatal(err)
		}
		sum.add(one)
	}
	if all.commands != sum.commands || all.EndClock != sum.EndClock || all.Energy != sum.Energy || all.Latency.Mean() != sum.Latency.Mean() ||
		all.Requests != int64(len(requests)) {
		t.Errorf("together %+v\none by one %+v", all, sum)
	}
}

// TestWrappedAddresses counts the addresses beyond the capacity of all channels.
func TestWrappedAddresses(t *testing.T) {
	s := setup(t, "default")
	s.Channels = 2
	m, err := s.Mapping()
	if err != nil {
		t.Fatal(err)
	}
	stats, err := s.Replay(t.Context(), []Request{{}, {Address: m.Capacity()}, {Address: m.Capacity() + nextRow}}, nil)
	if err != nil || stats.WrappedAddresses != 2 {
		t.Errorf("%d addresses wrapped, want 2; %v", stats.WrappedAddresses, err)
	}
}

func TestBadRequests(t *testing.T) {
	for _, requests := range [][]Request{{{Clock: -1}}, {{Clock: 5}, {Clock: 4}}, {{Clock: dram.MaxClock + 1}}} {
		_, err := setup(t, "default").Replay(context.Background(), requests, nil)
		var in *input.Error
		if !errors.As(err, &in) {
			t.Errorf("%v: %v", requests, err)
		}
	}
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := setup(t, "default").Replay(ctx, randomReads(100_000), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestPolicyErrors(t *testing.T) {
	for _, set := range []string{"scheduler=fcfs", "page=ajar", "mapping=rochrababg", "mapping=rorochbabgco", "bank_queue=0", "drain_high=33",
		"drain_low=32", "age_bound=99", "refresh_postpone=9", "tREFI=500", "power.VDD=0", "power.IDD4R=1", "power.IDD2P=38", "power.IDD3P=53", "power.IDD6=-1", "refresh_close=none", "power_down=on",
		"power_down_after=-1", "self_refresh_after=1073741825", "ecc=parity"} {
		s := setup(t, "default")
		key, value, _ := strings.Cut(set, "=")
		if bad := s.Set(key, value); bad != nil {
			t.Errorf("%s: %v", set, bad)
		}
		var in *input.Error
		if err := s.Validate(); !errors.As(err, &in) || in.Key != key {
			t.Errorf("%s: %v", set, err)
		}
	}
	// The "dramsim3" policy uses its threshold for self-refresh alone: sref_threshold = 1000 in its configurations.
	if p, err := LookupPolicy("dramsim3"); err != nil || p.SelfRefreshAfter != 1000 || p.PowerDownAfter != never || p.RefreshClose != "each" {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := LookupPolicy("dramsim2"); err == nil {
		t.Error("no error for an unknown policy")
	}
}

// soon returns a context that ends a replay after the same number of ticks on any machine, over 100 times as many as these tests need.
func soon(ctx context.Context) context.Context { return deep.Asked(ctx, 100) }

// TestShortestRefreshInterval: with the shortest legal tREFI all requests are served.
func TestShortestRefreshInterval(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := setup(t, rapid.SampledFrom(PolicyNames()).Draw(t, "policy"))
		s.Ranks = rapid.SampledFrom([]int{1, 4, 16}).Draw(t, "ranks")
		s.Spec.TRCD = rapid.IntRange(1, 100).Draw(t, "tRCD")
		s.Spec.TWR = rapid.IntRange(1, 200).Draw(t, "tWR")
		s.Spec.TREFI = s.Spec.TRFC + 2*s.Spec.LongestAccess()
		s.Policy.RefreshPostpone = rapid.SampledFrom([]int{0, 8}).Draw(t, "postpone")
		requests := drawTrace(t, 100)
		stats, err := s.Replay(soon(t.Context()), requests, nil)
		if err != nil || stats.Requests != int64(len(requests)) {
			t.Fatalf("%v, %+v", err, stats)
		}
	})
}

// TestEventsAreEveryClock: visiting only the clocks at which something can happen, including a request's reaching the age bound, gives the
// same commands as visiting every clock.
func TestEventsAreEveryClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec, err := dram.LookupSpec(rapid.SampledFrom([]string{"ddr4-3200-8gb-x8", "ddr4-2400-16gb-x16", "ddr5-4800-16gb-x8", "lpddr5x-8533-16gb-x16"}).Draw(t, "part"))
		if err != nil {
			t.Fatal(err)
		}
		policy, err := LookupPolicy(rapid.SampledFrom(PolicyNames()).Draw(t, "policy"))
		if err != nil {
			t.Fatal(err)
		}
		policy.Page = rapid.SampledFrom([]string{"open", "closed"}).Draw(t, "page")
		policy.RowHitLimit = rapid.IntRange(1, 20).Draw(t, "hits")
		policy.BankQueue = rapid.IntRange(1, 8).Draw(t, "bank queue")
		policy.AgeBound = rapid.IntRange(100, 3000).Draw(t, "age bound")
		policy.RefreshPostpone = rapid.IntRange(0, 8).Draw(t, "postpone")
		if len(spec.Rules().Refreshes) > 1 && rapid.Bool().Draw(t, "refresh of banks") {
			policy.Refresh, policy.RefreshPostpone = "bank", min(policy.RefreshPostpone, spec.Rules().Postpone-1)
		}
		drawPower(t, &Setup{Policy: policy})
		if spec.Standard == "ddr5" && rapid.Bool().Draw(t, "managed") {
			for key, value := range map[string]string{"RAAIMT": "8", "RAAMMT": "16"} {
				if err := spec.Set(key, value); err != nil {
					t.Fatal(err)
				}
			}
		}
		drawECC(t, spec)
		ranks := rapid.IntRange(1, 4).Draw(t, "ranks")
		if usual := spec.TREFI; rapid.Bool().Draw(t, "frequent refreshes") {
			spec.TREFI = spec.TRFC + 20*spec.LongestAccess()
			if (&Setup{Spec: spec, Policy: policy, Ranks: ranks, Channels: 1}).Validate() != nil { // no time between refreshes of banks
				spec.TREFI = usual
			}
		}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		bursts, gap, writes := uint64(1)<<rapid.IntRange(10, 28).Draw(t, "bits"), rapid.IntRange(1, 40).Draw(t, "gap"), rng.Float64()
		var requests []Request
		for clock := int64(0); len(requests) < 1000; clock += int64(rng.IntN(gap)) {
			requests = append(requests, Request{Clock: clock, Address: 64 * rng.Uint64N(bursts), Write: rng.Float64() < writes, Partial: rng.IntN(4) == 0})
		}
		bytesOfRequest := uint64(1) << rapid.IntRange(4, 8).Draw(t, "log2 of the bytes of a request")
		var logs [2]bytes.Buffer
		for i := range logs {
			to, err := mapping.New(policy.Mapping, spec, 1, ranks)
			if err != nil {
				t.Fatal(err)
			}
			log := check.NewLogWriter(&logs[i], check.LogHeader{})
			c := newController(spec, policy, to, ranks, log.Write)
			c.front.splitter.bytes = bytesOfRequest
			if i == 0 {
				if _, err := c.run(context.Background(), requests); err != nil {
					t.Fatal(err)
				}
			} else {
				c.front.requests = requests
				for clock := int64(0); !c.finished(); clock++ {
					c.sched.next = min(c.sched.next, clock)
					for rank := range ranks {
						c.sched.rescan(rank)
					}
					c.tick(clock)
				}
			}
			if err := log.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(logs[0].Bytes(), logs[1].Bytes()) {
			t.Fatalf("%d bytes of commands by events, %d by clocks, or others", logs[0].Len(), logs[1].Len())
		}
	})
}
