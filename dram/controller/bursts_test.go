package controller

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
)

// burstsOf returns the number of bursts of a request.
func burstsOf(s *Setup, r *Request) int64 {
	size := s.requestBytes()
	if r.Bytes > 0 {
		size = uint64(r.Bytes)
	}
	return max(1, int64(size)/int64(s.Spec.BurstBytes()))
}

// drawSizes gives some requests their own size, and aligns their addresses to it.
func drawSizes(t *rapid.T, s *Setup, requests []Request) {
	if !rapid.Bool().Draw(t, "sizes") {
		return
	}
	for i := range requests {
		if n := rapid.IntRange(3, 9).Draw(t, "log2 of the size"); n > 3 {
			requests[i].Bytes = min(1<<n, int32(s.Spec.RowBytes()))
			requests[i].Address &^= uint64(requests[i].Bytes - 1)
		}
	}
}

// partSetup is a part of a standard, as many ranks as it has pseudo-channels, under the default policy.
func partSetup(tb helper, standard *dram.Standard, channels int) *Setup {
	tb.Helper()
	s := setup(tb, "default")
	s.Spec, s.Ranks, s.Channels = part(tb, standard.PartNames()[0]), standard.PseudoChannels, channels
	return s
}

// TestRequestsMoveTheirBytes: on every standard, whatever the size of its bursts, consecutive requests of 64 B move 64 bytes each, from all
// pseudo-channels alike, and no faster than the data bus.
func TestRequestsMoveTheirBytes(t *testing.T) {
	const n = 4096
	for _, standard := range dram.Standards() {
		for channels := 1; channels <= 2; channels++ {
			for _, write := range []bool{false, true} {
				s := partSetup(t, standard, channels)
				if channels > 1 {
					s.Policy.Mapping = "rorababgcopcch"
				}
				requests := make([]Request, n)
				for i := range requests {
					requests[i] = Request{Address: uint64(64 * i), Write: write}
				}
				stats, err := s.Replay(t.Context(), requests, nil)
				if err != nil {
					t.Fatal(err)
				}
				bursts := stats.Count(dram.RD, dram.WR)
				if moved := bursts * int64(s.Spec.BurstBytes()); moved != 64*n {
					t.Errorf("%s, %d channels: %d requests of 64 B move %d bytes", s.Spec.Name, channels, n, moved)
				}
				for i, rank := range stats.Ranks {
					if got := (rank.Reads + rank.Writes) * int64(len(stats.Ranks)); got != bursts {
						t.Errorf("%s, %d channels: rank %d of %d moves %d of %d bursts", s.Spec.Name, channels, i, len(stats.Ranks), rank.Reads+rank.Writes, bursts)
					}
				}
				r := NewReport(s, "default", stats, 0)
				if peak := float64(s.Spec.Bandwidth()) * float64(channels*standard.PseudoChannels) / 1e9; r.GBPerS > peak || r.BusUtilization > 1 || r.Requests != n {
					t.Errorf("%s: %d requests at %v GB/s of %v", s.Spec.Name, r.Requests, r.GBPerS, peak)
				}
				if got := stats.Latency.Count() + stats.WriteLatency.Count(); !write && got != n {
					t.Errorf("%s, %d channels: %d latencies of %d requests", s.Spec.Name, channels, got, n)
				}
			}
		}
	}
}

// TestLinesOfFourReads: on a part with bursts of 32 B, reading four lines of 64 B reads columns 0 to 7.
func TestLinesOfFourReads(t *testing.T) {
	s := setup(t, "default")
	s.Spec, s.Ranks = part(t, "lpddr5x-8533-16gb-x16"), 1
	_, records := replayLog(t, s, []Request{{Address: 0}, {Address: 0x40}, {Address: 0x80}, {Address: 0xc0}})
	var columns []int32
	for _, r := range records {
		if r.Command == dram.RD {
			columns = append(columns, r.Address.Column)
		}
	}
	if !slices.Equal(columns, []int32{0, 1, 2, 3, 4, 5, 6, 7}) {
		t.Errorf("columns %v", columns)
	}
}

