package values

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
)

// drawRanges returns ranges of whole chunks of a head with so many tokens; only the last range may end within a chunk.
func drawRanges(t *rapid.T, g *pim.Geometry, tokens int) [][2]int {
	var ranges [][2]int
	for at := 0; at < tokens; {
		from := at + g.ChunkTokens*rapid.SampledFrom([]int{0, 1, 2, 9, 40}).Draw(t, "gap")
		end := min(from+g.ChunkTokens*rapid.SampledFrom([]int{1, 1, 2, 4, 33}).Draw(t, "chunks"), tokens)
		if from >= tokens {
			break
		}
		ranges, at = append(ranges, [2]int{from, end}), end
	}
	if ranges == nil {
		return [][2]int{{0, tokens}}
	}
	return ranges
}

// listed is a rank with two heads. The second, in the rows after the first, has the tokens of some ranges of the first one, in their order.
type listed struct {
	rank   *HostRank
	shape  pim.HeadShape
	ranges [][2]int
	tokens []int // of the ranges
	query  [][]uint16
	k, v   [][]uint16
	second int32 // row
	append bool  // the newest token is not stored yet
}

func drawListed(tb testing.TB, t *rapid.T, spec *pim.Spec) *listed {
	d := parts.DDR4(tb)
	l := &listed{shape: pim.HeadShape{HeadDim: rapid.SampledFrom([]int{32, 128, 256}).Draw(t, "d"), Queries: rapid.IntRange(1, 3).Draw(t, "queries"), ElementBits: 16}}
	g, err := pim.NewGeometry(d, l.shape)
	parts.Must(tb, err)
	n := rapid.IntRange(1, 3000).Draw(t, "tokens")
	l.ranges = drawRanges(t, &g, n)
	for _, r := range l.ranges {
		for i := r[0]; i < r[1]; i++ {
			l.tokens = append(l.tokens, i)
		}
	}
	l.second = int32(g.Rows(n))
	l.rank, err = NewHostRank(spec, d, l.shape, 2*g.Rows(n), 1, rapid.Bool().Draw(t, "decode"))
	parts.Must(tb, err)
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 2))
	l.query = randomVectors(r, StoreFP16, l.shape.Queries, l.shape.HeadDim, 1)
	l.k, l.v = randomVectors(r, StoreFP16, n, l.shape.HeadDim, 1), randomVectors(r, StoreFP16, n, l.shape.HeadDim, 1)
	l.append = rapid.Bool().Draw(t, "append")
	newest := l.tokens[len(l.tokens)-1]
	for i := range n {
		if i != newest || !l.append {
			parts.Must(tb, l.rank.Store(0, i, l.k[i], l.v[i]))
		}
	}
	for i, token := range l.tokens {
		parts.Must(tb, l.rank.Store(l.second, i, l.k[token], l.v[token]))
	}
	return l
}

// attend returns outputs and log-sum-exps of a head of the rank.
func (l *listed) attend(tb testing.TB, h DecodeHead) (bits []float64) {
	h.Query = l.query
	out, lse, err := l.rank.Attend(0, &h)
	parts.Must(tb, err)
	for q := range out {
		for _, x := range out[q] {
			bits = append(bits, float64(x))
		}
		bits = append(bits, lse[q])
	}
	return bits
}

// TestRankReadsRanges: attention to ranges of a head equals, bit for bit, attention to a head with only the ranges' tokens.
func TestRankReadsRanges(tb *testing.T) {
	rapid.Check(tb, func(t *rapid.T) {
		spec := precision(rapid.SampledFrom([]string{"fp32", "paper"}).Draw(t, "precision"))
		spec.ProcessingUnit = rapid.SampledFrom([]string{pim.BankUnits, pim.RankLevelUnit}).Draw(t, "unit")
		l := drawListed(tb, t, spec)
		h := DecodeHead{Ranges: l.ranges}
		if l.append {
			newest := l.tokens[len(l.tokens)-1]
			h.Key, h.Value = l.k[newest], l.v[newest]
		}
		got, want := l.attend(tb, h), l.attend(tb, DecodeHead{FirstRow: l.second, Context: len(l.tokens)})
		if !slices.Equal(got, want) {
			t.Fatalf("ranges %v of %d tokens give other bits than their tokens alone", l.ranges, len(l.k))
		}
	})
}

