package policies

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"pgregory.net/rapid"
)

// drawShape returns a small model.
func drawShape(t *rapid.T) policy.Shape {
	number := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }
	kv := number("KV heads", 1, 16)
	return policy.Shape{Layers: number("layers", 1, 9), KVHeads: kv, QueryHeads: kv * number("group", 1, 8), Dim: 8 * number("dim", 1, 32), ElementBits: 16}
}

// named is a policy's cost side with its name.
type named struct {
	policy.Costs
	name string
}

// costs returns the cost side of a valid section.
func costs(s *keys, shape policy.Shape) named { return named{s.spec().Costs(shape), s.Name} }

// TestPolicies checks what holds for every policy. Each head is counted once. Requests attend to at least one token and at most their
// context. Prompts cost at most what dense ones do, and as much in chunks as at once. Layers, keys and values add up, and memory holds what
// is attended to.
func TestPolicies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape, s := drawShape(t), drawSpec(t)
		number := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }
		requests := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) policy.Request {
			prompt := rapid.IntRange(1, 1<<20).Draw(t, "prompt")
			return policy.Request{Prompt: prompt, Context: prompt + rapid.IntRange(1, 1<<14).Draw(t, "decoded")}
		}), 1, 20).Draw(t, "requests")
		p, layers := costs(s, shape), 0
		for run, n := range p.Runs() {
			layers += n
			conserves(t, p, shape, requests, run)
			holds(t, p, requests, run)
			prompts(t, p, shape, run, number("prompt", 1, 40_000), number("cut", 0, 40_000))
			decoding, filling := p.Memory(run)
			for _, h := range append(slices.Clone(decoding), filling...) {
				if h.Bytes <= 0 || h.Heads < 0 || h.Heads > shape.KVHeads || h.Most < 0 || h.Share < 0 || h.Share > 1 {
					t.Fatalf("%s holds %+v", p.name, h)
				}
			}
		}
		if layers != shape.Layers {
			t.Fatalf("%s has %d of %d layers", p.name, layers, shape.Layers)
		}
		n, m := number("tokens", 0, 1<<20), number("more", 0, 1<<20)
		if p.KV(n)+p.KV(m) != p.KV(n+m) {
			t.Fatalf("%s: %d bytes of KV and %d are %d", p.name, p.KV(n), p.KV(m), p.KV(n+m))
		}
	})
}

// TestHeadsOfClasses: if home is not the GPUs, every KV head attends on one of the two devices, or all of them on either.
func TestHeadsOfClasses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape, s := drawShape(t), drawSpec(t)
		shape.Apart = true
		if s.Name == "csattention" {
			s.Mode = rapid.SampledFrom([]string{"gpu", "host"}).Draw(t, "mode")
		}
		p, request := costs(s, shape), policy.Request{Prompt: 5000, Context: 6000}
		for run := range p.Runs() {
			heads, x := [2]int{}, p.Decode([]policy.Request{request}, run)
			for _, c := range x.Attend {
				heads[c.Device] += c.Heads
			}
			either := heads[policy.Home] == shape.KVHeads && heads[policy.GPU] == shape.KVHeads
			if once := heads[policy.Home]+heads[policy.GPU] == shape.KVHeads; once == either || x.Merged > 0 && !either {
				t.Fatalf("%s: of %d KV heads %v attend at home and on the GPUs, %d requests are merged", p.name, shape.KVHeads, heads, x.Merged)
			}
		}
	})
}

