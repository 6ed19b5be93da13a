package policies

import (
	"math"
	"slices"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/input"
)

// sequence has random queries, keys and values of one KV head: [tokens, dim], and queries for each query head of the group.
type sequence struct {
	dim, tokens int
	q           [][]float32
	k, v        []float32
}

func newSequence(s source, group, dim, tokens int) *sequence {
	x := &sequence{dim: dim, tokens: tokens, k: s.normal(tokens * dim), v: s.normal(tokens * dim)}
	for range group {
		x.q = append(x.q, s.normal(tokens*dim))
	}
	return x
}

// shape returns the shape of a model with this KV head alone.
func (x *sequence) shape() policy.Shape {
	return policy.Shape{Layers: 1, QueryHeads: len(x.q), KVHeads: 1, Dim: x.dim, ElementBits: 16}
}

// at returns the vector of a token.
func (x *sequence) at(of []float32, token int) []float32 { return of[token*x.dim : (token+1)*x.dim] }

// played is the choices of a state in one step.
type played struct {
	context   int
	selection policy.Selection
	attended  [][]int32 // by query head, ascending
}

// play runs a state through a prompt and the following steps. It checks laws of every policy: parts have existing tokens in
// ascending order, are disjoint, and one has the step's own token.
func (x *sequence) play(t *rapid.T, st policy.State, prompt int, see func(p *played)) {
	var q [][]float32
	for _, head := range x.q {
		q = append(q, slices.Clone(head[:prompt*x.dim]))
	}
	k := slices.Clone(x.k[:prompt*x.dim])
	st.Prompt(q, k, slices.Clone(x.v[:prompt*x.dim]))
	for _, given := range append(q, k) {
		clear(given) // a state must copy its arguments
	}
	for i := prompt; i < x.tokens; i++ {
		key, value := slices.Clone(x.at(x.k, i)), slices.Clone(x.at(x.v, i))
		st.Append(key, value)
		clear(key)
		query := make([][]float32, len(x.q))
		for h := range query {
			query[h] = slices.Clone(x.at(x.q[h], i))
		}
		p := &played{context: i + 1, selection: st.Select(query), attended: make([][]int32, len(x.q))}
		weights := make([][]float32, len(x.q))
		for h := range x.q {
			clear(query[h])
			weights[h] = x.attend(t, p, h)
		}
		see(p)
		st.Observe(weights)
	}
}

// attend sets the tokens that a query head attends to, and returns the weights of each part.
func (x *sequence) attend(t *rapid.T, p *played, head int) (weights []float32) {
	seen := make([]bool, p.context)
	for n := range p.selection.Parts {
		part, end, first := &p.selection.Parts[n], 0, len(weights)
		if !part.For(head) {
			continue
		}
		for i, r := range part.Ranges {
			if r[0] >= r[1] || r[0] < end || i > 0 && r[0] == end || r[1] > p.context {
				t.Fatalf("context %d, head %d: ranges %v", p.context, head, part.Ranges)
			}
			end = r[1]
			for j := r[0]; j < r[1]; j++ {
				if seen[j] {
					t.Fatalf("context %d, head %d: token %d is in two parts: %+v", p.context, head, j, p.selection)
				}
				seen[j] = true
				weights = append(weights, x.score(head, p.context-1, j))
			}
		}
		if len(weights) > first {
			policy.Softmax(weights[first:], 1)
		}
	}
	if !seen[p.context-1] {
		t.Fatalf("context %d, head %d: the step's own token is not in %+v", p.context, head, p.selection)
	}
	for j, in := range seen {
		if in {
			p.attended[head] = append(p.attended[head], int32(j))
		}
	}
	return weights
}

// score returns the scaled product of a token's query with a key.
func (x *sequence) score(head, token, key int) float32 {
	var sum float64
	for c, v := range x.at(x.q[head], token) {
		sum += float64(float64(v) * float64(x.k[key*x.dim+c]))
	}
	return float32(sum / math.Sqrt(float64(x.dim)))
}

// weights returns the softmax of a token's query over some keys, in float64.
func (x *sequence) weights(head, token int, keys []int32) []float64 {
	w, top, sum := make([]float64, len(keys)), math.Inf(-1), 0.0
	for i, j := range keys {
		w[i] = float64(x.score(head, token, int(j)))
		top = max(top, w[i])
	}
	for i := range w {
		w[i] = math.Exp(w[i] - top)
		sum += w[i]
	}
	for i := range w {
		w[i] /= sum
	}
	return w
}

