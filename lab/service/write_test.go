package service

import (
	"math"
	"strings"
	"testing"
)

// TestReportByHand: two servers. Rows of the first take 1 s on the GPUs in 100 steps of 4 sequences each. Every fifth row that fits, in order
// of length, is fitted: the third, which takes 0.5 s more, 5 ms a step, since with one row the overhead has steps only. The others are then
// predicted at 1.5 s.
func TestReportByHand(t *testing.T) {
	m := &Measured{Skipped: []Skipped{{"other.csv", "of another kind"}}}
	series := Series{GPU: "h100", GPUs: 4, Framework: "vLLM", Model: "llama"}
	add := func(s Series, input int, latency, ttft float64) {
		m.Rows = append(m.Rows, Row{Series: s, Input: input, Output: 20, Batch: 4, Latency: latency, TTFT: ttft, File: "f.csv", Line: len(m.Rows) + 2})
	}
	for i, latency := range []float64{1.2, 2, 1.5, 3, 1.6} {
		add(series, 10*(i+1), latency, 0)
	}
	other := Series{GPU: "a100", GPUs: 1, Framework: "TRT", Model: "opt"}
	add(other, 10, 2, 0.5)
	var runs []run
	for i := range m.Rows {
		runs = append(runs, run{row: &m.Rows[i], ran: true, usable: 1, seconds: 1, steps: 100, tokens: 400})
	}
	runs[3].queued = true                                    // it fits, although the memory model denies it
	runs[4].share, runs[4].queued = 1.5, true                // does not fit, as the memory model says
	runs[5].ttft, runs[5].seconds, runs[5].steps = 0.4, 1, 7 // a closed loop
	r := report(m, runs)
	if len(r.Series) != 2 || r.Series[0].Series != other || r.Series[1].Series != series {
		t.Fatalf("%+v", r.Series)
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 2e-4 { // overheads have four digits
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	e := r.Series[1]
	if e.Rows != 5 || e.HeldOut != 3 || e.Fitted != 1 || e.Spill != 1 || e.SpillCorrect != 1 || e.SpillFalse != 1 || e.TTFTMedian != 0 {
		t.Errorf("%+v", e)
	}
	// Predicted 1.5 s: 25% above 1.2, 25% below 2, 50% below 3.
	near("mean", e.MAPE, 1./3)
	near("bias", e.Bias, -0.5/3)
	near("median", e.Median, 0.25)
	near("90th percentile", e.P90, 0.5)
	// The other server's only row is held out, with no overhead: 1 s of 2 s, and 0.4 s of 0.5 s to the first token.
	e = r.Series[0]
	near("TTFT", e.TTFTMedian, 0.2)
	near("TTFT, 90th percentile", e.TTFTP90, 0.2)
	near("mean of the loop", e.MAPE, 0.5)
	if e.Rows != 1 || e.HeldOut != 1 || e.Fitted != 0 {
		t.Errorf("%+v", e)
	}
	if o := r.Overheads; len(o) != 2 || o[0].Framework != "TRT" || o[0].Fitted != 0 || o[1] != (Overhead{Framework: "vLLM", GPU: "h100", PerStep: o[1].PerStep, PerToken: o[1].PerToken, Fitted: 1}) {
		t.Errorf("%+v", o)
	}
	near("overhead of 100 steps and 400 tokens", r.Overheads[1].seconds(&runs[0]), 0.5)
	// The output has the numbers without the fit's rounding.
	for i := range r.Overheads {
		r.Overheads[i].PerStep, r.Overheads[i].PerToken = 4321.6, 12.34
	}
	for i := range 5 {
		near("prediction", r.Rows[i].Predicted, 1.5)
		r.Rows[i].Predicted = 1.5
	}
	var text strings.Builder
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	want := `   GPU  GPUs  framework  model  rows  fitted  held out   mean  median    p90    bias  spill  found  false  TTFT median    p90
  a100     1        TRT    opt     1       0         1  50.0%   50.0%  50.0%  -50.0%      0      0      0        20.0%  20.0%
  h100     4       vLLM  llama     5       1         3  33.3%   25.0%  50.0%  -16.7%      1      1      1            -      -

  overhead of    on  rows fitted  us a step  us a sequence and step
          TRT  a100            0       4322                    12.3
         vLLM  h100            1       4322                    12.3

worst of the rows held out
  -50%  predicted 1.50 s  measured 3.00 s  4 x (40 + 20) of llama on 4 h100, vLLM  f.csv:5
  -50%  predicted 1.00 s  measured 2.00 s  4 x (10 + 20) of opt on 1 a100, TRT     f.csv:7
  +25%  predicted 1.50 s  measured 1.20 s  4 x (10 + 20) of llama on 4 h100, vLLM  f.csv:2
  -25%  predicted 1.50 s  measured 2.00 s  4 x (20 + 20) of llama on 4 h100, vLLM  f.csv:3

not judged: other.csv, of another kind
`
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", text.String(), want)
	}
	// A line for each row: measurement, place, outcome and prediction.
	text.Reset()
	if err := r.WriteRows(&text); err != nil {
		t.Fatal(err)
	}
	want = `gpu,gpus,framework,model,in_tokens,out_tokens,batch,latency_s,file,line,use,queued,steps,simulated_s,predicted_s,error,ttft_s,predicted_ttft_s
h100,4,vLLM,llama,10,20,4,1.2,f.csv,2,held out,false,100,1,1.5,0.25,0,0
h100,4,vLLM,llama,20,20,4,2,f.csv,3,held out,false,100,1,1.5,-0.25,0,0
h100,4,vLLM,llama,30,20,4,1.5,f.csv,4,fitted,false,100,1,1.5,0,0,0
h100,4,vLLM,llama,40,20,4,3,f.csv,5,held out,true,100,1,1.5,-0.5,0,0
h100,4,vLLM,llama,50,20,4,1.6,f.csv,6,spills: arithmetic,true,100,1,1.5,-0.0625,0,0
a100,1,TRT,opt,10,20,4,2,f.csv,7,held out,false,7,1,1,-0.5,0.5,0.4
`
	got := text.String()
	for i, line := range strings.Split(want, "\n") {
		if lines := strings.Split(got, "\n"); i >= len(lines) || lines[i] != line {
			t.Errorf("line %d of\n%s\nwant\n%s", i, got, line)
		}
	}
}

// TestWorstRows: at most ten rows, of those that were held out and fit in memory.
func TestWorstRows(t *testing.T) {
	r := &Report{}
	for i := range 14 {
		j := Judged{Row: Row{Latency: 1, Line: i}, Predicted: 1 + float64(i)/10}
		j.Fitted = i == 13
		if i == 12 {
			j.Spills = seen
		}
		r.Rows = append(r.Rows, j)
	}
	worst := r.worst(worstShown)
	if len(worst) != 10 || worst[0].Line != 11 || worst[9].Line != 2 || len(r.worst(20)) != 12 {
		t.Errorf("%d rows: %+v", len(worst), worst)
	}
}

// TestLowest: the minimum of a convex function between two ends, or at one of them.
func TestLowest(t *testing.T) {
	for at, want := range map[float64]float64{-1: 0, 0: 0, 3: 3, 10: 10, 12: 10} {
		if got := lowest(0, 10, func(x float64) float64 { return math.Abs(x - at) }); math.Abs(got-want) > 1e-6 {
			t.Errorf("least at %v: %v, want %v", at, got, want)
		}
	}
}
