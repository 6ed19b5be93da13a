package gpu

import (
	"testing"

	"github.com/l3sim/l3sim/units"
)

// TestHostVisible: the part of the host's time that the GPUs' time does not hide, by hand, in microseconds.
func TestHostVisible(t *testing.T) {
	const us = units.Microsecond
	h := HostSpec{Exposed: 300 * us, Step: 1000 * us, Sequence: 10 * us}
	for _, c := range []struct {
		gpus, want units.Duration
		requests   int
	}{
		{5000, 300, 8}, {1080, 300, 8}, {1079, 301, 8}, {0, 1380, 8}, {1000, 2300, 200}, {5000, 0, 0},
	} {
		if got := h.Visible(c.gpus*us, c.requests); got != c.want*us {
			t.Errorf("%d us with %d requests: %v, want %v us", c.gpus, c.requests, got, c.want)
		}
	}
	if got := (&HostSpec{}).Visible(us, 100); got != 0 {
		t.Errorf("no host: %v", got)
	}
}
