package controller

import (
	"strings"
	"testing"

	"github.com/l3sim/l3sim/dram"
)

// TestClocksOfRequests: clocks start at 0 or later, never decrease, and are at most the last that a replay can count. The error names the
// request and the least legal clock, that of the request before.
func TestClocksOfRequests(t *testing.T) {
	const most = dram.MaxClock
	for _, c := range []struct {
		clocks    []int64
		bad, from string // "" if all are legal
	}{
		{nil, "", ""}, {[]int64{0}, "", ""}, {[]int64{0, 0, 7, 7, 9}, "", ""}, {[]int64{most}, "", ""}, {[]int64{3, most, most}, "", ""},
		{[]int64{-1}, "request 0", "0 to"}, {[]int64{-1, 0}, "request 0", "0 to"}, {[]int64{most + 1}, "request 0", "0 to"},
		{[]int64{5, 4}, "request 1", "5 to"}, {[]int64{5, 6, 5}, "request 2", "6 to"}, {[]int64{0, most + 1}, "request 1", "0 to"},
	} {
		requests := make([]Request, len(c.clocks))
		for i, clock := range c.clocks {
			requests[i].Clock = clock
		}
		err := ascend(requests)
		if (err == nil) != (c.bad == "") || err != nil && !(strings.Contains(err.Error(), c.bad+": clock") && strings.Contains(err.Error(), c.from)) {
			t.Errorf("%d: %v, want %q", c.clocks, err, c.bad)
		}
	}
}
