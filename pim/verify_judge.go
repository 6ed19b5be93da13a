package pim

import (
	"fmt"
	"math"
	"strings"

	"github.com/l3sim/l3sim/attention"
)

// Bounds of the output's relative error against float64, by what is in FP16:
// docs/pim-values.md derives them and gives the measurements beside them.
const (
	toleranceFP32       = 5e-5            // every stage after storage in FP32
	toleranceScores     = 1e-2            // products, partial sums or scores in FP16, scores of ordinary size
	toleranceWeights    = 1e-3            // normalised weights in FP16 that are normal numbers
	toleranceWeight     = 1.0 / (1 << 25) // the same once they are subnormal: half a unit of 2^-24 against a mean of 1/L
	toleranceWeightsRaw = 5e-4            // weights in FP16 that are not normalised, at most 1
	toleranceOutput     = 5e-4            // output in FP16
	toleranceContext    = 0.7             // accumulators in FP16: units of rounding for each square root of a sum's additions
	scoreRoundings      = 4               // units of rounding of the largest partial score that reach the exponent
	toleranceLargest    = 5e-2            // the most that large scores may widen a tolerance by
)

// scoreUnit returns u of the scores' path: 2^-11 where any of it is FP16.
func scoreUnit(p Precision) float64 {
	if p.Multiply == FP16 || p.Accumulate == FP16 || p.Score == FP16 {
		return attention.HalfEpsilon
	}
	return 1.0 / (1 << 24)
}

// Tolerance returns the largest relative L2 error, against float64, of an
// output over context tokens of which columnTokens share a column, where partial
// scores reach score in absolute value. It is the largest of what the stages in
// FP16 allow.
func (s *Spec) Tolerance(context, columnTokens int, score float64) float64 {
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
	if p.Weights == FP16 && s.NormalisedWeights {
		t = max(t, toleranceWeights, toleranceWeight*float64(context))
	} else if p.Weights == FP16 {
		t = max(t, toleranceWeightsRaw)
	}
	if p.Output == FP16 {
		t = max(t, toleranceOutput)
	}
	if p.Context == FP16 {
		additions := float64(context) / float64(columnTokens)
		t = max(t, toleranceContext*attention.HalfEpsilon*math.Sqrt(additions)+fromScores)
	}
	return t
}

// largestScores returns the largest partial sums of a case in absolute value: of
// q·k, and the same scaled by 1/√d.
func (c *VerifyCase) largestScores() (raw, scaled float64) {
	dim, group := c.HeadDim, c.QueryHeads/c.KVHeads
	for h := range c.QueryHeads {
		keys := c.K[h/group*c.Keys*dim:]
		for i := range c.Queries {
			at := (h*c.Queries + i) * dim
			q := c.Q[at : at+dim]
			for t := range attention.CausalLength(i, c.Queries, c.Keys) {
				var sum float64
				for j, x := range keys[t*dim : (t+1)*dim] {
					sum += float64(q[j]) * float64(x)
					if a := math.Abs(sum); a > raw {
						raw = a
					}
				}
			}
		}
	}
	return raw, raw / math.Sqrt(float64(dim))
}

// storageError returns how far rounding q, k and v to the storage format moves
// the exact output: 0 where they fit it.
func (c *VerifyCase) storageError() float64 {
	rounded := [3][]float32{}
	exact := true
	for i, x := range []struct {
		values []float32
		stored []uint16
	}{{c.Q, c.storedQ}, {c.K, c.storedK}, {c.V, c.storedV}} {
		rounded[i] = make([]float32, len(x.values))
		for j, h := range x.stored {
			rounded[i][j] = c.Storage.table()[h]
			exact = exact && rounded[i][j] == x.values[j]
		}
	}
	if exact {
		return 0
	}
	out := [2][]float64{make([]float64, len(c.Out)), make([]float64, len(c.Out))}
	lse := make([]float64, c.Queries)
	scale := 1 / math.Sqrt(float64(c.HeadDim))
	m, n := c.Queries*c.HeadDim, c.Keys*c.HeadDim
	for h := range c.QueryHeads {
		g := h / (c.QueryHeads / c.KVHeads)
		attention.CausalReference(out[0][h*m:(h+1)*m], lse, c.Q[h*m:(h+1)*m], c.K[g*n:(g+1)*n], c.V[g*n:(g+1)*n], c.HeadDim, scale)
		attention.CausalReference(out[1][h*m:(h+1)*m], lse, rounded[0][h*m:(h+1)*m], rounded[1][g*n:(g+1)*n], rounded[2][g*n:(g+1)*n], c.HeadDim, scale)
	}
	return attention.Compare(out[1], out[0]).RelativeL2
}