// output returns attention of a token's query over some tokens, and the logarithm of the sum of exponentials.
func (x *sequence) output(head, token int, tokens []int32) (out []float64, lse float64) {
	var k, v []float32
	for _, j := range tokens {
		k, v = append(k, x.at(x.k, int(j))...), append(v, x.at(x.v, int(j))...)
	}
	out = make([]float64, x.dim)
	return out, attention.Reference(out, x.at(x.q[head], token), k, v, 1/math.Sqrt(float64(x.dim)))
}

// ownSpec returns a policy's keys with settings.
func ownSpec(t rapid.TB, name string, set func(s *keys)) *keys {
	s := newKeys(name)
	set(s)
	if err := input.Validate(s.spec()); err != nil {
		t.Fatal(err)
	}
	return s
}

// drawn is a random policy with random settings, its state, and a random sequence.
type drawn struct {
	*sequence
	spec   *keys
	prompt int
	state  policy.State
}

// drawPlay draws settings of a policy; prompts may be shorter or longer than windows.
func drawPlay(t *rapid.T, name string) *drawn {
	number := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }
	d := &drawn{prompt: number("prompt", 1, 60)}
	d.sequence = newSequence(newSource(t), number("group", 1, 3), 16, d.prompt+number("steps", 1, 60))
	share := func(name string) float64 { return float64(number(name, 0, 20)) / 20 }
	s := newKeys(name)
	switch name {
	case "window":
		s.Sink, s.Block = number("sink", 0, 9), number("block", 1, 9)
		if s.Window = 0; rapid.Bool().Draw(t, "window") {
			s.Window = number("window", s.Block, 40)
		}
	case "streaming", "duo":
		s.Sink, s.Window = number("sink", 0, 9), number("window", 1, 40)
	case "quest":
		s.Page, s.SkipLayers = number("page", 1, 8), number("skipped", 0, 1)
		s.Budget = s.Page + number("budget", 0, 60)
	case "lserve":
		s.LogicalPage = number("logical page", 1, 4)
		s.Page = s.LogicalPage * number("logical pages", 1, 4)
		s.Budget, s.Reuse = s.Page+number("budget", 0, 60), number("reuse", 1, 9)
		s.Newest = rapid.SampledFrom([]string{"append", "replace"}).Draw(t, "newest")
		s.Sink, s.Window, s.StaticSparsity = number("sink", 0, 9), number("window", 1, 20), share("streaming heads")
	case "h2o":
		s.Heavy = share("heavy")
		s.Recent = min(share("recent"), 1-s.Heavy)
	case "hgca":
		s.Window = number("window", 1, 80)
		s.Block = number("block", 1, s.Window)
		s.Beta, s.Alpha = 3*share("beta/3"), share("alpha")
		s.PromptQueries, s.PinSinks = number("queries", 1, 70), number("pinned", 0, 5)
	case "csattention":
		s.Subspaces, s.Centroids, s.Iterations = 1<<number("log2 subspaces", 0, 4), number("centroids", 1, 90), number("iterations", 0, 3)
		s.TableShare, s.SelectShare, s.RecentTokens = share("table"), share("select"), number("recent", 1, 40)
		s.Weight = rapid.SampledFrom([]string{"one", "norm"}).Draw(t, "weight")
		s.Search = rapid.SampledFrom([]string{"causal", "lagged"}).Draw(t, "search")
		s.SelectGroup = rapid.SampledFrom([]string{"mean", "per-head"}).Draw(t, "what searches")
		s.Mode, s.Period = rapid.SampledFrom([]string{"gpu", "host"}).Draw(t, "mode"), number("period", 1, 5)
	}
	if s.has("select_precision") {
		s.SelectGroup = rapid.SampledFrom([]string{"sum", "softmax-sum", "max", "per-head"}).Draw(t, "selection of the group")
		s.SelectPrecision = rapid.SampledFrom([]string{"fp32", "fp16"}).Draw(t, "precision")
	}
	if err := input.Validate(s.spec()); err != nil {
		t.Fatal(err)
	}
	d.spec = s
	d.state = d.newState(d.spec)
	return d
}

// newState returns the state of a policy for the sequence.
func (x *sequence) newState(s *keys) policy.State {
	values, err := policy.NewValues(s.spec(), x.shape())
	if err != nil {
		panic(err)
	}
	return values.NewState(0, 0, x.tokens)
}
