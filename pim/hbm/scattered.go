package hbm

// Scattered tokens lie anywhere in a head: units read them by ways, one token of each way at once, and open rows for few of them.

// Ways returns how many successive tokens the units of a level read at once: one of each way. An unknown level has 1.
func (l Level) Ways() int { return max(1, layouts[l].ways) }

// RowTokens returns how many successive tokens of a head have their keys in one row of all banks that open together, and how many their
// values: those of one pass, of which there are so many.
func (t *Table) RowTokens() (keys, values, passes int) { return t.keyTokens, t.valueTokens, t.passes }

// Opening returns the clocks of CK that a further row adds to the attention of a head whose tokens lie in more rows than they fill, on
// average, and OpeningTally what it takes. A part of it hides behind reads where banks open apart.
func (t *Table) Opening() float64 { return t.opening[0] }

// OpeningTally is the work of Opening.
func (t *Table) OpeningTally() Tally { return t.opening.tally() }

func (a *amounts) tally() Tally { return Tally{a[1], a[2], a[3], a[4]} }

// row returns the columns of a row of all banks that open together. In the buffer die successive columns lie in different banks.
func (y *layout) row() int {
	if y.sets > banks {
		return rowColumns * y.sets
	}
	return rowColumns
}

// What is measured of tokens that lie apart: so many of each way, in rows of which each has so many values. With fewer values a row
// would have to stay open beyond its last read.
const scatteredTokens, scatteredValues = 16, 8

// measureOpening measures a further row: a head whose tokens lie apart, and the same head in order.
func (t *Table) measureOpening(spec Spec, shape Shape, y *layout) error {
	row, columns := y.row(), y.columns(shape)
	t.keyTokens, t.valueTokens, t.passes = y.ways*max(1, row/columns), y.ways*row, y.passes(shape)
	load := StackLoad(shape, scatteredTokens*y.ways, 1)
	inOrder, err := Measure(spec, load, nil)
	if err != nil {
		return err
	}
	load.apart = row / scatteredValues
	if y.sets > banks { // so that successive tokens begin in different banks
		load.apart++
	}
	apart, err := Measure(spec, load, nil)
	if err != nil {
		return err
	}
	a, b, each := apart.amounts(spec), inOrder.amounts(spec), float64(y.ways*y.split*row/rowColumns)
	further := (a[1] - b[1]) / each
	for i := range a {
		t.opening[i] = max(0, a[i]-b[i]) / further
	}
	return nil
}