// TestSplitByHand: a trace whose requests are split by hand gives the same commands, end and energy as the trace with sizes; a request ends
// with its last burst.
func TestSplitByHand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := setup(t, rapid.SampledFrom(PolicyNames()).Draw(t, "policy"))
		s.Spec = part(t, rapid.SampledFrom(dram.SpecNames()).Draw(t, "part"))
		s.Ranks = s.Spec.Rules().PseudoChannels * rapid.IntRange(1, 2).Draw(t, "ranks")
		drawECC(t, s.Spec)
		requests := drawTrace(t, 200)
		var byHand []Request
		for i := range requests {
			r := &requests[i]
			r.Bytes = min(int32(s.Spec.BurstBytes())<<rapid.IntRange(0, 3).Draw(t, "bursts"), int32(s.Spec.RowBytes()))
			r.Address &^= uint64(r.Bytes - 1)
			for j := range int(r.Bytes) / s.Spec.BurstBytes() {
				piece := *r
				piece.Bytes, piece.Address = int32(s.Spec.BurstBytes()), r.Address+uint64(j*s.Spec.BurstBytes())
				byHand = append(byHand, piece)
			}
		}
		whole, log := replayLog(t, s, requests)
		parts, want := replayLog(t, s, byHand)
		if !slices.Equal(log, want) || whole.EndClock != parts.EndClock || whole.Energy != parts.Energy || whole.commands != parts.commands ||
			whole.MergedReads != parts.MergedReads || whole.ForwardedReads != parts.ForwardedReads || whole.MergedWrites != parts.MergedWrites {
			t.Fatalf("%d commands until %d, by hand %d until %d", len(log), whole.EndClock, len(want), parts.EndClock)
		}
		if got, want := whole.ArrivalLatency.Max(), parts.ArrivalLatency.Max(); got != want || whole.Latency.Max() < parts.Latency.Max() {
			t.Fatalf("reads take %d from arrival, their parts %d", got, want)
		}
	})
}

// TestRequestEndsWithItsLastBurst: of two bursts in one row the second follows after tCCD, and the request's latency includes it.
func TestRequestEndsWithItsLastBurst(t *testing.T) {
	for _, write := range []bool{false, true} {
		s := setup(t, "default")
		s.Spec, s.Ranks = part(t, "gddr6-16000-8gb-x16"), 1
		stats, records := replayLog(t, s, []Request{{Write: write, Address: 0x40}})
		last := records[len(records)-1]
		got := &stats.Latency
		if write {
			got = &stats.WriteLatency
		}
		if end := last.Clock + s.Spec.DataEnd(last.Command); got.Count() != 1 || got.Max() != end || end != stats.EndClock {
			t.Errorf("write %v: %d requests take %d clocks, the last burst ends at %d", write, got.Count(), got.Max(), end)
		}
	}
}

