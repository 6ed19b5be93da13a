package plan

import (
	"fmt"
	"reflect"
	"testing"
)

// TestTies: of candidates with the same rate the one that is there first stays first, and of points that all fail the next rate the one
// counts that lasted longest, of equals the first. So the answer does not depend on which run ends first.
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

// TestFinalists: the best of each tensor parallelism is judged by all requests, however far behind, and of the others those within half
// of the best. Without a choice of tensor parallelism all are of one.
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
