package values

import (
	"cmp"
	"math"
	"slices"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/units/portable"
)

// direct computes the attention of one query head from plain arrays of tokens and dimensions, with the hardware's roundings in the
// hardware's order, as lab/docs/model-dimm.md describes them. It shares no code with valueMachine and uses no bank, row, slot or
// instruction: Verify compares the two bit for bit.
type direct struct {
	half       [roundings]bool         // the roundings to FP16
	round16    func(float32) float32   // to the nearest FP16 number, ties to even
	lost       [roundings]lost         // losses by rounding so far
	elements   [][]int                 // by chip: its elements of one burst, in order
	width      int                     // elements of these that are multiplied at once
	burst      int                     // elements of a burst
	dim        int                     // elements of a key
	row        int                     // distance between values: the width of a key that includes the value, or of a value
	valueDim   int                     // of a value
	padded     int                     // of a key, with padding
	tokens     int                     // tokens whose values share a column
	banks      int                     // tokens of a chunk
	segment    int                     // tokens in the score buffer
	merge      bool                    // merge segments, instead of fetching keys twice
	normalised bool                    // divide weights by the sum
	products   []float32               // of one chip
	chips      [directMaxChips]float32 // partial sums
	lanes      []float32               // accumulators: by element and token of a column
	narrow     *narrowTokens           // nil: 16-bit keys and values
}

// narrowTokens has the scales of 8-bit or 4-bit keys and values: by token or, for keys, by token group and element.
type narrowTokens struct {
	key, value []pim.Scales
	elements   [][]pim.Scales
}

const directMaxChips = 16

// The roundings of direct, one for each stage of Precision, and two for products.
const (
	roundScoreProduct = iota
	roundPartial
	roundScore
	roundSum
	roundWeight
	roundContextProduct
	roundAccumulator
	roundOutput
	roundings
)

// lost counts numbers that rounding to FP16 moves out of its normal range.
type lost struct {
	total, overflows, underflows int // non-zero numbers; those that became infinite; those that lost digits below 2^-14
}

// newDirect returns the computation for heads of shape on d with 16-bit storage. The shape must fit.
func newDirect(spec *pim.Spec, d *dram.Spec, shape pim.HeadShape) (*direct, error) {
	segment, err := spec.SegmentTokens(d, shape)
	if err != nil {
		return nil, err
	}
	p := spec.Precision.Resolve()
	x := &direct{
		round16: attention.RoundHalf, dim: shape.HeadDim, valueDim: shape.ValueWidth(), burst: 512 / shape.StoredBits(), banks: d.Banks(),
		segment: segment, merge: spec.BeyondBuffer == pim.Segment, normalised: spec.NormalizedWeights,
	}
	for i, f := range []pim.Format{p.Multiply, p.Accumulate, p.Score, p.SoftmaxSum, p.Weights, p.Multiply, p.Context, p.Output} {
		x.half[i] = f == pim.FP16
	}
	values := x.burst // of a value, with padding
	for values < x.valueDim {
		values *= 2
	}
	x.tokens, x.row = x.banks*x.burst/values, x.valueDim
	if shape.ValueInKey { // a bank has whole keys
		x.tokens, x.row = x.banks, x.dim
	}
	if x.padded = values; x.dim != x.valueDim || shape.ValueInKey {
		x.padded = (x.dim + x.burst - 1) / x.burst * x.burst
	}
	x.width = spec.Multipliers
	if x.width == 0 {
		x.width = d.DeviceWidth * d.BurstLength / 16
	}
	for chip := range d.BusWidth / d.DeviceWidth {
		x.elements = append(x.elements, chipElements(chip, d, shape.StoredBits()))
	}
	if spec.ProcessingUnit == pim.RankLevelUnit { // one unit with the whole burst, in order
		x.elements, x.width = [][]int{make([]int, x.burst)}, x.width*d.BusWidth/d.DeviceWidth
		for e := range x.elements[0] {
			x.elements[0][e] = e
		}
	}
	x.lanes = make([]float32, x.valueDim*x.tokens)
	x.products = make([]float32, 2*x.burst)
	return x, nil
}

