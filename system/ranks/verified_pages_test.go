package ranks

import (
	"fmt"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/scheduler"
)

// TestVerifiedPages: reads of a step of k tokens by hand. Of 64 pages of 512 tokens each token chooses the newest and 7 others, a ninth of these. A
// GPU reads the union of the k choices once, with its table of pages and k queries and outputs. A rank opens two rows for a page of the union, one
// of keys and one of values, 162 clocks each, and reads each once for each token: 1,024 clocks.
func TestVerifiedPages(t *testing.T) {
	for _, c := range []struct {
		k       int
		overlap string
		pages   int
	}{
		{1, "0.65", 8}, {1, "0", 8},
		{2, "1", 8}, {3, "1", 8},
		{2, "0", 15}, {3, "0", 20}, // 63 · (1 − (8/9)²) = 13.2, 63 · (1 − (8/9)³) = 18.8
		{2, "0.65", 11}, // 7 · (2 − 0.6889) = 9.2: another choice has 1/9 + 8/9 · 0.65 of a choice's pages
		{3, "0.65", 12}, // 63 · (1 − 8/9 · 0.9611 · 1.6111/1.65) = 10.4
	} {
		n := benchOf(t, "run.model=llama-2-7b", "policy.name=quest", "policy.quest.page=512", "policy.quest.skip_layers=0",
			fmt.Sprint("serving.verified_tokens=", c.k), "serving.acceptance=1", "serving.verified_overlap="+c.overlap)
		d := devicesOf(n)
		x := d.Attends.Decode([]scheduler.Decoding{{Base: 64*512 - int64(c.k) + 1, Prompt: 20_000}}, 0, 0)
		tokens := 512 * c.pages
		if got := x.Attend[0].Tokens[0]; got != tokens {
			t.Errorf("%+v: a step attends to %d tokens, want %d", c, got, tokens)
			continue
		}
		g := gpu.NewModelCost(&n.cfg.GPU.Spec, &n.cfg.Model)
		g.Verify(c.k)
		b := gpu.DecodeBatch{Requests: 1, Tokens: int64(tokens), Longest: tokens, KVHeads: 32, Page: 512}
		if got, want := g.DecodeBatchCost(b).Bytes, float64(32*(512*tokens+4*c.pages)+32*512*c.k)/float64(n.cfg.Model.TensorParallel); got != want {
			t.Errorf("%+v: a GPU reads %v bytes, want %v", c, got, want)
		}
		got := d.headClocks(&x.Attend[0], 0)
		if want := d.Table.InSequence(512) + int64((c.pages-1)*2*(162+c.k*1024)); got != want {
			t.Errorf("%+v: a head takes %d clocks, want %d", c, got, want)
		}
		// A list of 7 pages goes down for each token and head.
		if clocks, v := d.chooses(x, 0); clocks != 0 || int(v.Down) != 32*14*c.k {
			t.Errorf("%+v: a choice takes %d clocks, and lists %v", c, clocks, v.Down)
		}
		read := policy.Class{Heads: 32, Tokens: []int{tokens}, Paged: policy.Paged{Page: 512}}
		if lists, rows, last := d.list(&read, 0, 64*512); lists != tokens || rows != c.pages || last != 512 {
			t.Errorf("%+v: a list has %d tokens in %d rows, %d in the last", c, lists, rows, last)
		}
	}
}

// TestVerifiedChoices: ranks score the bounds of pages once for each token that makes a list, and for each query head if these
// choose separately.
func TestVerifiedChoices(t *testing.T) {
	deep.Heavy(t)
	for _, group := range []string{"per-head", "sum", "max", "softmax-sum"}[:deep.Of(1, 4, 4)] {
		var clocks [4]int64
		for k := 1; k <= 3; k++ {
			n := benchOf(t, "run.model=llama-3-8b", "policy.name=quest", "policy.quest.select_device=bank", "policy.quest.summary_device=rank", "policy.quest.select_group="+group, "policy.quest.budget=512",
				fmt.Sprint("serving.verified_tokens=", k), "serving.acceptance=1")
			d := devicesOf(n)
			last := len(d.Attends.Runs) - 1
			x := d.Attends.Decode([]scheduler.Decoding{{Base: 8001 - int64(k), Prompt: 7000}}, last, 0)
			if got := x.Choose[0].Times(); got != k {
				t.Errorf("%s: %d lists of %d tokens", group, got, k)
			}
			clocks[k], _ = d.chooses(x, 0)
			if clocks[k] != int64(k)*clocks[1] {
				t.Errorf("%s: a choice of %d tokens takes %d clocks, of one %d", group, k, clocks[k], clocks[1])
			}
		}
	}
}
