package plan

import (
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// TestSure: Wilson's interval by hand, for 400 measured requests and an attainment of 99%: the middle is (0.99 + 3.8416/800) / (1 + 3.8416/400) =
// 98.53%. With 2,000 there is no note.
func TestSure(t *testing.T) {
	const more, column = "; a longer trace, or --requests 2500 where it has them, tells more", "% that may miss them, such as the longest prompts: the highest rate of all is likely in the column 'likely'"
	for _, x := range []struct {
		different int
		target    float64
		likely    float64 // upper end of a row
		want      string
	}{
		{400, 0.99, 3, "400 different requests are measured at each rate: where 99% of them attain the targets, of all such requests 97.5 to 99.6% do (95% confidence). Few decide, the 1" + column + more},
		{40, 0.9, 3, "40 different requests are measured at each rate: where 90% of them attain the targets, of all such requests 76.9 to 96.0% do (95% confidence). Few decide, the 10" + column + more},
		{400, 0.99, 0, "400 different requests are measured at each rate: where 99% of them attain the targets, of all such requests 97.5 to 99.6% do (95% confidence)" + more}, // as of a rate that is asked for and holds
		{1999, 0.5, 0, "1999 different requests are measured at each rate: where 50% of them attain the targets, of all such requests 47.8 to 52.2% do (95% confidence)" + more},
		{2000, 0.5, 3, ""}, {40, 1, 3, ""},
	} {
		if got := (&Report{Target: x.target, Rows: []*Row{{}, {High: x.likely}}}).sure(x.different); got != x.want {
			t.Errorf("%q, want %q", got, x.want)
		}
	}
	if low, high := likelyShares(0.999, 50); low < 0.9 || low > 0.999 || high > 1 || high < 0.9999 {
		t.Errorf("%v to %v", low, high)
	}
}

// TestFewDecide: fewer than ten allowed misses means that chance decides.
func TestFewDecide(t *testing.T) {
	for _, x := range []struct {
		n     int
		share float64
		want  bool
	}{{999, 0.99, true}, {1001, 0.99, false}, {99, 0.9, true}, {101, 0.9, false}, {19, 0.5, true}, {20, 0.5, false}, {50, 1, false}} {
		if got := few(x.n, x.share); got != x.want {
			t.Errorf("%+v: %v", x, got)
		}
	}
}

// TestSample: repeated requests add no information, however many are measured; the first ones of users are not measured.
func TestSample(t *testing.T) {
	file := &traces.Trace{Requests: make([]traces.Request, 300)}
	for _, x := range []struct{ n, users, measures, different int }{
		{100, 0, 80, 80}, {300, 0, 240, 240}, {310, 0, 248, 248}, {2500, 0, 2000, 300}, {2500, 1000, 1250, 300}, {300, 100, 170, 170},
	} {
		for _, trace := range []*traces.Trace{file.Repeated(x.n), file.Repeated(5000).Repeated(x.n)} {
			if measures, different := sample(trace, x.users); measures != x.measures || different != x.different {
				t.Errorf("%+v: %d, of which %d differ", x, measures, different)
			}
		}
	}
}

// TestLikely: requests arrive at a single server at equal distances. Some take twice as long and miss their target at any rate. 8 of 80 measured ones
// may miss; with 95% probability a sample allows only 4, or 14 (Wilson: 81.5 to 94.8%). With k - 1 short services and a long one over k intervals, a
// long one makes the next k miss their target, too.
func TestLikely(t *testing.T) {
	for _, x := range []struct {
		long               int
		highest, low, high int // k - 1 at the rate; -1 for none
	}{
		{10, -1, -1, 1}, {8, 1, -1, 1}, {3, 2, 1, 4}, {2, 4, 2, 7},
	} {
		cfg, trace, _, service := single(t, 100, "arrivals.kind=trace", "slo.attainment=0.9")
		long := 2 * service
		for i := range trace.Requests {
			trace.Requests[i].Arrival = units.Duration(i) * units.Second
		}
		for i := range x.long {
			trace.Requests[12+7*i].Output = 24
		}
		cfg.SLO.E2E = service + service/50
		search := &Search{Precision: 0.02}
		c, err := search.Contest(configs.Options{}, cfg, trace)
		if err != nil {
			t.Fatal(err)
		}
		c.ctx = t.Context()
		j, err := NewJudge(cfg, trace, nil)
		if err != nil {
			t.Fatal(err)
		}
		row, err := c.answer(judged(j), 0)
		if err != nil {
			t.Fatal(err)
		}
		e := judged(j)
		e.held, e.failed = row.Highest, row.next.RatePerS
		if c.likely(e, row); c.err != nil {
			t.Fatal(c.err)
		}
		for i, k := range []int{x.highest, x.low, x.high} {
			got, want := []float64{row.Highest, row.Low, row.High}[i], 0.0
			if k > 0 {
				want = float64(k) / (long + units.Duration(k-1)*service).Seconds()
			}
			if off := []float64{0.05, 0.16, 0.16}[i]; (got == 0) != (want == 0) || got < want*(1-off) || got > want*1.06 {
				t.Errorf("%d take long: number %d is %v, want %v", x.long, i, got*service.Seconds(), want*service.Seconds())
			}
		}
	}
}

// TestNotLikely: there is no interval if there are enough requests, if all must attain their targets, or if only the rate asked for was tried.
func TestNotLikely(t *testing.T) {
	for name, x := range map[string]struct {
		n            int
		share        float64
		held, failed float64
		want         bool
	}{
		"few": {100, 0.9, 1, 2, true}, "none holds": {100, 0.9, 0, 1, true}, "many": {200, 0.9, 1, 2, false}, "enough": {2500, 0.9, 1, 2, false}, "all": {100, 1, 1, 2, false}, "asked": {100, 0.9, 0, 0, false},
	} {
		c, service := served(t, x.n, "slo.tbt=10s")
		j, err := NewJudge(c.open(c.entrant(nil, x.n)).cfg, c.trace, nil)
		if err != nil {
			t.Fatal(err)
		}
		j.share = x.share
		e := judged(j)
		e.held, e.failed = x.held*0.1/service, x.failed*0.1/service
		row := &Row{Highest: e.held}
		if c.likely(e, row); row.High > 0 != x.want || c.err != nil {
			t.Errorf("%s: %v to %v, %v", name, row.Low, row.High, c.err)
		}
	}
}

// TestLikelyColumn: a table has a column of likely rates if any row has one; the others show none.
func TestLikelyColumn(t *testing.T) {
	row := func(low, high float64) *Row {
		return &Row{Load: Load{System: "l3", RatePerS: 1, Met: true}, Called: []string{"l3", "", "", ""}, Low: low, High: high}
	}
	for want, rows := range map[string][]*Row{
		"": {row(0, 0)}, "0-2.4": {row(0, 2.4)}, "1.5-120": {row(1.5, 120)}, "1.5-2 -": {row(1.5, 2), row(0, 0)},
	} {
		var b strings.Builder
		r := &Report{Rows: rows}
		if err := r.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, line := range r.table().Rows {
			got = append(got, line[12].String())
		}
		if shown := strings.Contains(b.String(), " likely  "); shown != (want != "") || shown && strings.Join(got, " ") != want {
			t.Errorf("%q, want %q:\n%s", got, want, b.String())
		}
	}
}
