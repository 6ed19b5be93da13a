package perfetto

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
)

// Event is an event of the Chrome trace-event format.
type Event struct {
	Name, Cat, Ph string
	ID            int    // of a chain of arrows
	Bp            string // "e": an arrow ends at the slice around its time
	ID2           struct{ Local string }
	Ts, Dur       float64 // microseconds
	Pid, Tid      int
	Args          map[string]any

	start, end int64 // nanoseconds
	at         int   // place in the file
}

// track is a thread of a process, or an identifier within it.
type track struct {
	pid, tid int
	cat, id  string
}

// reader is the state after the events so far.
type reader struct {
	faults []string
	slices map[track][]*Event
	open   map[track][]*Event // asynchronous events, in the order of the file
	last   map[track]int64    // start of the latest of these
	arrows map[int]*Event     // the latest of each chain
}

// Read reads a timeline, and returns the faults that keep Perfetto from showing it as written: a time that is no whole number of
// nanoseconds, which Perfetto truncates; a slice that ends after an enclosing one on its track, which Perfetto drops
// (slice_drop_overlapping_complete_event); an asynchronous event that closes nothing or goes back in time; an arrow with an end
// or intermediate point outside any slice, with one end alone, or back in time. A timeline without slices returns an error.
func Read(from io.Reader) (events []Event, faults []string, err error) {
	var document struct{ TraceEvents []Event }
	if err := json.NewDecoder(from).Decode(&document); err != nil {
		return nil, nil, err
	}
	events = document.TraceEvents
	r := reader{nil, map[track][]*Event{}, map[track][]*Event{}, map[track]int64{}, map[int]*Event{}}
	for i := range events {
		e := &events[i]
		e.at = i
		at, took := float64(1e3*e.Ts), float64(1e3*e.Dur)
		start, length := math.Round(at), math.Round(took)
		e.start, e.end = int64(start), int64(start+length)
		if rounding := 1e-9 + float64(4e-16*start); math.Abs(start-at) > rounding || math.Abs(length-took) > rounding {
			r.complain(e, "its times %v and %v us are no whole nanoseconds", e.Ts, e.Dur)
		}
		if on := (track{pid: e.Pid, tid: e.Tid}); e.Ph == "X" {
			r.slices[on] = append(r.slices[on], e)
		}
	}
	if len(r.slices) == 0 {
		return nil, nil, fmt.Errorf("none of %d events is a slice", len(events))
	}
	for _, on := range r.slices {
		r.crossing(on)
	}
	for i := range events {
		switch e := &events[i]; e.Ph {
		case "s", "t", "f":
			r.arrow(e)
		case "b", "e":
			r.async(e)
		}
	}
	for _, of := range r.open {
		for _, e := range of {
			r.complain(e, "never ends")
		}
	}
	for _, e := range r.arrows {
		if e.Ph != "f" {
			r.complain(e, "the chain of arrows with id %d never ends", e.ID)
		}
	}
	slices.Sort(r.faults)
	return events, r.faults, nil
}

func (r *reader) complain(e *Event, format string, args ...any) {
	r.faults = append(r.faults, fmt.Sprintf("event %d, %q of process %d, track %d%s: ", e.at, e.Name, e.Pid, e.Tid, e.ID2.Local)+fmt.Sprintf(format, args...))
}

// async processes an asynchronous event.
func (r *reader) async(e *Event) {
	on := track{pid: e.Pid, cat: e.Cat, id: e.ID2.Local}
	if e.start < r.last[on] {
		r.complain(e, "begins before the event in front of it")
	}
	r.last[on] = e.start
	switch open := r.open[on]; {
	case e.Ph == "b":
		r.open[on] = append(open, e)
	case len(open) == 0 || open[len(open)-1].Name != e.Name:
		r.complain(e, "ends what is not open")
	default:
		r.open[on] = open[:len(open)-1]
	}
}

// arrow processes an end or an intermediate point of an arrow. Those of a chain have the same id.
func (r *reader) arrow(e *Event) {
	on := r.slices[track{pid: e.Pid, tid: e.Tid}] // in the order of their starts
	next, _ := slices.BinarySearchFunc(on, e.start+1, func(s *Event, t int64) int { return cmp.Compare(s.start, t) })
	if !slices.ContainsFunc(on[max(0, next-64):next], func(s *Event) bool { return e.start < s.end }) {
		r.complain(e, "an arrow at %d ns is on no slice", e.start)
	}
	before := r.arrows[e.ID]
	switch {
	case e.Ph == "s" && before != nil:
		r.complain(e, "a second chain of arrows has id %d", e.ID)
	case e.Ph != "s" && (before == nil || before.Ph == "f"):
		r.complain(e, "an arrow goes on where none with id %d is open", e.ID)
	case e.Ph != "s" && e.start < before.start:
		r.complain(e, "an arrow goes back in time")
	case e.Ph == "f" && e.Bp != "e":
		r.complain(e, "an arrow ends at the next slice, not at the one around it")
	}
	r.arrows[e.ID] = e
}

// crossing finds slices of a track that begin within another and end after it.
func (r *reader) crossing(track []*Event) {
	slices.SortStableFunc(track, func(a, b *Event) int { return cmp.Compare(a.start, b.start) })
	var around []*Event // open slices, each within the one before
	for _, e := range track {
		for len(around) > 0 && around[len(around)-1].end <= e.start {
			around = around[:len(around)-1]
		}
		if len(around) > 0 && e.end > around[len(around)-1].end {
			r.complain(e, "%d to %d ns crosses the end of a slice around it", e.start, e.end)
			continue
		}
		around = append(around, e)
	}
}
