package hbm

import (
	"fmt"
	"math"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
)

// Head is a head's data: a query of HeadDim elements, and as many for each token's key and value.
type Head struct {
	Query        []float32
	Keys, Values [][]float32
}

// unitsOfChannel is the banks of a channel over both pseudo-channels.
const unitsOfChannel = ways * banks

// valueMachine executes a program on stored elements, command by command in the program's order, which is all that its barriers promise.
// Buffers hold NaN until something is written, so that a command that comes too early shows. What a MACA takes is in one of two
// sets, by the head or by the block, since moves for the next head or of the last block go on amid it.
type valueMachine struct {
	Load
	m, tokens    int // multipliers of a unit; tokens of a way
	heads        []Head
	keys, values [unitsOfChannel][]float32      // columns from the first row of keys, and of values, on
	query        [2][banks][]float32            // of the bank's columns, in every group
	weights      [2][ways][]float32             // probabilities of the way's tokens
	partial      [ways][2 * blockTokens]float32 // scores of the latest blocks
	sums         [2][unitsOfChannel][]float32   // of a pass
	scores       [][]float32                    // in the buffer die, by head and token
	out          [][]float32
}

// Attend returns the attention of the heads, of one context, computed by the program of a channel in float32: exact up to the rounding of sums.
// Which of the 16 ways a token has is AttAcc's to choose; here they take turns.
func Attend(shape Shape, heads []Head) ([][]float32, error) {
	if len(heads) == 0 {
		return nil, &input.Error{Key: "heads", Value: "0", Expected: "at least one head"}
	}
	load := StackLoad(shape, len(heads[0].Keys), Channels*len(heads))
	if err := load.check(); err != nil {
		return nil, err
	}
	for i, h := range heads {
		if len(h.Keys) != load.Context || len(h.Values) != load.Context || len(h.Query) != shape.HeadDim {
			return nil, &input.Error{Key: "heads", Value: fmt.Sprintf("head %d: %d keys, %d values", i, len(h.Keys), len(h.Values)), Expected: fmt.Sprintf("%d of %d elements", load.Context, shape.HeadDim)}
		}
	}
	v := newValueMachine(load, heads)
	for _, in := range load.program(JEDEC) { // AttAcc's own takes the second head's values from the first one's
		v.execute(&in)
	}
	for i := range v.out {
		v.out[i] = v.out[i][:shape.HeadDim]
	}
	return v.out, nil
}

// empty returns n values that nothing has been written to.
func empty(n int) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = float32(math.NaN())
	}
	return s
}

func newValueMachine(load Load, heads []Head) *valueMachine {
	v := &valueMachine{Load: load, m: load.multipliers(), tokens: ceil(load.Context, ways), heads: heads}
	columns := load.columns()
	rows := ceil(v.tokens*columns, rowColumns)
	for u := range unitsOfChannel {
		v.keys[u], v.values[u] = make([]float32, len(heads)*rows*rowColumns*v.m), make([]float32, len(heads)*rows*rowColumns*v.m)
		v.sums[0][u], v.sums[1][u] = empty(v.m), empty(v.m)
	}
	for set := range 2 {
		for b := range banks {
			v.query[set][b] = empty(columns * v.m)
		}
		for w := range ways {
			v.weights[set][w] = empty(ceil(v.tokens, v.m) * v.m)
		}
	}
	for h, head := range heads {
		base := h * rows * rowColumns * v.m
		for t := range load.Context {
			for d := range load.HeadDim {
				bank, column, lane := d/(columns*v.m), d/v.m%columns, d%v.m
				u := t%ways*banks + bank
				v.keys[u][base+(t/ways*columns+column)*v.m+lane] = head.Keys[t][d]
				v.values[u][base+(column*v.tokens+t/ways)*v.m+lane] = head.Values[t][d]
			}
		}
		v.scores = append(v.scores, empty(v.tokens*ways))
		v.out = append(v.out, make([]float32, banks*columns*v.m))
	}
	return v
}

// way returns which of the 16 a bank group of a pseudo-channel is.
func way(pseudo int, in *instruction) int {
	return (pseudo*ranks+int(in.rank))*groups + int(in.group)
}

// execute executes one command on both pseudo-channels.
func (v *valueMachine) execute(in *instruction) {
	set, columns := int(in.head)%2, v.columns()
	switch {
	case in.barrier:
	case in.command == dram.WRGB:
		for i := range v.m {
			d, to := (int(in.bank)*columns+int(in.column))*v.m+i, int(in.column)*v.m+i
			v.query[set][in.bank][to] = 0
			if d < v.HeadDim {
				v.query[set][in.bank][to] = v.heads[in.head].Query[d]
			}
		}
	case in.command == dram.SFM:
		v.softmax(int(in.head))
	case in.command == dram.MVGB:
		for pseudo := range pseudoChannels {
			w := way(pseudo, in)
			for i := int(in.column) * v.m; i < (int(in.column)+1)*v.m; i++ {
				v.weights[set][w][i] = 0
				if i < v.tokens {
					v.weights[set][w][i] = v.scores[in.head][i*ways+w]
				}
			}
		}
	case in.command == dram.MACA && in.stage == scoreStage:
		v.score(in, v.query[set][:])
	case in.command == dram.MACA:
		v.context(in)
	case in.stage == scoreStage:
		for pseudo := range pseudoChannels {
			w := way(pseudo, in)
			for local := int(in.block) * blockTokens; local < min(v.tokens, (int(in.block)+1)*blockTokens); local++ {
				v.scores[in.head][local*ways+w] = v.partial[w][local%(2*blockTokens)]
			}
		}
	default:
		v.collect(in)
	}
}

// score has each unit add up the products of a column of keys, and each bank group those of its banks.
func (v *valueMachine) score(in *instruction, query [][]float32) {
	columns := v.columns()
	local, column := int(in.block)/columns, int(in.block)%columns
	from := (int(in.row)*rowColumns + int(in.column)) * v.m
	for w := range ways {
		sum := float32(0)
		for b := range banks {
			for i := range v.m {
				sum += float32(v.keys[w*banks+b][from+i] * query[b][column*v.m+i])
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

// context has each unit add a token's values, weighed, to its sums of a pass.
func (v *valueMachine) context(in *instruction) {
	pass, local := int(in.block)/v.tokens, int(in.block)%v.tokens
	from := (int(in.row-valueRow)*rowColumns + int(in.column)) * v.m
	for u := range unitsOfChannel {
		sums, weight := v.sums[pass%2][u], v.weights[in.head%2][u/banks][local]
		if local == 0 {
			clear(sums)
		}
		for i := range sums {
			sums[i] += float32(weight * v.values[u][from+i])
		}
	}
}

// collect adds the sums of a bank number of a rank, over its bank groups, to the head's result.
func (v *valueMachine) collect(in *instruction) {
	first := (int(in.bank)*v.columns() + int(in.block)) * v.m
	for pseudo := range pseudoChannels {
		for g := range groups {
			sums := v.sums[in.block%2][((pseudo*ranks+int(in.rank))*groups+g)*banks+int(in.bank)]
			for i, x := range sums {
				v.out[in.head][first+i] += x
			}
		}
	}
}
