package dram

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
)

// parts reads the axes of the parts' names and the rows of their values.
func (t *tableReader) parts(f *standardFile) error {
	if len(f.Parts) > 0 {
		t.s.axes = nil
	}
	for _, axis := range f.Parts {
		t.s.axes = append(t.s.axes, strings.Fields(strings.ToLower(axis)))
	}
	parts := 1
	for _, axis := range t.s.axes {
		parts = min(parts*len(axis), maxParts+1)
	}
	if len(t.s.axes) == 0 || parts == 0 || parts > maxParts {
		return t.at("parts", &input.Error{Key: "parts", Expected: fmt.Sprintf("the words of each axis of the parts' names, %d parts at most", maxParts)})
	}
	for _, row := range f.Values {
		c, err := t.cells("values", row, 3, 4)
		if err != nil {
			return err
		}
		v := valueRow{when: strings.Fields(c[0]), key: c[1], text: c[2], source: c[3], place: t.at(row, &input.Error{Key: "values", Value: strconv.Quote(row)})}
		if v.value, err = t.expression("values", row, c[2]); err != nil {
			return err
		}
		t.s.values = append(t.s.values, v)
	}
	return nil
}
