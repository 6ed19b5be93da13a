package plan

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/l3sim/l3sim/traces"
)

// TestStrides: the points that each stride of a search tries from the middle of a grid if gaps fail. With few requests only smaller values; with
// all, the nearest on both sides and the policies of prompts, and if none is better, chunks farther away on both sides.
func TestStrides(t *testing.T) {
	axes := []axis{
		{key: "chunk", values: make([][]string, 21), starts: []int{0}}, {key: maxSeqs, values: make([][]string, 10), starts: []int{0}},
		{key: "policy", values: make([][]string, 2), arm: true}, {key: tensorParallel, values: make([][]string, 3), arm: true},
	}
	for name, x := range map[string]struct {
		by   stride
		want []move
	}{
		"coarse": {coarse, []move{{0, 2}, {0, 6}, {0, 8}, {1, 3}}},
		"last":   {last, []move{{0, 9}, {0, 11}, {1, 4}, {1, 6}, {2, 1}}},
		"wide":   {wide, []move{{0, 2}, {0, 18}, {0, 6}, {0, 14}, {0, 8}, {0, 12}}},
	} {
		if got := neighbours(axes, []int{10, 5, 0, 1}, []Failure{{"TBT", 0.4}}, x.by); !reflect.DeepEqual(got, x.want) {
			t.Errorf("%s: %v, want %v", name, got, x.want)
		}
	}
}

// TestFew: knobs are first compared with 400 requests, or with all if there are fewer.
func TestFew(t *testing.T) {
	for n, want := range map[int]int{50: 50, 399: 399, 400: 400, 401: 400, 2500: 400} {
		c := &Contest{n: n, trace: &traces.Trace{Requests: make([]traces.Request, n)}}
		if got := c.few(); got != want {
			t.Errorf("of %d requests %d, want %d", n, got, want)
		}
	}
}

// TestRivals: the neighbours of a point are tried at the rate that the point fails, with the requests of its comparison, in the directions of
// that failure. A move that changed nothing there is not tried again at that rate, nor up to a tenth above it.
func TestRivals(t *testing.T) {
	narrow := stride{0.03, []int{1, 2}, nil, false, false}
	for _, x := range []struct {
		from int
		rate float64
		want []int // places of neighbours that hold the rate
	}{
		{2, 12.5, []int{3, 4}}, // the queue grows: larger chunks
		{2, 15, []int{4}},
		{2, 30, nil},
		{7, 19.5, []int{6, 5}}, // gaps: smaller ones
		{7, 20.5, []int{5}},
	} {
		c := landscape(100, 10, 11, 12, 14, 17, 21, 20, 19, 18)
		c.n = 1000 // the number for the answer, with no results yet
		p := Candidate{Point: []int{x.from}, Requests: 100, inert: map[move]float64{}}
		var got []int
		for _, e := range c.rivals(p, x.rate, narrow) {
			got = append(got, e.point[0])
			if e.n != 100 {
				t.Errorf("%+v: judged by %d requests", x, e.n)
			}
		}
		if !reflect.DeepEqual(got, x.want) || len(c.seen) != 9 || c.err != nil {
			t.Errorf("%+v: %v hold it, %d points are known, %v", x, got, len(c.seen), c.err)
		}
		p.inert[move{0, 4}] = x.rate / 1.09
		if x.from == 2 && x.rate == 15 {
			if got := c.rivals(p, x.rate, narrow); len(got) != 0 {
				t.Errorf("a move that changed nothing is tried again: %v", got)
			}
			p.inert[move{0, 4}] = x.rate / 1.11
			if got := c.rivals(p, x.rate, narrow); len(got) != 1 {
				t.Errorf("far above the rate at which a move changed nothing %v hold it", got)
			}
		}
	}
}

// TestInert: a move is inert if the run fails at the same rate and request for the same reasons; if any of the three differs, it is not.
func TestInert(t *testing.T) {
	c := landscape(100, 10, 9, 9, 9, 9)
	point := c.seen[fmt.Sprint([]int{0}, 100, []string(nil))]
	for i, change := range []func(e *entrant){
		func(*entrant) {}, func(e *entrant) { e.failed *= 1.001 }, func(e *entrant) { e.came++ }, func(e *entrant) { e.fails = []Failure{{Name: "TTFT", Share: 1}} },
	} {
		e := c.seen[fmt.Sprint([]int{i + 1}, 100, []string(nil))]
		e.failed, e.came, e.fails = point.failed, point.came, point.fails
		change(e)
	}
	x := Candidate{Point: []int{0}, Requests: 100, inert: map[move]float64{}}
	if alive := c.rivals(x, 10.5, stride{0.03, []int{1, 2, 3, 4}, nil, false, true}); len(alive) != 0 {
		t.Errorf("%v hold what all fail", alive)
	}
	if want := map[move]float64{{0, 1}: 10.5}; !reflect.DeepEqual(x.inert, want) {
		t.Errorf("%v changed nothing, want %v", x.inert, want)
	}
}

// TestFinal: the best candidate climbs first. Another one must hold, with all requests, the rate that the best point fails; if it was near with
// few requests, a neighbour may hold it instead. Otherwise it is not searched further.
func TestFinal(t *testing.T) {
	hill := []float64{10, 11, 12, 14, 17, 21, 20, 19, 18, 9, 22, 17, 9, 9, 13, 9, 21, 23}
	for _, x := range []struct {
		name  string
		other Candidate
		want  int
		known []int // places with known results: a climb from any other point would need more
	}{
		{"the other fails and is far", Candidate{Point: []int{14}, Rate: 12}, 5, []int{1, 3, 4, 5, 6, 7, 9, 13, 14}},
		{"the other is better", Candidate{Point: []int{10}, Rate: 12}, 10, nil},
		{"a neighbour of the other is better", Candidate{Point: []int{11}, Rate: 16}, 10, nil},
		{"a neighbour of the other is better that is four places away", Candidate{Point: []int{14}, Rate: 16}, 10, nil},
		{"a neighbour is better, but the other far", Candidate{Point: []int{11}, Rate: 14}, 5, []int{1, 3, 4, 5, 6, 7, 9, 11, 13}},
		{"the other holds only what the best holds", Candidate{Point: []int{16}, Rate: 12}, 5, nil}, // else its neighbour would win
	} {
		c := landscape(100, hill...)
		if x.known != nil {
			known := map[string]*entrant{}
			for _, i := range x.known {
				key := fmt.Sprint([]int{i}, 100, []string(nil))
				known[key] = c.seen[key]
			}
			c.seen = known
		}
		before := len(c.seen)
		c.Candidates = []Candidate{{Point: []int{5}, Rate: 20, Requests: 50}, x.other}
		got := c.final()
		if got.Point[0] != x.want || got.Rate != hill[x.want] || got.Requests != 100 || len(c.seen) != before || c.err != nil {
			t.Errorf("%s: place %v at %v by %d requests, %d points beside those of the best, %v", x.name, got.Point, got.Rate, got.Requests, len(c.seen)-before, c.err)
		}
	}
}
