package batching

import (
	"slices"
	"testing"

	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// TestExpireByHand: requests that have begun stay at the head. Behind them, those that arrived before the limit are dropped in order, up to the first later one; of
// those that the scheduler has not seen, all such are dropped. A blocked queue that loses nothing stays blocked.
func TestExpireByHand(t *testing.T) {
	s := &State{}
	for _, at := range []units.Duration{0, 10, 20, 30, 40, 50} {
		s.Requests = append(s.Requests, traces.Request{Arrival: at})
	}
	s.Queue.list = []Waiting{{Request: 0, begun: true}, {Request: 1, Emitted: 3}, {Request: 2}, {Request: 3}, {Request: 4}}
	s.Queue.Blocked = true
	s.during.came = []Waiting{{Request: 5}}
	expire := func(before units.Duration) (dropped []int32) {
		s.Expire(before, func(request int32) { dropped = append(dropped, request) })
		return dropped
	}
	left := func() (all []int32) {
		for _, w := range s.Queue.list[s.Queue.head:] {
			all = append(all, w.Request)
		}
		for _, w := range s.during.came {
			all = append(all, w.Request)
		}
		return all
	}
	for _, c := range []struct {
		before        units.Duration
		dropped, left []int32
		blocked       bool
	}{{20, nil, []int32{0, 1, 2, 3, 4, 5}, true}, {31, []int32{2, 3}, []int32{0, 1, 4, 5}, false}, {50, []int32{4}, []int32{0, 1, 5}, false}, {51, []int32{5}, []int32{0, 1}, false}} {
		if dropped := expire(c.before); !slices.Equal(dropped, c.dropped) || !slices.Equal(left(), c.left) || s.Queue.Blocked != c.blocked {
			t.Errorf("before %d: dropped %v, left %v, blocked %v; want %v, %v, %v", c.before, dropped, left(), s.Queue.Blocked, c.dropped, c.left, c.blocked)
		}
	}
}
