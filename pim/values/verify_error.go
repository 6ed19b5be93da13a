package values

import (
	"math"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/units/portable"
)

// Bounds of the output's relative error against float64, by what is in FP16:
// lab/docs/model-dimm.md derives them and gives the measurements beside them.
const (
	toleranceFP32       = 5e-5            // every stage after storage in FP32
	toleranceScores     = 1e-2            // products, partial sums or scores in FP16, scores of ordinary size
	toleranceWeights    = 1e-3            // normalised weights in FP16 that are normal numbers
	toleranceWeight     = 1.0 / (1 << 25) // normalised weights in FP16 that are subnormal: half a unit of 2^-24 against a mean of 1/L
	toleranceWeightsRaw = 5e-4            // weights in FP16 that are not normalised, at most 1
	toleranceOutput     = 5e-4            // output in FP16
	toleranceContext    = 0.7             // accumulators in FP16: units of rounding for each square root of a sum's additions
	scoreRoundings      = 4               // units of rounding of the largest partial score that reach the exponent
	toleranceLargest    = 5e-2            // the most that large scores may widen a bound by
	toleranceStorage    = 1e-2            // the most that rounding to storage may
	toleranceExpected   = 3               // times what independent roundings would give
)

// scoreUnit returns u of the scores' path: 2^-11 where any of it is FP16.
func scoreUnit(p pim.Precision) float64 {
	if p.Multiply == pim.FP16 || p.Accumulate == pim.FP16 || p.Score == pim.FP16 {
		return attention.HalfEpsilon
	}
	return 1.0 / (1 << 24)
}

// errorBound returns the largest relative L2 error, against float64, that an output over context tokens may have whatever
// the data, of which columnTokens share a column and partial scores reach score in absolute value. It is the largest of what
// the stages in FP16 allow.
func errorBound(s *pim.Spec, context, columnTokens int, score float64) float64 {
	p := s.Precision.Resolve()
	fromScores := scoreRoundings * scoreUnit(p) * score
	if !finite(fromScores) {
		fromScores = toleranceLargest
	}
	fromScores = min(fromScores, toleranceLargest)
	t := max(toleranceFP32, fromScores)
	if scoreUnit(p) == attention.HalfEpsilon {
		t = max(t, toleranceScores)
	}
	if p.Weights == pim.FP16 && s.NormalizedWeights {
		t = max(t, toleranceWeights, toleranceWeight*float64(context))
	} else if p.Weights == pim.FP16 {
		t = max(t, toleranceWeightsRaw)
	}
	if p.Output == pim.FP16 {
		t = max(t, toleranceOutput)
	}
	if p.Context == pim.FP16 {
		additions := float64(context) / float64(columnTokens)
		t = max(t, float64(toleranceContext*attention.HalfEpsilon*math.Sqrt(additions))+float64(fromScores))
	}
	return t
}

// squareError returns the mean square of the error that rounding x to the format makes, if the error is uniform up to half a
// unit of the last place of x's binade or, below the normal numbers, of theirs.
func squareError(f pim.Format, x float64) float64 {
	x = math.Abs(x)
	e := max(x*attention.HalfEpsilon, 0x1p-25)
	if f == pim.FP32 {
		e = x * 0x1p-24
	}
	return e * e / 3
}

// caseError holds the sums from which the expected error of a case follows.
type caseError struct {
	square float64 // of the rounding errors, summed over the outputs
	norm   float64 // square of the outputs
	score  float64 // largest partial sum of q·k in absolute value
}

// add takes in the errors of another query head.
func (e *caseError) add(o caseError) {
	e.square, e.norm, e.score = e.square+o.square, e.norm+o.norm, max(e.score, o.score)
}

// expectedError returns the error to expect of one query head at query position i, if every rounding were independent of the
// others: the squares of the errors, each times how far the output follows it, are added up (Higham, Accuracy and Stability
// of Numerical Algorithms, section 2.8). All of it is float64.
func (x *errorModel) expectedError(c *VerifyCase, head, i int) (e caseError) {
	dim, kv := c.ValueDim, head/(c.QueryHeads/c.KVHeads)
	n := attention.CausalLength(i, c.Queries, c.Keys)
	v := c.V[kv*c.Keys*dim:]
	p, size, largest := exponentials(c.Q[(head*c.Queries+i)*c.HeadDim:][:c.HeadDim], c.K[kv*c.Keys*c.HeadDim:][:n*c.HeadDim])
	e.score = largest
	total := 0.0
	for _, w := range p {
		total += w
	}
	out := make([]float64, dim)
	unit := 1.0 // what the weights add up to
	if !x.normalised {
		unit = total
	}
	lanes := make([]float64, dim*x.columnTokens)
	for t := range p {
		p[t] *= unit / total
		weight := squareError(x.precision.Weights, p[t])
		lane := lanes[t%x.columnTokens*dim:][:dim]
		for j, value := range v[t*dim : (t+1)*dim] {
			product := float64(p[t] * float64(value))
			out[j] += product
			lane[j] += product
			// An addition's error is no larger than what is added.
			addition := min(squareError(x.precision.Context, lane[j]), product*product)
			e.square += float64(weight*float64(value)*float64(value)) + squareError(x.precision.Multiply, product) + addition
		}
	}
	// The running sum over the chunks grows about evenly.
	sum := squareError(x.precision.SoftmaxSum, 1) * float64(n/x.chunkTokens+x.chunkTokens) / 3
	for t, w := range p {
		distance := 0.0
		for j, value := range v[t*dim : (t+1)*dim] {
			d := float64(float64(value)*unit) - out[j]
			distance += float64(d * d)
		}
		moved := w / unit * x.scoreUnit
		e.square += float64(float64(moved*moved) * distance * size[t])
	}
	for _, o := range out {
		e.square += float64(squareError(x.precision.Output, o/unit)*unit*unit) + float64(sum*o*o)
		e.norm += float64(o * o)
	}
	e.square /= unit * unit
	e.norm /= unit * unit
	return e
}

// exponentials returns, for each key [dim] of k, the exponential of its score below the highest, and the expected square of
// a score's error in units of the rounding's. largest is the largest partial sum of q·k in absolute value.
func exponentials(q, k []float32) (p, size []float64, largest float64) {
	dim := len(q)
	p, size = make([]float64, len(k)/dim), make([]float64, len(k)/dim)
	top := math.Inf(-1)
	for t := range p {
		var sum, squares float64
		for j, key := range k[t*dim : (t+1)*dim] {
			product := float64(float64(q[j]) * float64(key))
			sum += product
			squares += float64(product * product)
			largest = max(largest, math.Abs(sum))
		}
		p[t] = sum / math.Sqrt(float64(dim))
		// Products and sums have the size of the score, or of a random walk.
		size[t] = (squares + float64(sum*sum)) / float64(dim)
		top = max(top, p[t])
	}
	for t, s := range p {
		p[t] = portable.Exp(s - top)
	}
	return p, size, largest
}

// errorModel is what expectedError takes from spec and mapping.
type errorModel struct {
	precision                 pim.Precision
	scoreUnit                 float64
	normalised                bool
	columnTokens, chunkTokens int
}

func newErrorModel(spec *pim.Spec, g *pim.Geometry) *errorModel {
	p := spec.Precision.Resolve()
	return &errorModel{precision: p, scoreUnit: scoreUnit(p), normalised: spec.NormalizedWeights,
		columnTokens: g.ColumnTokens, chunkTokens: g.ChunkTokens}
}
