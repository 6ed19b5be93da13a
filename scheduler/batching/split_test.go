package batching

import (
	"reflect"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"pgregory.net/rapid"
)

// contexts returns decoding requests with the given contexts in iteration 0.
func contexts(tokens ...int64) []scheduler.Decoding {
	var d []scheduler.Decoding
	for i, n := range tokens {
		d = append(d, scheduler.Decoding{Request: int32(i), Base: n})
	}
	return d
}

// TestByTokens is the paper's example (section 5.3): contexts of 2k, 3k, 4k and
// 5k tokens divide into (2k, 5k) and (3k, 4k).
func TestByTokens(t *testing.T) {
	b := scheduler.Batch{Sub: make([]scheduler.SubBatch, 2)}
	var s sharer
	s.byTokens(&b, contexts(5000, 4000, 3000, 2000))
	for i, want := range [][]int64{{5000, 2000}, {4000, 3000}} {
		got := b.Sub[i].Decode
		if len(got) != 2 || got[0].Base != want[0] || got[1].Base != want[1] {
			t.Errorf("sub-batch %d: got %+v, want %v", i, got, want)
		}
	}
}

// TestSplitBeatsDealing: dealing longest first misses that 8, 7 and 6, 5, 4 are even.
func TestSplitBeatsDealing(t *testing.T) {
	var s splitter
	values := []int64{8, 7, 6, 5, 4}
	if d := difference(values, s.split(values)); d != 0 {
		t.Errorf("the sums differ by %d, want 0", d)
	}
}

// TestSplitOfTwelve: for twelve values all sums are tried. 43 + 42 + 42 + 35 + 20 are half of all; dealing, moving and exchanging miss it by two.
func TestSplitOfTwelve(t *testing.T) {
	var s splitter
	values := []int64{45, 43, 43, 42, 42, 39, 35, 28, 20, 13, 9, 5}
	if d := difference(values, s.split(values)); d != 0 {
		t.Errorf("the sums differ by %d, want 0", d)
	}
}

func difference(values []int64, side []bool) int64 {
	var d int64
	for i, v := range values {
		if side[i] {
			v = -v
		}
		d += v
	}
	return abs(d)
}

// TestSplit checks a split against all splits for few values, and against
// longest-first dealing for many.
func TestSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(1, 30_000), 0, 40).Draw(t, "values")
		slices.Sort(values)
		slices.Reverse(values)
		var s, dealer splitter
		got := difference(values, s.split(values))
		dealer.side = make([]bool, len(values))
		if dealt := abs(dealer.deal(values)); got > dealt {
			t.Fatalf("the sums differ by %d, dealt longest first by %d", got, dealt)
		}
		if len(values) > exactSplit {
			return
		}
		for code := range 1 << len(values) {
			side := make([]bool, len(values))
			for i := range side {
				side[i] = code>>i&1 == 1
			}
			if d := difference(values, side); d < got {
				t.Fatalf("the sums differ by %d, %v by %d", got, side, d)
			}
		}
	})
}

// TestByOffset checks that every request goes to one sub-batch, and that each
// offset is divided as evenly as its own requests can be.
func TestByOffset(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranksets := rapid.IntRange(1, 5).Draw(t, "ranksets")
		decoding := contexts(rapid.SliceOfN(rapid.Int64Range(1, 9000), 0, 30).Draw(t, "contexts")...)
		slices.SortStableFunc(decoding, func(a, b scheduler.Decoding) int { return int(b.Base - a.Base) })
		for i := range decoding {
			decoding[i].Offset = int32(rapid.IntRange(0, ranksets-1).Draw(t, "offset"))
		}
		b := scheduler.Batch{Sub: make([]scheduler.SubBatch, 2)}
		var s sharer
		s.byOffset(&b, decoding, ranksets, nil)
		if b.Decoding() != len(decoding) {
			t.Fatalf("%d of %d requests are in a sub-batch", b.Decoding(), len(decoding))
		}
		for offset := range ranksets {
			var values []int64
			var sums [2]int64
			for _, d := range decoding {
				if int(d.Offset) == offset {
					values = append(values, d.Base)
				}
			}
			for i := range b.Sub {
				for _, d := range b.Sub[i].Decode {
					if int(d.Offset) == offset {
						sums[i] += d.Base
					}
				}
			}
			var alone splitter
			if got, want := abs(sums[0]-sums[1]), difference(values, alone.split(values)); got != want {
				t.Fatalf("offset %d: the sums differ by %d, want %d", offset, got, want)
			}
		}
	})
}

