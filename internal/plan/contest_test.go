package plan

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
)

// TestTies: among candidates of equal rate the first stays first; among points that all fail the next rate the one that lasted longest
// counts, then the first. So the answer does not depend on which run ends first.
func TestTies(t *testing.T) {
	all := []Candidate{{Point: []int{0}, Rate: 2, Requests: 400}, {Point: []int{1}, Rate: 3, Requests: 400}, {Point: []int{2}, Rate: 3, Requests: 400}, {Point: []int{3}, Rate: 2, Requests: 400}}
	rank(all)
	if got := fmt.Sprint(all); got != "[{[1] 3 400 map[]} {[2] 3 400 map[]} {[0] 2 400 map[]} {[3] 2 400 map[]}]" {
		t.Error(got)
	}
	for _, x := range []struct {
		came []int64 // requests at which each point failed
		want int
	}{{[]int64{5, 5, 5}, 0}, {[]int64{5, 9, 9}, 1}, {[]int64{5, 7, 9}, 2}} {
		c := &Contest{search: &Search{}, seen: map[string]*entrant{}}
		var points []*entrant
		for i, came := range x.came {
			e := &entrant{point: []int{i}, n: 400, came: came} // without a judge it holds no rate
			e.once.Do(func() {})
			c.seen[fmt.Sprint(e.point, 400, []string(nil))] = e
			points = append(points, e)
		}
		got := c.raise(Candidate{Requests: 400}, points, 2, 0.5)
		if c.err != nil || got.Point[0] != x.want || got.Rate != 2 {
			t.Errorf("%v: %v, %v; want point %d at 2", x.came, got, c.err, x.want)
		}
	}
}

// TestFinalists: all requests judge the best of each tensor parallelism, however far behind, and others within half of the best.
// Without a choice of tensor parallelism all belong together.
func TestFinalists(t *testing.T) {
	axes := []axis{{key: "gpu_only.policy"}, {key: tensorParallel}}
	all := []Candidate{{Point: []int{0, 2}, Rate: 10, Requests: 400}, {Point: []int{1, 2}, Rate: 5, Requests: 400}, {Point: []int{0, 1}, Rate: 4, Requests: 400}, {Point: []int{2, 2}, Rate: 4.9, Requests: 400}, {Point: []int{1, 1}, Rate: 3, Requests: 400}, {Point: []int{0, 0}, Rate: 0.1, Requests: 400}}
	points := func(all []Candidate) (out [][]int) {
		for _, x := range all {
			out = append(out, x.Point)
		}
		return out
	}
	if got, want := points(finalists(axes, all)), [][]int{{0, 2}, {1, 2}, {0, 1}, {0, 0}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := points(finalists(axes[:1], all)), [][]int{{0, 2}, {1, 2}}; !reflect.DeepEqual(got, want) {
		t.Errorf("without tensor parallelism %v, want %v", got, want)
	}
}

// TestRaise: the rate rises in steps while several candidates hold it. It ends with the rate of the last one, or with the last rate that
// several hold if all fail the next; a single candidate keeps its rate.
func TestRaise(t *testing.T) {
	for _, x := range []struct {
		rates []float64
		want  int
		rate  float64
	}{
		{[]float64{10, 15, 20}, 2, 18},   // the rates tried are 8, 12 and 18: all candidates hold 8, two hold 12, one holds 18
		{[]float64{20, 10, 10}, 0, 12},   // only the first holds 12, so the rate stays there
		{[]float64{10, 11, 11.9}, 2, 8},  // no candidate holds 12; the last one comes closest, so it wins at 8
		{[]float64{17, 10, 17.9}, 2, 12}, // neither of the two that hold 12 holds 18; the last one comes closest
		{[]float64{30}, 0, 8},
	} {
		c := landscape(100, x.rates...)
		var all []*entrant
		for i := range x.rates {
			all = append(all, c.entrant([]int{i}, 100))
		}
		if got := c.raise(Candidate{Requests: 100}, all, 8, 0.5); got.Point[0] != x.want || got.Rate != x.rate || got.Requests != 100 || c.err != nil {
			t.Errorf("%v: place %v at %v, want %d at %v; %v", x.rates, got.Point, got.Rate, x.want, x.rate, c.err)
		}
	}
}

// TestNoJudge: an invalid configuration holds no rate. If the first finalist holds no rate, another one is the answer, or none if none holds one.
func TestNoJudge(t *testing.T) {
	c := landscape(100, 10, 20)
	none := c.entrant([]int{0}, 100)
	none.judge, none.held = nil, 0
	if c.holds(none, 1) || c.holds(none, 1e-9) {
		t.Error("it holds a rate")
	}
	if got := c.climb(none, 10, 0.02); got != 0 {
		t.Errorf("it climbs to %v", got)
	}
	c.Candidates = []Candidate{{Point: []int{0}, Rate: 25, Requests: 50}, {Point: []int{1}, Rate: 5, Requests: 50}}
	if got := c.final(); got.Rate != 0 || got.Point != nil { // the second is far from the first, of the same tensor parallelism
		t.Errorf("%+v", got)
	}
	c.Candidates[1].Rate = 15
	if got := c.final(); got.Rate != 20 || got.Point[0] != 1 {
		t.Errorf("%+v", got)
	}
	other := c.entrant([]int{1}, 100)
	other.judge, other.held = nil, 0
	if got := c.final(); got.Rate != 0 || got.Point != nil {
		t.Errorf("none holds a rate: %+v", got)
	}
}

// TestDecideByAll: all requests judge the answer, not the few that compare knobs.
func TestDecideByAll(t *testing.T) {
	deep.Heavy(t)
	for _, rate := range []string{"0", "0.1"} { // the highest, or one that holds
		c, _ := served(t, 500, "slo.ttft=1000s", "arrivals.rate_per_s="+rate)
		row, err := c.Decide(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range row.Tried {
			if got := row.Tried[i].Summary.Trace.Requests; got != 500 {
				t.Errorf("%s requests/s: %d requests judge %v", rate, got, row.Tried[i].RatePerS)
			}
		}
	}
}
