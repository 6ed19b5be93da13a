package traces

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/units"
)

// TestStats: a trace with statistics computed by hand.
func TestStats(t *testing.T) {
	trace := &Trace{Name: "x"}
	for i, at := range []int{0, 1, 4, 9} {
		trace.Requests = append(trace.Requests, Request{ID: i, Arrival: units.Duration(at) * units.Second, Input: []int{2, 8, 4, 6}[i], Output: 10})
	}
	trace.Requests[0].Turn, trace.Requests[2].Turn, trace.Requests[3].Turn = &Turn{}, &Turn{Number: 1}, &Turn{Number: 2}
	got := NewReport(trace)
	want := &Report{
		File: "x", Requests: 4, DurationS: 9, RatePerS: 1.0 / 3, Burstiness: math.Sqrt(8.0/3) / 3, // gaps of 1, 3 and 5
		Input:         Lengths{20, 5, math.Sqrt(5), 2, 2, 4, 6, 8, 8, 8, 8},
		Output:        Lengths{40, 10, 0, 10, 10, 10, 10, 10, 10, 10, 10},
		Conversations: &conversationsStats{1, 3, 3},
	}
	if math.Abs(got.Burstiness-want.Burstiness) > 1e-15 {
		t.Errorf("coefficient of variation %v, want %v", got.Burstiness, want.Burstiness)
	}
	got.Burstiness = want.Burstiness
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for _, one := range []*Trace{{}, {Requests: []Request{{Input: 1, Output: 2}}}, {Requests: []Request{{Input: 1, Output: 2}, {Input: 1, Output: 2}}}} {
		if s := NewReport(one); s.RatePerS != 0 || s.Burstiness != 0 || s.DurationS != 0 || s.Requests != len(one.Requests) {
			t.Errorf("all at once: %+v", s)
		}
	}
	equal := &Trace{Requests: []Request{{}, {Arrival: 5}, {Arrival: 10}}}
	if s := NewReport(equal); s.Burstiness != 0 {
		t.Errorf("equal gaps vary by %v", s.Burstiness)
	}
}

// TestPercentiles compares with the definition.
func TestPercentiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.IntRange(1, 50), 1, 250).Draw(t, "lengths")
		requests := make([]Request, len(x))
		for i := range x {
			requests[i].Input = x[i]
		}
		l := lengths(requests, func(r *Request) int { return r.Input })
		for percent, got := range map[int]int{25: l.P25, 50: l.Median, 75: l.P75, 90: l.P90, 95: l.P95, 99: l.P99, 100: l.Max} {
			upTo := func(v int) int {
				n := 0
				for _, y := range x {
					if y <= v {
						n++
					}
				}
				return n
			}
			if 100*upTo(got) < percent*len(x) || got > l.Min && 100*upTo(got-1) >= percent*len(x) {
				t.Fatalf("p%d of %v is %d", percent, x, got)
			}
		}
		if l.Min != slices.Min(x) {
			t.Fatalf("%+v of %v", l, x)
		}
	})
}

// TestPrefixes compares with a search through all earlier prompts.
func TestPrefixes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trace := &Trace{}
		for range rapid.IntRange(1, 20).Draw(t, "requests") {
			r := Request{Input: rapid.IntRange(1, 5*BlockTokens).Draw(t, "input"), Output: 1}
			if rapid.IntRange(0, 4).Draw(t, "hashed") > 0 {
				for range (r.Input + BlockTokens - 1) / BlockTokens {
					r.Hashes = append(r.Hashes, rapid.Uint64Range(0, 2).Draw(t, "hash"))
				}
			}
			trace.Requests = append(trace.Requests, r)
		}
		want, tokens := &prefixStats{BlockTokens: BlockTokens}, 0
		distinct := map[string]bool{}
		for i, r := range trace.Requests {
			if r.Hashes == nil {
				continue
			}
			want.Requests++
			tokens += r.Input
			longest := 0
			for k := range r.Hashes {
				want.Blocks++
				name := make([]byte, k+1)
				for j := range name {
					name[j] = byte(r.Hashes[j])
				}
				distinct[string(name)] = true
				for _, other := range trace.Requests[:i] {
					if len(other.Hashes) > k && slices.Equal(other.Hashes[:k+1], r.Hashes[:k+1]) {
						longest = k + 1
					}
				}
			}
			if longest > 0 {
				want.SharingRequests++
				want.SharedTokens += int64(min(longest*BlockTokens, r.Input))
			}
		}
		want.DistinctBlocks, want.SharedShare = int64(len(distinct)), float64(want.SharedTokens)/float64(tokens)
		if want.Requests == 0 {
			want = nil
		}
		if got := trace.prefixes(); !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v of %+v", got, want, trace.Requests)
		}
	})
}

