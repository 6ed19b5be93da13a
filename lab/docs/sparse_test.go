package docs

import (
	"slices"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
)

// TestSparsePage: the table of policies on L3 in lab/docs/sparse.md has each policy of examples/sparse_l3.toml once, in order. At full
// length examples/sparse.sh writes the same table.
func TestSparsePage(t *testing.T) {
	names, shown := designsOf(t, "sparse_l3"), rowsOf(string(read(t, "sparse.md")), func(string) int { return 0 })
	if !slices.Equal(shown["l3"], names) {
		t.Errorf("the page has the policies\n%q\nthe sweep has\n%q", shown["l3"], names)
	}
	if deep.Long() {
		scriptWrites(t, "sparse.md", []string{"l3"}, "examples/sparse.sh", "out", "out")
	}
}
