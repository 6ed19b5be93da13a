package perfetto

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestRead: slices that nest or are disjoint pass, all others are reported.
func TestRead(t *testing.T) {
	slice := func(name, ts, dur string) string {
		return `{"name":"` + name + `","ph":"X","ts":` + ts + `,"dur":` + dur + `,"pid":0,"tid":1}`
	}
	async := func(name, ph, ts string) string {
		return `{"name":"` + name + `","cat":"request","ph":"` + ph + `","ts":` + ts + `,"id2":{"local":"7"}}`
	}
	arrow := func(ph, id, ts string) string {
		return `{"name":"arrow","ph":"` + ph + `","id":` + id + `,"bp":"e","ts":` + ts + `,"pid":0,"tid":1}`
	}
	two := slice("a", "0", "1") + "," + slice("b", "1", "1") + "," + slice("nothing", "3", "0")
	for _, c := range []struct {
		events []string
		want   string // in the fault, "" for none
	}{
		{[]string{slice("outer", "0", "1"), slice("a", "0", "0.4"), slice("b", "0.4", "0.6"), slice("next", "1", "0.001")}, ""},
		{[]string{slice("later", "5", "1"), slice("earlier", "1.5", "3.5")}, ""},
		{[]string{slice("outer", "0", "1"), slice("nothing", "1", "0"), slice("next", "1", "2")}, ""},
		{[]string{slice("outer", "0", "1"), slice("child", "0.5", "0.501")}, `"child"`},
		{[]string{slice("first", "0", "1.001"), slice("second", "1", "1")}, `"second"`},
		{[]string{slice("child", "0", "1"), slice("parent", "0", "2")}, `"parent"`},
		{[]string{slice("outer", "0", "1"), slice("inner", "0.1", "0.2"), slice("late", "0.3", "1")}, `"late"`},
		{[]string{slice("picoseconds", "0.000001", "1")}, "no whole nanoseconds"},
		{[]string{two, async("request", "b", "1"), async("decode", "b", "1"), async("decode", "e", "2"), async("request", "e", "2")}, ""},
		{[]string{two, async("request", "b", "1"), async("decode", "b", "1"), async("request", "e", "2"), async("decode", "e", "2")}, "ends what is not open"},
		{[]string{two, async("request", "b", "2"), async("request", "e", "1")}, "begins before"},
		{[]string{two, async("request", "b", "2")}, "never ends"},
		{[]string{two, arrow("s", "1", "0"), arrow("t", "1", "0.5"), arrow("f", "1", "1"), arrow("s", "2", "0"), arrow("f", "2", "0")}, ""},
		{[]string{two, arrow("s", "1", "0"), arrow("f", "1", "2")}, "on no slice"},
		{[]string{two, arrow("s", "1", "0"), arrow("f", "1", "3")}, "on no slice"},
		{[]string{two, arrow("s", "1", "0"), arrow("t", "1", "1")}, "never ends"},
		{[]string{two, arrow("s", "1", "0"), arrow("f", "1", "1"), arrow("f", "1", "1")}, "where none with id 1 is open"},
		{[]string{two, arrow("t", "1", "0"), arrow("f", "1", "1")}, "where none with id 1 is open"},
		{[]string{two, arrow("s", "1", "1"), arrow("f", "1", "0")}, "back in time"},
		{[]string{two, arrow("s", "1", "0"), arrow("f", "1", "1"), arrow("s", "1", "0"), arrow("f", "1", "1")}, "a second chain"},
		{[]string{two, arrow("s", "1", "0"), strings.Replace(arrow("f", "1", "1"), `"bp":"e",`, "", 1)}, "the next slice"},
	} {
		text := `{"traceEvents":[` + strings.Join(c.events, ",") + `]}`
		events, faults, err := Read(strings.NewReader(text))
		if all := strings.Join(faults, "; "); err != nil || len(events) < len(c.events) || (c.want == "") != (all == "") || !strings.Contains(all, c.want) {
			t.Errorf("got %q, %v, want %q of %s", all, err, c.want, text)
		}
	}
	for _, text := range []string{"", "{}", `{"traceEvents":5}`, `{"traceEvents":[` + async("request", "b", "2") + `]}`} {
		if _, _, err := Read(strings.NewReader(text)); err == nil {
			t.Errorf("%q is a timeline", text)
		}
	}
}

