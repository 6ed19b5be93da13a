package pim

import "testing"

// Keys and values narrower than queries: each further chunk takes what multipliers or the rank's bus take, in
// either phase, and each further row a switch. So with the units of L3 they are read no faster, and with
// twice the multipliers twice as fast, but not four times: the partial sums of 16 tokens take 16 clocks.
func TestNarrowKeysAndValues(t *testing.T) {
	const bus, rowSwitch = 16, 48 + 114 // clocks: partial sums of a chunk and query head; a staggered activation
	clocks := func(bits, multipliers, queries, context int) int64 {
		t.Helper()
		spec := Default()
		spec.Multipliers = multipliers
		table, err := NewKernelTable(spec, ddr4(t), HeadShape{HeadDim: 128, Queries: queries, ElementBits: 16, KVBits: bits})
		if err != nil {
			t.Fatal(err)
		}
		return table.Attention(context)
	}
	for _, c := range []struct{ bits, multipliers, steps int }{
		{16, 0, 1}, {16, 4, 1}, {16, 8, 1}, {8, 0, 2}, {8, 4, 2}, {8, 8, 1}, {8, 2, 4}, {4, 0, 4}, {4, 4, 4}, {4, 8, 2}, {4, 16, 1},
	} {
		for _, queries := range []int{1, 4} {
			columns := c.bits * 128 / 512 // of a key: 512 bits over eight chips
			chunk := max(8*columns*c.steps*queries, bus*queries)
			row := 128 * 16 / columns // tokens
			const from, to = 8192, 32768
			// The banks close while the multipliers are at a row's last read.
			want := int64((to-from)/16*2*chunk + 2*(to-from)/row*(rowSwitch-8*(c.steps-1)))
			got := clocks(c.bits, c.multipliers, queries, to) - clocks(c.bits, c.multipliers, queries, from)
			if more := got - want; more != 0 && (8*columns*c.steps >= bus || more < 0 || 50*more > want) { // a bus that is behind delays switches
				t.Errorf("%d bits, %d multipliers, %d queries: %d more tokens take %d clocks, want %d", c.bits, c.multipliers, queries, to-from, got, want)
			}
		}
	}
	wide, half, quarter := clocks(16, 0, 1, 32768), clocks(8, 8, 1, 32768), clocks(4, 8, 1, 32768)
	if a, b := float64(wide)/float64(half), float64(half)/float64(quarter); a < 1.99 || a > 2.01 || b < 1.06 || b > 1.09 {
		t.Errorf("8 bits are %.3f times as fast as 16, 4 bits %.3f as 8", a, b)
	}
}

// A query is as wide as elements, whatever keys and values are.
func TestNarrowQueryBursts(t *testing.T) {
	for bits, want := range map[int]Geometry{
		16: {TokenBursts: 4, ColumnTokens: 4, RowTokens: 512}, 8: {TokenBursts: 2, ColumnTokens: 8, RowTokens: 1024}, 4: {TokenBursts: 1, ColumnTokens: 16, RowTokens: 2048},
	} {
		g, err := NewGeometry(ddr4(t), HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16, KVBits: bits})
		if err != nil {
			t.Fatal(err)
		}
		if g.QueryBursts != 4 || g.TokenBursts != want.TokenBursts || g.ColumnTokens != want.ColumnTokens || g.RowTokens != want.RowTokens {
			t.Errorf("%d bits: %+v", bits, g)
		}
	}
}