// conserves checks the conservation laws of a decode step in a layer of a run.
func conserves(t *rapid.T, p named, shape policy.Shape, requests []policy.Request, run int) {
	heads, tokens := [2]int{}, make([][2]int, len(requests))
	x := p.Decode(slices.Clone(requests), run)
	for _, c := range x.Attend {
		heads[c.Device] += c.Heads
		if len(c.Tokens) != len(requests) {
			t.Fatalf("%s: %v for %v", p.name, c.Tokens, requests)
		}
		for i, n := range c.Tokens {
			tokens[i][c.Device] = max(tokens[i][c.Device], n)
			if n < 0 || n > requests[i].Context {
				t.Fatalf("%s attends to %d of %d tokens", p.name, n, requests[i].Context)
			}
		}
	}
	if heads[policy.Home] != shape.KVHeads || heads[policy.GPU] != 0 && heads[policy.GPU] != shape.KVHeads {
		t.Fatalf("%s: %d and %d of %d KV heads attend", p.name, heads[policy.Home], heads[policy.GPU], shape.KVHeads)
	}
	for i, n := range tokens {
		if all := n[policy.Home] + n[policy.GPU]; all < 1 || all > requests[i].Context || p.name == "window" && all != requests[i].Context {
			t.Fatalf("%s attends to %d tokens at home and %d on the GPUs of %d", p.name, n[policy.Home], n[policy.GPU], requests[i].Context)
		}
	}
	for _, c := range x.Choose {
		for i, n := range c.Ranked {
			if n < 0 || n > requests[i].Context || c.Keep < 1 || c.Scored != nil && c.Scored[i] > requests[i].Context {
				t.Fatalf("%s: %+v for %v", p.name, c, requests)
			}
		}
	}
}

// holds checks that a layer holds on each device what it attends to there, including the step's own token, and that tokens read from home
// are at home.
func holds(t *rapid.T, p named, requests []policy.Request, run int) {
	for _, r := range requests {
		attended, held := [2]int64{}, [2]int64{}
		x := p.Decode([]policy.Request{r}, run)
		for i := range x.Attend {
			on := x.Attend[i].Device
			if x.Fetched != nil {
				on = policy.Home
			}
			attended[on] += x.Attend[i].All()
		}
		decoding, _ := p.Memory(run)
		for _, h := range decoding {
			if !h.Index {
				held[h.Device] += int64(h.Heads) * int64(h.Tokens(r.Prompt, r.Context))
			}
		}
		if attended[policy.Home] > held[policy.Home] || attended[policy.GPU] > held[policy.GPU] {
			t.Fatalf("%s, %+v: a layer attends to %d tokens of heads at home and on the GPUs, and holds %d: %+v", p.name, r, attended, held, decoding)
		}
	}
}

// prompts compares a prompt that is prefilled at once with the same one in two chunks.
func prompts(t *rapid.T, p named, shape policy.Shape, run, prompt, cut int) {
	pairs := func(chunk, finished int) (sum int64) {
		for _, x := range p.Prompt(run, chunk, finished, false).Pieces {
			if x.Count < 1 || x.Tokens < 1 || x.Behind < 0 || x.Heads < 1 || x.Heads > shape.KVHeads {
				t.Fatalf("%s: a piece %+v of a prompt", p.name, x)
			}
			n := int64(x.Tokens)
			sum += int64(x.Heads) * int64(x.Count) * (n*int64(x.Behind) + n*(n+1)/2)
		}
		return sum
	}
	cut = min(cut, prompt-1)
	whole, halves := pairs(prompt, 0), pairs(prompt-cut, cut)
	if cut > 0 {
		halves += pairs(cut, 0)
	}
	dense := int64(shape.KVHeads) * int64(prompt) * int64(prompt+1) / 2
	if p.name == "h2o" { // scores are computed twice
		dense += int64((shape.KVHeads+1)/2) * int64(prompt) * int64(prompt+1) / 2
	}
	half := int64(shape.KVHeads) * int64(prompt) // half a token a row, twice
	if whole > dense+half || whole-halves > half || halves-whole > half {
		t.Fatalf("%s: %d pairs of a query and a key in a prompt of %d tokens, %d in chunks of %d and the rest, %d in dense attention", p.name, whole, prompt, halves, cut, dense)
	}
}

// TestCostsCountWhatValuesChoose runs the values and the costs of a policy for one request: in each step and layer, each head attends to as
// many tokens as the costs count, except for HGCA's salient tokens, which depend on data.
func TestCostsCountWhatValuesChoose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t)
		if s.Name == "hgca" {
			s.Beta, s.Share = 0, 1 // all tokens that leave the window are kept
		}
		g := rapid.IntRange(1, 3).Draw(t, "group")
		shape := policy.Shape{Layers: rapid.IntRange(1, 3).Draw(t, "layers"), KVHeads: 2, QueryHeads: 2 * g, Dim: 8, ElementBits: 16}
		prompt, steps := rapid.IntRange(1, 300).Draw(t, "prompt"), rapid.IntRange(1, 40).Draw(t, "steps")
		v, err := policy.NewValues(s.spec(), shape)
		if err != nil {
			t.Fatal(err)
		}
		p, layer := costs(s, shape), 0
		for run, layers := range p.Runs() {
			for range layers {
				counts(t, p, v, shape, run, layer, prompt, steps)
				layer++
			}
		}
	})
}

