package machine

import (
	"maps"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
)

// instructions returns what a program of heads issues.
func instructions(t *testing.T, spec *pim.Spec, shape pim.HeadShape, heads ...Head) (list []Instruction) {
	t.Helper()
	p, err := NewProgram(spec, parts.DDR4(t), shape, heads)
	if err != nil {
		t.Fatal(err)
	}
	for buffer := p.Next(nil); len(buffer) > 0; buffer = p.Next(buffer[:0]) {
		list = append(list, buffer...)
	}
	return list
}

// TestPassesOfQueries: five query heads with two sets of multipliers read each burst of keys and values in three passes: for two heads, two heads, and the last one.
// Only the last read of a head's values ends the head.
func TestPassesOfQueries(t *testing.T) {
	spec, shape := pim.Default(), fp16Head
	spec.ProcessingUnit, spec.MACsPerRead, shape.Queries = pim.RankLevelUnit, 2, 5
	reads, last, final := map[[3]int]int{}, map[int32]int{}, map[int32]int{}
	for i, in := range instructions(t, spec, shape, Head{Context: 600}, Head{Context: 40}) {
		if in.Op == OpReadKey || in.Op == OpReadValue {
			reads[[3]int{int(in.Op), int(in.Query), int(in.Queries)}]++
		}
		if in.Op == OpReadValue {
			if final[in.Head] = i; in.Last {
				if last[in.Head] != 0 {
					t.Errorf("head %d has two last reads", in.Head)
				}
				last[in.Head] = i
			}
		}
	}
	if len(reads) != 6 {
		t.Errorf("passes %v", reads)
	}
	for _, op := range []Operation{OpReadKey, OpReadValue} {
		for query, queries := range map[int]int{0: 2, 2: 2, 4: 1} {
			if n := reads[[3]int{int(op), query, queries}]; n == 0 || n != reads[[3]int{int(op), 0, 2}] {
				t.Errorf("operation %v: %d reads for %d query heads from %d", op, n, queries, query)
			}
		}
	}
	if !maps.Equal(last, final) {
		t.Errorf("last reads %v, marked %v", final, last)
	}
}

// TestColumnsOfScales: rows of 960 tokens hold scales in columns 124 to 127, for 256 tokens each. A bank unit reads the columns of its own tokens: two for 300
// tokens, one for 20 tokens of a second row. A rank unit reads all of a row.
func TestColumnsOfScales(t *testing.T) {
	shape := fp16Head
	shape.KVBits, shape.ScaleBytes = 8, 4
	for _, c := range []struct {
		unit    string
		context int
		want    map[int32][]int32 // columns by row
	}{
		{pim.BankUnits, 300, map[int32][]int32{0: {124, 125}, 1: {124, 125}}},
		{pim.BankUnits, 980, map[int32][]int32{0: {124, 125, 126, 127}, 1: {124, 125, 126, 127}, 2: {124}, 3: {124}}},
		{pim.RankLevelUnit, 300, map[int32][]int32{0: {124, 125, 126, 127}, 1: {124, 125, 126, 127}}},
	} {
		spec := pim.Default()
		spec.ProcessingUnit = c.unit
		got := map[int32][]int32{}
		for _, in := range instructions(t, spec, shape, Head{Context: c.context}) {
			if in.Op == OpReadScale && !slices.Contains(got[in.Row], in.Column) {
				got[in.Row] = append(got[in.Row], in.Column)
			}
		}
		if !maps.EqualFunc(got, c.want, func(a, b []int32) bool { return slices.Equal(slices.Sorted(slices.Values(a)), b) }) {
			t.Errorf("%s, %d tokens: columns %v, want %v", c.unit, c.context, got, c.want)
		}
	}
}

// TestContextIsReadOnceEach: for every query head, each burst of each accumulator is read once, slot by slot. Values that are parts of keys have 8 accumulators a bank, others
// one.
func TestContextIsReadOnceEach(t *testing.T) {
	inKey := latentHead
	inKey.ValueInKey, inKey.Queries = true, 3
	apart := fp16Head
	apart.Queries = 3
	for _, shape := range []pim.HeadShape{inKey, apart} {
		p, err := NewProgram(pim.Default(), parts.DDR4(t), shape, []Head{{Context: 20}})
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int{true: 8 * 512 / 256, false: 1}[shape.ValueInKey]; p.readOuts != want {
			t.Errorf("%d accumulators, want %d", p.readOuts, want)
		}
		var got, want [][3]int
		for _, in := range instructions(t, pim.Default(), shape, Head{Context: 20}) {
			if in.Op == OpReadContext {
				got = append(got, [3]int{int(in.Query), int(in.Slot), int(in.Burst)})
			}
		}
		for q := range 3 {
			for slot := range p.readOuts {
				for burst := range p.ContextBursts {
					want = append(want, [3]int{q, slot, burst})
				}
			}
		}
		if !slices.Equal(got, want) || p.ContextBursts < 2 {
			t.Errorf("read %v, want %v", got, want)
		}
	}
}
