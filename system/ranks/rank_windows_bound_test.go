package ranks

import (
	"slices"
	"testing"

	"github.com/l3sim/l3sim/scheduler/memory"
)

// TestBoundWindows: a rank of 5 whole heads and 10 with a window and one of 4 and 12 hold at most what 5 and 11 do; where
// ranks hold either kind alone, the whole ones bound both.
func TestBoundWindows(t *testing.T) {
	of := func(whole, ring int) (c []memory.HeadClass) {
		return []memory.HeadClass{{Heads: whole, TokenBytes: 512}, {Heads: ring, TokenBytes: 512, Most: 128}}
	}
	for _, c := range []struct {
		on         [][]memory.HeadClass
		most, want []memory.HeadClass
	}{
		{[][]memory.HeadClass{of(5, 10), of(4, 12)}, of(5, 12), of(5, 11)},
		{[][]memory.HeadClass{of(12, 0)[:1], of(0, 12)[1:]}, of(12, 12), of(12, 0)[:1]},
	} {
		spec := memory.LedgerSpec{Classes: c.most}
		if boundWindows(&spec, c.on); !slices.Equal(spec.Classes, c.want) {
			t.Errorf("%+v: bound by %+v, want %+v", c.on, spec.Classes, c.want)
		}
	}
}