// TestRangesReadTheirRows: both the timed run of a list and the program that computes it open the rows of the ranges' tokens in their
// order, once for keys and once for values.
func TestRangesReadTheirRows(tb *testing.T) {
	d, spec := parts.DDR4(tb), pim.Default()
	g, err := pim.NewGeometry(d, halfHead)
	parts.Must(tb, err)
	rapid.Check(tb, func(t *rapid.T) {
		ranges := drawRanges(t, &g, rapid.IntRange(1, 6000).Draw(t, "tokens"))
		first := int32(2 * rapid.IntRange(0, 9).Draw(t, "first unit"))
		var units []int32
		for _, r := range ranges {
			for i := r[0]; i < r[1]; i++ {
				units = append(units, int32(i/g.RowTokens))
			}
		}
		var want []int32
		for row := range int32(2) {
			for _, unit := range slices.Compact(slices.Clone(units)) {
				want = append(want, first+2*unit+row)
			}
		}
		list, tokens, err := pim.RangeList(&g, nil, ranges)
		parts.Must(tb, err)
		if tokens != len(units) {
			t.Fatalf("%d tokens in %v, want %d", tokens, ranges, len(units))
		}
		heads := []machine.Head{{Context: tokens, FirstRow: first, List: list}}
		p, err := machine.NewProgram(spec, d, halfHead, heads)
		parts.Must(tb, err)
		clock, err := machine.NewMachine(spec, d)
		parts.Must(tb, err)
		var timed, computed []int32
		clock.Observe = func(_ int64, cmd dram.Command, a dram.Address, in *machine.Instruction) {
			if cmd == dram.ACT && a.BankGroup == 0 && a.Bank == 0 {
				timed = append(timed, a.Row)
			}
		}
		clock.Repeats.On = false
		clock.Run(p)
		p.Restart(heads)
		for list := p.Next(nil); len(list) > 0; list = p.Next(nil) {
			for i := range list {
				if in := &list[i]; in.Command == dram.MACA && (len(computed) == 0 || computed[len(computed)-1] != in.Row) {
					computed = append(computed, in.Row)
				}
			}
		}
		if !slices.Equal(timed, want) || !slices.Equal(computed, want) {
			t.Fatalf("%v: rows %v are opened, %v computed on, want %v", ranges, timed, computed, want)
		}
	})
}

// TestPagesMove: moving pages to other places or another order gives the same output up to rounding; equal queries of a group give the
// output of one, bit for bit.
func TestPagesMove(tb *testing.T) {
	spec := precision("fp32")
	rapid.Check(tb, func(t *rapid.T) {
		l := drawListed(tb, t, spec)
		for q := range l.query {
			l.query[q] = l.query[0]
		}
		stored := len(l.tokens)
		h := DecodeHead{FirstRow: l.second, Context: stored}
		want := l.attend(tb, h)
		one := l.shape.HeadDim + 1
		for q := 1; q < len(l.query); q++ {
			if !slices.Equal(want[:one], want[q*one:(q+1)*one]) {
				t.Fatalf("query %d of equal ones has other results", q)
			}
		}
		chunk := l.rank.workers[0].program.Geometry.ChunkTokens
		order := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 3)).Perm(stored / chunk)
		for to, from := range order {
			for i := range chunk {
				token := l.tokens[from*chunk+i]
				parts.Must(tb, l.rank.Store(l.second, to*chunk+i, l.k[token], l.v[token]))
			}
		}
		for i, x := range l.attend(tb, h) {
			if math.Abs(x-want[i]) > 1e-5 {
				t.Fatalf("output %d is %v after the pages have moved, %v before", i, x, want[i])
			}
		}
	})
}

// TestRangesAreChecked: ranges that are not ascending, or not of whole chunks, are refused.
func TestRangesAreChecked(t *testing.T) {
	rank, err := NewHostRank(pim.Default(), parts.DDR4(t), halfHead, 8, 1, true)
	parts.Must(t, err)
	for _, ranges := range [][][2]int{{{8, 16}}, {{-16, 16}}, {{0, 0}}, {{16, 0}}, {{0, 20}, {32, 48}}, {{32, 48}, {0, 16}}, {{0, 32}, {16, 48}}} {
		h := DecodeHead{Ranges: ranges, Query: make([][]uint16, 1)}
		if _, _, err := rank.Attend(0, &h); err == nil {
			t.Errorf("%v are taken", ranges)
		}
	}
	spec := pim.Default()
	spec.ScoreBuffer = 1024
	if rank, err = NewHostRank(spec, parts.DDR4(t), halfHead, 8, 1, true); err != nil {
		t.Fatal(err)
	}
	if _, err := rank.Score(0, &DecodeHead{Context: 513}); err == nil {
		t.Error("513 scores fit a buffer for 512")
	}
	if scores, err := rank.Score(0, &DecodeHead{Context: 512, Query: make([][]uint16, 1)}); err != nil || len(scores[0]) != 512 {
		t.Errorf("512 scores do not fit a buffer for 512: %v", err)
	}
}

// TestRankScores: scores of keys are q·k, in the formats of the score's path.
func TestRankScores(tb *testing.T) {
	rapid.Check(tb, func(t *rapid.T) {
		spec := precision(rapid.SampledFrom([]string{"fp32", "paper"}).Draw(t, "precision"))
		spec.ProcessingUnit = rapid.SampledFrom([]string{pim.BankUnits, pim.RankLevelUnit}).Draw(t, "unit")
		l := drawListed(tb, t, spec)
		x, err := newDirect(spec, parts.DDR4(tb), l.shape)
		parts.Must(tb, err)
		l.append = false
		got, err := l.rank.Score(0, &DecodeHead{FirstRow: l.second, Context: len(l.tokens), Query: l.query})
		parts.Must(tb, err)
		for q := range l.query {
			query := decode(StoreFP16, l.query[q:q+1])
			for i, token := range l.tokens {
				if want := x.score(query, decode(StoreFP16, l.k[token:token+1])); got[q][i] != want {
					t.Fatalf("query %d, token %d: %v, want %v", q, token, got[q][i], want)
				}
			}
		}
	})
}
