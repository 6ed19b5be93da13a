package controller

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
)

// randomReads returns n reads at random addresses of four ranks, all offered at clock 0.
func randomReads(n int) []Request {
	rng := rand.New(rand.NewPCG(1, 2))
	requests := make([]Request, n)
	for i := range requests {
		requests[i].Address = rng.Uint64N(1<<35) &^ 63
	}
	return requests
}

// streamReads returns n reads that walk through the four bank groups, row by row.
func streamReads(n int) []Request {
	requests := make([]Request, n)
	for i := range requests {
		group, column := uint64(i)%4, uint64(i)/4%128
		requests[i].Address = uint64(i)/512<<15 | group<<13 | column<<6
	}
	return requests
}

// sparseReads returns n random reads, one every 20,000 clocks.
func sparseReads(n int) []Request {
	requests := randomReads(n)
	for i := range requests {
		requests[i].Clock = int64(i) * 20_000
	}
	return requests
}

// mixedStreams returns n requests of eight streams in turn, two of which write.
func mixedStreams(n int) []Request {
	requests := make([]Request, n)
	for i := range requests {
		k := uint64(i) % 8
		requests[i] = Request{Address: k*0x8003000 + uint64(i)/8*64, Write: k >= 6}
	}
	return requests
}

// run replays requests once under the default policy on a fresh controller.
func run(tb testing.TB, requests []Request) *Stats {
	s := setup(tb, "default")
	m, err := s.Mapping()
	if err != nil {
		tb.Fatal(err)
	}
	stats, err := newController(s.Spec, s.Policy, m, s.Ranks, nil).run(context.Background(), requests)
	if err != nil {
		tb.Fatal(err)
	}
	return stats
}

// benchmarkRun reports requests and simulated clocks a second.
func benchmarkRun(b *testing.B, requests []Request) {
	b.ReportAllocs()
	var clocks, n int64
	for b.Loop() {
		clocks += run(b, requests).EndClock
		n += int64(len(requests))
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds()/1e6, "Mrequests/s")
	b.ReportMetric(float64(clocks)/b.Elapsed().Seconds()/1e6, "Mclocks/s")
}

func BenchmarkRandomReads(b *testing.B)  { benchmarkRun(b, randomReads(200_000)) }
func BenchmarkStreamReads(b *testing.B)  { benchmarkRun(b, streamReads(200_000)) }
func BenchmarkMixed(b *testing.B)        { benchmarkRun(b, mixedRandom(200_000)) }
func BenchmarkMixedStreams(b *testing.B) { benchmarkRun(b, mixedStreams(200_000)) }
func BenchmarkSparseReads(b *testing.B)  { benchmarkRun(b, sparseReads(20_000)) }

// replayLines replays n reads of 64 B on a part with bursts of 32 B.
func replayLines(tb testing.TB, n int) {
	s := setup(tb, "default")
	s.Spec = part(tb, "hbm3-6400-16gb-8h")
	if _, err := s.Replay(context.Background(), randomReads(n), nil); err != nil {
		tb.Fatal(err)
	}
}

func BenchmarkLines(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		replayLines(b, 100_000)
	}
}

// TestNoAllocationPerRequest compares runs of two lengths: only the controller allocates memory, not requests.
func TestNoAllocationPerRequest(t *testing.T) {
	deep.Heavy(t)
	if testing.Short() {
		t.Skip("the race detector, which -short is for, allocates by itself")
	}
	for _, kind := range []func(int) []Request{randomReads, streamReads, mixedRandom, mixedStreams, sparseReads} {
		short, long := kind(2_000), kind(20_000)
		few := testing.AllocsPerRun(3, func() { run(t, short) })
		many := testing.AllocsPerRun(3, func() { run(t, long) })
		if many > few+2 {
			t.Errorf("%v allocations for 2,000 requests, %v for 20,000", few, many)
		}
	}
	few, many := testing.AllocsPerRun(3, func() { replayLines(t, 2_000) }), testing.AllocsPerRun(3, func() { replayLines(t, 20_000) })
	if many > few+8 { // the list of open requests grows by doubling
		t.Errorf("of several bursts: %v allocations for 2,000 requests, %v for 20,000", few, many)
	}
}
