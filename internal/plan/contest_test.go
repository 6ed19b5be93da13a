package plan

import (
	"fmt"
	"reflect"
	"testing"
)

// TestTies: of candidates with the same rate the one that is there first stays first, and of points that all fail the next rate the one
// counts that lasted longest, of equals the first. So the answer does not depend on which run ends first.
func TestTies(t *testing.T) {
	all := []candidate{{point: []int{0}, rate: 2, n: 400}, {point: []int{1}, rate: 3, n: 400}, {point: []int{2}, rate: 3, n: 400}, {point: []int{3}, rate: 2, n: 400}}
	rank(all)
	if got := fmt.Sprint(all); got != "[{[1] 3 400 map[]} {[2] 3 400 map[]} {[0] 2 400 map[]} {[3] 2 400 map[]}]" {
		t.Error(got)
	}
	for _, x := range []struct {
		came []int64 // requests at which each point failed
		want int
	}{{[]int64{5, 5, 5}, 0}, {[]int64{5, 9, 9}, 1}, {[]int64{5, 7, 9}, 2}} {
		c := &contest{search: &Search{}, seen: map[string]*entrant{}}
		var points [][]int
		for i, came := range x.came {
			e := &entrant{point: []int{i}, came: came} // without a judge it holds no rate
			e.once.Do(func() {})
			c.seen[fmt.Sprint(e.point, 400, []string(nil))] = e
			points = append(points, e.point)
		}
		got, err := c.raise(t.Context(), candidate{n: 400}, points, 2, 0.5)
		if err != nil || got.point[0] != x.want || got.rate != 2 {
			t.Errorf("%v: %v, %v; want point %d at 2", x.came, got, err, x.want)
		}
	}
}

// TestFinalists: the best of each tensor parallelism is judged by all requests, however far behind, and of the others those within half
// of the best. Without a choice of tensor parallelism all are of one.
func TestFinalists(t *testing.T) {
	axes := []axis{{key: "gpu_only.policy"}, {key: tensorParallel}}
	all := []candidate{{point: []int{0, 2}, rate: 10, n: 400}, {point: []int{1, 2}, rate: 5, n: 400}, {point: []int{0, 1}, rate: 4, n: 400}, {point: []int{2, 2}, rate: 4.9, n: 400}, {point: []int{1, 1}, rate: 3, n: 400}, {point: []int{0, 0}, rate: 0.1, n: 400}}
	points := func(all []candidate) (out [][]int) {
		for _, x := range all {
			out = append(out, x.point)
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
