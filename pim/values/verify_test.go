package values

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
)

// synthetic is a random problem: normal elements, q times size.
type synthetic struct {
	queryHeads, kvHeads, queries, keys, dim int
	valueDim                                int // 0: as dim
	size                                    float64
	equal                                   bool    // all keys are the first one
	mean                                    float64 // added to the values
	dtype                                   string
	// element, if not nil, makes the elements of .q, .k and .v.
	element func(part string, token, e int) float64
}

// file returns the problem with its float64 reference.
func (s synthetic) file(tb testing.TB, name string) *attention.Safetensors {
	tb.Helper()
	r := rand.New(rand.NewPCG(uint64(s.keys), uint64(s.dim)))
	if s.dtype == "" {
		s.dtype = "F16"
	}
	valueDim := cmp.Or(s.valueDim, s.dim)
	make1 := func(suffix string, heads, n, dim int, size float64) (*attention.Tensor, []float32) {
		x := make([]float64, heads*n*dim)
		for i := range x {
			x[i] = r.NormFloat64() * size
		}
		if s.element != nil {
			for i := range x {
				x[i] = s.element(suffix, i/dim%n, i%dim)
			}
		}
		if suffix == ".v" {
			for i := range x {
				x[i] += s.mean
			}
		}
		if suffix == ".k" && s.equal {
			for i := range x {
				x[i] = x[i%dim]
			}
		}
		t, err := attention.NewTensor(name+suffix, s.dtype, []int{heads, n, dim}, x)
		if err != nil {
			tb.Fatal(err)
		}
		v, err := t.Float32s()
		if err != nil {
			tb.Fatal(err)
		}
		return t, v
	}
	tq, q := make1(".q", s.queryHeads, s.queries, s.dim, s.size)
	tk, k := make1(".k", s.kvHeads, s.keys, s.dim, 1)
	tv, v := make1(".v", s.kvHeads, s.keys, valueDim, 1)
	out, lse := make([]float64, s.queryHeads*s.queries*valueDim), make([]float64, s.queryHeads*s.queries)
	for h := range s.queryHeads {
		g, n, m := h/(s.queryHeads/s.kvHeads), s.keys*s.dim, s.queries*s.dim
		if valueDim != s.dim {
			for i := range s.queries {
				at := h*s.queries + i
				seen := attention.CausalLength(i, s.queries, s.keys)
				lse[at] = definition(out[at*valueDim:][:valueDim], q[at*s.dim:][:s.dim], k[g*n:][:seen*s.dim], v[g*s.keys*valueDim:])
			}
			continue
		}
		attention.CausalReference(out[h*m:(h+1)*m], lse[h*s.queries:(h+1)*s.queries], q[h*m:(h+1)*m],
			k[g*n:(g+1)*n], v[g*n:(g+1)*n], s.dim, 1/math.Sqrt(float64(s.dim)))
	}
	to, err := attention.NewTensor(name+".out", "F64", []int{s.queryHeads, s.queries, valueDim}, out)
	if err != nil {
		tb.Fatal(err)
	}
	tl, err := attention.NewTensor(name+".lse", "F64", []int{s.queryHeads, s.queries}, lse)
	if err != nil {
		tb.Fatal(err)
	}
	f, err := attention.NewSafetensors([]*attention.Tensor{tq, tk, tv, to, tl})
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// definition computes attention of one query by definition, in float64, and returns the log-sum-exp. Values may have another width than keys.
func definition(out []float64, q, k, v []float32) float64 {
	scores, top, sum := make([]float64, len(k)/len(q)), math.Inf(-1), 0.0
	for t := range scores {
		for e, x := range q {
			scores[t] += float64(float64(x) * float64(k[t*len(q)+e]))
		}
		scores[t] /= math.Sqrt(float64(len(q)))
		top = max(top, scores[t])
	}
	for _, s := range scores {
		sum += math.Exp(s - top)
	}
	for t, s := range scores {
		for e := range out {
			out[e] += float64(math.Exp(s-top) / sum * float64(v[t*len(out)+e]))
		}
	}
	return top + math.Log(sum)
}

// oneCase returns the case of a synthetic problem.
func oneCase(tb testing.TB, s synthetic) *VerifyCase {
	tb.Helper()
	cases, err := ReadVerifyCases(s.file(tb, "x"))
	if err != nil {
		tb.Fatal(err)
	}
	return &cases[0]
}

func precision(preset string) *pim.Spec {
	spec := pim.Default()
	spec.Precision.Preset = preset
	return spec
}

// Drawn cases pass at both presets, with and without normalised weights, in the banks and in a rank-level unit.
func TestVerifyDrawnCases(t *testing.T) {
	deep.Heavy(t)
	cases, err := DrawCases(1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range cases {
		if !deep.Case(i, 3) {
			continue
		}
		for _, preset := range []string{"fp32", "paper"} {
			for _, normalised := range []bool{true, false} {
				if !normalised && cases[i].Queries > 1 {
					continue
				}
				for _, unit := range []string{pim.BankUnits, pim.RankLevelUnit} {
					if (i%2 == 0 == (preset == "paper") || unit == pim.RankLevelUnit && i > 1) && !deep.On() {
						continue
					}
					spec := precision(preset)
					spec.NormalizedWeights, spec.ProcessingUnit = normalised, unit
					r, err := Verify(t.Context(), spec, parts.DDR4(t), &cases[i])
					if err != nil {
						t.Fatal(err)
					}
					if !r.Pass || r.NonFinite > 0 {
						t.Errorf("%s, %s, normalised %v: %+v", unit, preset, normalised, r)
					}
				}
			}
		}
	}
}

// Shapes and data beyond the committed vectors.
func TestVerifyShapes(t *testing.T) {
	deep.Heavy(t)
	for _, c := range []struct {
		name  string
		s     synthetic
		exact float64 // bound on the error of fp32, 0: the tolerance
	}{
		{"d = 8", synthetic{queryHeads: 1, kvHeads: 1, queries: 1, keys: 100, dim: 8, size: 1}, 0},
		{"d = 80", synthetic{queryHeads: 2, kvHeads: 2, queries: 1, keys: 77, dim: 80, size: 1}, 0},
		{"d = 256", synthetic{queryHeads: 1, kvHeads: 1, queries: 1, keys: 600, dim: 256, size: 1}, 0},
		{"d = 512", synthetic{queryHeads: 1, kvHeads: 1, queries: 1, keys: 150, dim: 512, size: 1}, 0},
		{"one key", synthetic{queryHeads: 4, kvHeads: 1, queries: 1, keys: 1, dim: 64, size: 1}, 1e-9},
		{"prefill", synthetic{queryHeads: 2, kvHeads: 1, queries: 33, keys: 33, dim: 32, size: 1}, 0},
		{"chunk", synthetic{queryHeads: 1, kvHeads: 1, queries: 5, keys: 530, dim: 128, size: 1}, 0},
		{"GQA 3", synthetic{queryHeads: 6, kvHeads: 2, queries: 2, keys: 50, dim: 128, size: 1}, 0},
		{"GQA 8", synthetic{queryHeads: 8, kvHeads: 1, queries: 1, keys: 520, dim: 128, size: 1}, 0},
		{"equal keys", synthetic{queryHeads: 1, kvHeads: 1, queries: 1, keys: 999, dim: 128, size: 1, equal: true}, 0},
		{"logits in the thousands", synthetic{queryHeads: 1, kvHeads: 1, queries: 1, keys: 300, dim: 128, size: 1000}, 0},
		{"equal keys, logits in the thousands", synthetic{queryHeads: 1, kvHeads: 1, queries: 1, keys: 300, dim: 128, size: 1000, equal: true}, 0},
		{"BF16", synthetic{queryHeads: 2, kvHeads: 1, queries: 2, keys: 300, dim: 128, size: 1, dtype: "BF16"}, 0},
		{"F32", synthetic{queryHeads: 2, kvHeads: 1, queries: 2, keys: 300, dim: 128, size: 1, dtype: "F32"}, 0},
	} {
		x := oneCase(t, c.s)
		for _, preset := range []string{"fp32", "paper"} {
			r, err := Verify(t.Context(), precision(preset), parts.DDR4(t), x)
			if err != nil {
				t.Fatal(err)
			}
			if !r.Pass || c.exact > 0 && preset == "fp32" && r.RelativeL2 > c.exact {
				t.Errorf("%s, %s: %+v", c.name, preset, r)
			}
			if (r.StorageError > 0) != (c.s.dtype == "F32") || r.StorageError > 2e-3 {
				t.Errorf("%s: storage error %g", c.name, r.StorageError)
			}
		}
	}
}

// 131,072 tokens: fp32 and paper meet their tolerances, an FP16 softmax sum loses
// everything.
func TestVerify128K(t *testing.T) {
	deep.Only(t)
	if testing.Short() {
		t.Skip("long; shorter vectors use the same goroutines")
	}
	x := oneCase(t, synthetic{queryHeads: 1, kvHeads: 1, queries: 1, keys: 1 << 17, dim: 64, size: 0.5})
	for _, preset := range []string{"fp32", "paper"} {
		if r, err := Verify(t.Context(), precision(preset), parts.DDR4(t), x); err != nil || !r.Pass {
			t.Errorf("%s: %+v, %v", preset, r, err)
		}
	}
	spec := precision("fp32")
	spec.Precision.SoftmaxSum = pim.FP16
	r, err := Verify(t.Context(), spec, parts.DDR4(t), x)
	if err != nil {
		t.Fatal(err)
	}
	if r.Pass || r.RelativeL2 < 0.9 || !strings.Contains(r.Reason, "FP16 softmax sum") {
		t.Errorf("an FP16 sum passes: %+v", r)
	}
}

// Numbers that the formats cannot hold fail, and the reason says so.
func TestVerifyReasons(t *testing.T) {
	large := synthetic{queryHeads: 1, kvHeads: 1, queries: 1, keys: 40, dim: 128, size: 60000, dtype: "F32"}
	contested := oneCase(t, synthetic{queryHeads: 1, kvHeads: 1, queries: 1, keys: 400, dim: 128, size: 400})
	// Keys that differ little: logits in the thousands and close together.
	for i := range contested.K {
		if i >= 128 {
			contested.K[i] = attention.RoundHalf(contested.K[i%128] + contested.K[i]*0.001)
		}
	}
	for i, k := range contested.K {
		contested.storedK[i] = attention.Float32ToHalf(k)
	}
	attention.CausalReference(contested.Out, contested.LSE, contested.Q, contested.K, contested.V, 128, 1/math.Sqrt(128))
	wrong := oneCase(t, synthetic{queryHeads: 1, kvHeads: 1, queries: 1, keys: 40, dim: 128, size: 1})
	wrong.Out[5] += 10
	wrongLSE := oneCase(t, synthetic{queryHeads: 1, kvHeads: 1, queries: 1, keys: 40, dim: 128, size: 1})
	wrongLSE.LSE[0]++
	for _, c := range []struct {
		name, preset string
		x            *VerifyCase
		want         string
	}{
		{"storage", "fp32", oneCase(t, large), "overflows fp16 storage"},
		{"raw scores", "paper", oneCase(t, synthetic{queryHeads: 1, kvHeads: 1, queries: 1, keys: 40, dim: 128, size: 5000}), "FP16 ends at 65504"},
		{"values of one sign", "paper", oneCase(t, synthetic{queryHeads: 1, kvHeads: 1, queries: 1, keys: 20000, dim: 128, size: 1, mean: 1}),
			"FP16 accumulator takes 5000 additions"},
		{"close logits", "paper", contested, "rounding them moves exponents"},
		{"wrong reference", "fp32", wrong, "nothing in the formats explains it"},
		{"wrong log-sum-exp", "fp32", wrongLSE, "log-sum-exp differs"},
	} {
		if c.x.Keys > 10_000 && !deep.On() {
			continue
		}
		r, err := Verify(t.Context(), precision(c.preset), parts.DDR4(t), c.x)
		if err != nil {
			t.Fatal(err)
		}
		if r.Pass || !strings.Contains(r.Reason, c.want) {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}

// Files whose tensors do not fit together are input errors.
func TestReadVerifyCasesRefuses(t *testing.T) {
	type shapes map[string][]int
	for _, c := range []struct {
		name string
		s    shapes
		want string
	}{
		{"nothing", shapes{"a.k": {1, 1, 8}}, "nothing to verify"},
		{"no keys", shapes{"a.q": {1, 1, 8}, "a.v": {1, 1, 8}, "a.out": {1, 1, 8}}, "a.k"},
		{"two dimensions", shapes{"a.q": {1, 8}, "a.k": {1, 1, 8}, "a.v": {1, 1, 8}, "a.out": {1, 1, 8}}, "a.q"},
		{"no tokens", shapes{"a.q": {1, 1, 8}, "a.k": {1, 0, 8}, "a.v": {1, 0, 8}, "a.out": {1, 1, 8}}, "a.k"},
		{"another d", shapes{"a.q": {1, 1, 8}, "a.k": {1, 2, 16}, "a.v": {1, 2, 16}, "a.out": {1, 1, 8}}, "[1 2 8]"},
		{"more values", shapes{"a.q": {1, 1, 8}, "a.k": {1, 2, 8}, "a.v": {1, 3, 8}, "a.out": {1, 1, 8}}, "a.v"},
		{"output", shapes{"a.q": {2, 1, 8}, "a.k": {1, 2, 8}, "a.v": {1, 2, 8}, "a.out": {1, 1, 8}}, "a.out"},
		{"heads", shapes{"a.q": {3, 1, 8}, "a.k": {2, 2, 8}, "a.v": {2, 2, 8}, "a.out": {3, 1, 8}}, "multiple of the 2 KV heads"},
		{"queries", shapes{"a.q": {1, 3, 8}, "a.k": {1, 2, 8}, "a.v": {1, 2, 8}, "a.out": {1, 3, 8}}, "at most 2"},
		{"lse", shapes{"a.q": {1, 1, 8}, "a.k": {1, 1, 8}, "a.v": {1, 1, 8}, "a.out": {1, 1, 8}, "a.lse": {2}}, "a.lse"},
	} {
		var tensors []*attention.Tensor
		for name, shape := range c.s {
			n := 1
			for _, s := range shape {
				n *= s
			}
			x, err := attention.NewTensor(name, "F16", shape, make([]float64, n))
			if err != nil {
				t.Fatal(err)
			}
			tensors = append(tensors, x)
		}
		f, err := attention.NewSafetensors(tensors)
		if err != nil {
			t.Fatal(err)
		}
		_, err = ReadVerifyCases(f)
		var bad *input.Error
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an input.Error with %q", c.name, err, c.want)
		}
	}
	x := oneCase(t, synthetic{queryHeads: 1, kvHeads: 1, queries: 1, keys: 4, dim: 600, size: 1})
	var bad *input.Error
	if _, err := Verify(t.Context(), pim.Default(), parts.DDR4(t), x); !errors.As(err, &bad) {
		t.Errorf("d = 600: %v", err)
	}
	x = oneCase(t, synthetic{queryHeads: 1, kvHeads: 1, queries: 1, keys: 4, dim: 64, size: 1})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Verify(ended, pim.Default(), parts.DDR4(t), x); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: %v", err)
	}
	f := synthetic{queryHeads: 1, kvHeads: 1, queries: 1, keys: 4, dim: 8, size: math.Inf(1)}.file(t, "x")
	if _, err := ReadVerifyCases(f); !errors.As(err, &bad) || !strings.Contains(err.Error(), "finite") {
		t.Errorf("infinite elements: %v", err)
	}
}

// No file makes the reader panic, and what it accepts is consistent.
func FuzzReadVerifyCases(f *testing.F) {
	for _, s := range []synthetic{
		{queryHeads: 2, kvHeads: 1, queries: 1, keys: 3, dim: 8, size: 1},
		{queryHeads: 1, kvHeads: 1, queries: 2, keys: 2, dim: 16, size: 1, dtype: "BF16"},
	} {
		var data bytes.Buffer
		if err := attention.WriteSafetensors(&data, s.file(f, "x").Tensors, nil); err != nil {
			f.Fatal(err)
		}
		f.Add(data.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := attention.ParseSafetensors(data)
		if err != nil {
			return
		}
		cases, err := ReadVerifyCases(file)
		if err != nil {
			return
		}
		for _, c := range cases {
			if len(c.Q) != c.QueryHeads*c.Queries*c.HeadDim || len(c.K) != c.KVHeads*c.Keys*c.HeadDim || len(c.V) != len(c.K) || len(c.Out) != len(c.Q) {
				t.Fatalf("%s: sizes do not fit", c.Name)
			}
		}
	})
}
