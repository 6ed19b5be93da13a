package values

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/pim"
)

// judgement compares a program's results with the expected ones.
type judgement struct {
	spec     *pim.Spec
	c        *VerifyCase
	geometry *pim.Geometry
	direct   *direct
	stored   [3][]float32 // q, k and v as stored
	got      outputs
	expected []caseError // by KV head
}

// judge compares outputs and log-sum-exps with the direct computation and with the reference.
func (j *judgement) judge(ctx context.Context) (VerifyResult, error) {
	c := j.c
	want, _, err := j.compute(ctx, j.direct.half)
	if err != nil {
		return VerifyResult{}, err
	}
	model := newErrorModel(j.spec, j.geometry)
	group := c.QueryHeads / c.KVHeads
	if err := c.eachHead(func(kv int) error {
		for i := range group * c.Queries {
			if err := ctx.Err(); err != nil {
				return err
			}
			j.expected[kv].add(model.expectedError(c, kv*group+i/c.Queries, i%c.Queries))
		}
		return nil
	}); err != nil {
		return VerifyResult{}, err
	}
	var expected caseError
	for _, e := range j.expected {
		expected.add(e)
	}
	e := attention.Compare(j.got.out, c.Out)
	score := expected.score / math.Sqrt(float64(c.HeadDim))
	r := VerifyResult{
		Name: c.Name, Heads: c.QueryHeads, KVHeads: c.KVHeads, Queries: c.Queries, Keys: c.Keys, HeadDim: c.HeadDim,
		Storage: c.Storage.String(), LargestScore: score, StorageError: c.storageError(j.stored),
		RelativeL2: e.RelativeL2, MaxAbs: e.MaxAbs, NonFinite: e.NonFinite,
		Differing: differing(j.got.out, want.out) + differing(j.got.lse, want.lse),
	}
	if c.ValueDim != c.HeadDim {
		r.ValueDim = c.ValueDim
	}
	// If all outputs are 0, there is no expected relative error.
	bound := errorBound(j.spec, c.Keys, j.geometry.ColumnTokens, score)
	storage := min(r.StorageError, toleranceStorage)
	r.Tolerance = bound + storage
	if expected.norm > 0 {
		r.ExpectedError = math.Sqrt(expected.square / expected.norm)
		r.Tolerance = min(bound, toleranceExpected*r.ExpectedError) + storage
	}
	lseRight := true
	if c.LSE != nil {
		l := attention.Compare(j.got.lse, c.LSE)
		r.LSEMaxAbs = l.MaxAbs
		lseRight = l.NonFinite == 0
		for i, w := range c.LSE {
			lseRight = lseRight && math.Abs(j.got.lse[i]-w) <= (bound+storage)*max(1, math.Abs(w), score)
		}
	}
	r.Pass = r.Differing == 0 && r.NonFinite == 0 && r.RelativeL2 <= r.Tolerance && lseRight
	if !r.Pass {
		r.Reason, err = j.reason(ctx, &r, expected.score, lseRight)
	}
	return r, err
}

// compute runs the direct computation with the roundings in half, and returns the losses of each.
func (j *judgement) compute(ctx context.Context, half [roundings]bool) (outputs, [roundings]lost, error) {
	c, dim, group := j.c, j.c.ValueDim, j.c.QueryHeads/j.c.KVHeads
	o := c.newOutputs()
	heads := make([][roundings]lost, c.KVHeads)
	err := c.eachHead(func(kv int) error {
		x := j.direct.clone(half)
		defer func() { heads[kv] = x.lost }()
		out := make([]float32, dim)
		for i := range group * c.Queries {
			if err := ctx.Err(); err != nil {
				return err
			}
			at, seen := kv*group*c.Queries+i, attention.CausalLength(i%c.Queries, c.Queries, c.Keys)
			from := kv * c.Keys
			o.lse[at] = x.attention(out, j.stored[0][at*c.HeadDim:][:c.HeadDim], j.stored[1][from*c.HeadDim:][:seen*c.HeadDim], j.stored[2][from*dim:][:seen*dim])
			for e, v := range out {
				o.out[at*dim+e] = float64(v)
			}
		}
		return nil
	})
	var all [roundings]lost
	for _, h := range heads {
		for s, l := range h {
			all[s].total += l.total
			all[s].overflows += l.overflows
			all[s].underflows += l.underflows
		}
	}
	return o, all, err
}

