package hbm

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/dram"
)

// TestValues: the programs compute attention for any shape, context and number of heads: equal to float64, up to the rounding of
// float32 sums.
func TestValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		level := Level(rapid.SampledFrom(Levels()).Draw(t, "level"))
		dims := []int{1, 40, 64, 80, 128, 160, 256}
		shape := Shape{HeadDim: rapid.SampledFrom(dims).Draw(t, "dim"), ElementBytes: rapid.IntRange(1, 2).Draw(t, "bytes"), ValueDim: rapid.SampledFrom(append([]int{0, 0, 0}, dims...)).Draw(t, "value dim")}
		if shape.ValueDim > 0 && rapid.Bool().Draw(t, "latent") {
			shape.HeadDim, shape.ValueDim = 576, 512
		}
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		vector := func(n int) []float32 {
			x := make([]float32, n)
			for i := range x {
				x[i] = float32(random.NormFloat64())
			}
			return x
		}
		context := rapid.IntRange(1, 700).Draw(t, "context")
		heads := make([]headValues, rapid.IntRange(1, 5).Draw(t, "heads"))
		for i := range heads {
			heads[i].query = vector(shape.HeadDim)
			for range context {
				heads[i].keys, heads[i].values = append(heads[i].keys, vector(shape.HeadDim)), append(heads[i].values, vector(shape.ValueWidth()))
			}
		}
		got := attend(t, level, shape, heads)
		for i := range heads {
			for d, want := range exact(&heads[i]) {
				if off := math.Abs(float64(got[i][d]) - want); !(off < 2e-5) {
					t.Fatalf("%s, head %d, element %d: %v, expected %v", level, i, d, got[i][d], want)
				}
			}
		}
	})
}

// exact returns attention by definition, in float64.
func exact(h *headValues) []float64 {
	weights, sum := make([]float64, len(h.keys)), 0.0
	for t, k := range h.keys {
		dot := 0.0
		for d, x := range k {
			dot += float64(float64(x) * float64(h.query[d]))
		}
		weights[t] = math.Exp(dot / math.Sqrt(float64(len(h.query))))
		sum += weights[t]
	}
	out := make([]float64, len(h.values[0]))
	for t, v := range h.values {
		for d, x := range v {
			out[d] += float64(weights[t] / sum * float64(x))
		}
	}
	return out
}

// headValues is a head's data: a query and a key for each token of HeadDim elements, and a value of ValueWidth.
type headValues struct {
	query        []float32
	keys, values [][]float32
}

// valueMachine executes a program on stored elements, command by command in program order, which is all that its barriers promise.
// Buffers hold NaN until they are written, so that a premature command shows. The inputs of a MACA are double-buffered by head or block,
// since moves for the next head or of the last block overlap it.
type valueMachine struct {
	Load
	layout
	m, tokens    int // multipliers of a unit; tokens of a way
	columns      int // of a token's key in a unit
	passes       int // over its value
	heads        []headValues
	keys, values [banksOfChannel][]float32      // columns from the first row of keys, or of values
	query        [2][banks][]float32            // of the part's columns, in every way
	weights      [2][ways][]float32             // probabilities of the way's tokens
	partial      [ways][2 * blockTokens]float32 // scores of the latest blocks
	sums         [2][banksOfChannel][]float32   // of a pass, by unit
	scores       [][]float32                    // in the buffer die, by head and token
	out          [][]float32
}

// attend returns the attention of the heads, all of one context, computed by a channel's program in float32: exact up to the rounding of sums.
// AttAcc chooses the way of each token; here ways take turns.
func attend(t *rapid.T, level Level, shape Shape, heads []headValues) [][]float32 {
	load := StackLoad(shape, len(heads[0].keys), Channels*len(heads))
	if err := load.check(level); err != nil {
		t.Fatal(err)
	}
	v := newValueMachine(layouts[level], load, heads)
	for _, in := range load.program(Spec{Level: level, Rules: JEDEC}) { // AttAcc's own reads the first head's values for the second
		v.execute(&in)
	}
	for i := range v.out {
		v.out[i] = v.out[i][:shape.ValueWidth()]
	}
	return v.out
}

// empty returns n values that nothing has written.
func empty(n int) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = float32(math.NaN())
	}
	return s
}

// newValueMachine stores the heads' keys and values where the mapping puts them. Everything else is not a number
// until it is written.
func newValueMachine(y layout, load Load, heads []headValues) *valueMachine {
	v := &valueMachine{Load: load, layout: y, m: load.multipliers(), tokens: ceil(load.Context, y.ways), columns: y.columns(load.Shape), passes: y.passes(load.Shape), heads: heads}
	stored := len(heads) * y.rows(load.Shape, load.Context) * rowColumns * v.m
	for b := range banksOfChannel {
		v.keys[b], v.values[b] = make([]float32, stored), make([]float32, stored)
		v.sums[0][b], v.sums[1][b] = empty(v.m), empty(v.m)
	}
	for set := range 2 {
		for part := range y.split {
			v.query[set][part] = empty(v.columns * v.m)
		}
		for w := range y.ways {
			v.weights[set][w] = empty(ceil(v.tokens, v.m) * v.m)
		}
	}
	for h, head := range heads {
		for t := range load.Context {
			local := t / y.ways
			for d, x := range head.keys[t] {
				part, column, lane := d/(v.columns*v.m), d/v.m%v.columns, d%v.m
				bank, at := v.stored(h, t%y.ways*y.split+part, local*v.columns+column)
				v.keys[bank][at+lane] = x
			}
			for d, x := range head.values[t] {
				part, pass, lane := d/(v.passes*v.m), d/v.m%v.passes, d%v.m
				bank, at := v.stored(h, t%y.ways*y.split+part, pass*v.tokens+local)
				v.values[bank][at+lane] = x
			}
		}
		v.scores = append(v.scores, empty(v.tokens*y.ways))
		v.out = append(v.out, make([]float32, y.split*v.passes*v.m))
	}
	return v
}

