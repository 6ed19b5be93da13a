package lm_test

import (
	"context"
	"fmt"
	"log"
	"math"
	"os"

	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/system"
)

// snapKeys is the section [policy.snapkv].
type snapKeys struct {
	Budget int `toml:"budget"` // prompt tokens that are kept
	Sink   int `toml:"sink"`   // the first of them, always kept
	Window int `toml:"window"` // the last of them, always kept: their queries choose the others
}

// Check has the rules of the keys. A key is named without its section.
func (k snapKeys) Check(c *input.Check) {
	input.Within(c, "sink", k.Sink, 0, 1<<20)
	input.Within(c, "window", k.Window, 1, 1<<20)
	c.That(k.Budget >= k.Sink+k.Window, "budget", k.Budget, "at least %s + %s = %d", input.Key("sink"), input.Key("window"), k.Sink+k.Window)
}

// attended returns how many tokens a KV head attends to in a step: the kept ones of the prompt, and all tokens
// since.
func (k snapKeys) attended(prompt, context int) int { return min(prompt, k.Budget) + context - prompt }

var snapKV = policy.Policy{
	Name: "snapkv", Others: []string{"snap"}, Lossy: true, Source: "SnapKV (Li et al., NeurIPS 2024)",
	About: policy.About{
		Attends: "the tokens of the prompt that its last queries weigh most, and all tokens since",
		Stores:  "keys and values of these", Moves: "as dense, but of the prompt what stays",
	},
	Homes: policy.OnGPUs | policy.InHBM | policy.InDIMMs | policy.OnHost,
	Keys:  snapKeys{},
	Defaults: `budget = 1024 # the paper's middle size
sink = 4      # StreamingLLM
window = 16   # the paper's observation window
`,
	Costs:  newSnapCosts,
	Values: newSnapValues,
}

// snapCosts is what SnapKV costs: dense attention over fewer tokens.
type snapCosts struct {
	policy.Costs
	shape policy.Shape
	keys  snapKeys
	held  []policy.Held
}

func newSnapCosts(u *policy.Use) policy.Costs {
	dense := policies.DenseCosts(u.Shape)
	c := &snapCosts{Costs: dense, shape: u.Shape, keys: u.Keys.(snapKeys)}
	everything, _ := dense.Memory(0)
	prompt, later := everything[0], everything[0]
	prompt.OfPrompt, prompt.Most = true, c.keys.Budget
	later.AfterPrompt = true
	c.held = []policy.Held{prompt, later}
	return c
}

// Decode returns one class of all heads at home.
func (c *snapCosts) Decode(requests []policy.Request, run int) *policy.Step {
	step := c.Costs.Decode(requests, run)
	for i, r := range requests {
		step.Attend[0].Tokens[i] = c.keys.attended(r.Prompt, r.Context)
	}
	return step
}

// Prompt returns dense attention. At the end it adds the scores of the last queries and their sums by token; the
// kept tokens go home then.
func (c *snapCosts) Prompt(run, chunk, finished int, last bool) *policy.Prompt {
	p := c.Costs.Prompt(run, chunk, finished, last)
	p.Leave = p.Leave[:0]
	if n := finished + chunk; last {
		pairs := int64(c.keys.Window) * int64(n) * int64(c.shape.QueryHeads)
		p.Passes = append(p.Passes, policy.Pass{Device: policy.GPU, Kernels: 3, Bytes: 3 * 4 * pairs, FLOPs: 2 * int64(c.shape.Dim) * pairs})
		p.Leave = append(p.Leave, policy.Leaving{Heads: c.shape.KVHeads, From: []int{0}, Tokens: []int{min(n, c.keys.Budget)}})
	}
	return p
}

// Memory returns the kept tokens; during prefill that is the whole prompt.
func (c *snapCosts) Memory(run int) (decoding, filling []policy.Held) {
	_, filling = c.Costs.Memory(run)
	return c.held, filling
}

// snapState is the state of SnapKV for one KV head of a sequence.
type snapState struct {
	keys  snapKeys
	dim   int
	parts [1]policy.Part // its ranges: the kept prompt tokens; the last one also has all tokens since
}

func newSnapValues(u *policy.Use) (policy.Values, error) {
	return policy.ValuesFunc(func(layer, kvHead, limit int) policy.State {
		return &snapState{keys: u.Keys.(snapKeys), dim: u.Shape.Dim}
	}), nil
}