// counts compares values and costs in a layer.
func counts(t *rapid.T, p named, v policy.Values, shape policy.Shape, run, layer, prompt, steps int) {
	rng := rand.New(rand.NewPCG(uint64(layer), rapid.Uint64().Draw(t, "seed")))
	vectors := func(n int) []float32 {
		x := make([]float32, n*shape.Dim)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		return x
	}
	queries := func(n int) (q [][]float32) {
		for range shape.Group() {
			q = append(q, vectors(n))
		}
		return q
	}
	states := make([]policy.State, shape.KVHeads)
	for h := range states {
		states[h] = v.NewState(layer, h, prompt+steps)
		states[h].Prompt(queries(prompt), vectors(prompt), vectors(prompt))
	}
	for context := prompt + 1; context <= prompt+steps; context++ {
		var chosen []int // by head and device
		for _, state := range states {
			state.Append(vectors(1), vectors(1))
			n, weights := [2]int{}, make([][]float32, shape.Group())
			for _, part := range state.Select(queries(1)).Parts {
				if part.For(0) {
					n[part.Device] += part.Tokens()
				}
				for head := range weights {
					for range part.Tokens() {
						if part.For(head) {
							weights[head] = append(weights[head], 1/float32(part.Tokens()))
						}
					}
				}
			}
			state.Observe(weights)
			chosen = append(chosen, n[policy.Home], n[policy.GPU])
		}
		counted := countedBy(p.Decode([]policy.Request{{Prompt: prompt, Context: context}}, run).Attend, shape.KVHeads)
		slices.Sort(chosen)
		slices.Sort(counted)
		if csa, ok := p.Costs.(*csaCost); ok {
			if tables := csa.tables(prompt); tables.Entries < tables.Selected+tables.Recent {
				continue // lists may be too short
			}
		}
		if !slices.Equal(chosen, counted) {
			t.Fatalf("%s, layer %d, step of context %d after a prompt of %d: heads attend to %v tokens, costs count %v", p.name, layer, context, prompt, chosen, counted)
		}
	}
}

// countedBy returns the tokens that each KV head attends to on either device.
func countedBy(classes []policy.Class, heads int) []int {
	n := make([]int, 2*heads)
	next := [2]int{}
	for _, c := range classes {
		for range c.Heads {
			n[2*next[c.Device]+int(c.Device)] = c.Tokens[0]
			next[c.Device]++
		}
	}
	return n
}

// TestDense checks counts by hand: 96 heads of 128 FP16 elements, and grouped queries.
func TestDense(t *testing.T) {
	d := DenseCosts(policy.Shape{Layers: 96, QueryHeads: 96, KVHeads: 96, Dim: 128, ElementBits: 16})
	if got := d.Decode([]policy.Request{{Prompt: 900, Context: 1000}, {Prompt: 1, Context: 3}}, 0).Attend; len(got) != 1 || got[0].Device != policy.Home || got[0].Heads != 96 || !slices.Equal(got[0].Tokens, []int{1000, 3}) {
		t.Errorf("%+v", got)
	}
	if got, want := d.Vectors(), (policy.Vectors{Queries: 96 * 128 * 2, New: 2 * 96 * 128 * 2, Results: 96 * 128 * 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := d.KV(10); got != 10*2*96*128*2 {
		t.Errorf("%d bytes of keys and values", got)
	}
	grouped := DenseCosts(policy.Shape{Layers: 80, QueryHeads: 64, KVHeads: 8, Dim: 128, ElementBits: 16})
	if got, want := grouped.Vectors(), (policy.Vectors{Queries: 64 * 128 * 2, New: 2 * 8 * 128 * 2, Results: 64 * 128 * 2}); got != want {
		t.Errorf("grouped: %+v, want %+v", got, want)
	}
}