// stored returns the bank of a unit's i-th column of a head, and its first element there.
func (v *valueMachine) stored(head, unit, i int) (bank, element int) {
	rank, group, b, column := v.place(i)
	in := instruction{rank: rank, group: group, bank: b}
	return v.read(unit, &in), (head*v.rows(v.Shape, v.Context)*rowColumns + column) * v.m
}

// read returns the bank that a unit reads by an instruction: its own, one of its bank group, or one of its pseudo-channel.
func (v *valueMachine) read(unit int, in *instruction) int {
	return unit*(banksOfChannel/(v.ways*v.split)) + in.named()
}

// way returns the way of a bank group's unit in a pseudo-channel.
func (v *valueMachine) way(pseudo int, in *instruction) int {
	return pseudo*(v.ways/pseudoChannels) + int(in.rank)*groups + int(in.group)
}

// execute executes one command on both pseudo-channels.
func (v *valueMachine) execute(in *instruction) {
	set := int(in.head) % 2
	switch {
	case in.barrier:
	case in.command == dram.WRGB:
		for i := range v.m {
			d, to := (int(in.bank)*v.columns+int(in.column))*v.m+i, int(in.column)*v.m+i
			v.query[set][in.bank][to] = 0
			if d < v.HeadDim {
				v.query[set][in.bank][to] = v.heads[in.head].query[d]
			}
		}
	case in.command == dram.SFM:
		v.softmax(int(in.head))
	case in.command == dram.MVGB:
		for pseudo := range pseudoChannels {
			w := v.way(pseudo, in)
			for i := int(in.column) * v.m; i < (int(in.column)+1)*v.m; i++ {
				v.weights[set][w][i] = 0
				if i < v.tokens {
					v.weights[set][w][i] = v.scores[in.head][i*v.ways+w]
				}
			}
		}
	case in.command == v.mac && in.stage == scoreStage:
		v.score(in, v.query[set][:])
	case in.command == v.mac:
		v.context(in)
	case in.stage == scoreStage:
		for pseudo := range pseudoChannels {
			w := v.way(pseudo, in)
			for local := int(in.block) * blockTokens; local < min(v.tokens, (int(in.block)+1)*blockTokens); local++ {
				v.scores[in.head][local*v.ways+w] = v.partial[w][local%(2*blockTokens)]
			}
		}
	default:
		v.collect(in)
	}
}

// score has each unit add up the products of a column of keys, and each bank group those of units at its banks.
func (v *valueMachine) score(in *instruction, query [][]float32) {
	local, column := int(in.block)/v.columns, int(in.block)%v.columns
	from := (int(in.row)*rowColumns + int(in.column)) * v.m
	for w := range v.ways {
		sum := float32(0)
		for part := range v.split {
			keys := v.keys[v.read(w*v.split+part, in)][from:]
			for i := range v.m {
				sum += float32(keys[i] * query[part][column*v.m+i])
			}
		}
		to := &v.partial[w][local%(2*blockTokens)]
		if column == 0 {
			*to = 0
		}
		*to += sum
	}
}

// softmax turns a head's scores into probabilities; tokens that the context does not have get 0.
func (v *valueMachine) softmax(head int) {
	s := v.scores[head]
	most, sum, scale := float32(math.Inf(-1)), float32(0), float32(1/math.Sqrt(float64(v.HeadDim)))
	for _, x := range s[:v.Context] {
		most = max(most, x)
	}
	for t := range s {
		if t < v.Context {
			s[t] = float32(math.Exp(float64((s[t] - most) * scale)))
			sum += s[t]
		}
	}
	for t := range s {
		if s[t] /= sum; t >= v.Context {
			s[t] = 0
		}
	}
}

// context has each unit add a token's weighted values to its sums of a pass.
func (v *valueMachine) context(in *instruction) {
	pass, local := int(in.block)/v.tokens, int(in.block)%v.tokens
	from := (int(in.row-valueRow)*rowColumns + int(in.column)) * v.m
	for u := range v.ways * v.split {
		sums, weight, values := v.sums[pass%2][u], v.weights[in.head%2][u/v.split][local], v.values[v.read(u, in)][from:]
		if local == 0 {
			clear(sums)
		}
		for i := range sums {
			sums[i] += float32(weight * values[i])
		}
	}
}

// collect adds the sums of a stack's units (at the banks, of those with one bank number) over all bank groups to the head's result.
func (v *valueMachine) collect(in *instruction) {
	first := (int(in.bank)*v.passes + int(in.block)) * v.m
	for w := range v.ways {
		if v.stacks > 1 && w/groups%ranks != int(in.rank) {
			continue
		}
		for i, x := range v.sums[in.block%2][w*v.split+int(in.bank)] {
			v.out[in.head][first+i] += x
		}
	}
}
