package controller

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
)

// open opens s or fails.
func open(tb helper, s *Setup, done func(Completion)) *Memory {
	tb.Helper()
	m, err := s.Open(done, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// enqueue offers r or fails.
func (m *Memory) enqueue(tb helper, r Request) {
	tb.Helper()
	if err := m.Enqueue(r); err != nil {
		tb.Fatal(err)
	}
}

// TestMemoryIsReplay: requests that a caller brings as time goes on, in steps of any
// length, take the clocks of a replay of them all, and each one's end comes back once, in order.
func TestMemoryIsReplay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := setup(t, rapid.SampledFrom(PolicyNames()).Draw(t, "policy"))
		s.Ranks, s.Channels = rapid.IntRange(1, 4).Draw(t, "ranks"), rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(t, "channels")
		requests := drawTrace(t, 300)
		for i := range requests {
			requests[i].Tag = int64(i)
		}
		want, err := s.Replay(t.Context(), requests, nil)
		if err != nil {
			t.Fatal(err)
		}
		seen := make([]bool, len(requests))
		last, reads, latency := int64(0), 0, int64(0)
		m := open(t, s, func(c Completion) {
			if seen[c.Tag] || c.Request != requests[c.Tag] || c.End < last || c.Accepted < c.Clock || c.End <= c.Accepted {
				t.Fatalf("%+v after clock %d, seen %v", c, last, seen[c.Tag])
			}
			seen[c.Tag], last = true, c.End
			if !c.Write {
				reads++
				latency += c.End - c.Clock
			}
		})
		for _, r := range requests {
			// Alone, a channel does not know its last request from another's; then its writes wait for more.
			if s.Channels == 1 && rapid.Bool().Draw(t, "step") {
				m.Advance(rapid.Int64Range(0, r.Clock).Draw(t, "until"))
			}
			m.enqueue(t, r)
		}
		got, err := m.Drain()
		if err != nil {
			t.Fatal(err)
		}
		// Refreshes go on until the last data have moved, in a replay to the last command.
		columns := []dram.Command{dram.ACT, dram.RD, dram.WR}
		if got.Count(columns...) != want.Count(columns...) || got.RowHits != want.RowHits || got.EndClock != want.EndClock ||
			!slices.Equal(got.Latency.clocks, want.Latency.clocks) || !slices.Equal(got.WriteLatency.clocks, want.WriteLatency.clocks) {
			t.Fatalf("driven %+v\nreplay %+v", got, want)
		}
		if slices.Contains(seen, false) {
			t.Fatalf("request %d has no end", slices.Index(seen, false))
		}
		if reads > 0 && got.ArrivalLatency.Mean() != float64(latency)/float64(reads) {
			t.Fatalf("latencies from arrival %v, by the completions %v", got.ArrivalLatency.Mean(), float64(latency)/float64(reads))
		}
	})
}

// TestCompletionsInClocks: a request that finds an idle memory is accepted at its own clock, whatever steps a clock has, and what completions say of reads is
// what the latencies count.
func TestCompletionsInClocks(t *testing.T) {
	for name, ranks := range map[string]int{ddr43200: 1, "ddr5-4800-16gb-x8": 1, "lpddr5x-6400-16gb-x16": 1, "hbm3-6400-16gb-8h": 4} {
		s := setup(t, "default")
		s.Spec, s.Ranks = part(t, name), ranks
		var latencies []int64
		m := open(t, s, func(c Completion) {
			if c.Accepted != c.Clock || c.End <= c.Accepted {
				t.Errorf("%s: %+v is accepted at its clock and ends later", name, c)
			}
			latencies = append(latencies, c.End-c.Accepted)
		})
		for i := range int64(5) {
			m.enqueue(t, Request{Clock: 1001 * i, Address: uint64(i) << 12})
		}
		if stats, err := m.Drain(); err != nil || !slices.Equal(latencies, stats.Latency.clocks) || len(latencies) != 5 {
			t.Errorf("%s: completions have latencies of %v, counted are %v; %v", name, latencies, stats.Latency.clocks, err)
		}
	}
}