// clone returns a computation of the same shape with other roundings.
func (x *direct) clone(half [roundings]bool) *direct {
	y := *x
	y.half, y.lost, y.lanes, y.products = half, [roundings]lost{}, make([]float32, len(x.lanes)), make([]float32, len(x.products))
	return &y
}

// chipElements lists a burst's elements on a chip after the re-layout. If elements fit the chip's pins, they are whole ones in bus order;
// else they come from groups of as many beats as an element takes.
func chipElements(chip int, d *dram.Spec, bits int) (e []int) {
	width := d.DeviceWidth
	chips, each := d.BusWidth/width, max(1, width/bits) // elements of a beat on the chip
	for first := 0; first < 512/bits; first += chips * each {
		switch beats := bits / width; {
		case beats < 2:
			for i := range each {
				e = append(e, first+chip*each+i)
			}
		default: // a beat has chips/beats elements
			e = append(e, first+chip%beats*(chips/beats)+chip/beats)
		}
	}
	return e
}

// round rounds v to FP16 if the stage does, and counts losses.
func (x *direct) round(stage int, v float32) float32 {
	if !x.half[stage] {
		return v
	}
	r := x.round16(v)
	if v == 0 {
		return r
	}
	l := &x.lost[stage]
	l.total++
	switch {
	case r == v:
	case v > -0x1p-14 && v < 0x1p-14:
		l.underflows++
	case math.IsInf(float64(r), 0) && !math.IsInf(float64(v), 0):
		l.overflows++
	}
	return r
}

// sum adds numbers, a power of two of them, neighbours first.
func (x *direct) sum(stage int, v []float32) float32 {
	if len(v) == 1 {
		return v[0]
	}
	h := len(v) / 2
	return x.round(stage, x.sum(stage, v[:h])+x.sum(stage, v[h:]))
}

// score returns q·k with the additions of chips and buffer unit.
func (x *direct) score(q, k []float32) float32 {
	return x.round(roundScore, x.partials(q, k))
}

// partials is score before rounding.
func (x *direct) partials(q, k []float32) float32 {
	for c, elements := range x.elements {
		partial := float32(0)
		for burst := 0; burst < x.padded; burst += x.burst {
			for first := 0; first < len(elements); first += x.width {
				clear(x.products)
				n := 1
				for i, e := range elements[first:min(first+x.width, len(elements))] {
					if e += burst; e < x.dim {
						x.products[i] = x.round(roundScoreProduct, float32(q[e]*k[e]))
					}
					for n <= i {
						n *= 2
					}
				}
				partial = x.round(roundPartial, partial+x.sum(roundPartial, x.products[:n]))
			}
		}
		x.chips[c] = partial
	}
	return x.sum(roundPartial, x.chips[:len(x.elements)])
}

func (x *direct) narrowScore(q, k []float32, token int) float32 {
	n := 1
	for n < x.dim {
		n *= 2
	}
	s, w, terms := pim.Scales{Scale: 1, Zero: 1}, make([]float32, x.dim), make([]float32, n)
	for e := range w {
		w[e], terms[e] = q[e], q[e]
		if x.narrow.elements != nil {
			c := x.narrow.elements[token][e]
			w[e] = x.round16(q[e] * c.Scale)
			terms[e] = w[e] * c.Zero
		}
	}
	if x.narrow.elements == nil {
		s = x.narrow.key[token]
	}
	clean := x.clone([roundings]bool{}) // sums of q are in FP32
	return x.round(roundScore, s.Scale*(x.partials(w, k)-float32(s.Zero*clean.sum(roundPartial, terms))))
}

