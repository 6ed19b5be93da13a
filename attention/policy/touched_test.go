package policy

import (
	"math"
	"math/bits"
	"testing"

	"pgregory.net/rapid"
)

// TestTouched: the mean number of touched groups over all choices that include the newest token,
// counted one by one.
func TestTouched(t *testing.T) {
	for _, c := range []struct{ context, size int }{{17, 4}, {16, 4}, {13, 5}, {18, 8}, {9, 3}, {5, 8}, {8, 8}, {12, 1}} {
		for chosen := 1; chosen <= c.context; chosen++ {
			groups, sets := 0, 0
			for set := range uint(1) << (c.context - 1) {
				if bits.OnesCount(set) != chosen-1 {
					continue
				}
				set |= 1 << (c.context - 1)
				sets++
				for ; set != 0; set >>= c.size {
					groups += min(1, bits.OnesCount(set&(1<<c.size-1)))
				}
			}
			want := int(math.Ceil(float64(groups)/float64(sets) - 1e-9))
			if got := Touched(c.context, chosen, c.size); got != want {
				t.Errorf("%d of %d tokens lie in %d groups of %d, want %d", chosen, c.context, got, c.size, want)
			}
		}
	}
}

// TestTouchedGrows: more tokens touch no fewer groups, at most all; all tokens touch all groups.
func TestTouchedGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		context, size := rapid.IntRange(1, 3000).Draw(t, "context"), rapid.IntRange(1, 512).Draw(t, "size")
		before, all := 0, (context+size-1)/size
		for chosen := 1; chosen <= context; chosen++ {
			n := Touched(context, chosen, size)
			if n < max(before, (chosen+size-1)/size) || n > min(all, chosen) {
				t.Fatalf("%d of %d tokens: %d groups of %d, %d before", chosen, context, n, size, before)
			}
			before = n
		}
		if before != all {
			t.Fatalf("everything lies in %d groups of %d", before, all)
		}
	})
}

// TestListBytes: 4 bytes for each chosen token and token of the step, nothing if the whole context is
// attended to.
func TestListBytes(t *testing.T) {
	p := Paged{Page: 1, Chosen: 2048}
	for _, c := range []struct {
		context, verified int
		want              int64
	}{{2048, 1, 0}, {2049, 1, 8192}, {100_000, 1, 8192}, {100_000, 3, 24576}} {
		if got := p.ListBytes(c.context, c.verified); got != c.want {
			t.Errorf("%+v: %d bytes", c, got)
		}
	}
	if got := (&Paged{Page: 16}).ListBytes(100_000, 1); got != 0 {
		t.Errorf("pages: %d bytes", got)
	}
}
