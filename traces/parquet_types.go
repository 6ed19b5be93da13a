package traces

import (
	"slices"

	"github.com/parquet-go/parquet-go"
	parquetformat "github.com/parquet-go/parquet-go/format"
)

// unreadInParquet names the columns of hashes and conversations, which are not read.
func (c *collector) unreadInParquet(s *sample) (names []string) {
	if slices.Contains(s.names, hashField) {
		names = append(names, hashField)
	}
	if name := s.findName(sessionNames); name != "" {
		names = append(names, name)
	}
	return names
}

// decimals returns the number of decimal places of a column's scaled integers.
func decimals(leaf parquet.LeafColumn) int32 {
	if of := leaf.Node.Type().LogicalType(); of != nil {
		if d, ok := of.Value.(*parquetformat.DecimalType); ok {
			return d.Scale
		}
	}
	return 0
}

// isDay reports whether a column holds days since 1970.
func isDay(leaf parquet.LeafColumn) bool {
	of := leaf.Node.Type().LogicalType()
	if of == nil {
		return false
	}
	_, day := of.Value.(*parquetformat.DateType)
	return day
}

func isNumber(leaf parquet.LeafColumn) bool {
	return decimals(leaf) == 0 && !isDay(leaf) && slices.Contains([]parquet.Kind{parquet.Int32, parquet.Int64, parquet.Float, parquet.Double}, leaf.Node.Type().Kind())
}
