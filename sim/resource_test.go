package sim

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestResource(t *testing.T) {
	var r Resource
	if end, started := r.Enqueue(5, 1, 10); !started || end != 15 {
		t.Fatalf("an idle resource: end %v, started %v", end, started)
	}
	if _, started := r.Enqueue(7, 2, 4); started {
		t.Fatal("a busy resource started a second job")
	}
	if job, start, ok := r.InService(); job != 1 || start != 5 || !ok {
		t.Errorf("in service: %d since %v, %v", job, start, ok)
	}
	if r.Waiting() != 1 || r.Busy(9) != 4 {
		t.Errorf("at 9: %d waiting, busy %v, want 1, 4", r.Waiting(), r.Busy(9))
	}
	if job, end, started := r.Complete(15); job != 2 || end != 19 || !started {
		t.Errorf("after job 1: job %d, end %v, %v", job, end, started)
	}
	if _, _, started := r.Complete(19); started {
		t.Error("a job started from an empty queue")
	}
	if r.Busy(100) != 14 || r.Completed() != 2 || r.Err() != nil {
		t.Errorf("busy %v, %d completed, %v, want 14, 2, nil", r.Busy(100), r.Completed(), r.Err())
	}
}

func TestResourceErrors(t *testing.T) {
	for name, use := range map[string]func(r *Resource){
		"completion while idle":  func(r *Resource) { r.Complete(0) },
		"completion too early":   func(r *Resource) { r.Enqueue(0, 1, 10); r.Complete(9) },
		"completion too late":    func(r *Resource) { r.Enqueue(0, 1, 10); r.Complete(11) },
		"negative service time":  func(r *Resource) { r.Enqueue(0, 1, -1) },
		"start before last end":  func(r *Resource) { r.Enqueue(0, 1, 10); r.Complete(10); r.Enqueue(9, 2, 1) },
		"completion a 2nd time":  func(r *Resource) { r.Enqueue(0, 1, 10); r.Complete(10); r.Complete(10) },
		"first error is the one": func(r *Resource) { r.Enqueue(0, 1, -1); r.Enqueue(0, 2, 1) },
	} {
		var r Resource
		use(&r)
		if r.Err() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestResourceFIFO compares with Lindley's recursion: a job starts when it has
// arrived and the one before has ended.
func TestResourceFIFO(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "jobs")
		var q Queue
		var r Resource
		service := make([]Time, n)
		wantEnd := make([]Time, n)
		arrival, free, work := Time(0), Time(0), Time(0)
		for i := range n {
			arrival += Time(rapid.IntRange(0, 20).Draw(t, "gap"))
			service[i] = Time(rapid.IntRange(0, 20).Draw(t, "service"))
			free = max(free, arrival) + service[i]
			wantEnd[i] = free
			work += service[i]
			q.Push(Arrive, Event{Time: arrival, Kind: 1, A: int32(i)})
		}
		ended := 0
		for e, ok := q.Pop(); ok; e, ok = q.Pop() {
			if e.Kind == 1 {
				if end, started := r.Enqueue(e.Time, e.A, service[e.A]); started {
					q.Push(Complete, Event{Time: end, A: e.A})
				}
				continue
			}
			if int(e.A) != ended || e.Time != wantEnd[e.A] {
				t.Fatalf("job %d ended at %v as number %d, want %v", e.A, e.Time, ended, wantEnd[e.A])
			}
			ended++
			if job, end, started := r.Complete(e.Time); started {
				q.Push(Complete, Event{Time: end, A: job})
			}
		}
		if ended != n || r.Busy(q.Now()) != work || r.Err() != nil || q.Err() != nil {
			t.Fatalf("%d of %d ended, busy %v of %v, %v, %v", ended, n, r.Busy(q.Now()), work, r.Err(), q.Err())
		}
	})
}

func TestResourceAllocations(t *testing.T) {
	var r Resource
	now := Time(0)
	cycle := func() {
		for i := range 40 {
			r.Enqueue(now, int32(i), 3)
		}
		for range 40 {
			now += 3
			r.Complete(now)
		}
	}
	cycle()
	if n := testing.AllocsPerRun(100, cycle); n != 0 || r.Err() != nil {
		t.Errorf("%v allocations in 40 jobs, %v", n, r.Err())
	}
}

func BenchmarkResource(b *testing.B) {
	var r Resource
	now := Time(0)
	for i := range 8 {
		r.Enqueue(now, int32(i), 5)
	}
	b.ReportAllocs()
	for b.Loop() {
		now += 5
		job, _, _ := r.Complete(now)
		r.Enqueue(now, job, 5)
	}
}

// TestShiftAndState moves a busy resource on and compares what its future depends
// on; a resource that is reset starts anew, at an earlier time, too.
func TestShiftAndState(t *testing.T) {
	var r Resource
	r.Enqueue(100, 1, 50)
	r.Enqueue(110, 2, 30)
	before := r.AppendState(nil, 120)
	r.Shift(1000)
	if after := r.AppendState(nil, 1120); !slices.Equal(after, before) {
		t.Errorf("the state %v becomes %v", before, after)
	}
	if end, ok := r.End(); !ok || end != 1150 {
		t.Errorf("the end is %v, %v, want 1150", end, ok)
	}
	if next, end, ok := r.Complete(1150); !ok || next != 2 || end != 1180 {
		t.Errorf("then job %d until %v, %v, want 2 until 1180", next, end, ok)
	}
	r.Reset()
	if _, ok := r.End(); ok || r.Waiting() != 0 || r.Completed() != 0 {
		t.Error("a reset resource is not idle")
	}
	if _, started := r.Enqueue(5, 3, 1); !started || r.Err() != nil {
		t.Errorf("a reset resource does not start at an earlier time: %v", r.Err())
	}
}