// TestPointerChase: a loop in which each read waits for the last one's data takes the
// latency of a closed bank each time, and one of two channels by turns no less.
func TestPointerChase(t *testing.T) {
	for _, channels := range []int{1, 2} {
		s := setup(t, "default")
		s.Channels, s.Policy.Mapping = channels, "rorababgcoch"
		s.Policy.Page = "closed"
		s.Spec.TREFI = 1 << 20 // no refresh meanwhile
		const n, latency = 50, 2 + 22 + 22 + 4
		var ends []int64
		var m *Memory
		next := func(clock int64) Request {
			return Request{Clock: clock, Address: uint64(len(ends)) * (uint64(channels)<<13 + 64)} // another bank each time
		}
		m = open(t, s, func(c Completion) {
			ends = append(ends, c.End)
			if len(ends) < n {
				m.enqueue(t, next(c.End))
			}
		})
		m.enqueue(t, next(0))
		stats, err := m.Drain()
		if err != nil {
			t.Fatal(err)
		}
		for i, end := range ends {
			if end != int64(i+1)*latency {
				t.Fatalf("channels %d: read %d ends at %d, want %d", channels, i, end, (i+1)*latency)
			}
		}
		if stats.ArrivalLatency.Max() != latency || stats.Latency.Mean() != latency {
			t.Errorf("latencies %v, %v", stats.ArrivalLatency.Max(), stats.Latency.Mean())
		}
	}
}

// TestArrivalLatency: a backlog shows in the latency from arrival, not in that from acceptance.
func TestArrivalLatency(t *testing.T) {
	stats, _ := replayLog(t, setup(t, "default"), randomReads(5000))
	if stats.ArrivalLatency.Max() < stats.EndClock-100 || stats.Latency.Max() > 5000 || stats.ArrivalLatency.Count() != 5000 {
		t.Errorf("end %d: from arrival at most %d, from acceptance %d", stats.EndClock, stats.ArrivalLatency.Max(), stats.Latency.Max())
	}
}

// TestWriteLatency: a lone write takes tRCD + CWL + BL/2 and the two stages before; one that waits in
// the buffer for more waits until the end.
func TestWriteLatency(t *testing.T) {
	stats, _ := replayLog(t, setup(t, "default"), []Request{{Write: true}})
	if stats.WriteLatency.Count() != 1 || stats.WriteLatency.Max() != 2+22+16+4 {
		t.Errorf("%d writes, longest %d", stats.WriteLatency.Count(), stats.WriteLatency.Max())
	}
	s := setup(t, "dramsim3") // writes leave when more than eight wait, or none will come
	m := open(t, s, nil)
	m.enqueue(t, Request{Write: true})
	m.Advance(1000)
	if m.Idle() {
		t.Error("the write left before more came")
	}
	if stats, err := m.Drain(); err != nil || stats.WriteLatency.Max() != 1000+1+22+16+4 || stats.Count(dram.WR) != 1 {
		t.Errorf("%+v, %v", stats, err)
	}
}

// TestEnqueueErrors: the past is over, and a channel takes its requests in order.
func TestEnqueueErrors(t *testing.T) {
	m := open(t, setup(t, "default"), nil)
	m.enqueue(t, Request{Clock: 50})
	var in *input.Error
	if err := m.Enqueue(Request{Clock: 49}); !errors.As(err, &in) {
		t.Errorf("a request before another: %v", err)
	}
	m.Advance(100)
	if err := m.Enqueue(Request{Clock: 99}); !errors.As(err, &in) {
		t.Errorf("a request in the past: %v", err)
	}
	if err := m.Enqueue(Request{Clock: dram.MaxClock + 1}); !errors.As(err, &in) {
		t.Errorf("a request beyond time: %v", err)
	}
	if err := m.Enqueue(Request{Clock: 100}); err != nil || m.Now() != 100 || m.Next() != 100 {
		t.Errorf("%v, now %d, next %d", err, m.Now(), m.Next())
	}
}

// TestDrivenMemoryDoesNotAllocate: a closed loop of 16 requests runs on without allocation, but for
// the lists of latencies.
func TestDrivenMemoryDoesNotAllocate(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	left := 0
	var m *Memory
	again := func(c Completion) {
		if left--; left > 0 {
			_ = m.Enqueue(Request{Clock: c.End, Address: rng.Uint64N(1<<35) &^ 63, Write: left%3 == 0})
		}
	}
	m = open(t, setup(t, "default"), again)
	loop := func(n int) {
		left = n
		for range 16 {
			m.enqueue(t, Request{Clock: m.Now(), Address: rng.Uint64N(1<<35) &^ 63})
		}
		if _, err := m.Drain(); err != nil {
			t.Fatal(err)
		}
	}
	loop(1000)
	few, many := testing.AllocsPerRun(3, func() { loop(100) }), testing.AllocsPerRun(3, func() { loop(4000) })
	if many > few+20 {
		t.Errorf("%v allocations for 100 requests, %v for 4,000", few, many)
	}
}

// TestHistogram: bins are powers of two and hold everything.
func TestHistogram(t *testing.T) {
	l := Latencies{clocks: []int64{1, 4, 5, 7, 8, 100}}
	if got, want := l.Histogram(), []Bin{{1, 1}, {2, 0}, {4, 3}, {8, 1}, {16, 0}, {32, 0}, {64, 1}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if nothing := (&Latencies{}).Histogram(); len(nothing) != 0 {
		t.Errorf("%v", nothing)
	}
}
