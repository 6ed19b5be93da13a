package hbm

import (
	"strings"
	"testing"
)

// TestPeriodsByHand: a row of all banks that open together has 32 columns of one bank at the banks, of 4 at bank groups, of 32 in the buffer die. A 128-element FP16 key has
// 2, 8 and 8 columns there. Keys of 576 and values of 512 elements have 9 and 8, or 36 and 32; both fill whole rows after 32 tokens, in the buffer die after 256, of which a
// period is an eighth, rounded to whole rows. A token wider than a row is one period.
func TestPeriodsByHand(t *testing.T) {
	for _, c := range []struct {
		level      Level
		key, value int
		want       int
	}{
		{Bank, 128, 0, 16 * 16}, {BankGroup, 128, 0, 16 * 16}, {Buffer, 128, 0, 2 * 128},
		{Bank, 576, 512, 16 * 32}, {BankGroup, 576, 512, 16 * 32}, {Buffer, 576, 512, 2 * 32}, {Buffer, 512, 576, 2 * 32},
		{Bank, 4096, 0, 16}, {BankGroup, 4096, 0, 16}, {Bank, 2048, 0, 16}, {Bank, 1024, 0, 32},
	} {
		y, err := c.level.layout()
		if err != nil {
			t.Fatal(err)
		}
		if got := y.period(Shape{HeadDim: c.key, ValueDim: c.value, ElementBytes: 2}); got != c.want {
			t.Errorf("%s, keys of %d, values of %d: a period of %d tokens, want %d", c.level, c.key, c.value, got, c.want)
		}
	}
}

