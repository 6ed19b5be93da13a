package kinds

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// TestUnitsReadChosenTokens: for 2,048 of 100,000 tokens, units in HBM read the 1,762 of 6,250 columns of 16 tokens with any chosen one. With
// commands, they open all rows with chosen tokens, of keys (48 tokens) and, in each of 8 passes, of values (512), beyond the rows that as many
// tokens fill.
func TestUnitsReadChosenTokens(t *testing.T) {
	deep.Heavy(t)
	sets := []string{"run.system=hbm-pim", "run.model=llama-3-8b", "model.layers=4", "model.heads=16", "model.kv_heads=1", "model.head_dim=576", "model.latent_dim=512", "model.nope_dim=128",
		"model.value_dim=128", "model.index_heads=32", "model.index_dim=128", "model.index_top_k=2048", "node.gpus=1", "model.tensor_parallel=1",
		"hbm_pim.queries_per_read=2"} // 8 readings, at 16 times the bandwidth
	const context, tokens = 100_000, 16 * 1762
	one := []scheduler.Decoding{{Base: context, Prompt: context - 1}}
	for model, want := range map[string]float64{
		"factor": 0,
		// 1 - 0.97952^48 of 2,084 rows of keys are 1,313, less the 588 filled ones; all 196 rows of values less 56, in 8
		// passes.
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
		took, inOrder := e.class(&c), e.took(b, 8)
		if opening := took - inOrder; (opening > 0) != (model == "commands") || opening != e.opening(&b, rows) {
			t.Errorf("%s: %v, in order %v", model, took, inOrder)
		}
		if model == "commands" { // 8 readings of one head over 80 channels: one each on the fullest
			if want := e.clock * rows * e.stack.Opening(); math.Abs((took-inOrder).Seconds()/want-1) > 1e-6 {
				t.Errorf("further rows take %v, by hand %v s", took-inOrder, want)
			}
			read, did := e.readings(&c)
			_, plain := e.readings(&policy.Class{Heads: 1, Tokens: []int{tokens}})
			if read != 8*tokens || math.Abs(did.Rows-plain.Rows-8*rows*64) > 1e-6*did.Rows {
				t.Errorf("%d tokens are read, %+v, in order %+v", read, did, plain)
			}
		}
		short := e.Attends.Decode([]scheduler.Decoding{{Base: 2048, Prompt: 2047}}, 0, 0).Attend[0]
		if got, rows := e.list(&short, 0); got != 2048 || rows != 0 {
			t.Errorf("%s: %d tokens and %v rows of a short context", model, got, rows)
		}
	}
}

// TestUnitsReadRecordedTokens: units in HBM read the columns and open the rows that the recorded step of a context has, counted here token by token
// as a mean over the heads of six layers. Recorded random choices cost what random places do; tokens in succession open no further row.
func TestUnitsReadRecordedTokens(t *testing.T) {
	const prompt, chosen = 20_000, 500
	sets := slices.Concat(indexedModel, []string{"run.system=hbm-pim", "node.gpus=1", "model.tensor_parallel=1", "hbm_pim.model=commands"})
	rng := rand.New(rand.NewPCG(11, 30))
	random := map[[2]int][][2]int{} // by step and layer
	file := recordedFile(t, sets, prompt, 4, func(step, layer, _ int) (ranges [][2]int) {
		if step == 3 { // in succession, from the start of a row of keys and values on
			return [][2]int{{12288, 12288 + chosen}}
		}
		tokens := append(rng.Perm(prompt + step)[:chosen-1], prompt+step)
		slices.Sort(tokens)
		for _, x := range tokens {
			ranges = append(ranges, [2]int{x, x + 1})
		}
		random[[2]int{step, layer}] = ranges
		return ranges
	})
	e, plain := rigOf(t, append(sets, file)...).hbm(), rigOf(t, sets...).hbm()
	list := func(e *hbmPIM, context int) (int, float64, units.Duration) {
		c := e.Attends.Decode([]scheduler.Decoding{{Base: int64(context), Prompt: int32(context) - 1}}, 0, 0).Attend[0]
		tokens, rows := e.list(&c, 0)
		return tokens, rows, e.class(&c)
	}
	keys, values, passes := e.stack.RowTokens()
	for step := range 3 {
		context := prompt + 1 + step
		groups := func(size int) int { // that any token is in: the mean over layers, rounded up
			sum := 0
			for layer := range 6 {
				has := map[int]bool{}
				for _, r := range random[[2]int{step, layer}] {
					has[r[0]/size] = true
				}
				sum += len(has)
			}
			return (sum + 5) / 6
		}
		want := context - ((context+15)/16-groups(16))*16
		rowsOf := func(tokens, size int) int { return (tokens + size - 1) / size }
		further := max(0, groups(keys)-rowsOf(want, keys)) + passes*max(0, groups(values)-rowsOf(want, values))
		tokens, rows, took := list(e, context)
		if tokens != want || rows != float64(further) || further == 0 {
			t.Errorf("context %d: %d tokens and %v rows, counted %d and %d", context, tokens, rows, want, further)
		}
		if _, _, anywhere := list(plain, context); math.Abs(took.Seconds()/anywhere.Seconds()-1) > 0.02 {
			t.Errorf("context %d: %v, of tokens at random places %v", context, took, anywhere)
		}
	}
	tokens, rows, took := list(e, prompt+4)
	if want := 512 - 16 + (prompt+4-1)%16 + 1; tokens != want || rows != 0 { // 32 columns, as if the newest were one of them
		t.Errorf("%d tokens and %v rows of %d in succession, want %d and none", tokens, rows, chosen, want)
	}
	if _, _, anywhere := list(plain, prompt+4); took >= anywhere {
		t.Errorf("in succession %v, at random places %v", took, anywhere)
	}
}