// TestSample draws distinct requests in their order, and conversations from their first turn on, each equally likely.
func TestSample(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, err := lookupFormat(rapid.SampledFrom([]string{"l3sim", "mooncake"}).Draw(t, "format"))
		if err != nil {
			t.Fatal(err)
		}
		trace := drawTrace(t, f, rapid.Bool().Draw(t, "conversations"))
		n, seed := rapid.IntRange(1, len(trace.Requests)).Draw(t, "n"), rapid.Uint64().Draw(t, "seed")
		for i := range trace.Requests { // its index in the trace
			trace.Requests[i].Output = i + 1
		}
		sample, err := trace.Sample(n, seed)
		if err != nil || len(sample.Requests) != n || sample.Requests[0].Arrival != 0 {
			t.Fatalf("%+v, %v", sample, err)
		}
		last := -1
		begun := map[int]bool{} // requests of the trace
		cut := 0
		for i, r := range sample.Requests {
			from := r.Output - 1
			old := trace.Requests[from]
			if from <= last || r.ID != i || r.Input != old.Input || !slices.Equal(r.Hashes, old.Hashes) ||
				r.Arrival-sample.Requests[0].Arrival != old.Arrival-trace.Requests[sample.Requests[0].Output-1].Arrival {
				t.Fatalf("request %d: %+v of %+v", i, r, old)
			}
			last, begun[from] = from, true
		}
		for i, r := range trace.Requests {
			if r.Turn == nil || begun[i] {
				continue
			}
			// Turns are drawn without a gap, and only the last conversation drawn may be cut.
			taken := 0
			for k, later := range trace.Requests {
				if later.Turn != nil && later.Turn.Session == r.Turn.Session && begun[k] {
					taken++
					if later.Turn.Number > r.Turn.Number {
						t.Fatalf("turn %d without turn %d", later.Turn.Number, r.Turn.Number)
					}
				}
			}
			if taken > 0 && taken == r.Turn.Number {
				cut++
			}
		}
		if cut > 1 {
			t.Fatalf("%d conversations end early", cut)
		}
		again, err := trace.Sample(n, seed)
		if err != nil || !same(again.Requests, sample.Requests) {
			t.Fatal("the same seed draws other requests")
		}
	})
	trace := &Trace{Name: "x", Requests: make([]Request, 20)}
	count := make([]int, 20)
	for i := range trace.Requests {
		trace.Requests[i].Input = i
	}
	for seed := range uint64(4000) {
		sample, err := trace.Sample(5, seed)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range sample.Requests {
			count[r.Input]++
		}
	}
	for i, n := range count {
		if n < 880 || n > 1120 { // 1000, with a deviation of 27
			t.Errorf("request %d was drawn %d times", i, n)
		}
	}
	for _, n := range []int{0, -1, 21} {
		if _, err := trace.Sample(n, 1); err == nil || err.Error() != "requests = "+map[int]string{0: "0", -1: "-1", 21: "21"}[n]+": expected 1 to 20, the number of requests of x" {
			t.Errorf("%d: got %v", n, err)
		}
	}
}
