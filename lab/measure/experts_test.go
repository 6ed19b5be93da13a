package measure

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestBalancedRows: experts of the first GPU by hand: choice j of token t is expert t + j·⌈experts/active⌉.
func TestBalancedRows(t *testing.T) {
	for _, c := range []struct {
		x    routing
		want []int
	}{
		{routing{tokens: 1, experts: 8, active: 2, parallel: 1}, []int{1, 0, 0, 0, 1, 0, 0, 0}},
		{routing{tokens: 5, experts: 8, active: 2, parallel: 1}, []int{2, 1, 1, 1, 2, 1, 1, 1}},
		{routing{tokens: 12, experts: 8, active: 2, parallel: 2}, []int{3, 3, 3, 3}},
	} {
		if got := c.x.balanced(); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.x, got, c.want)
		}
	}
}

// TestDrawnRows: a draw has all pairs, no expert has more than all tokens, loads are uneven, and the GPU is the one with the most
// rows.
func TestDrawnRows(t *testing.T) {
	for _, x := range []routing{{1, 256, 8, 1, true}, {64, 128, 4, 1, true}, {4096, 8, 2, 1, true}, {512, 256, 8, 1, true}, {4096, 8, 4, 1, true}} {
		whole := x.draw(rand.New(rand.NewPCG(1, 2)))
		sum := 0
		for _, n := range whole {
			if n < 0 || n > x.tokens {
				t.Errorf("%+v: an expert has %d rows", x, n)
			}
			sum += n
		}
		if sum != x.tokens*x.active || slices.Max(whole) < 2*sum/x.experts {
			t.Errorf("%+v: %d rows, at most %d on an expert", x, sum, slices.Max(whole))
		}
		x.parallel = 8
		busiest := 0
		for _, n := range x.draw(rand.New(rand.NewPCG(1, 2))) {
			busiest += n
		}
		if busiest*8 < sum {
			t.Errorf("%+v: %d rows on the busiest of 8 GPUs, of %d", x, busiest, sum)
		}
	}
}

// TestExpertRows: how a row of experts is read, and which rows are refused.
func TestExpertRows(t *testing.T) {
	const header = "dtype,tokens,hidden,inter,topk,experts,tp,ep,spread,kernel,us\n"
	got, err := parse("moe.csv", strings.NewReader(header+"fp8_block,2,1024,512,2,8,4,2,balanced,a,9\n"), nil)
	if err != nil || len(got) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	s := &got[0]
	if s.kind != FP8BlockExperts || s.ffn.Width != 128 || s.load.Pairs != 2 || s.load.All != 4 || s.source != "a" || s.where != InGraph ||
		s.row != "fp8_block tokens=2 hidden=1024 inter=512 topk=2 experts=8 tp=4 ep=2 spread=balanced" {
		t.Errorf("%+v", s)
	}
	for text, says := range map[string]string{
		"fp9,2,1024,512,2,8,4,2,balanced,a,9":  "one of bfloat16, fp8",
		"fp8,2,1024,512,2,8,4,3,balanced,a,9":  "a multiple of ep",
		"fp8,2,1024,512,9,8,4,2,balanced,a,9":  "at least topk",
		"fp8,2,1024,512,2,8,4,2,powerlaw,a,9":  "one of power1.2, balanced",
		"fp8,2,1024,512,2,8,4,2,balanced,a,-1": "a number",
	} {
		if _, err := parse("moe.csv", strings.NewReader(header+text+"\n"), nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
