package tables

import (
	"testing"

	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
)

// TestValuesInKeysHaveNoTable: tables exist only for values with storage of their own.
func TestValuesInKeysHaveNoTable(t *testing.T) {
	const want = "value_in_key = true: expected false: tables of clocks are of values stored by themselves"
	shape := pim.HeadShape{HeadDim: 576, ValueDim: 512, Queries: 1, ElementBits: 16, ValueInKey: true}
	if _, err := NewKernelTable(pim.Default(), parts.DDR4(t), shape); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if _, err := NewStoredTable(pim.Default(), parts.DDR4(t), shape); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