// TestChannelsShareARequest: a request whose bursts are mapped to several channels ends with the last of all bursts, and counts once.
func TestChannelsShareARequest(t *testing.T) {
	s := setup(t, "default")
	s.Channels, s.Policy.Mapping = 2, "rorababgcoch"
	m, err := s.Mapping()
	if err != nil {
		t.Fatal(err)
	}
	one, err := s.Replay(t.Context(), []Request{{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	stats, err := s.Replay(t.Context(), []Request{{}, {Bytes: 128}, {Bytes: 128, Address: m.Capacity() + 1<<20, Write: true}, {Bytes: 64, Address: 64, Clock: 4000}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if stats.Requests != 4 || stats.Latency.Count() != 3 || stats.WriteLatency.Count() != 1 || stats.WrappedAddresses != 1 || stats.Latency.Max() != one.Latency.Max() {
		t.Errorf("%d requests, %d reads of at most %d clocks, %d writes, %d wrapped", stats.Requests, stats.Latency.Count(), stats.Latency.Max(), stats.WriteLatency.Count(), stats.WrappedAddresses)
	}
	if stats.MergedReads != 1 || stats.Count(dram.RD) != 3 || stats.Count(dram.WR) != 2 {
		t.Errorf("%d merged, %d RD, %d WR", stats.MergedReads, stats.Count(dram.RD), stats.Count(dram.WR))
	}
}

// TestRequestsSmallerThanABurst: requests within one burst merge while it is pending. A pending write forwards only the bytes that it has.
// With ECC, a write of part of a burst reads the burst first.
func TestRequestsSmallerThanABurst(t *testing.T) {
	for _, c := range []struct {
		name                                   string
		ecc                                    string
		requests                               []Request
		rd, wr, merged, mergedWrites, forwards int64
	}{
		{"two reads of one burst", dram.NoECC, []Request{{}, {Address: 64}}, 1, 0, 1, 0, 0},
		{"two reads far apart", dram.NoECC, []Request{{}, {Address: 64, Clock: 9000}}, 2, 0, 0, 0, 0},
		{"two writes of one burst", dram.NoECC, []Request{{Write: true}, {Address: 64, Write: true}}, 0, 1, 0, 1, 0},
		{"a read of what is written", dram.NoECC, []Request{{Write: true}, {}}, 0, 1, 0, 0, 1},
		{"a read beside what is written", dram.NoECC, []Request{{Write: true}, {Address: 64}}, 1, 1, 0, 0, 0},
		{"a read of both halves", dram.NoECC, []Request{{Write: true}, {Address: 64, Write: true}, {Bytes: 128}}, 0, 1, 0, 1, 1},
		{"a read of more than is written", dram.NoECC, []Request{{Write: true}, {Bytes: 128}}, 1, 1, 0, 0, 0},
		{"check bits", dram.SideBandECC, []Request{{Write: true}}, 1, 1, 0, 0, 0},
		{"check bits, the whole", dram.SideBandECC, []Request{{Bytes: 128, Write: true}}, 0, 1, 0, 0, 0},
		{"check bits, the other half", dram.SideBandECC, []Request{{Write: true}, {Address: 64}}, 1, 1, 0, 0, 1},
	} {
		s := setup(t, "default")
		s.Spec, s.Ranks = part(t, "lpddr4-2400-8gb-x16"), 1
		s.Spec.ECC = c.ecc
		stats, err := s.Replay(t.Context(), c.requests, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := [...]int64{stats.Count(dram.RD), stats.Count(dram.WR), stats.MergedReads, stats.MergedWrites, stats.ForwardedReads}
		if want := [...]int64{c.rd, c.wr, c.merged, c.mergedWrites, c.forwards}; got != want {
			t.Errorf("%s: RD, WR, merged reads, merged writes, forwarded reads %v, want %v", c.name, got, want)
		}
	}
}

// TestMergedBurstsEndTheirRequest: a request of two bursts ends even if the first is merged, forwarded or replaced, and counts once.
func TestMergedBurstsEndTheirRequest(t *testing.T) {
	for _, c := range []struct {
		name                                               string
		requests                                           []Request
		rd, wr, mergedReads, mergedWrites, forwards, reads int64
		writes                                             int64
	}{
		{"a write over a write", []Request{{Write: true}, {Bytes: 128, Write: true}}, 0, 2, 0, 1, 0, 0, 2},
		{"a write over a longer one", []Request{{Bytes: 128, Write: true}, {Write: true}}, 0, 2, 0, 1, 0, 0, 1},
		{"a read of what is written", []Request{{Write: true}, {Bytes: 128}}, 1, 1, 0, 0, 1, 1, 1},
		{"a read of what is read", []Request{{}, {Bytes: 128}}, 2, 0, 1, 0, 0, 2, 0},
		{"a read of part of what is read", []Request{{Bytes: 128}, {}}, 2, 0, 1, 0, 0, 2, 0},
	} {
		for i := range c.requests {
			c.requests[i].Clock = 5000
		}
		stats, err := setup(t, "default").Replay(t.Context(), c.requests, nil)
		if err != nil {
			t.Fatal(err)
		}
		if most := max(stats.Latency.Max(), stats.ArrivalLatency.Max(), stats.WriteLatency.Max()); most >= 5000 {
			t.Errorf("%s: a latency of %d clocks", c.name, most)
		}
		got := [...]int64{stats.Count(dram.RD), stats.Count(dram.WR), stats.MergedReads, stats.MergedWrites, stats.ForwardedReads, int64(stats.Latency.Count()), int64(stats.WriteLatency.Count()), stats.Requests}
		if want := [...]int64{c.rd, c.wr, c.mergedReads, c.mergedWrites, c.forwards, c.reads, c.writes, 2}; got != want {
			t.Errorf("%s: RD, WR, merged reads and writes, forwarded reads, ends of reads and writes, requests %v, want %v", c.name, got, want)
		}
	}
}

// TestRequestBytesErrors: invalid sizes, and addresses that are not aligned to the size.
func TestRequestBytesErrors(t *testing.T) {
	row := "a power of two, 1 to 2048: a row of lpddr5x-8533-16gb-x16"
	for _, c := range []struct {
		bytes   int
		request Request
		want    string
	}{
		{-2, Request{}, "request_bytes = -2: expected " + row},
		{96, Request{}, "request_bytes = 96: expected " + row},
		{4096, Request{}, "request_bytes = 4096: expected " + row},
		{0, Request{Bytes: -64}, "request 2 = -64 bytes: expected " + row},
		{0, Request{Bytes: 48}, "request 2 = 48 bytes: expected " + row},
		{0, Request{Bytes: math.MinInt32}, "request 2 = -2147483648 bytes: expected " + row},
		{0, Request{Bytes: 4096}, "request 2 = 4096 bytes: expected " + row},
		{0, Request{Bytes: 64, Address: 32}, "request 2 = 0x20: expected a multiple of 64, the bytes of the request"},
		{256, Request{Address: 64}, "request 2 = 0x40: expected a multiple of 256, the bytes of the request"},
		{0, Request{Address: 0x44}, ""}, // the line at this address
		{OneBurst, Request{Address: 0x44}, ""},
		{2048, Request{Address: 2048}, ""},
		{1, Request{Address: 3}, ""},
	} {
		s := setup(t, "default")
		s.Spec, s.Ranks, s.RequestBytes = part(t, "lpddr5x-8533-16gb-x16"), 1, c.bytes
		_, err := s.Replay(t.Context(), []Request{{}, c.request}, nil)
		var in *input.Error
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &in) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%d bytes, %+v: %v, want %q", c.bytes, c.request, err, c.want)
		}
	}
}

// TestSharedEndsByHand: for requests served by two channels, the first acceptance and the last end count, in clocks of two steps, rounded
// up.
func TestSharedEndsByHand(t *testing.T) {
	one := &Stats{shared: []openRequest{{shared: 1, accepted: 50, arrived: 10, end: 90}, {shared: 2, accepted: 7, arrived: 7, end: 20, write: true, wrapped: true}, {shared: 3, accepted: 4, arrived: 4, end: -1, write: true}}}
	other := &Stats{shared: []openRequest{{shared: 2, accepted: 9, arrived: 7, end: 30, write: true, wrapped: true}, {shared: 1, accepted: 20, arrived: 10, end: 71}, {shared: 3, accepted: 3, arrived: 4, end: -1, write: true}}}
	for _, channels := range [][]*Stats{{one, other}, {other, one}} {
		var s Stats
		s.addShared(3, channels, 2)
		if s.Requests != 3 || s.WrappedAddresses != 1 || s.Latency.Count() != 1 || s.Latency.Max() != 35 || s.ArrivalLatency.Max() != 40 || s.WriteLatency.Count() != 1 || s.WriteLatency.Max() != 12 {
			t.Errorf("%d requests, %d wrapped, latencies %v, %v and %v", s.Requests, s.WrappedAddresses, s.Latency, s.ArrivalLatency, s.WriteLatency)
		}
	}
}

// TestWritesAreTimedFromTheirAcceptance: each of 1,000 simultaneous writes, of one or two bursts, waits only for those of the full buffer
// before it, although all of them take longer.
func TestWritesAreTimedFromTheirAcceptance(t *testing.T) {
	for _, size := range []int32{64, 128} {
		s := setup(t, "default")
		requests := make([]Request, 1000)
		for i := range requests {
			requests[i] = Request{Address: uint64(i) * uint64(size), Bytes: size, Write: true}
		}
		stats, err := s.Replay(t.Context(), requests, nil)
		if err != nil {
			t.Fatal(err)
		}
		if most := stats.WriteLatency.Max(); stats.WriteLatency.Count() != 1000 || stats.EndClock < 4000 || most > 1000 || most < 20 {
			t.Errorf("%d bytes: %d writes take at most %d of %d clocks", size, stats.WriteLatency.Count(), most, stats.EndClock)
		}
	}
}
