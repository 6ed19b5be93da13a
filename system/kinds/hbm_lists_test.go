package kinds

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/scheduler"
)

// TestUnitsReadChosenTokens: of 2,048 of 100,000 tokens units in HBM read the 1,762 of 6,250 columns of 16 tokens in which any lies; with commands
// they open the rows of keys (48 tokens) and, in each of 8 passes, of values (512) in which any lies, beyond those that as many tokens fill.
func TestUnitsReadChosenTokens(t *testing.T) {
	sets := []string{"run.system=hbm-pim", "run.model=llama-3-8b", "model.layers=4", "model.heads=16", "model.kv_heads=1", "model.head_dim=576", "model.latent_dim=512", "model.nope_dim=128",
		"model.value_dim=128", "model.index_heads=32", "model.index_dim=128", "model.index_top_k=2048", "node.gpus=1", "model.tensor_parallel=1"}
	const context, tokens = 100_000, 16 * 1762
	one := []scheduler.Decoding{{Base: context, Prompt: context - 1}}
	for model, want := range map[string]float64{
		"factor": 0,
		// 1 - 0.97952^48 of 2,084 rows of keys, 1,313, less 588 that are filled; all 196 rows of values less 56, in 8 passes.
		"commands": 1313 - 588 + 8*(196-56),
	} {
		e := rigOf(t, append(sets, "hbm_pim.model="+model)...).hbm()
		c := e.Attends.Decode(one, 0, 0).Attend[0]
		got, rows := e.list(&c, 0)
		if got != tokens || rows != want {
			t.Errorf("%s: %d tokens and %v rows, by hand %d and %v", model, got, rows, tokens, want)
		}
		b, all := e.batch(&c)
		if b.Requests != 1 || b.Tokens != tokens || b.Longest != tokens || b.Page != 0 || all != rows {
			t.Errorf("%s: %+v, %v rows", model, b, all)
		}
		took, inOrder := e.class(&c), e.took(b, e.reads)
		if opening := took - inOrder; (opening > 0) != (model == "commands") || opening != e.opening(&b, rows) {
			t.Errorf("%s: %v, in order %v", model, took, inOrder)
		}
		if model == "commands" { // 16 readings of one head over 80 channels: one each on the fullest
			if want := e.clock * rows * e.stack.Opening(); math.Abs((took-inOrder).Seconds()/want-1) > 1e-6 {
				t.Errorf("further rows take %v, by hand %v s", took-inOrder, want)
			}
			read, did := e.readings(&c)
			_, plain := e.readings(&policy.Class{Heads: 1, Tokens: []int{tokens}})
			if read != 16*tokens || math.Abs(did.Rows-plain.Rows-16*rows*64) > 1e-6*did.Rows {
				t.Errorf("%d tokens are read, %+v, in order %+v", read, did, plain)
			}
		}
		short := e.Attends.Decode([]scheduler.Decoding{{Base: 2048, Prompt: 2047}}, 0, 0).Attend[0]
		if got, rows := e.list(&short, 0); got != 2048 || rows != 0 {
			t.Errorf("%s: %d tokens and %v rows of a short context", model, got, rows)
		}
	}
}