// TestTurn checks that the halves of the offsets are swapped so that the sub-batches are as even as
// dividing the offsets' differences, largest first, allows. If all swaps are tried, the larger half
// of the most uneven offset starts the iteration.
func TestTurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranksets := rapid.IntRange(1, 24).Draw(t, "ranksets")
		var decoding []scheduler.Decoding
		for i, n := range rapid.SliceOfN(rapid.Int64Range(1, 9000), ranksets, 3*ranksets).Draw(t, "contexts") {
			decoding = append(decoding, scheduler.Decoding{Request: int32(i), Base: n, Offset: int32(i % ranksets)})
		}
		slices.SortStableFunc(decoding, func(a, b scheduler.Decoding) int { return int(b.Base - a.Base) })
		b := scheduler.Batch{Sub: make([]scheduler.SubBatch, 2)}
		var s sharer
		s.byOffset(&b, decoding, ranksets, nil)
		first := make([]int64, ranksets) // extra tokens of the first sub-batch
		for _, d := range b.Sub[0].Decode {
			first[d.Offset] += d.Base
		}
		for _, d := range b.Sub[1].Decode {
			first[d.Offset] -= d.Base
		}
		var total int64
		var sizes []int64
		for _, d := range first {
			total += d
			sizes = append(sizes, abs(d))
		}
		slices.Sort(sizes)
		slices.Reverse(sizes)
		var alone splitter
		if want := difference(sizes, alone.split(sizes)); abs(total) != want {
			t.Fatalf("the sub-batches differ by %d tokens, want %d", abs(total), want)
		}
		if ranksets <= exactSplit && !slices.Contains(first, sizes[0]) {
			t.Fatalf("the first sub-batch has %v tokens more of each offset, want %d of one", first, sizes[0])
		}
	})
}

// TestByOffsetByHand: the contexts of each channel are split as evenly as possible, and these splits so that both sides are even. Then the sides
// of each offset are swapped so that the sub-batches are even.
func TestByOffsetByHand(t *testing.T) {
	type of struct{ context, offset, channel int }
	for _, c := range []struct {
		name        string
		requests    []of // longest first
		first, last []int
	}{
		// 100 and 70 on channel 0, 90 and 50 on channel 1: differences of 30 and 40, one of which is
		// swapped.
		{"two channels", []of{{100, 0, 0}, {90, 0, 1}, {70, 0, 0}, {50, 0, 1}}, []int{70, 90}, []int{50, 100}},
		// Differences of 5, 4 and 3: 5 on one side, 4 and 3 on the other, which has two more. The latter go to the first
		// sub-batch.
		{"three channels", []of{{105, 0, 0}, {100, 0, 0}, {54, 0, 1}, {50, 0, 1}, {13, 0, 2}, {10, 0, 2}}, []int{13, 54, 100}, []int{10, 50, 105}},
		// Channel 0 has 9 against 7 and 4, two more on the second side; channel 1 has 6 and 5.
		{"a channel that begins with less", []of{{9, 0, 0}, {7, 0, 0}, {6, 0, 1}, {5, 0, 1}, {4, 0, 0}}, []int{4, 5, 7}, []int{6, 9}},
		// As the first case, which leaves 10. The other offset has 40 and 33, which leave 7.
		{"two offsets", []of{{100, 0, 0}, {90, 0, 1}, {70, 0, 0}, {50, 0, 1}, {40, 1, 2}, {33, 1, 2}}, []int{33, 70, 90}, []int{40, 50, 100}},
		// 5 and 4 at offset 0, 20 and 10 at offset 1: the larger difference is dealt first.
		{"the larger of two", []of{{20, 1, 0}, {10, 1, 0}, {5, 0, 0}, {4, 0, 0}}, []int{4, 20}, []int{5, 10}},
	} {
		const step = 3
		var decoding []scheduler.Decoding
		for i, r := range c.requests {
			decoding = append(decoding, scheduler.Decoding{Request: int32(i), Base: int64(r.context) - step, Offset: int32(r.offset)})
		}
		var s sharer
		for again := range 2 { // an earlier split leaves nothing
			b := scheduler.Batch{Step: step, Sub: make([]scheduler.SubBatch, 2)}
			s.byOffset(&b, decoding, 2, func(request int32) int { return c.requests[request].channel })
			for i, want := range [][]int{c.first, c.last} {
				var got []int
				for k := range b.Sub[i].Decode {
					got = append(got, b.Sub[i].Decode[k].Context(step))
				}
				if slices.Sort(got); !slices.Equal(got, want) {
					t.Errorf("%s, split %d: sub-batch %d has %v, by hand %v", c.name, again+1, i, got, want)
				}
			}
		}
	}
}

