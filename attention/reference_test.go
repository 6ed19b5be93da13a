package attention

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// vectors draws n·d values that binary16 represents exactly.
func vectors(r *rand.Rand, n, d int, size float64) []float32 {
	x := make([]float32, n*d)
	for i := range x {
		x[i] = RoundHalf(float32(r.NormFloat64() * size))
	}
	return x
}

func near(a, b, tolerance float64) bool {
	return a == b || math.Abs(a-b) <= tolerance*max(1, math.Abs(a), math.Abs(b))
}

func TestReferenceClosedForms(t *testing.T) {
	out := make([]float64, 2)
	if lse := Reference(out, []float32{1, 2}, nil, nil, 1); !math.IsInf(lse, -1) || out[0] != 0 || out[1] != 0 {
		t.Errorf("no keys: %v, %v", out, lse)
	}
	if lse := Reference(out, []float32{1, 2}, []float32{3, 4}, []float32{5, 6}, 0.5); lse != 5.5 || out[0] != 5 || out[1] != 6 {
		t.Errorf("one key: %v, %v", out, lse)
	}
	// Equal keys: the mean of the values, and logit + ln n.
	lse := Reference(out, []float32{1, 0}, []float32{2, 9, 2, 7, 2, 5, 2, 3}, []float32{1, 0, 2, 0, 3, 0, 6, 4}, 1)
	if !near(lse, 2+math.Log(4), 1e-15) || !near(out[0], 3, 1e-15) || !near(out[1], 1, 1e-15) {
		t.Errorf("equal keys: %v, %v", out, lse)
	}
	// Logits of ±1000 neither overflow nor underflow.
	for _, big := range []float32{1000, -1000} {
		lse := Reference(out, []float32{1, 0}, []float32{big, 0, big + 1, 0}, []float32{1, 2, 3, 4}, 1)
		e := math.E
		if !near(out[0], (1+3*e)/(1+e), 1e-14) || !near(lse, float64(big)+math.Log1p(e), 1e-14) {
			t.Errorf("logits near %v: %v, %v", big, out, lse)
		}
	}
}

func TestCausalReference(t *testing.T) {
	// Two queries, one key: the first sees nothing, the last sees it.
	out, lse := make([]float64, 2), make([]float64, 2)
	CausalReference(out, lse, []float32{1, 1}, []float32{2}, []float32{7}, 1, 1)
	if out[0] != 0 || !math.IsInf(lse[0], -1) || out[1] != 7 || lse[1] != 2 {
		t.Errorf("got %v %v", out, lse)
	}
}

// Online softmax and any split into parts, some of them empty, give the
// result of the definition.
func TestOnlineAndMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		d := rapid.IntRange(1, 40).Draw(t, "d")
		n := rapid.IntRange(0, 70).Draw(t, "n")
		size := rapid.SampledFrom([]float64{0.1, 1, 30}).Draw(t, "size") // 30: logits in the thousands
		q, k, v := vectors(r, 1, d, size), vectors(r, n, d, size), vectors(r, n, d, 1)
		scale := 1 / math.Sqrt(float64(d))
		want, got := make([]float64, d), make([]float64, d)
		wantLSE := Reference(want, q, k, v, scale)

		check := func(name string, lse float64) {
			if !near(lse, wantLSE, 1e-12) {
				t.Fatalf("%s: lse %v, want %v", name, lse, wantLSE)
			}
			for j := range want {
				if !near(got[j], want[j], 1e-10) {
					t.Fatalf("%s: out[%d] = %v, want %v", name, j, got[j], want[j])
				}
			}
		}
		check("online", Online(got, q, k, v, scale))

		var parts []Partial
		for from := 0; from < n || len(parts) == 0; {
			to := min(n, from+rapid.IntRange(0, 30).Draw(t, "part"))
			p := Partial{Out: make([]float64, d)}
			p.LSE = Reference(p.Out, q, k[from*d:to*d], v[from*d:to*d], scale)
			parts = append(parts, p)
			from = to
			if len(parts) > 200 {
				t.Skip("only empty parts")
			}
		}
		check("merge", Merge(got, parts...))
	})
}

func TestMergeEmpty(t *testing.T) {
	out := []float64{1, 2}
	empty := Partial{Out: []float64{math.NaN(), 5}, LSE: math.Inf(-1)}
	if lse := Merge(out, empty, empty); !math.IsInf(lse, -1) || out[0] != 0 || out[1] != 0 {
		t.Errorf("empty parts: %v %v", out, lse)
	}
	if lse := Merge(out, empty, Partial{Out: []float64{3, 4}, LSE: -1000}); lse != -1000 || out[0] != 3 || out[1] != 4 {
		t.Errorf("one part: %v %v", out, lse)
	}
	if lse := Merge(out); !math.IsInf(lse, -1) {
		t.Errorf("no parts: %v", lse)
	}
}

func TestCompare(t *testing.T) {
	e := Compare([]float64{3, 4, math.NaN()}, []float64{3, 0, 4})
	if e.NonFinite != 1 || e.MaxAbs != 4 || !near(e.RelativeL2, math.Sqrt(32)/5, 1e-15) {
		t.Errorf("%+v", e)
	}
	for _, c := range []struct{ got, want, relative float64 }{{2, 0, 2}, {0, 0, 0}, {1e300, 1e300, 0}, {0, -1e300, 1}, {1e300, -1e300, 2},
		{1e300, 1e-300, math.MaxFloat64}} {
		if e := Compare([]float64{0, c.got}, []float64{0, c.want}); e.RelativeL2 != c.relative {
			t.Errorf("%g, %g: %+v", c.got, c.want, e)
		}
	}
}