// differing counts the numbers whose bits differ; all NaN count as equal.
func differing(a, b []float64) (n int) {
	for i, x := range a {
		if math.Float64bits(x) != math.Float64bits(b[i]) && !(x != x && b[i] != b[i]) {
			n++
		}
	}
	return n
}

// widen returns q, k and v as stored.
func (c *VerifyCase) widen() (x [3][]float32) {
	for i, stored := range [][]uint16{c.storedQ, c.storedK, c.storedV} {
		x[i] = make([]float32, len(stored))
		for j, h := range stored {
			x[i][j] = c.Storage.table()[h]
		}
	}
	return x
}

// storageError returns the change of the exact output by rounding q, k and v to the storage format: 0 if they fit it.
func (c *VerifyCase) storageError(stored [3][]float32) float64 {
	if slices.Equal(stored[0], c.Q) && slices.Equal(stored[1], c.K) && slices.Equal(stored[2], c.V) {
		return 0
	}
	return attention.Compare(c.exact(stored).out, c.exact([3][]float32{c.Q, c.K, c.V}).out).RelativeL2
}

// exact returns attention of q, k and v in float64.
func (c *VerifyCase) exact(x [3][]float32) outputs {
	o := c.newOutputs()
	dim := max(c.HeadDim, c.ValueDim) // the reference has one width: padding with zeros changes neither q·k nor other elements
	q, k, v := widened(x[0], c.HeadDim, dim), widened(x[1], c.HeadDim, dim), widened(x[2], c.ValueDim, dim)
	out := make([]float64, len(q))
	m, n := c.Queries*dim, c.Keys*dim
	for h := range c.QueryHeads {
		g := h / (c.QueryHeads / c.KVHeads)
		attention.CausalReference(out[h*m:(h+1)*m], o.lse[h*c.Queries:(h+1)*c.Queries], q[h*m:(h+1)*m],
			k[g*n:(g+1)*n], v[g*n:(g+1)*n], dim, 1/math.Sqrt(float64(c.HeadDim)))
	}
	for i := range c.QueryHeads * c.Queries {
		copy(o.out[i*c.ValueDim:(i+1)*c.ValueDim], out[i*dim:])
	}
	return o
}

// widened pads rows of from elements with zeros to to elements.
func widened(x []float32, from, to int) []float32 {
	if from == to {
		return x
	}
	wide := make([]float32, len(x)/from*to)
	for i := range len(x) / from {
		copy(wide[i*to:], x[i*from:(i+1)*from])
	}
	return wide
}

// reason explains why a case failed: the program is wrong, or a format cannot represent the values. It names a stage if the direct
// computation with only that stage in FP16 is also wrong.
func (j *judgement) reason(ctx context.Context, r *VerifyResult, rawScore float64, lseRight bool) (string, error) {
	c := j.c
	if r.Differing > 0 {
		return fmt.Sprintf("%d of %d outputs and log-sum-exps differ from those of their formats: the program is at fault",
			r.Differing, len(c.Out)+c.QueryHeads*c.Queries), nil
	}
	prefix := "the error exceeds the tolerance"
	lse := false
	switch {
	case r.NonFinite > 0:
		prefix = fmt.Sprintf("%d of %d outputs are not finite", r.NonFinite, len(c.Out))
	case r.RelativeL2 <= r.Tolerance && !lseRight:
		prefix, lse = "the log-sum-exp differs", true
	}
	wrong := func(o outputs) float64 { // the measure by which the case failed
		e := attention.Compare(o.out, c.Out)
		if lse {
			l := attention.Compare(o.lse, c.LSE)
			e.NonFinite, e.RelativeL2 = l.NonFinite, l.MaxAbs
		}
		if e.NonFinite > 0 {
			return math.Inf(1)
		}
		return e.RelativeL2
	}
	// A stage that causes half of the error counts as a cause; a storage that overflows always does.
	enough := wrong(j.got) / 2
	causes := c.storageCauses(j.stored, r.StorageError >= enough)
	if wrong(c.exact([3][]float32{c.Q, c.K, c.V})) >= enough {
		causes = append(causes, "the reference is not attention of q, k and v, and nothing in the formats explains it")
	}
	fp32, _, err := j.compute(ctx, [roundings]bool{})
	if err != nil {
		return "", err
	}
	base := wrong(fp32)
	if base >= enough && len(causes) == 0 {
		causes = append(causes, fmt.Sprintf("every stage in FP32 errs by %.2g, too", base))
	}
	for s := range roundings {
		if !j.direct.half[s] || base >= enough {
			continue
		}
		var only [roundings]bool
		only[s] = true
		o, lost, err := j.compute(ctx, only)
		if err != nil {
			return "", err
		}
		if wrong(o) >= enough {
			if cause := j.cause(s, lost[s], rawScore); !slices.Contains(causes, cause) {
				causes = append(causes, cause)
			}
		}
	}
	if len(causes) == 0 {
		causes = append(causes, "the FP16 stages add up to it, and none makes half of it")
	}
	return prefix + ": " + strings.Join(causes, "; "), nil
}