// TestTokensApart: at the banks, keys of three columns of tokens five apart begin every 15 columns, values every 5. Heads are a stride apart.
func TestTokensApart(t *testing.T) {
	for _, c := range []struct {
		apart, head, read int
		stage             stage
		row, column       int32
	}{
		{0, 0, 7, scoreStage, 0, 7}, {1, 0, 7, scoreStage, 0, 7}, {5, 0, 2, scoreStage, 0, 2}, {5, 0, 3, scoreStage, 0, 15}, {5, 0, 7, scoreStage, 0, 31}, {5, 0, 8, scoreStage, 1, 0},
		{5, 1, 8, scoreStage, 4, 4}, {0, 0, 40, contextStage, 8193, 8}, {1, 0, 40, contextStage, 8193, 8}, {5, 0, 7, contextStage, 8193, 3}, {5, 2, 7, contextStage, 8199, 11},
	} {
		g := generator{Load: Load{apart: c.apart}, layout: layouts[Bank], columns: 3, stride: 100}
		g.mac(int32(c.head), c.read, c.stage)
		if got := g.out[0]; len(g.out) != 1 || got.row != c.row || got.column != c.column || got.block != int32(c.read) || got.stage != c.stage || got.head != int32(c.head) {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

// TestOpeningsAlone: at each level a further row adds the activations of all banks that open together, and nothing else.
func TestOpeningsAlone(t *testing.T) {
	for _, spec := range []Spec{{Bank, AttAcc, 5200, true, true}, {Bank, JEDEC, 6400, true, true}, {BankGroup, AttAcc, 5200, true, true}, {Buffer, AttAcc, 5200, true, true}} {
		y, err := spec.Level.layout()
		if err != nil {
			t.Fatal(err)
		}
		var table Table
		if err := table.measureOpening(spec, Shape{HeadDim: 128, ElementBytes: 2}, &y); err != nil {
			t.Fatal(err)
		}
		want := Tally{Rows: map[Level]float64{Bank: 64, BankGroup: 16, Buffer: 64}[spec.Level]} // 16 ways, of four banks each; 2 pseudo-channels of 32 banks
		if got := table.OpeningTally(); got != want {
			t.Errorf("%+v: %+v, want %+v", spec, got, want)
		}
	}
}

// TestGrowthIsMeasured: a further period adds an eighth of the time of periods 3 to 10; contexts of up to two periods are measured.
func TestGrowthIsMeasured(t *testing.T) {
	spec, shape := Spec{Bank, AttAcc, 5200, true, true}, Shape{HeadDim: 512, ElementBytes: 2}
	const period = 4 * 16 // tokens of 8 columns
	table := Table{ways: 16}
	if err := table.measure(spec, shape, period); err != nil {
		t.Fatal(err)
	}
	two, err := heads(spec, shape, 2*period)
	if err != nil {
		t.Fatal(err)
	}
	ten, err := heads(spec, shape, 10*period)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range []*amounts{&table.single.Growth, &table.pair.Growth, &table.next.Growth} {
		for j := range s {
			if want := (ten[i][j] - two[i][j]) / 8; s[j] != want {
				t.Errorf("%d, amount %d: grows by %v, want %v", i, j, s[j], want)
			}
		}
	}
	for _, context := range []int{1, 16, 17, period, 2 * period} {
		measured, err := heads(spec, shape, (context+15)/16*16)
		if err != nil {
			t.Fatal(err)
		}
		// One, two, three and six heads.
		one, pair, next := measured[0], measured[1], measured[2]
		for n, want := range map[int]amounts{1: one, 2: pair, 3: pair.Plus(one, 1), 6: pair.Plus(next, 2)} {
			for amount := range want {
				if got := table.quiet(amount, n, context); got != want[amount] {
					t.Errorf("%d heads of %d tokens: amount %d is %v, want %v", n, context, amount, got, want[amount])
				}
			}
		}
	}
}

// TestAmountsAdd: each kind of work alone, multiplied.
func TestAmountsAdd(t *testing.T) {
	if got := (amounts{1, 2, 3, 4, 5}).Plus(amounts{10, 200, 3000, 40000, 500000}, 3); got != (amounts{31, 602, 9003, 120004, 1500005}) {
		t.Error(got)
	}
}

// TestFullRows: keys and values have 8,192 rows each. 16 ways of 65,536 tokens of 2 columns fill 4,096 rows a head.
func TestFullRows(t *testing.T) {
	for _, c := range []struct {
		shape Shape
		heads int
		want  string
	}{
		{Shape{HeadDim: 128, ElementBytes: 2}, 32, ""},
		{Shape{HeadDim: 128, ElementBytes: 2}, 33, "heads = 33: expected keys of 1048576 tokens in 8192 rows of each bank, half of them: they take 12288"},
		{Shape{HeadDim: 128, ValueDim: 64, ElementBytes: 2}, 33, "heads = 33: expected keys of 1048576 tokens in 8192 rows of each bank, half of them: they take 12288"},
		{Shape{HeadDim: 128, ValueDim: 256, ElementBytes: 2}, 16, ""},
		{Shape{HeadDim: 128, ValueDim: 256, ElementBytes: 2}, 17, "heads = 17: expected values of 1048576 tokens in 8192 rows of each bank, half of them: they take 16384"},
	} {
		got := ""
		if err := StackLoad(c.shape, 1<<20, c.heads).check(Bank); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v, %d heads: %q, want %q", c.shape, c.heads, got, c.want)
		}
	}
	for heads, want := range map[int]string{0: "heads = 0: expected at least one head on a stack", 1: ""} {
		got := ""
		if err := (Load{Shape{HeadDim: 128, ElementBytes: 2}, 1, max(1, heads), heads, 0}).check(Bank); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%d heads: %q, want %q", heads, got, want)
		}
	}
	for context, ok := range map[int]bool{0: false, 1: true, 1 << 20: true, 1<<20 + 1: false} {
		if err := StackLoad(Shape{HeadDim: 128, ElementBytes: 2}, context, 1).check(Bank); (err == nil) != ok || !ok && !strings.HasSuffix(err.Error(), ": expected 1 to 1048576 tokens") {
			t.Errorf("%d tokens: %v", context, err)
		}
	}
}
