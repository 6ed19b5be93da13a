package pim

import (
	"math"

	"github.com/x448/float16"
)

// direct computes what a head's program must give, from plain arrays of tokens
// and dimensions, with the hardware's roundings in the hardware's order. It
// knows no bank, row, slot or instruction.
type direct struct {
	p          Precision
	normalised bool
	dim        int
	width      int // data pins of a chip
	banks      int
	segment    int // tokens in the score buffer
	merge      bool
}

func (x *direct) round(f Format, v float32) float32 {
	if f == FP16 {
		return float16.Fromfloat32(v).Float32()
	}
	return v
}

// sum adds a power of two of numbers pairwise.
func (x *direct) sum(f Format, v []float32) float32 {
	if len(v) == 1 {
		return v[0]
	}
	h := len(v) / 2
	return x.round(f, x.sum(f, v[:h])+x.sum(f, v[h:]))
}

// chipElements lists the elements of a burst of 32 that lie on a chip.
func (x *direct) chipElements(chip int) []int {
	var e []int
	switch x.width {
	case 4: // two groups of four beats, 4×4
		for g := range 2 {
			e = append(e, 16*g+chip%4*4+chip/4)
		}
	case 8: // four pairs of beats
		for g := range 4 {
			e = append(e, 8*g+chip%2*4+chip/2)
		}
	case 16:
		for g := range 8 {
			e = append(e, 4*g+chip)
		}
	}
	return e
}

func at(v []float32, i int) float32 {
	if i < len(v) {
		return v[i]
	}
	return 0
}

func (x *direct) score(q, k []float32) float32 {
	var chips []float32
	for c := range 64 / x.width {
		partial := float32(0)
		for burst := 0; burst < x.padded(); burst += 32 {
			var products []float32
			for _, e := range x.chipElements(c) {
				products = append(products, x.round(x.p.Multiply, float32(at(q, burst+e)*at(k, burst+e))))
			}
			partial = x.round(x.p.Accumulate, partial+x.sum(x.p.Accumulate, products))
		}
		chips = append(chips, partial)
	}
	return x.round(x.p.Score, x.sum(x.p.Accumulate, chips))
}

func (x *direct) padded() int {
	n := 32
	for n < x.dim {
		n *= 2
	}
	return n
}

func (x *direct) exp(v float32) float32 { return float32(math.Exp(float64(v))) }

// attention returns the output of one query head.
func (x *direct) attention(q []float32, k, v [][]float32) []float32 {
	scale := float32(1 / math.Sqrt(float64(x.dim)))
	scaled := make([]float32, len(k))
	for t := range k {
		scaled[t] = float32(x.score(q, k[t]) * scale)
	}
	out := make([]float32, x.dim)
	var maximum, total float32
	for first := 0; first < len(k); first += x.segment {
		end := min(first+x.segment, len(k))
		m, s := x.softmax(scaled[first:end])
		if !x.merge {
			end = len(k)
			m, s = x.softmax(scaled)
		}
		part := x.context(scaled[first:end], v[first:end], m, s)
		if first == 0 {
			out, maximum, total = part, m, s
		} else {
			top := max(maximum, m)
			before, now := float32(total*x.exp(maximum-top)), float32(s*x.exp(m-top))
			sum := before + now
			for i := range out {
				out[i] = float32(out[i]*(before/sum)) + float32(part[i]*(now/sum))
			}
			maximum, total = top, sum
		}
		if !x.merge {
			break
		}
	}
	for i := range out {
		out[i] = x.round(x.p.Output, out[i])
	}
	return out
}

func (x *direct) softmax(scaled []float32) (maximum, total float32) {
	r := func(v float32) float32 { return x.round(x.p.SoftmaxSum, v) }
	maximum = float32(math.Inf(-1))
	for first := 0; first < len(scaled); first += x.banks {
		chunk := scaled[first:min(first+x.banks, len(scaled))]
		top, sum := float32(math.Inf(-1)), float32(0)
		for _, s := range chunk {
			top = max(top, s)
		}
		for _, s := range chunk {
			sum = r(sum + r(x.exp(s-top)))
		}
		if top > maximum {
			total = r(r(float32(total*x.exp(maximum-top))) + sum)
			maximum = top
		} else {
			total = r(total + r(float32(sum*x.exp(top-maximum))))
		}
	}
	return maximum, total
}

func (x *direct) context(scaled []float32, v [][]float32, maximum, total float32) []float32 {
	quads := x.banks * 32 / x.padded()
	out := make([]float32, x.dim)
	for e := range out {
		sums := make([]float32, quads)
		for t := range scaled {
			w := x.exp(scaled[t] - maximum)
			if x.normalised {
				w /= total
			}
			w = x.round(x.p.Weights, w)
			if w != 0 {
				sums[t%quads] = x.round(x.p.Context, sums[t%quads]+x.round(x.p.Multiply, float32(w*v[t][e])))
			}
		}
		out[e] = x.sum(x.p.Context, sums)
		if !x.normalised {
			out[e] /= total
		}
	}
	return out
}

// decode widens stored vectors.
func decode(storage Storage, x [][]uint16) [][]float32 {
	out := make([][]float32, len(x))
	for i := range x {
		out[i] = make([]float32, len(x[i]))
		for j, h := range x[i] {
			if storage == StoreBF16 {
				out[i][j] = math.Float32frombits(uint32(h) << 16)
			} else {
				out[i][j] = float16.Frombits(h).Float32()
			}
		}
	}
	return out
}