// cause describes the effect of rounding one stage to FP16.
func (j *judgement) cause(stage int, l lost, rawScore float64) string {
	what := [roundings]string{"products of q and k", "partial scores", "scores", "exponentials and their sum",
		"weights", "products of weights and values", "accumulators", "outputs"}[stage]
	switch {
	case stage <= roundScore && l.overflows > 0:
		return fmt.Sprintf("q·k reaches %.4g before scaling, FP16 ends at %d", rawScore, attention.HalfMax)
	case l.overflows > 0:
		return fmt.Sprintf("%d of %d %s overflow FP16, which ends at %d", l.overflows, l.total, what, attention.HalfMax)
	case stage <= roundScore:
		score := rawScore / math.Sqrt(float64(j.c.HeadDim))
		return fmt.Sprintf("partial scores reach %.4g: rounding them moves exponents by up to %.2g", score, scoreRoundings*attention.HalfEpsilon*score)
	case 2*l.underflows >= l.total:
		return fmt.Sprintf("FP16 underflow: %d of %d %s are below 6.1e-05, where digits are lost", l.underflows, l.total, what)
	case stage == roundSum:
		return fmt.Sprintf("an FP16 softmax sum stops growing: over %d tokens it drops what is below 2^-11 of it", j.c.Keys)
	case stage == roundAccumulator:
		return fmt.Sprintf("an FP16 accumulator takes %d additions and drops those below 2^-12 of it", j.c.Keys/j.geometry.ColumnTokens)
	}
	return fmt.Sprintf("rounding %s to FP16", what)
}

// storageCauses describes how the storage format changes q, k and v: how many numbers overflow and, if the loss matters, how many underflow
// or are rounded.
func (c *VerifyCase) storageCauses(stored [3][]float32, matters bool) (causes []string) {
	underflow := false
	for i, given := range [][]float32{c.Q, c.K, c.V} {
		name, small, nonzero, largest := "qkv"[i:i+1], 0, 0, float32(0)
		for j, x := range given {
			s, a := stored[i][j], max(x, -x)
			if math.IsInf(float64(s), 0) {
				causes = append(causes, fmt.Sprintf("%g overflows %s storage of %s", x, c.Storage, name))
				break
			}
			if x != 0 {
				nonzero++
			}
			if s != x && a < 0x1p-14 {
				small++
				largest = max(largest, a)
			}
		}
		if matters && 2*small >= nonzero && nonzero > 0 {
			underflow = true
			causes = append(causes, fmt.Sprintf("%s underflow: %d of %d elements of %s are at most %.3g, below 6.1e-05 digits are lost",
				strings.ToUpper(c.Storage.String()), small, nonzero, name, largest))
		}
	}
	if matters && !underflow && len(causes) == 0 {
		causes = append(causes, fmt.Sprintf("rounding q, k and v to %s storage moves the exact output", c.Storage))
	}
	return causes
}
