package validation

import (
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// raisedFile has a line for each raised bar: the anchor, the statistic, the bar before and after, and the reason.
const raisedFile = "testdata/raised.tsv"

// step is the tolerance on a bar: half of the last digit on the page.
const step = 0.0005

// raise is a line of raisedFile.
type raise struct {
	anchor, statistic string
	from, to          float64
	reason            string
}

// statistics are the errors of an anchor that have bars.
func (e *errors) statistics() map[string]*float64 {
	return map[string]*float64{"mean": &e.Mean, "median": &e.Median, "p90": &e.P90}
}

// ratchet returns an anchor's new bars, the best errors so far, and the faults: errors above their bar without a reason
// in raised.
func ratchet(name string, bar, now errors, raised []raise) (next errors, faults []string) {
	next = now
	bars, present, after := bar.statistics(), now.statistics(), next.statistics()
	for _, s := range slices.Sorted(maps.Keys(bars)) {
		best, is := *bars[s], *present[s]
		*after[s] = min(best, is)
		if is <= best+step {
			continue
		}
		if slices.ContainsFunc(raised, func(r raise) bool {
			return r.anchor == name && r.statistic == s && math.Abs(r.from-best) <= step && math.Abs(r.to-is) <= step
		}) {
			*after[s] = is
			continue
		}
		faults = append(faults, fmt.Sprintf("%s: the %s is %.4f, the best recorded %.4f; a higher bar needs a line with the reason in %s", name, s, is, best, raisedFile))
	}
	return next, faults
}

func readRaised(text string) (all []raise, err error) {
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n")[1:] {
		cells := strings.Split(line, "\t")
		if len(cells) != 5 || len(cells[4]) < 20 {
			return nil, fmt.Errorf("%s:%d: expected anchor, statistic, from, to and a reason of a sentence, with tabs between", raisedFile, i+2)
		}
		r := raise{anchor: cells[0], statistic: cells[1], reason: cells[4]}
		var bad [2]error
		r.from, bad[0] = strconv.ParseFloat(cells[2], 64)
		r.to, bad[1] = strconv.ParseFloat(cells[3], 64)
		if bad[0] != nil || bad[1] != nil || !(r.to > r.from && r.from >= 0) {
			return nil, fmt.Errorf("%s:%d: %s to %s: expected a bar and a higher one", raisedFile, i+2, cells[2], cells[3])
		}
		all = append(all, r)
	}
	return all, nil
}

func raises(t *testing.T) []raise {
	t.Helper()
	text, err := os.ReadFile(raisedFile)
	if err != nil {
		t.Fatal(err)
	}
	all, err := readRaised(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestRatchet: a bar falls with the error, stays if the error exceeds it by less than a step, and rises only with a reason.
func TestRatchet(t *testing.T) {
	bar := errors{Rows: 3, Mean: 0.02, Median: 0.01, P90: 0.05}
	with := func(mean float64) errors { e := bar; e.Mean = mean; return e }
	why := []raise{{"a", "mean", 0.02, 0.03, "a reason"}}
	for _, c := range []struct {
		name   string
		now    float64
		raised []raise
		next   float64
		faults int
	}{
		{"a", 0.015, nil, 0.015, 0}, {"a", 0.0204, nil, 0.02, 0}, {"a", 0.0206, nil, 0.02, 1}, {"a", 0.03, nil, 0.02, 1},
		{"a", 0.03, why, 0.03, 0}, {"b", 0.03, why, 0.02, 1}, {"a", 0.031, why, 0.02, 1}, {"a", 0.019, why, 0.019, 0},
	} {
		if next, faults := ratchet(c.name, bar, with(c.now), c.raised); next.Mean != c.next || next.Median != bar.Median || len(faults) != c.faults {
			t.Errorf("%s at %v with %d reasons: bar %v, %q", c.name, c.now, len(c.raised), next.Mean, faults)
		}
	}
	for _, bad := range []string{"h\na\tmean\t0.1\t0.2\tshort", "h\na\tmean\t0.2\t0.1\ta reason of a whole sentence", "h\na\tmean\tx\t0.1\ta reason of a whole sentence", "h\na\tmean"} {
		if _, err := readRaised(bad); err == nil || !strings.HasPrefix(err.Error(), raisedFile+":2: ") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
