package vectors

import (
	"bytes"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/values"
)

// path is the vectors' file.
const path = "testdata/attention_reference.safetensors"

// The float64 reference agrees with PyTorch's on the committed vectors.
func TestReferenceAgainstPyTorch(t *testing.T) {
	file, err := attention.OpenSafetensors(path)
	if err != nil {
		t.Fatal(err)
	}
	cases := 0
	for _, q := range file.Tensors {
		name, ok := strings.CutSuffix(q.Name, ".q")
		if !ok {
			continue
		}
		cases++
		var x [3][]float32
		for i, part := range []string{".q", ".k", ".v"} {
			if x[i], err = file.Tensor(name + part).Float32s(); err != nil {
				t.Fatal(err)
			}
		}
		want, err := file.Tensor(name + ".out").Float64s()
		if err != nil {
			t.Fatal(err)
		}
		wantLSE, err := file.Tensor(name + ".lse").Float64s()
		if err != nil {
			t.Fatal(err)
		}
		kv := file.Tensor(name + ".k")
		heads, m, d := q.Shape[0], q.Shape[1], q.Shape[2]
		kvHeads, n := kv.Shape[0], kv.Shape[1]
		for h := range heads {
			out, lse := make([]float64, m*d), make([]float64, m)
			g := h / (heads / kvHeads)
			attention.CausalReference(out, lse, x[0][h*m*d:(h+1)*m*d], x[1][g*n*d:(g+1)*n*d], x[2][g*n*d:(g+1)*n*d],
				d, 1/math.Sqrt(float64(d)))
			if e := attention.Compare(out, want[h*m*d:(h+1)*m*d]); e.RelativeL2 > 1e-12 || e.NonFinite > 0 {
				t.Errorf("%s, head %d: %+v", name, h, e)
			}
			if e := attention.Compare(lse, wantLSE[h*m:(h+1)*m]); e.RelativeL2 > 1e-12 {
				t.Errorf("%s, head %d, log-sum-exp: %+v", name, h, e)
			}
		}
	}
	if cases == 0 {
		t.Error("no cases")
	}
}

// PyTorch's vectors pass at both presets, with and without normalised weights, in the banks and in a rank-level unit.
func TestVerifyReferenceVectors(t *testing.T) {
	deep.Heavy(t)
	file, err := attention.OpenSafetensors(path)
	if err != nil {
		t.Fatal(err)
	}
	cases, err := values.ReadVerifyCases(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) != 7 {
		t.Errorf("%d cases", len(cases))
	}
	for i := range cases {
		for _, preset := range []string{"fp32", "paper"} {
			for _, normalised := range []bool{true, false} {
				if !normalised && cases[i].Queries > 1 {
					continue
				}
				for _, unit := range []string{pim.BankUnits, pim.RankLevelUnit} {
					if (i%2 == 0 == (preset == "paper") || unit == pim.RankLevelUnit && i > 1) && !deep.On() {
						continue
					}
					spec := pim.Default()
					spec.Precision.Preset = preset
					spec.NormalizedWeights, spec.ProcessingUnit = normalised, unit
					r, err := values.Verify(t.Context(), spec, parts.DDR4(t), &cases[i])
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

// TestSafetensorsOfPyTorch: PyTorch's file is rewritten with the same tensors.
func TestSafetensorsOfPyTorch(t *testing.T) {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := attention.ParseSafetensors(data)
	if err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := attention.WriteSafetensors(&again, s.Tensors, nil); err != nil {
		t.Fatal(err)
	}
	file, err := attention.ParseSafetensors(again.Bytes())
	if err != nil || len(file.Tensors) != len(s.Tensors) {
		t.Fatalf("%v, %d tensors", err, len(file.Tensors))
	}
	for _, x := range s.Tensors {
		y := file.Tensor(x.Name)
		a, err := x.Float64s()
		if err != nil {
			t.Fatal(err)
		}
		b, err := y.Float64s()
		if err != nil || x.DType != y.DType || !slices.Equal(x.Shape, y.Shape) || !slices.Equal(a, b) {
			t.Errorf("written again, %s differs: %v", x.Name, err)
		}
	}
}
