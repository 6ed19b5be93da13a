package measure

import (
	"math"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
)

// large keeps rows whose 16-bit cache has at least 32 MB.
func large(samples []Sample) []Sample {
	return only(samples, func(s *Sample) bool { return s.batch*s.context*s.heads.KV*4*s.heads.Dim >= 32e6 })
}

// TestNarrowDecode: fitted to some heads, attention over narrow keys and values is judged on the others, by format. The H100's
// preset is the fit to all. In 16 bits the same kernels take the times of the preset's decode attention.
func TestNarrowDecode(t *testing.T) {
	target, samples := preset(t, "h100-sxm"), read(t, "testdata/h100_narrow")
	want := target.GPU.NarrowKV
	forget(target, NarrowDecode)
	held, ok, err := target.FitHeldOut(NarrowDecode, samples[NarrowDecode], Options{})
	if err != nil || !ok || held.Points != 93 {
		t.Fatalf("%d points held out, %v, %v", held.Points, ok, err)
	}
	if target.GPU.NarrowKV != want {
		t.Errorf("fit %+v, preset %+v", target.GPU.NarrowKV, want)
	}
	for format, p90 := range map[string]float64{"fp8": 0.17, "int8": 0.11, "int4": 0.17} { // short contexts in large batches are off by up to 15%
		var points []Point
		for _, p := range held.Relative {
			if p.Sample.op == format && len(large([]Sample{p.Sample})) == 1 {
				points = append(points, p)
			}
		}
		e := pooled(points)
		t.Logf("%s: %d rows, mean %.3f, median %.3f, p90 %.3f, bias %+.3f", format, e.Points, e.MAPE, e.Median, e.P90, e.Bias)
		if e.Points != 27 || e.Median > 0.06 || e.P90 > p90 {
			t.Errorf("%s: %d rows, median %.3f, p90 %.3f", format, e.Points, e.Median, e.P90)
		}
	}
	if e := target.Judge(large(samples[Decode])); e.Points != 27 || e.Median > 0.03 || e.P90 > 0.06 {
		t.Errorf("fp16: %d rows, median %.3f, p90 %.3f", e.Points, e.Median, e.P90)
	}
}

// TestNarrowGEMM: products of FP8 factors, judged on held-out shapes; the preset is the fit to all.
func TestNarrowGEMM(t *testing.T) {
	deep.Heavy(t)
	target, samples := preset(t, "h100-sxm"), read(t, "testdata/h100_narrow")
	want := target.GPU.MatMul.Narrow
	forget(target, NarrowGEMM)
	held, ok, err := target.FitHeldOut(NarrowGEMM, kernelSamples(NarrowGEMM, samples[NarrowGEMM]), Options{})
	t.Logf("%d rows, mean %.3f, median %.3f, p90 %.3f, bias %+.3f", held.Points, held.MAPE, held.Median, held.P90, held.Bias)
	if err != nil || !ok || held.Points != 21 || held.MAPE > 0.05 || held.P90 > 0.1 || math.Abs(held.Bias) > 0.02 {
		t.Errorf("%d rows, mean %.3f, p90 %.3f, bias %+.3f, %v", held.Points, held.MAPE, held.P90, held.Bias, err)
	}
	if target.GPU.MatMul.Narrow != want {
		t.Errorf("fit %v, preset %v", target.GPU.MatMul.Narrow, want)
	}
	sustained := target.Judge(only(samples[NarrowGEMM], func(s *Sample) bool { return s.where == Sustained }))
	if sustained.MAPE > 0.05 || sustained.P90 > 0.1 { // slowed by the power limit
		t.Errorf("sustained: mean %.3f, p90 %.3f, bias %+.3f", sustained.MAPE, sustained.P90, sustained.Bias)
	}
}

// TestNarrowColumn: the column kind says what is narrow; an unknown kind is refused with its place.
func TestNarrowColumn(t *testing.T) {
	const decode, gemm = "kind,batch,context,q_heads,kv_heads,head_dim,graph_us\n", "kind,m,n,k,graph_us,sustained_us\n"
	for text, want := range map[string]Kind{
		decode + "fp16,1,512,32,8,128,5": Decode, decode + "fp8,1,512,32,8,128,5": NarrowDecode, decode + "int4,1,512,32,8,128,5": NarrowDecode,
		gemm + "fp16,16,64,64,5,5": GEMM, gemm + "fp8,16,64,64,5,5": NarrowGEMM,
	} {
		samples, err := parse("x.csv", strings.NewReader(text), models)
		if err != nil || samples[0].Kind() != want {
			t.Errorf("%q: %v, %v", text, samples, err)
		}
	}
	for format, want := range map[string][2]int{"fp8": {8, 0}, "int8": {8, 4}, "int4": {4, 8}} { // bits, bytes of scale and zero
		samples, err := parse("x.csv", strings.NewReader(decode+format+",1,512,32,8,128,5"), models)
		if h := samples[0].heads; err != nil || [2]int{h.KVBits, h.KVScaleBytes} != want || h.KVFloat != (format == "fp8") {
			t.Errorf("%s: %+v, %v", format, h, err)
		}
	}
	for text, want := range map[string]string{
		decode + "fp9,1,512,32,8,128,5": `x.csv:2: kind = "fp9": expected one of fp16, fp8, int8, int4; did you mean "fp8"?`,
		gemm + "int8,16,64,64,5,5":      `x.csv:2: kind = "int8": expected one of fp16, fp8`,
	} {
		if _, err := parse("x.csv", strings.NewReader(text), models); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