// TestByOffsetBegins: if requests of an offset begin on different channels, each sub-batch gets half of the tokens of each
// channel, as evenly as these divide. In total an offset is at least as even as its most uneven channel. If all begin on one
// channel, nothing changes.
func TestByOffsetBegins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranksets, channels := rapid.IntRange(1, 4).Draw(t, "ranksets"), rapid.IntRange(1, 4).Draw(t, "channels")
		decoding := contexts(rapid.SliceOfN(rapid.Int64Range(1, 9000), 0, 40).Draw(t, "contexts")...)
		slices.SortStableFunc(decoding, func(a, b scheduler.Decoding) int { return int(b.Base - a.Base) })
		begins := make([]int, len(decoding))
		for i := range decoding {
			decoding[i].Offset = int32(rapid.IntRange(0, ranksets-1).Draw(t, "offset"))
			begins[i] = rapid.IntRange(0, channels-1).Draw(t, "channel")
		}
		deal := func(begins func(int32) int) scheduler.Batch {
			b := scheduler.Batch{Sub: make([]scheduler.SubBatch, 2)}
			new(sharer).byOffset(&b, decoding, ranksets, begins)
			return b
		}
		if one, none := deal(func(int32) int { return 5 }), deal(nil); !reflect.DeepEqual(one, none) {
			t.Fatalf("with all on one channel %+v, without channels %+v", one, none)
		}
		b := deal(func(r int32) int { return begins[r] })
		if b.Decoding() != len(decoding) {
			t.Fatalf("%d of %d requests are in a sub-batch", b.Decoding(), len(decoding))
		}
		for offset := range ranksets {
			total, most := int64(0), int64(0)
			for channel := range channels {
				at := func(d scheduler.Decoding) bool { return int(d.Offset) == offset && begins[d.Request] == channel }
				var values []int64
				for _, d := range decoding {
					if at(d) {
						values = append(values, d.Base)
					}
				}
				var sums [2]int64
				for i := range b.Sub {
					for _, d := range b.Sub[i].Decode {
						if at(d) {
							sums[i] += d.Base
						}
					}
				}
				want := difference(values, new(splitter).split(values))
				if got := abs(sums[0] - sums[1]); got != want {
					t.Fatalf("offset %d, channel %d: the sums differ by %d, want %d", offset, channel, got, want)
				}
				total, most = total+sums[0]-sums[1], max(most, want)
			}
			if abs(total) > most {
				t.Fatalf("offset %d: the sums differ by %d, those of a channel by %d at most", offset, abs(total), most)
			}
		}
	})
}

func BenchmarkByOffset(b *testing.B) {
	var decoding []scheduler.Decoding
	for i := range 36 {
		decoding = append(decoding, scheduler.Decoding{Base: int64(20_000 - 500*i + i*i), Offset: int32(i * 7 % 4)})
	}
	batch := scheduler.Batch{Sub: make([]scheduler.SubBatch, 2)}
	var s sharer
	b.ReportAllocs()
	for b.Loop() {
		for i := range batch.Sub {
			batch.Sub[i].Decode = batch.Sub[i].Decode[:0]
		}
		s.byOffset(&batch, decoding, 4, nil)
	}
}
