package plan

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/traces"
)

// landscape returns a contest in which the highest rate of every point of one knob is known, so that nothing runs: a slightly higher rate fails by
// the queue below the best point and by gaps above it.
func landscape(n int, rates ...float64) *Contest {
	c := &Contest{search: &Search{}, trace: &traces.Trace{Requests: make([]traces.Request, n)}, n: n, seen: map[string]*entrant{},
		axes: []axis{{key: "chunk", values: make([][]string, len(rates)), starts: []int{0}}}}
	best := 0
	for i, rate := range rates {
		if rate > rates[best] {
			best = i
		}
	}
	for i, rate := range rates {
		e := &entrant{point: []int{i}, n: n, judge: &Judge{cfg: &configs.Config{}, trace: c.trace}, held: rate, failed: rate * 1.0001, fails: []Failure{{Name: queueGrows}}, came: int64(i)}
		if i > best {
			e.fails = []Failure{{Name: "TBT", Share: 0.5}}
		}
		e.once.Do(func() {})
		c.seen[fmt.Sprint(e.point, n, []string(nil))] = e
	}
	return c
}

// TestAscend: a climb ends at a point without a better neighbour, at its highest rate; if the nearest values are worse it looks farther,
// then near again.
func TestAscend(t *testing.T) {
	near, far := stride{0.03, []int{1}, nil, true, true}, stride{0.03, []int{4, 2}, nil, false, true}
	hill := []float64{10, 11, 12, 14, 17, 21, 20, 19, 18}
	valley := []float64{10, 9, 8, 9, 12, 13, 11, 10, 9}
	for _, x := range []struct {
		rates   []float64
		from    int
		strides []stride
		want    int
	}{
		{hill, 0, []stride{near}, 5},
		{hill, 8, []stride{near}, 5},
		{hill, 5, []stride{near}, 5},
		{hill, 0, []stride{near, far}, 5},
		{hill, 0, []stride{coarse}, 6}, // in steps of 8, 4 and 2 places: to 8, and back to 6
		{valley, 0, []stride{near}, 0},
		{valley, 0, []stride{near, far}, 5}, // four places, then one
		{valley, 8, []stride{near}, 5},
		{[]float64{10, 10, 10, 10}, 1, []stride{near, far}, 1}, // nothing is better
	} {
		c := landscape(100, x.rates...)
		got := c.ascend(Candidate{Point: []int{x.from}, Rate: x.rates[x.from] / 2, Requests: 100, inert: map[move]float64{}}, x.strides...)
		if c.err != nil || got.Point[0] != x.want || got.Rate != x.rates[x.want] {
			t.Errorf("%v from place %d: place %v at %v, %v; want %d", x.rates, x.from, got.Point, got.Rate, c.err, x.want)
		}
	}
}

// around returns the neighbours of a point.
func around(axes []axis, p []int, fails []Failure, by stride) [][]int {
	return list.Map(neighbours(axes, p, fails, by), func(m move) []int { return m.from(p) })
}

// TestDirections: smaller chunks and batches if most misses are of gaps, larger ones otherwise, and both if the rarer of two failures is at
// least a quarter of the other.
func TestDirections(t *testing.T) {
	axes := []axis{{key: "chunk", values: make([][]string, 21), starts: []int{0}}}
	narrow, both := stride{0.25, []int{8, 1}, nil, false, false}, stride{0.25, []int{8, 1}, nil, false, true}
	down, up := [][]int{{2}, {9}}, [][]int{{18}, {11}}
	all := [][]int{{2}, {18}, {9}, {11}}
	for _, x := range []struct {
		fails []Failure
		by    stride
		want  [][]int
	}{
		{[]Failure{{"TBT", 0.4}}, narrow, down},
		{[]Failure{{"TPOT", 0.01}}, narrow, down},
		{[]Failure{{"TTFT", 0.4}}, narrow, up},
		{[]Failure{{"E2E", 0.4}}, narrow, all},
		{[]Failure{{"TBT", 0.4}, {"TTFT", 0.09}}, narrow, down},
		{[]Failure{{"TBT", 0.4}, {"TTFT", 0.1}}, narrow, all},
		{[]Failure{{"TTFT", 0.4}, {"TBT", 0.09}}, narrow, up},
		{[]Failure{{"TTFT", 0.4}, {"TBT", 0.1}}, narrow, all},
		{[]Failure{{"TBT", 0.4}, {queueGrows, 0}}, narrow, all},
		{[]Failure{{"TBT", 0.4}}, both, all},
		{nil, narrow, nil},
	} {
		if got := around(axes, []int{10}, x.fails, x.by); !reflect.DeepEqual(got, x.want) {
			t.Errorf("%v: %v, want %v", x.fails, got, x.want)
		}
	}
	// At the end of the grid only one direction is left; a knob without an order tries all other values; an arm changes if choices are
	// requested, tensor parallelism never.
	axes = []axis{{key: "chunk", values: make([][]string, 3), starts: []int{0}}, {key: maxSeqs, values: make([][]string, 3), starts: []int{0}},
		{key: "admission", values: make([][]string, 3)}, {key: "policy", values: make([][]string, 2), arm: true}, {key: tensorParallel, values: make([][]string, 2), arm: true}}
	for _, choices := range []bool{false, true} {
		want := [][]int{{1, 2, 1, 0, 0}, {0, 1, 1, 0, 0}, {0, 2, 0, 0, 0}, {0, 2, 2, 0, 0}}
		if choices {
			want = append(want, []int{0, 2, 1, 1, 0})
		}
		if got := around(axes, []int{0, 2, 1, 0, 0}, nil, stride{0.03, []int{1}, []int{1}, choices, true}); !reflect.DeepEqual(got, want) {
			t.Errorf("choices %v: %v, want %v", choices, got, want)
		}
	}
}
