package perfetto

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
)

// event is what the rules need of an event of the Chrome trace-event format.
type event struct {
	Name string
	Ph   string
	Cat  string
	ID   json.Number // of a chain of arrows
	Bp   string
	ID2  struct{ Local string }
	Ts   json.Number // microseconds
	Dur  json.Number
	Pid  int
	Tid  int

	start, end int64 // nanoseconds
	at         int   // place in the file
}

// track is a thread of a process, or what has one identifier in it.
type track struct {
	pid, tid int
	cat, id  string
}

// Faults reads a timeline, packed by gzip or not, and returns how many slices it has and what
// Perfetto would not show as it is written: a time that is no whole number of nanoseconds, which
// it cuts; a slice that ends behind one of its track that it begins in, which it drops
// (slice_drop_overlapping_complete_event); an asynchronous event that ends what is not open, or
// goes back in time; an arrow that begins, leads on or ends where no slice is, goes back in time, or has no other end.
// The error is of a file that is no timeline.
func Faults(r io.Reader) (slicesRead int, faults []string, err error) {
	events, err := read(r)
	if err != nil {
		return 0, nil, err
	}
	complain := func(e *event, what string) {
		faults = append(faults, fmt.Sprintf("event %d, %q of process %d, track %d%s: %s", e.at, e.Name, e.Pid, e.Tid, e.ID2.Local, what))
	}
	tracks := map[track][]*event{}
	open := map[track][]*event{} // asynchronous, in the order of the file
	last := map[track]int64{}
	var arrows []*event
	for i := range events {
		e := &events[i]
		e.at = i
		if !e.times() {
			complain(e, fmt.Sprintf("times %s and %s are no whole nanoseconds", e.Ts, e.Dur))
		}
		on := track{pid: e.Pid, cat: e.Cat, id: e.ID2.Local}
		switch e.Ph {
		case "X":
			slicesRead++
			on = track{pid: e.Pid, tid: e.Tid}
			tracks[on] = append(tracks[on], e)
		case "s", "t", "f":
			arrows = append(arrows, e)
		case "b", "e":
			if e.start < last[on] {
				complain(e, "begins before the event in front of it")
			}
			last[on] = e.start
			stack := open[on]
			switch {
			case e.Ph == "b":
				open[on] = append(stack, e)
			case len(stack) == 0 || stack[len(stack)-1].Name != e.Name:
				complain(e, "ends what is not open")
			default:
				open[on] = stack[:len(stack)-1]
			}
		}
	}
	for _, of := range open {
		for _, e := range of {
			complain(e, "never ends")
		}
	}
	for _, of := range tracks {
		for _, e := range crossing(of) {
			complain(e, fmt.Sprintf("%d to %d ns crosses the end of a slice around it", e.start, e.end))
		}
	}
	chained(arrows, tracks, complain)
	slices.Sort(faults)
	return slicesRead, faults, nil
}

// chained complains of arrows in the order of the file: those of a chain have one id, and none but one of them begins it and ends it.
func chained(arrows []*event, tracks map[track][]*event, complain func(e *event, what string)) {
	open, used := map[json.Number]*event{}, map[json.Number]bool{}
	for _, e := range arrows {
		on := tracks[track{pid: e.Pid, tid: e.Tid}] // in the order of their starts
		next, _ := slices.BinarySearchFunc(on, e.start+1, func(s *event, t int64) int { return cmp.Compare(s.start, t) })
		if !slices.ContainsFunc(on[max(0, next-64):next], func(s *event) bool { return e.start < s.end }) {
			complain(e, fmt.Sprintf("an arrow at %d ns is on no slice", e.start))
		}
		before := open[e.ID]
		switch {
		case e.Ph == "s" && used[e.ID]:
			complain(e, fmt.Sprintf("a second chain of arrows has id %s", e.ID))
		case e.Ph != "s" && before == nil:
			complain(e, fmt.Sprintf("an arrow goes on where none with id %s is open", e.ID))
		case e.Ph != "s" && e.start < before.start:
			complain(e, "an arrow goes back in time")
		case e.Ph == "f" && e.Bp != "e":
			complain(e, "an arrow ends at the next slice, not at the one around it")
		}
		open[e.ID], used[e.ID] = e, true
		if e.Ph == "f" {
			delete(open, e.ID)
		}
	}
	for _, e := range open {
		complain(e, fmt.Sprintf("the chain of arrows with id %s never ends", e.ID))
	}
}

func read(r io.Reader) ([]event, error) {
	b := bufio.NewReader(r)
	if magic, _ := b.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, err
		}
		b = bufio.NewReader(z)
	}
	var document struct{ TraceEvents []event }
	if err := json.NewDecoder(b).Decode(&document); err != nil {
		return nil, err
	}
	if document.TraceEvents == nil {
		return nil, errors.New("no traceEvents")
	}
	return document.TraceEvents, nil
}

// times sets the nanoseconds of an event, cut as Perfetto cuts them, and says whether they are
// what is written.
func (e *event) times() bool {
	exact := true
	ns := func(microseconds json.Number) int64 {
		t, ok := new(big.Rat).SetString(cmp.Or(microseconds.String(), "0"))
		if !ok {
			exact = false
			return 0
		}
		t.Mul(t, big.NewRat(1000, 1))
		exact = exact && t.IsInt()
		return new(big.Int).Div(t.Num(), t.Denom()).Int64()
	}
	e.start = ns(e.Ts)
	e.end = e.start + ns(e.Dur)
	return exact
}

// crossing returns the slices of a track that begin in another one and end behind it.
func crossing(track []*event) (dropped []*event) {
	slices.SortStableFunc(track, func(a, b *event) int { return cmp.Compare(a.start, b.start) })
	var around []*event // those that have begun, each in the one before it
	for _, e := range track {
		for len(around) > 0 && around[len(around)-1].end <= e.start {
			around = around[:len(around)-1]
		}
		if len(around) > 0 && e.end > around[len(around)-1].end {
			dropped = append(dropped, e)
			continue
		}
		around = append(around, e)
	}
	return dropped
}
