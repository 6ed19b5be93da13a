package flow

import (
	"reflect"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

func fields(s string) []string { return strings.Fields(s) }

// fake is a policy with given numbers.
type fake struct {
	runs              []int
	steps             []policy.Step
	decoding, filling [][]policy.Held
	vectors           policy.Vectors
	token             int64
	asked             *[]policy.Request
}

func (f fake) Runs() []int { return f.runs }
func (f fake) Decode(requests []policy.Request, run int) *policy.Step {
	if f.asked != nil {
		*f.asked = append(*f.asked, requests...)
	}
	return &f.steps[run]
}
func (f fake) Prompt(run, chunk, finished int, last bool) *policy.Prompt { return nil }
func (f fake) Memory(run int) (decoding, filling []policy.Held) {
	return f.decoding[run], f.filling[run]
}
func (f fake) KV(tokens int) int64     { return f.token * int64(tokens) }
func (f fake) Vectors() policy.Vectors { return f.vectors }

// TestVectorsByHand: 40 query heads of 8 KV heads on 16 GPUs, so that two GPUs hold each KV head. One has 3 of a group's 5 query heads,
// the other 2. All links together thus take 48/40 of the time of even queries and results.
func TestVectorsByHand(t *testing.T) {
	model := llm.Model{}
	model.Heads, model.KVHeads, model.TensorParallel = 40, 8, 16
	for _, c := range []struct {
		new          int64
		verified     int
		heads, fresh int64
		down, up     units.Bytes
	}{
		// 16 KV heads of two requests: 2,000 B of queries, 2,400 with the skew; 1,600 + 400 B of results and sums.
		{100, 1, 16, 8, 2400, 2400}, // a new key and value of 100 B: 2,100 B
		{500, 1, 16, 8, 2500, 2400}, // of 500 B: 2,500 B
		{500, 3, 16, 8, 7500, 7200}, // of each of three tokens
		{500, 1, 16, 16, 3000, 2400},
	} {
		a := Attends{Policy: fake{vectors: policy.Vectors{Queries: 1000, New: c.new, Results: 800, Sums: 200}}, Heads: 8, model: &model, verified: c.verified}
		if down, up := a.VectorsOf(c.heads, c.fresh); down != c.down || up != c.up {
			t.Errorf("%+v: %d down, %d up", c, down, up)
		}
	}
	a := Attends{Policy: fake{vectors: policy.Vectors{Queries: 1000, New: 500, Results: 800, Sums: 200}}, Heads: 8, model: &model, verified: 1}
	if down, up := a.Vectors(2); down != 3000 || up != 2400 {
		t.Errorf("two requests move %d down, %d up", down, up)
	}
}

// TestReadByHand: what a step reads at home, and what counts as attended. The 4,096 B of a token are 512 for each of eight KV
// heads.
func TestReadByHand(t *testing.T) {
	steps := []policy.Step{
		{Attend: []policy.Class{{Heads: 2, Tokens: []int{100}}, {Device: policy.GPU, Heads: 6, Tokens: []int{50}}}},
		{Attend: []policy.Class{{Heads: 5, Tokens: []int{10}}, {Heads: 1, Tokens: []int{40}}}},
	}
	var asked []policy.Request
	a := Attends{Policy: fake{runs: []int{3, 2}, steps: steps, token: 4096, asked: &asked}, Runs: []int{3, 2}, Alike: []int{0, 1}, Heads: 8, verified: 4}
	if got := a.Read(policy.Request{Prompt: 90, Context: 100}); got != (3*2*100+2*(5*10+1*40))*512 {
		t.Errorf("%v bytes", got)
	}
	if got := a.KV(3); got != 3*4096 {
		t.Errorf("keys and values of three tokens are %d bytes", got)
	}
	asked = nil
	requests := []scheduler.Decoding{{Prompt: 7, Base: 20}, {Prompt: 8, Base: 30}}
	for run := range steps {
		a.Count(a.Decode(requests, run, 5), run)
	}
	// Drafts: the last of four tokens attends over three more.
	want := []policy.Request{{Prompt: 7, Context: 28}, {Prompt: 8, Context: 38}}
	if !reflect.DeepEqual(asked, append(want, want...)) {
		t.Errorf("the policy is asked of %+v", asked)
	}
	if got := (Tally{Steps: 2, Contexts: 28 + 38, Tokens: []int64{2*100 + 6*50, 5*10 + 40}}); !reflect.DeepEqual(a.Counted, got) {
		t.Errorf("%+v, want %+v", a.Counted, got)
	}
	a.Count(a.Decode(requests, 0, 6), 0)
	if got := (Tally{Steps: 4, Contexts: 28 + 38 + 29 + 39, Tokens: []int64{2 * 500, 90}}); !reflect.DeepEqual(a.Counted, got) {
		t.Errorf("%+v, want %+v", a.Counted, got)
	}
}

// TestAttendsOfHardware: KV heads, layers and copies of a model. If prefixes stay at home, chunks after a prefix are
// scored there.
func TestAttendsOfHardware(t *testing.T) {
	h := hardware(t, "cache.prefix=true", "model.tensor_parallel=8", "serving.verified_tokens=3", "serving.acceptance=0.5")
	h.KV.InDIMM, h.Config.Cache.PrefixAttention = true, "dimm"
	h.Config.Model.TensorParallel = 16 // two GPUs for each KV head
	a := NewAttends(h)
	if a.Heads != 8 || a.Layers != 32 || a.Copies != 2 || a.verified != 3 || !a.PrefixStays || a.model != &h.Config.Model {
		t.Errorf("%+v", a)
	}
	behind, alone := scheduler.Chunk{Prefix: 1}, scheduler.Chunk{Finished: 5}
	if !a.Scores(&behind) || a.Scores(&alone) {
		t.Error("a chunk is scored at home behind a prefix, and only there")
	}
	if a.PrefixStays = false; a.Scores(&behind) {
		t.Error("a prefix that comes up is scored at home")
	}
}
