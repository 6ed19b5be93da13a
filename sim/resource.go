package sim

import "fmt"

// Resource is a server that does one job at a time, in the order in which they
// came: a GPU, a direction of a link, a rankset. Jobs are integers that mean
// something to the caller. The zero value is idle.
//
// The resource keeps no events. Enqueue and Complete tell when the job that
// they start will end, and the caller pushes that event:
//
//	if end, started := r.Enqueue(now, job, service); started {
//		queue.Push(Complete, Event{Time: end, Kind: jobDone, A: job})
//	}
//
// and when it pops:
//
//	if job, end, started := r.Complete(now); started {
//		queue.Push(Complete, Event{Time: end, Kind: jobDone, A: job})
//	}
type Resource struct {
	waiting []waitingJob // ring of a power of two
	head    int
	count   int

	job    int32
	active bool
	start  Time // of the job in service
	end    Time

	busy      Time // of the jobs completed
	completed int64
	err       error
}

// waitingJob is a job in the queue of a resource.
type waitingJob struct {
	service Time
	job     int32
}

// Enqueue adds a job that takes service. Where the resource is idle the job
// starts at once: Enqueue returns its end and true. A negative service time
// becomes the resource's error.
func (r *Resource) Enqueue(now Time, job int32, service Time) (end Time, started bool) {
	if service < 0 {
		r.fail("job %d enqueued at %v takes %v", job, now, service)
		return 0, false
	}
	if r.active {
		r.append(waitingJob{service, job})
		return 0, false
	}
	if now < r.end {
		r.fail("job %d starts at %v, before the last one's end at %v", job, now, r.end)
		return 0, false
	}
	return r.begin(now, job, service), true
}

// Complete ends the job in service, whose end must be now, and starts the next
// one that waits: it returns that job, its end and true, or false where none
// waits.
func (r *Resource) Complete(now Time) (next int32, end Time, started bool) {
	if !r.active || now != r.end {
		r.fail("a completion at %v of job %d (in service: %v), which ends at %v", now, r.job, r.active, r.end)
		return 0, 0, false
	}
	r.active = false
	r.busy += r.end - r.start
	r.completed++
	if r.count == 0 {
		return 0, 0, false
	}
	w := r.waiting[r.head]
	r.head = (r.head + 1) & (len(r.waiting) - 1)
	r.count--
	return w.job, r.begin(now, w.job, w.service), true
}

func (r *Resource) begin(now Time, job int32, service Time) Time {
	r.job, r.active, r.start, r.end = job, true, now, now+service
	return r.end
}

// append adds w to the ring.
func (r *Resource) append(w waitingJob) {
	if r.count == len(r.waiting) {
		grown := make([]waitingJob, max(8, 2*len(r.waiting)))
		n := copy(grown, r.waiting[r.head:])
		copy(grown[n:], r.waiting[:r.head])
		r.waiting, r.head = grown, 0
	}
	r.waiting[(r.head+r.count)&(len(r.waiting)-1)] = w
	r.count++
}

// InService returns the job in service and its start, and false where the
// resource is idle.
func (r *Resource) InService() (job int32, start Time, ok bool) { return r.job, r.start, r.active }

// End returns the end of the job in service, and false where the resource is
// idle.
func (r *Resource) End() (end Time, ok bool) { return r.end, r.active }

// Reset makes the resource idle and its accounts empty. It keeps its memory.
func (r *Resource) Reset() { *r = Resource{waiting: r.waiting} }

// Shift moves the job in service on by a span of time: what a caller does that
// skips a span in which everything repeats. Busy and Completed do not count it.
func (r *Resource) Shift(by Time) {
	r.start += by
	r.end += by
}

// AppendState appends to b what the future of the resource depends on, relative
// to now: two resources with equal states treat the same jobs alike.
func (r *Resource) AppendState(b []int64, now Time) []int64 {
	b = append(b, int64(r.count))
	if r.active {
		b = append(b, int64(r.job)+1, int64(r.end-now))
	}
	for i := range r.count {
		w := &r.waiting[(r.head+i)&(len(r.waiting)-1)]
		b = append(b, int64(w.job)+1, int64(w.service))
	}
	return b
}

// Waiting returns the number of jobs that wait, without the one in service.
func (r *Resource) Waiting() int { return r.count }

// Completed returns the number of jobs completed.
func (r *Resource) Completed() int64 { return r.completed }

// Busy returns how long the resource has worked up to now, which must not be
// before the start of the job in service.
func (r *Resource) Busy(now Time) Time {
	if r.active {
		return r.busy + min(now, r.end) - r.start
	}
	return r.busy
}

// Err returns the resource's first error: a completion at another time than
// the job's end, a start before the previous end, a negative service time.
func (r *Resource) Err() error { return r.err }

func (r *Resource) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("sim: "+format, args...)
	}
}
