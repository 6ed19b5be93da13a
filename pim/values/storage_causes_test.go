package values

import (
	"math"
	"slices"
	"testing"
)

// TestStorageCauses: the error names numbers that overflow; numbers that lose digits if the loss matters and half of a tensor's are small; and rounding if it matters
// and has no other cause.
func TestStorageCauses(t *testing.T) {
	inf := float32(math.Inf(1))
	exact := [][]float32{{1, 2}, {3, 4}, {5, 6}}
	const rounding = "rounding q, k and v to fp16 storage moves the exact output"
	for _, c := range []struct {
		name    string
		given   [][]float32
		stored  [][]float32
		matters bool
		want    []string
	}{
		{"exact", exact, exact, false, nil},
		{"rounded", [][]float32{{1.0001, 2}, {3, 4}, {5, 6}}, exact, true, []string{rounding}},
		{"rounded, and no matter", [][]float32{{1.0001, 2}, {3, 4}, {5, 6}}, exact, false, nil},
		{"overflow", [][]float32{{1, 2}, {70000, 4}, {5, 90000}}, [][]float32{{1, 2}, {inf, 4}, {5, inf}}, false, []string{"70000 overflows fp16 storage of k", "90000 overflows fp16 storage of v"}},
		{"overflow that matters", [][]float32{{1, 2}, {70000, 4}, {5, 6}}, [][]float32{{1, 2}, {inf, 4}, {5, 6}}, true, []string{"70000 overflows fp16 storage of k"}},
		{"half of v is small", [][]float32{{1, 2}, {3, 4}, {0x1p-20, 0, 0x1p-15, 6, 7}}, [][]float32{{1, 2}, {3, 4}, {0, 0, 0, 6, 7}}, true,
			[]string{"FP16 underflow: 2 of 4 elements of v are at most 3.05e-05, below 6.1e-05 digits are lost"}},
		{"less than half is small", [][]float32{{1, 2}, {3, 4}, {0x1p-20, 0x1p-15, 6, 7, 8}}, [][]float32{{1, 2}, {3, 4}, {0, 0, 6, 7, 8}}, true, []string{rounding}},
		{"small, and no matter", [][]float32{{1, 2}, {3, 4}, {0x1p-20, 6}}, [][]float32{{1, 2}, {3, 4}, {0, 6}}, false, nil},
		{"zeros", [][]float32{{0, 0}, {3, 4}, {5, 6}}, [][]float32{{0, 0}, {3, 4}, {5, 6}}, true, []string{rounding}},
		{"at the border", [][]float32{{0x1p-14, 2}, {3, 4}, {5, 6}}, [][]float32{{0, 2}, {3, 4}, {5, 6}}, true, []string{rounding}},
	} {
		x := &VerifyCase{Storage: StoreFP16}
		x.Q, x.K, x.V = c.given[0], c.given[1], c.given[2]
		if got := x.storageCauses([3][]float32(c.stored), c.matters); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