// TestUnitsReadLatentsForEachQuery: by the factor, units read the 2,176 B of a token's key and value for each of 16 query heads, as they would for
// a model with one KV head. With four queries a reading they take a quarter.
func TestUnitsReadLatentsForEachQuery(t *testing.T) {
	sets := []string{"run.system=hbm-pim", "run.model=llama-3-8b", "model.layers=4", "model.heads=16", "model.kv_heads=1", "model.head_dim=576", "node.gpus=1", "model.tensor_parallel=1",
		"hbm_pim.kernel_overhead=false", "gpu.decode_attention.lone_element_time=0ns"}
	latent := append(sets[:len(sets):len(sets)], "model.latent_dim=512", "model.nope_dim=128", "model.value_dim=128")
	latent = latent[:len(latent):len(latent)]
	b := gpu.UniformBatch(432, 10_000) // enough to fill the kernel's thread blocks
	seconds := func(sets []string, readings float64) float64 {
		r := rigOf(t, sets...)
		e := r.hbm()
		if e.reads != readings {
			t.Fatalf("%v readings, want %v", e.reads, readings)
		}
		return e.took(b, e.reads).Seconds()
	}
	got := seconds(latent, 16)
	cfg := rigOf(t, latent...).cfg
	want := 432 * 10_000 * 2176 * 16 / float64(cfg.GPU.MemoryBandwidth) / cfg.GPU.Decode.Memory / 16 // readings, and the factor
	if got < want || got > 1.1*want {                                                                // the reads of the GPUs' kernel hide all but a few percent of its multiplications
		t.Errorf("%v s, bytes by hand %v s", got, want)
	}
	if apart := seconds(append(sets, "model.head_dim=512"), 16); math.Abs(got/apart*2048/2176-1) > 0.01 {
		t.Errorf("%v s, with keys and values of 512 elements each %v s", got, apart)
	}
	if quarter := seconds(append(latent, "hbm_pim.queries_per_read=4"), 4); math.Abs(4*quarter/got-1) > 0.01 {
		t.Errorf("%v s, with four queries a reading %v s", got, quarter)
	}
	if narrow := seconds(append(latent, "model.kv_format=fp8_ds_mla", "hbm_pim.elements_per_read=2"), 16); math.Abs(narrow/got*2176/(656+528)-1) > 0.01 {
		t.Errorf("%v s, in FP8 %v s", got, narrow)
	}
	// If multiplications bind, units that multiply elements of half the width twice as fast take half as long.
	slow := append(latent, "gpu.peak_16bit=1TFLOP/s", "gpu.peak_8bit=1TFLOP/s")
	if wide, narrow := seconds(slow, 16), seconds(append(slow, "model.kv_format=fp8_ds_mla", "hbm_pim.elements_per_read=2"), 16); math.Abs(wide/narrow-2) > 0.02 || wide < 5*got {
		t.Errorf("multiplications take %v s, of half the width %v s", wide, narrow)
	}
}
