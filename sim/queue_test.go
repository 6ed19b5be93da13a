package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// reference is the queue's specification: a list, searched for its first event
// by (time, priority, sequence).
type reference struct {
	pending []referenceEvent
	pushed  int
}

type referenceEvent struct {
	Event
	priority Priority
	sequence int
}

func (r *reference) push(p Priority, e Event) {
	r.pending = append(r.pending, referenceEvent{e, p, r.pushed})
	r.pushed++
}

func (r *reference) pop() (Event, bool) {
	if len(r.pending) == 0 {
		return Event{}, false
	}
	first := 0
	for i, e := range r.pending {
		f := r.pending[first]
		switch {
		case e.Time != f.Time:
			if e.Time < f.Time {
				first = i
			}
		case e.priority != f.priority:
			if e.priority < f.priority {
				first = i
			}
		case e.sequence < f.sequence:
			first = i
		}
	}
	e := r.pending[first].Event
	r.pending = slices.Delete(r.pending, first, first+1)
	return e, true
}

// delayKinds are distributions of the distance from now, chosen to defeat one
// part of the queue each.
var delayKinds = []struct {
	name  string
	delay func(r *rand.Rand) Time
}{
	{"zero", func(*rand.Rand) Time { return 0 }},
	{"equal", func(*rand.Rand) Time { return 625 }},
	{"few values", func(r *rand.Rand) Time { return 625 * Time(r.IntN(4)) }},
	{"uniform", func(r *rand.Rand) Time { return Time(r.IntN(100_000)) }},
	{"exponential", func(r *rand.Rand) Time { return Time(r.ExpFloat64() * 1e6) }},
	{"any magnitude", func(r *rand.Rand) Time { return Time(1) << r.IntN(40) }},
	{"huge gaps", func(r *rand.Rand) Time { return Time(r.IntN(3)) * 1e15 }},
	{"mostly near", func(r *rand.Rand) Time {
		if r.IntN(20) == 0 {
			return 1e12
		}
		return Time(r.IntN(1000))
	}},
}

// TestQueueAgainstReference pushes and pops at random, in phases of one kind
// of delay and of growing or shrinking numbers, as a simulation's phases do.
func TestQueueAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		var q Queue
		var want reference
		for range rapid.IntRange(1, 5).Draw(t, "phases") {
			kind := rapid.SampledFrom(delayKinds).Draw(t, "kind")
			pushes := rapid.IntRange(0, 100).Draw(t, "pushes in 100")
			for range rapid.IntRange(0, 400).Draw(t, "steps") {
				if r.IntN(100) < pushes {
					e := Event{Time: q.Now() + kind.delay(r), Kind: r.Int32(), A: r.Int32(), B: r.Int32()}
					p := Priority(r.IntN(4))
					q.Push(p, e)
					want.push(p, e)
				} else {
					popBoth(t, &q, &want)
				}
				if q.Len() != len(want.pending) {
					t.Fatalf("%s: %d pending, want %d", kind.name, q.Len(), len(want.pending))
				}
			}
		}
		for q.Len() > 0 {
			popBoth(t, &q, &want)
		}
		popBoth(t, &q, &want)
		if q.Err() != nil || q.Pushed() != int64(want.pushed) {
			t.Fatalf("error %v, %d pushed, want %d", q.Err(), q.Pushed(), want.pushed)
		}
	})
}

func popBoth(t *rapid.T, q *Queue, want *reference) {
	got, ok := q.Pop()
	expected, wantOK := want.pop()
	if got != expected || ok != wantOK {
		t.Fatalf("popped %+v, %v, want %+v, %v", got, ok, expected, wantOK)
	}
	if ok && q.Now() != got.Time {
		t.Fatalf("now is %v after an event at %v", q.Now(), got.Time)
	}
}

// TestQueueLarge reaches the sizes at which the wheel is laid out many times.
func TestQueueLarge(t *testing.T) {
	for _, kind := range delayKinds {
		t.Run(kind.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, 4))
			var q Queue
			all := make([]referenceEvent, 0, 30_000)
			push := func() {
				e := Event{Time: q.Now() + kind.delay(r), A: int32(len(all))}
				p := Priority(r.IntN(4))
				q.Push(p, e)
				all = append(all, referenceEvent{e, p, len(all)})
			}
			var got []Event
			for range 10_000 {
				push()
			}
			for len(all) < cap(all) {
				e, _ := q.Pop()
				got = append(got, e)
				push()
			}
			for e, ok := q.Pop(); ok; e, ok = q.Pop() {
				got = append(got, e)
			}
			checkOrder(t, got, all)
		})
	}
}

