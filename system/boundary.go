package system

import "github.com/l3sim/l3sim/pim"

// boundaryStep returns the distance of the boundaries within a head: a row's
// share of a head that has many, or a chunk's share of a row.
func boundaryStep(t *pim.KernelTable, boundary string, banks int) int64 {
	row := t.RowTokens()
	clocks := (t.Attention(3*row) - t.Attention(2*row)) / 2 // a K row and a V row
	switch boundary {
	case pim.BoundaryRow:
		return clocks
	case pim.BoundaryChunk:
		return max(clocks*int64(banks)/int64(row), 1)
	}
	return 0
}