// PromptMask lets the prompt attend to everything.
func (s *snapState) PromptMask() (sink, window int) { return 0, 0 }

// Prompt sums the last queries' weights by token, and keeps the sink, the window and the best between them.
func (s *snapState) Prompt(q [][]float32, k, _ []float32) {
	n := len(k) / s.dim
	first, end := min(s.keys.Sink, n), max(n-s.keys.Window, 0)
	votes, scores := make([]float64, n), make([]float64, n)
	for _, head := range q {
		for i := end; i < n; i++ {
			policy.Scores(scores, head[i*s.dim:(i+1)*s.dim], k, [][2]int{{0, i + 1}})
			sum := 0.0
			for _, x := range scores[:i+1] {
				sum += math.Exp(x)
			}
			for j, x := range scores[:i+1] {
				votes[j] += math.Exp(x) / sum
			}
		}
	}
	if n <= s.keys.Budget || first >= end {
		s.parts[0].Ranges = [][2]int{{0, n}}
		return
	}
	between := votes[first:end]
	best := s.keys.Budget - first - (n - end)
	cut, ties := math.Inf(1), 0
	if best > 0 {
		cut, ties = policy.Cut(between, best, scores)
	}
	for j := range n {
		stays := j < first || j >= end || votes[j] > cut
		if !stays && votes[j] == cut && ties > 0 {
			stays, ties = true, ties-1
		}
		if stays {
			s.add(j)
		}
	}
}

// add adds a token that is later than all others.
func (s *snapState) add(token int) {
	r := s.parts[0].Ranges
	if len(r) > 0 && r[len(r)-1][1] == token {
		r[len(r)-1][1]++
		return
	}
	s.parts[0].Ranges = append(r, [2]int{token, token + 1})
}

// Append keeps the step's own token.
func (s *snapState) Append(_, _ []float32) { s.parts[0].Ranges[len(s.parts[0].Ranges)-1][1]++ }

// Select returns the kept tokens, at home.
func (s *snapState) Select([][]float32) policy.Selection { return policy.Selection{Parts: s.parts[:]} }

// Observe ignores a step's weights.
func (s *snapState) Observe([][]float32) {}

// Adds a policy, prints its help, and runs it on two systems.
func Example_snapKV() {
	loader, err := system.Extend(system.Extension{Policies: []policy.Policy{snapKV}})
	if err != nil {
		log.Fatal(err)
	}
	help := system.Policies(loader)
	if err := help[len(help)-1].WriteText(os.Stdout); err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"gpu-only", "l3"} {
		cfg, err := loader.Load(configs.Options{Sets: []string{
			"run.system=" + name, "run.model=llama-3-8b", "run.trace=longbench", "run.requests=12", "policy.name=snapkv", "policy.snapkv.budget=512",
		}})
		if err != nil {
			log.Fatal(err)
		}
		trace, err := system.LoadTrace(cfg)
		if err != nil {
			log.Fatal(err)
		}
		node, err := system.NewNode(cfg)
		if err != nil {
			log.Fatal(err)
		}
		result, err := node.Run(context.Background(), trace, system.Options{Check: true})
		if err != nil {
			log.Fatal(err)
		}
		summary, err := result.Summary(cfg)
		if err != nil {
			log.Fatal(err)
		}
		a := summary.Attention
		fmt.Printf("%s: %.0f tokens/s, a head attends to %.0f of %.0f tokens\n", name, summary.OutputTokensPerS, a.Attended, a.Context)
	}
	// Output:
	// snapkv (lossy)
	//   attends   the tokens of the prompt that its last queries weigh most, and all tokens since
	//   stores    keys and values of these
	//   moves     as dense, but of the prompt what stays
	//   systems   l3, gpu-only, hbm-pim, gpu+cpu
	//   refused   rank-pim, cpu-offload, sparse-offload
	//   keys      policy.snapkv.budget = 1024 (the paper's middle size)
	//             policy.snapkv.sink = 4 (StreamingLLM)
	//             policy.snapkv.window = 16 (the paper's observation window)
	//   source    SnapKV (Li et al., NeurIPS 2024)
	//
	// gpu-only: 144 tokens/s, a head attends to 670 of 5794 tokens
	// l3: 119 tokens/s, a head attends to 670 of 5794 tokens
}
