package policies

import (
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
)

// spoilt is dense attention with a deliberate mistake.
type spoilt struct {
	policy.Costs
	runs   []int
	step   func(x *policy.Step)
	prompt func(x *policy.Prompt)
}

func (s *spoilt) Runs() []int {
	if s.runs != nil {
		return s.runs
	}
	return s.Costs.Runs()
}

func (s *spoilt) Decode(r []policy.Request, run int) *policy.Step {
	x := s.Costs.Decode(r, run)
	if s.step != nil {
		s.step(x)
	}
	return x
}

func (s *spoilt) Prompt(run, chunk, finished int, last bool) *policy.Prompt {
	x := s.Costs.Prompt(run, chunk, finished, last)
	if s.prompt != nil {
		s.prompt(x)
	}
	return x
}

// TestVerify: each broken rule gives an error that names the policy and what was expected.
func TestVerify(t *testing.T) {
	shape := policy.Shape{Layers: 4, QueryHeads: 8, KVHeads: 2, Dim: 64, ElementBits: 16}
	first := func(x *policy.Step) *policy.Class { return &x.Attend[0] }
	for want, s := range map[string]*spoilt{
		"":                                                 {},
		"Runs have 3 layers, the model has 4":              {runs: []int{3}},
		"attends to 3 tokens of a context of 2":            {step: func(x *policy.Step) { first(x).Tokens[0]++ }},
		"attends to -5 tokens":                             {step: func(x *policy.Step) { first(x).Tokens[0] = -5 }},
		"has Tokens of 0 requests, expected 1":             {step: func(x *policy.Step) { first(x).Tokens = nil }},
		"has PerHead of 3 heads, expected 2":               {step: func(x *policy.Step) { first(x).PerHead = make([]int, 3) }},
		"1 heads at home and 0 on the GPUs of 2 KV heads":  {step: func(x *policy.Step) { first(x).Heads = 1 }},
		"class 0 has -1 heads":                             {step: func(x *policy.Step) { first(x).Heads = -1 }},
		"class 0 is on device 2, expected Home or GPU":     {step: func(x *policy.Step) { first(x).Device = 2 }},
		"all heads attend to 8 tokens, expected 2":         {step: func(x *policy.Step) { x.Attend = append(x.Attend, x.Attend[0]); x.Attend[1].Device = policy.GPU }},
		"all heads attend to 0 tokens, expected 2":         {step: func(x *policy.Step) { first(x).Tokens[0] = 0 }},
		"2 requests are merged of 1":                       {step: func(x *policy.Step) { x.Merged = 2 }},
		"pieces have 0 tokens of heads, expected at least": {prompt: func(x *policy.Prompt) { x.Pieces = nil }},
		"piece 0 is":                                       {prompt: func(x *policy.Prompt) { x.Pieces[0].Behind = -1 }},
	} {
		s.Costs = DenseCosts(shape)
		err := policy.Verify("mine", s, shape)
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), `policy "mine": `) || !strings.Contains(err.Error(), want)) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