// attention writes the output of one query over n tokens into out and returns the log-sum-exp; k and v hold n rows.
func (x *direct) attention(out, q, k, v []float32) (lse float64) {
	scale, n := float32(1/math.Sqrt(float64(x.dim))), len(k)/x.dim
	scaled := make([]float32, n)
	for t := range scaled {
		s := float32(0)
		if x.narrow != nil {
			s = x.narrowScore(q, k[t*x.dim:], t)
		} else {
			s = x.score(q, k[t*x.dim:])
		}
		scaled[t] = float32(s * scale)
	}
	segment := n
	if x.merge {
		segment = x.segment
	}
	var maximum, total float32
	part := make([]float32, x.valueDim)
	for first := 0; first < n; first += segment {
		end := min(first+segment, n)
		m, s := x.softmax(scaled[first:end])
		x.context(part, scaled[first:end], v[first*x.row:], m, s, first)
		if first == 0 {
			copy(out, part)
			maximum, total = m, s
			continue
		}
		top := max(maximum, m)
		before, now := float32(total*exp32(maximum-top)), float32(s*exp32(m-top))
		sum := before + now
		for i := range out {
			out[i] = float32(out[i]*(before/sum)) + float32(part[i]*(now/sum))
		}
		maximum, total = top, sum
	}
	for i := range out {
		out[i] = x.round(roundOutput, out[i])
	}
	return float64(maximum) + portable.Log(float64(total))
}

func exp32(v float32) float32 { return float32(portable.Exp(float64(v))) }

// softmax returns the maximum of the scaled scores and the sum of exponentials, first within each chunk.
func (x *direct) softmax(scaled []float32) (maximum, total float32) {
	r := func(v float32) float32 { return x.round(roundSum, v) }
	maximum = float32(math.Inf(-1))
	for first := 0; first < len(scaled); first += x.banks {
		chunk := scaled[first:min(first+x.banks, len(scaled))]
		top, sum := float32(math.Inf(-1)), float32(0)
		for _, s := range chunk {
			top = max(top, s)
		}
		for _, s := range chunk {
			sum = r(sum + r(exp32(s-top)))
		}
		if top > maximum {
			total = r(r(float32(total*exp32(maximum-top))) + sum)
			maximum = top
		} else {
			total = r(total + r(float32(sum*exp32(top-maximum))))
		}
	}
	return maximum, total
}

// context writes the weighted sum of the values into out. first is the token of the first value.
func (x *direct) context(out, scaled, v []float32, maximum, total float32, first int) {
	tokens := x.tokens
	clear(x.lanes)
	top, zeros := float32(1), make([]float32, tokens)
	if x.narrow != nil {
		_, e := math.Frexp(float64(slices.MaxFunc(x.narrow.value[first:first+len(scaled)], func(a, b pim.Scales) int { return cmp.Compare(a.Scale, b.Scale) }).Scale))
		top = float32(math.Ldexp(1, e))
	}
	for t := range scaled {
		w := exp32(scaled[t] - maximum)
		if x.normalised {
			w /= total
		}
		if x.narrow != nil {
			w = float32(w * (x.narrow.value[first+t].Scale / top))
		}
		if w = x.round(roundWeight, w); x.narrow != nil {
			zeros[t%tokens] += float32(w * x.narrow.value[first+t].Zero)
		}
		if w == 0 {
			continue
		}
		for e, value := range v[t*x.row:][:x.valueDim] {
			lane := &x.lanes[e*tokens+t%tokens]
			*lane = x.round(roundAccumulator, *lane+x.round(roundContextProduct, float32(w*value)))
		}
	}
	clean := x.clone([roundings]bool{})
	for e := range out {
		out[e] = x.sum(roundAccumulator, x.lanes[e*tokens:(e+1)*tokens])
		if x.narrow != nil {
			out[e] = (out[e] - clean.sum(roundAccumulator, zeros)) * top
		}
		if !x.normalised {
			out[e] /= total
		}
	}
}
