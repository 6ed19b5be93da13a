package perfetto

import (
	"strings"
	"testing"
)

// TestRead: slices that nest or are disjoint pass, all others are found.
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