// judge compares outputs and log-sum-exps with the reference.
func (c *VerifyCase) judge(spec *Spec, columnTokens int, out, lse []float64) VerifyResult {
	raw, score := c.largestScores()
	e := attention.Compare(out, c.Out)
	r := VerifyResult{
		Name: c.Name, Heads: c.QueryHeads, KVHeads: c.KVHeads, Queries: c.Queries, Keys: c.Keys, HeadDim: c.HeadDim,
		Storage: c.Storage.String(), LargestScore: score, StorageError: c.storageError(),
		RelativeL2: e.RelativeL2, MaxAbs: e.MaxAbs, NonFinite: e.NonFinite,
	}
	r.Tolerance = spec.Tolerance(c.Keys, columnTokens, score)
	r.Tolerance += r.StorageError
	lseRight := true
	if c.LSE != nil {
		l := attention.Compare(lse, c.LSE)
		r.LSEMaxAbs = l.MaxAbs
		lseRight = l.NonFinite == 0
		for i, want := range c.LSE {
			lseRight = lseRight && math.Abs(lse[i]-want) <= r.Tolerance*max(1, math.Abs(want), score)
		}
	}
	r.Pass = r.NonFinite == 0 && r.RelativeL2 <= r.Tolerance && lseRight
	if !r.Pass {
		r.Reason = c.reason(spec, columnTokens, &r, raw, lseRight)
	}
	return r
}

// reason says why a case failed: what its formats cannot hold, or else that the
// values are wrong.
func (c *VerifyCase) reason(spec *Spec, columnTokens int, r *VerifyResult, raw float64, lseRight bool) string {
	p := spec.Precision.Resolve()
	var causes []string
	add := func(format string, args ...any) { causes = append(causes, fmt.Sprintf(format, args...)) }
	if !finite(r.StorageError) || c.overflowsStorage() {
		add("an element of q, k or v overflows %s storage", c.Storage)
	}
	if scoreUnit(p) == attention.HalfEpsilon && raw > attention.HalfMax {
		add("q·k reaches %.4g before scaling, FP16 ends at %d", raw, attention.HalfMax)
	}
	if n := c.Keys / columnTokens; p.Context == FP16 && n >= 1/attention.HalfEpsilon/2 {
		add("an FP16 accumulator takes %d additions and drops those below 2^-12 of it", n)
	}
	if p.SoftmaxSum == FP16 {
		add("an FP16 softmax sum stops growing: over %d tokens it drops what is below 2^-11 of it", c.Keys)
	}
	if shift := scoreRoundings * scoreUnit(p) * r.LargestScore; shift > toleranceLargest {
		add("partial scores reach %.4g: rounding them moves exponents by up to %.2g", r.LargestScore, shift)
	}
	prefix := ""
	switch {
	case r.NonFinite > 0:
		prefix = fmt.Sprintf("%d of %d outputs are not finite", r.NonFinite, len(c.Out))
	case r.RelativeL2 > r.Tolerance:
		prefix = "the error exceeds the tolerance"
	case !lseRight:
		prefix = "the log-sum-exp differs"
	}
	if len(causes) == 0 {
		return prefix + ", and nothing in the formats explains it"
	}
	return prefix + ": " + strings.Join(causes, "; ")
}

// overflowsStorage reports a finite element that is stored as infinity.
func (c *VerifyCase) overflowsStorage() bool {
	table := c.Storage.table()
	for _, stored := range [][]uint16{c.storedQ, c.storedK, c.storedV} {
		for _, h := range stored {
			if math.IsInf(float64(table[h]), 0) {
				return true
			}
		}
	}
	return false
}