// TestFaultsOfTracks: tracks differ by process, thread and identifier, and each fault names its event, in the order of the
// texts. All numbers of an event differ.
func TestFaultsOfTracks(t *testing.T) {
	slice := func(name string, pid, tid int, ts, dur string) string {
		return fmt.Sprintf(`{"name":%q,"ph":"X","ts":%s,"dur":%s,"pid":%d,"tid":%d}`, name, ts, dur, pid, tid)
	}
	async := func(name, ph, category, local string, pid int, ts string) string {
		return fmt.Sprintf(`{"name":%q,"ph":%q,"cat":%q,"id2":{"local":%q},"pid":%d,"tid":9,"ts":%s}`, name, ph, category, local, pid, ts)
	}
	arrow := func(ph string, id, pid, tid int, ts string) string {
		return fmt.Sprintf(`{"name":"arrow","ph":%q,"id":%d,"bp":"e","ts":%s,"pid":%d,"tid":%d}`, ph, id, ts, pid, tid)
	}
	busy := slice("busy", 3, 5, "0", "10")
	for _, c := range []struct {
		events []string
		want   []string
	}{
		// Slices that would cross on one track, on three tracks.
		{[]string{slice("a", 3, 5, "0", "2"), slice("b", 3, 6, "1", "2"), slice("c", 4, 5, "1", "2")}, nil},
		// Two that cross the same one, and a later one that begins where it ends.
		{[]string{slice("a", 3, 5, "0", "2"), slice("b", 3, 5, "1", "2"), slice("c", 3, 5, "1.5", "1"), slice("d", 3, 5, "2", "1")},
			[]string{`event 1, "b" of process 3, track 5: 1000 to 3000 ns crosses the end of a slice around it`,
				`event 2, "c" of process 3, track 5: 1500 to 2500 ns crosses the end of a slice around it`}},
		// Equal names in other processes, categories and identifiers do not end each other.
		{[]string{busy, async("x", "b", "c", "7", 1, "1"), async("x", "e", "c", "8", 1, "2"), async("x", "e", "d", "7", 1, "2"), async("x", "e", "c", "7", 2, "2")},
			[]string{`event 1, "x" of process 1, track 97: never ends`, `event 2, "x" of process 1, track 98: ends what is not open`,
				`event 3, "x" of process 1, track 97: ends what is not open`, `event 4, "x" of process 2, track 97: ends what is not open`}},
		{[]string{busy, async("x", "b", "c", "7", 1, "3"), async("x", "b", "c", "8", 1, "1"), async("x", "e", "c", "8", 1, "1"), async("x", "e", "c", "7", 1, "3")}, nil},
		{[]string{busy, async("x", "b", "c", "7", 1, "3"), async("x", "e", "c", "7", 1, "2.999")},
			[]string{`event 2, "x" of process 1, track 97: begins before the event in front of it`}},
		// Arrows of one chain may change tracks; another id is another chain.
		{[]string{busy, slice("other", 4, 6, "2", "2"), arrow("s", 8, 3, 5, "1"), arrow("f", 8, 4, 6, "3")}, nil},
		{[]string{busy, slice("other", 4, 6, "2", "2"), arrow("s", 8, 3, 6, "1"), arrow("t", 8, 4, 5, "2"), arrow("f", 8, 4, 6, "1.5")},
			[]string{`event 2, "arrow" of process 3, track 6: an arrow at 1000 ns is on no slice`, `event 3, "arrow" of process 4, track 5: an arrow at 2000 ns is on no slice`,
				`event 4, "arrow" of process 4, track 6: an arrow at 1500 ns is on no slice`, `event 4, "arrow" of process 4, track 6: an arrow goes back in time`}},
		{[]string{busy, arrow("s", 8, 3, 5, "1"), arrow("f", 9, 3, 5, "2")},
			[]string{`event 1, "arrow" of process 3, track 5: the chain of arrows with id 8 never ends`,
				`event 2, "arrow" of process 3, track 5: an arrow goes on where none with id 9 is open`}},
		// A child may precede its parent in the file.
		{[]string{slice("child", 3, 5, "5", "1"), slice("parent", 3, 5, "0", "10")}, nil},
		// The fault names the later event of the chain.
		{[]string{busy, arrow("s", 8, 3, 5, "1"), arrow("f", 8, 3, 5, "2"), strings.Replace(arrow("s", 8, 3, 5, "3"), "arrow", "again", 1),
			strings.Replace(strings.Replace(arrow("f", 8, 3, 5, "4"), "arrow", "last", 1), `"bp":"e",`, "", 1)},
			[]string{`event 3, "again" of process 3, track 5: a second chain of arrows has id 8`,
				`event 4, "last" of process 3, track 5: an arrow ends at the next slice, not at the one around it`}},
		// Neither time is a whole nanosecond; each by itself is a fault, too.
		{[]string{slice("both", 3, 5, "0.0005", "1.0002"), slice("start", 3, 6, "0.0004", "1"), slice("length", 3, 7, "5", "1.0003")},
			[]string{`event 0, "both" of process 3, track 5: its times 0.0005 and 1.0002 us are no whole nanoseconds`,
				`event 1, "start" of process 3, track 6: its times 0.0004 and 1 us are no whole nanoseconds`,
				`event 2, "length" of process 3, track 7: its times 5 and 1.0003 us are no whole nanoseconds`}},
	} {
		text := `{"traceEvents":[` + strings.Join(c.events, ",") + `]}`
		events, faults, err := Read(strings.NewReader(text))
		if err != nil || len(events) != len(c.events) || !slices.Equal(faults, c.want) {
			t.Errorf("got %d events, %v, faults\n%s\nwant\n%s", len(events), err, strings.Join(faults, "\n"), strings.Join(c.want, "\n"))
		}
	}
	for text, want := range map[string]string{
		"":  "EOF",
		"{": "unexpected EOF",
		`{"traceEvents":[` + async("x", "b", "c", "7", 1, "3") + `]}`: "none of 1 events is a slice",
	} {
		if _, _, err := Read(strings.NewReader(text)); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}
