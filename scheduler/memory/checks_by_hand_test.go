package memory

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/traces"
)

// TestSharedByHand: of two blocks of 16 tokens the first request uses both, the second one. In a sub-batch they share 16 tokens.
func TestSharedByHand(t *testing.T) {
	l := NewLedger(LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: 16, Capacity: 100})
	l.KeepPrefixes(16, 10, scheduler.PlaceByPrefix)
	holds := make([]Reservation, 2)
	for i, tokens := range []int{32, 16} {
		h := HistoryOf(&traces.Request{Input: 48, Output: 1}, 7, tokens) // one conversation
		holds[i], _ = l.Reserve(Prompted(tokens+1), &h, 0, nil)
		l.Keep(&holds[i], &h)
	}
	both := []scheduler.Decoding{{Request: 0}, {Request: 1}}
	for _, c := range []struct {
		name   string
		decode []scheduler.Decoding
		shared []scheduler.Shared
		legal  bool
	}{
		{"as they lie", both, []scheduler.Shared{{Tokens: 16, Requests: []int32{0, 1}}}, true},
		{"by place in the sub-batch", []scheduler.Decoding{{Request: 1}, {Request: 0}}, []scheduler.Shared{{Tokens: 16, Requests: []int32{0, 1}}}, true},
		{"alone", both[:1], nil, true},
		{"nobody shares", both, nil, false},
		{"too many tokens", both, []scheduler.Shared{{Tokens: 32, Requests: []int32{0, 1}}}, false},
		{"one with itself", both[:1], []scheduler.Shared{{Tokens: 32, Requests: []int32{0}}}, false},
		{"in two parts", both, []scheduler.Shared{{Tokens: 8, Requests: []int32{0, 1}}, {Tokens: 8, Requests: []int32{0, 1}}}, false},
	} {
		if err := l.NewCacheCheck().CheckShared(&scheduler.SubBatch{Decode: c.decode, Shared: c.shared}, holds); (err == nil) != c.legal {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	err := l.NewCacheCheck().CheckShared(&scheduler.SubBatch{Decode: both, Shared: []scheduler.Shared{{Tokens: 32, Requests: []int32{0, 1}}}}, holds)
	if want := "decoding requests share tokens map[[0 1]:32], their blocks have map[[0 1]:16]"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestLongStretchByHand: two requests use the same three blocks of 16 tokens, which form one run of 48.
func TestLongStretchByHand(t *testing.T) {
	l := NewLedger(LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: 16, Capacity: 100})
	l.KeepPrefixes(16, 10, scheduler.PlaceByPrefix)
	holds := make([]Reservation, 4)
	for i := range holds {
		h := HistoryOf(&traces.Request{Input: 64, Output: 1}, int32(i%2), 48) // of two conversations
		holds[i], _ = l.Reserve(Prompted(49), &h, 0, nil)
		l.Keep(&holds[i], &h)
	}
	var decode []scheduler.Decoding
	for i := range holds {
		decode = append(decode, scheduler.Decoding{Request: int32(i)})
	}
	for tokens, legal := range map[int]bool{16: false, 32: false, 48: true, 64: false} {
		shared := []scheduler.Shared{{Tokens: tokens, Requests: []int32{0, 2}}, {Tokens: tokens, Requests: []int32{1, 3}}} // which save as much
		if err := l.NewCacheCheck().CheckShared(&scheduler.SubBatch{Decode: decode, Shared: shared}, holds); (err == nil) != legal {
			t.Errorf("%d tokens: %v", tokens, err)
		}
	}
}

// TestOrderOfSharesByHand: a run that saves fewer tokens comes after one that saves more. Two requests save their tokens once, three
// twice.
func TestOrderOfSharesByHand(t *testing.T) {
	l := NewLedger(LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: 16, Capacity: 100})
	l.KeepPrefixes(16, 10, scheduler.PlaceByPrefix)
	holds, decode := make([]Reservation, 5), make([]scheduler.Decoding, 5)
	for i, first := range []uint64{1, 1, 1, 2, 2} {
		r := &traces.Request{Input: 2*traces.BlockTokens + 1, Output: 1, Hashes: []uint64{first, 9}}
		h := HistoryOf(r, int32(i), 16)
		holds[i], _ = l.Reserve(Prompted(17), &h, 0, nil)
		l.Keep(&holds[i], &h)
		decode[i].Request = int32(i)
	}
	three, two := scheduler.Shared{Tokens: 16, Requests: []int32{0, 1, 2}}, scheduler.Shared{Tokens: 16, Requests: []int32{3, 4}}
	for legal, shared := range map[bool][]scheduler.Shared{true: {three, two}, false: {two, three}} {
		if err := l.NewCacheCheck().CheckShared(&scheduler.SubBatch{Decode: decode, Shared: shared}, holds); (err == nil) != legal {
			t.Errorf("%v: %v", shared, err)
		}
	}
}

// TestOutlastedByHand: a request that has emitted more than any expected output is expected to run for as many steps more, and then
// to end.
func TestOutlastedByHand(t *testing.T) {
	f := NewForecast(&scheduler.MemorySpec{Admission: scheduler.AdmitCurrent, MaxTokens: 8, History: 5}, 1)
	f.Ended(3)
	f.Add(0, 10, 20) // to be admitted: 8 at most are expected
	l := NewLedger(LedgerSpec{Ranksets: 1, Layers: 1, HeadsPerChannel: 1, UnitTokens: 1, Capacity: 100})
	f.Foresee(l)
	f.Foresee(l) // anew
	for k := range 12 {
		want := 0.0
		if ahead[k] <= 8 { // in the last step of the place
			want = float64(10 + 20 + ahead[k+1] - 1)
		}
		if got := f.own.need[k]; math.Abs(got-want) > 1e-12 || f.own.spread[k] != 0 {
			t.Errorf("in %d steps it needs %v ± %v units, by hand %v", ahead[k], got, f.own.spread[k], want)
		}
	}
	if f.reach != 8 {
		t.Errorf("it runs for %d steps, want 8", f.reach)
	}
	f.Clear()
	f.Add(0, 10, 6) // of another request, with 2 to go
	if f.Foresee(l); f.reach >= 8 {
		t.Errorf("one that may emit two more runs for %d steps", f.reach)
	}
}