// checkOrder verifies that got holds each pushed event once, in order of time,
// and that of two events of one time and priority the earlier push goes first.
func checkOrder(t *testing.T, got []Event, pushed []referenceEvent) {
	t.Helper()
	if len(got) != len(pushed) {
		t.Fatalf("%d events popped of %d pushed", len(got), len(pushed))
	}
	seen := make([]bool, len(pushed))
	last := map[Priority]int32{}
	for i, e := range got {
		if seen[e.A] || e != pushed[e.A].Event {
			t.Fatalf("event %d was popped twice or changed: %+v", e.A, e)
		}
		seen[e.A] = true
		if i > 0 && e.Time < got[i-1].Time {
			t.Fatalf("pop %d at %v follows one at %v", i, e.Time, got[i-1].Time)
		}
		if i > 0 && e.Time > got[i-1].Time {
			clear(last)
		}
		p := pushed[e.A].priority
		if before, ok := last[p]; ok && before > e.A {
			t.Fatalf("event %d was pushed after %d and popped before it", before, e.A)
		}
		last[p] = e.A
	}
}

func TestQueueTies(t *testing.T) {
	var q Queue
	for i, p := range []Priority{Observe, Decide, Complete, Arrive, Complete, Decide} {
		q.Push(p, Event{Time: 5, A: int32(i)})
	}
	var got []int32
	for e, ok := q.Pop(); ok; e, ok = q.Pop() {
		got = append(got, e.A)
	}
	if want := []int32{2, 4, 3, 1, 5, 0}; !slices.Equal(got, want) {
		t.Errorf("popped %v, want %v", got, want)
	}
}

func TestQueueEndOfTime(t *testing.T) {
	var q Queue
	for i := range 200 {
		q.Push(Complete, Event{Time: math.MaxInt64 - Time(i%100)})
	}
	q.Push(Complete, Event{Time: 0})
	last := Time(-1)
	for range 201 {
		e, ok := q.Pop()
		if !ok || e.Time < last {
			t.Fatalf("popped %v, %v after %v", e.Time, ok, last)
		}
		last = e.Time
	}
	if last != math.MaxInt64 || q.Len() != 0 {
		t.Errorf("the last of all is at %d with %d pending", last, q.Len())
	}
}

func TestQueuePast(t *testing.T) {
	var q Queue
	q.Push(Complete, Event{Time: 10})
	q.Push(Complete, Event{Time: 20})
	q.Pop()
	q.Push(Complete, Event{Time: 10}) // now is not the past
	if q.Err() != nil {
		t.Fatalf("an event at now: %v", q.Err())
	}
	q.Push(Complete, Event{Time: 9, Kind: 7, A: 1, B: 2})
	q.Push(Complete, Event{Time: 8})
	err := q.Err()
	if err == nil || !strings.Contains(err.Error(), "kind 7 (1, 2) pushed at 10ps for the past instant 9ps") {
		t.Errorf("got error %v", err)
	}
	if e, ok := q.Pop(); ok {
		t.Errorf("a queue with an error popped %+v", e)
	}
	q = Queue{}
	late := Time(math.MaxInt64 - 5)
	q.Push(Complete, Event{Time: late})
	q.Pop()
	q.Push(Complete, Event{Time: late + 10}) // overflows
	if err := q.Err(); err == nil || !strings.Contains(err.Error(), "exceeds 106 days") {
		t.Errorf("got error %v", err)
	}
}

func TestQueueAllocations(t *testing.T) {
	for _, name := range []string{"exponential", "skewed", "equal", "clocked"} {
		d := delays(name)
		var q Queue
		hold := func() {
			for i := range 4096 {
				e, _ := q.Pop()
				e.Time += d[i&1023]
				q.Push(Complete, e)
			}
		}
		for i := range 4096 {
			q.Push(Complete, Event{Time: d[i&1023]})
		}
		for range 50 {
			hold()
		}
		if n := testing.AllocsPerRun(20, hold); n >= 1 {
			t.Errorf("%s: %v allocations in 4096 events", name, n)
		}
	}
}
