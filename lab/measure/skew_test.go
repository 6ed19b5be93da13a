package measure

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
)

const (
	skewHeader = "regime,n,nb,ratio,skew,pc,kp,kvs,kv_big,kv_mean,t_mean_us,t_max_us,t_skew_us,alpha\n"
	skewRow    = "pure,2,1,0.5,4.0,0,0,128,512,320,46.497,50.143,47.297,0.2194\n"
	smallSkew  = skewHeader + skewRow + "mixed,4,3,0.75,4.0,16,32,128,512,416,90,100,120,\n"
)

// TestUnequalContexts: presets of both cards predict attention over unequal contexts, and would not without their law for these.
func TestUnequalContexts(t *testing.T) {
	samples, _, err := ReadTables(tables4090, tableModel)
	if err != nil {
		t.Fatal(err)
	}
	m, err := tableModel("llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	server, err := readSkew("testdata/llmservingsim/RTXPRO6000_Llama-3.1-8B/tp1/skew.csv", m, 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		preset      string
		kind        Kind
		samples     []Sample
		n           int
		median, p90 float64
		equal       float64 // least 90th percentile without the law
	}{
		{"rtx-4090-vllm-0.19", Decode, samples, 204, 0.012, 0.047, 0.12},
		{"rtx-4090-vllm-0.19", Prefill, samples, 1268, 0.05, 0.19, 0.2},
		{"rtx-pro-6000-server-vllm-0.19", Decode, server, 169, 0.016, 0.05, 0.1},
	} {
		g, _, err := configs.LoadGPU("gpu", c.preset)
		if err != nil {
			t.Fatal(err)
		}
		target := &Target{GPU: *g}
		s := only(target.Cold(c.samples), func(s *Sample) bool { return s.kind == c.kind && s.tokens > 0 })
		e := target.Judge(s)
		t.Logf("%s: %s: %d, median %.4f, p90 %.4f, bias %+.4f", c.preset, c.kind, e.Points, e.Median, e.P90, e.Bias)
		if e.Points != c.n || e.Median > c.median || e.P90 > c.p90 {
			t.Errorf("%s: %s: %d, median %.4f, p90 %.4f, want %d, at most %.4f, %.4f", c.preset, c.kind, e.Points, e.Median, e.P90, c.n, c.median, c.p90)
		}
		for i := range s { // as many tokens in equal contexts
			s[i].context = int((s[i].tokens + int64(s[i].batch) - 1) / int64(s[i].batch))
		}
		if e := target.Judge(s); !(e.P90 > c.equal) {
			t.Errorf("%s: %s: without the law the 90th percentile is %.4f", c.preset, c.kind, e.P90)
		}
	}
}

// TestSkewRows: of n contexts nb have the longest, with or without a prompt, and a time is the sum of the runs in the profile.
func TestSkewRows(t *testing.T) {
	near := func(a, b float64) bool { return math.Abs(a/b-1) < 1e-12 }
	m, err := tableModel("llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), skewTable)
	if s, err := readSkew(file, m, 3, nil); s != nil || err != nil {
		t.Errorf("no file: %v, %v", s, err)
	}
	if err := os.WriteFile(file, []byte(smallSkew), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := readSkew(file, m, 3, nil)
	if err != nil || len(s) != 2 {
		t.Fatal(s, err)
	}
	if a, b := s[0], s[1]; a.kind != Decode || a.tokens != 640 || a.context != 512 || a.batch != 2 || !near(a.Seconds, 47.297e-6/3) ||
		b.kind != Prefill || b.op != mixedOp || b.tokens != 3*512+128 || b.chunk != 16 || b.finished != 32 || !near(b.Seconds, 40e-6) {
		t.Errorf("%+v", s)
	}
	// The row of equal contexts is that of attention.csv, divided.
	attend := func(us string) []Sample {
		a, err := parseTable("a", attendTable, strings.NewReader("prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n0,0,2,512,"+us+"\n"), m)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if _, err := readSkew(file, m, 3, attend("16.76")); err != nil {
		t.Error(err)
	}
	if _, err := readSkew(file, m, 3, attend("50.1")); err == nil || !strings.Contains(err.Error(), "t_max_us = 1.00 times attention.csv: expected 3 times, the measurement_iterations of meta.yaml") {
		t.Error(err)
	}
	if _, err := readSkew(file, m, 0, nil); !errors.As(err, new(*input.Error)) || !strings.Contains(err.Error(), "measurement_iterations") {
		t.Error(err)
	}
}
