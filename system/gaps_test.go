package system

import (
	"testing"

	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/units"
	"pgregory.net/rapid"
)

// TestGapsIsTheRecordOfEachRequest compares the shared bookkeeping with a record of every request's
// tokens, while requests enter, sit out, take part again, are preempted and end.
func TestGapsIsTheRecordOfEachRequest(t *testing.T) {
	const (
		waits = iota
		decodes
		sits
		gone
		ended
	)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "requests")
		target := units.Duration(rapid.IntRange(0, 12).Draw(t, "target"))
		g, slow := newGaps(n, target), make([]int64, n)
		var decode, stalls, all results.Distribution
		state, latest, left := make([]int, n), make([]units.Duration, n), make([]bool, n)
		now := units.Duration(0)
		token := func(i int) { // of a request that had one before
			want := &decode
			if left[i] {
				want = &stalls
			}
			for _, d := range []*results.Distribution{want, &all} {
				d.Add(int64(now-latest[i]), 1)
			}
			if target > 0 && now-latest[i] > target {
				slow[i]++
			}
			latest[i], left[i] = now, false
		}
		for range rapid.IntRange(1, 60).Draw(t, "iterations") {
			now += units.Duration(rapid.IntRange(1, 9).Draw(t, "duration"))
			// Before the iteration, as the scheduler forms it.
			for i := range n {
				r := int32(i)
				switch act := rapid.IntRange(0, 9).Draw(t, "act"); {
				case act == 0 && state[i] == decodes:
					g.leave(r)
					state[i], left[i] = sits, true
				case act == 1 && state[i] == sits:
					g.rejoin(r)
					state[i] = decodes
				case act == 2 && (state[i] == decodes || state[i] == sits):
					g.leave(r)
					state[i], left[i] = gone, true
				}
			}
			// At its end: a step of all decoding requests, or prompts alone.
			step := 0
			if rapid.Bool().Draw(t, "decode") {
				for i := range n {
					if state[i] == decodes {
						token(i)
						step++
					}
				}
			}
			g.decoded(now, step, 0)
			for i := range n {
				r := int32(i)
				switch act := rapid.IntRange(0, 4).Draw(t, "end"); {
				case act == 0 && state[i] == waits:
					g.enter(r, now)
					state[i], latest[i] = decodes, now
				case act == 0 && state[i] == gone:
					if !g.left(r) {
						t.Fatalf("request %d has emitted tokens before", i)
					}
					g.resume(r, now)
					token(i)
					if rapid.Bool().Draw(t, "last") {
						state[i] = ended
						if got := g.slowOf(r, true); got != slow[i] {
							t.Fatalf("request %d ends with a prompt after %d gaps above %v, got %d", i, slow[i], target, got)
						}
						break
					}
					g.enter(r, now)
					state[i] = decodes
				case act == 1 && state[i] == decodes && step > 0:
					state[i] = ended
					if got := g.slowOf(r, false); got != slow[i] {
						t.Fatalf("request %d has %d gaps above %v, got %d", i, slow[i], target, got)
					}
				}
			}
		}
		for what, d := range map[string][2]*results.Distribution{"decode": {&g.decode, &decode}, "stalls": {&g.stalls, &stalls}} {
			if got, want := d[0], d[1]; got.Count() != want.Count() || got.Milliseconds() != want.Milliseconds() {
				t.Fatalf("%s: %d gaps %+v, want %d gaps %+v", what, got.Count(), got.Milliseconds(), want.Count(), want.Milliseconds())
			}
		}
		g.decode.AddAll(&g.stalls)
		if g.decode.Count() != all.Count() || g.decode.Sum() != all.Sum() {
			t.Fatalf("decode gaps and stalls: %d of %v in all, want %d of %v", g.decode.Count(), g.decode.Sum(), all.Count(), all.Sum())
		}
	})
}
