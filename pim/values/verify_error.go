package values

import (
	"math"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/units/portable"
)

// Bounds on the output's relative error against float64, by the stages in FP16; lab/docs/model-dimm.md derives them and compares them with
// measurements.
const (
	toleranceFP32       = 5e-5            // every stage after storage in FP32
	toleranceScores     = 1e-2            // products, partial sums or scores in FP16, scores of ordinary size
	toleranceWeights    = 1e-3            // normalised weights in FP16 that are normal numbers
	toleranceWeight     = 1.0 / (1 << 25) // subnormal normalised weights in FP16: half a unit of 2^-24, relative to a mean of 1/L
	toleranceWeightsRaw = 5e-4            // weights in FP16 without normalisation, at most 1
	toleranceOutput     = 5e-4            // output in FP16
	toleranceContext    = 0.7             // accumulators in FP16: units of rounding for each square root of a sum's number of additions
	scoreRoundings      = 4               // units of rounding of the largest partial score that reach the exponent
	toleranceLargest    = 5e-2            // limit on widening a bound for large scores
	toleranceStorage    = 1e-2            // limit on widening for rounding to storage
	toleranceExpected   = 3               // factor on the error of independent roundings
)

// scoreUnit returns the unit of rounding u of the path of scores: 2^-11 if any stage of it is FP16.
func scoreUnit(p pim.Precision) float64 {
	if p.Multiply == pim.FP16 || p.Accumulate == pim.FP16 || p.Score == pim.FP16 {
		return attention.HalfEpsilon
	}
	return 1.0 / (1 << 24)
}

// errorBound returns the largest relative L2 error, against float64, of an output over context tokens for any data. columnTokens tokens
// share a column, and score is the largest absolute partial score. It is the largest of the bounds of the stages in FP16.
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

// squareError returns the mean square error of rounding x to the format, if the error is uniform up to half a unit of the last place of x's
// binade, or of the subnormal numbers.
func squareError(f pim.Format, x float64) float64 {
	x = math.Abs(x)
	e := max(x*attention.HalfEpsilon, 0x1p-25)
	if f == pim.FP32 {
		e = x * 0x1p-24
	}
	return e * e / 3
}

// caseError holds the sums for the expected error of a case.
type caseError struct {
	square float64 // of the rounding errors, summed over the outputs
	norm   float64 // square of the outputs
	score  float64 // largest partial sum of q·k in absolute value
}

// add adds the errors of another query head.
func (e *caseError) add(o caseError) {
	e.square, e.norm, e.score = e.square+o.square, e.norm+o.norm, max(e.score, o.score)
}

// expectedError returns the expected error of one query head at query position i, if all roundings were independent. It adds the squares of
// the errors, each weighted by the output's sensitivity to it (Higham, Accuracy and Stability of Numerical Algorithms, section 2.8), in
// float64.
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
	unit := 1.0 // sum of the weights
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
			// The error of an addition does not exceed the added number.
			addition := min(squareError(x.precision.Context, lane[j]), product*product)
			e.square += float64(weight*float64(value)*float64(value)) + squareError(x.precision.Multiply, product) + addition
		}
	}
	// The running sum over the chunks grows almost evenly.
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

// exponentials returns, for each key [dim] of k, the exponential of its score minus the highest score, and the expected square of a score's
// error in units of the rounding's. largest is the largest absolute partial sum of q·k.
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
		// Products and sums are as large as the score, or as a random walk.
		size[t] = (squares + float64(sum*sum)) / float64(dim)
		top = max(top, p[t])
	}
	for t, s := range p {
		p[t] = portable.Exp(s - top)
	}
	return p, size, largest
}

// errorModel has the parameters of expectedError, from spec and mapping.
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
