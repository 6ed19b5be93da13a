package pim

import (
	"testing"

	"github.com/l3sim/l3sim/dram"
)

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

// Scales in the rows: each row begins with reading those of its chunks, 16 tokens a burst, of which the staggered activation hides
// some; 60 chunks of 8 bits, a multiple of four, leave room for them, and 120 of 4. So 8 bits are 1.7 times as fast as 16, not twice.
func TestScalesInRows(t *testing.T) {
	for _, c := range []struct{ bits, chunks, bursts int }{{8, 60, 64}, {4, 120, 128}} {
		for _, multipliers := range []int{4, 8} {
			spec := Default()
			spec.Multipliers = multipliers
			table, err := NewKernelTable(spec, ddr4(t), HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16, KVBits: c.bits, ScaleBytes: 4})
			if err != nil {
				t.Fatal(err)
			}
			row := 16 * c.chunks
			if table.RowTokens() != row {
				t.Fatalf("%d bits: %d tokens a row, want %d", c.bits, table.RowTokens(), row)
			}
			steps := max(1, 64/c.bits/multipliers)
			columns := c.bits / 4
			chunk := max(8*columns*steps, 16)
			// From the first bank's activation tRCD, and 4 clocks a burst, since four banks open faster than their scales are read. Then a key
			// is read tCCD_L on; of values, the weights follow when a burst (CL and 4) has passed the softmax unit (28), and a value when it has
			// its weight (CWL and 4).
			last := 22 + 4*(c.bursts-1)
			keys, values := last+8, last+22+4+28+16+4
			got := table.Attention(5*row) - table.Attention(4*row)
			want := int64(2*(c.chunks*chunk+12+22-8*steps) + keys + values)
			if got < want || 50*(got-want) > want { // a full bus is a little behind
				t.Errorf("%d bits, %d multipliers: a row takes %d clocks, want %d", c.bits, multipliers, got, want)
			}
			if sum := 151864 / float64(table.Attention(32768)); multipliers == 8 && (sum < 1.65 || sum > 1.75) {
				t.Errorf("%d bits: %.3f times as fast as 16", c.bits, sum)
			}
		}
	}
}

// Every token's scales have a place of their own behind keys and values, in a bank of the same vector.
func TestScalePlaces(t *testing.T) {
	for _, bits := range []int{4, 8, 16} {
		for _, part := range []string{"ddr4-3200-8gb-x8", "ddr4-3200-8gb-x4", "ddr4-2400-16gb-x16"} {
			d, err := dram.LookupSpec(part)
			if err != nil {
				t.Fatal(err)
			}
			g, err := NewGeometry(d, HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16, KVBits: bits, ScaleBytes: 4})
			if err != nil {
				t.Fatal(err)
			}
			tokens := map[[3]int]int{} // of a bank's burst, keys and values
			for token := range g.RowTokens {
				column := int(g.scaleColumn(token))
				if data := max(int(g.keyColumn(token))+g.TokenBursts, int(g.valueColumn(token))+1); column < data || column >= g.rowBursts {
					t.Fatalf("%s, %d bits, token %d: scales in column %d of %d, data to %d", part, bits, token, column, g.rowBursts, data)
				}
				bank := g.valueScaleBank(token)
				if first := g.valueBank(token); bank < first || bank >= first+g.TokenBursts {
					t.Fatalf("%s, %d bits, token %d: the value's scale in bank %d, the value from %d on", part, bits, token, bank, first)
				}
				tokens[[3]int{0, g.keyBank(token), column}]++
				tokens[[3]int{1, bank, column}]++
			}
			for at, n := range tokens {
				if n*4 > g.burstBytes {
					t.Fatalf("%s, %d bits: %d scales in a burst of bank %v", part, bits, n, at)
				}
			}
		}
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
