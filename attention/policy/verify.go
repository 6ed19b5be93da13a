package policy

import "fmt"

// probes are the decoding requests that Verify uses.
var probes = []Request{{Prompt: 1, Context: 2}, {Prompt: 16, Context: 17}, {Prompt: 16, Context: 40}, {Prompt: 700, Context: 701},
	{Prompt: 700, Context: 1000}, {Prompt: 5000, Context: 5001}, {Prompt: 5000, Context: 7000}, {Prompt: 20_000, Context: 20_100}}

// Verify returns an error if costs break the promises of this package's types, for requests of some lengths, which is a mistake of the
// policy's author. It is meant for policies that a program adds; tests check shipped ones more strictly.
func Verify(name string, costs Costs, s Shape) error {
	layers := 0
	for run, n := range costs.Runs() {
		heads := s.KVHeads
		if s.Windowed(layers) {
			heads = s.InWindows().KVHeads
		}
		layers += n
		for i := 0; i <= len(probes); i++ { // each alone, then all together
			requests := probes
			if i < len(probes) {
				requests = probes[i : i+1]
			}
			if err := verifyStep(costs.Decode(requests, run), requests, heads); err != nil {
				return fmt.Errorf("policy %q: Decode of %v in run %d of layers: %w", name, requests, run, err)
			}
		}
		for _, finished := range []int{0, 512, 4096} {
			for _, chunk := range []int{1, 512, 700} {
				if err := verifyPrompt(costs.Prompt(run, chunk, finished, true), chunk, finished, heads); err != nil {
					return fmt.Errorf("policy %q: Prompt of %d tokens after %d in run %d of layers: %w", name, chunk, finished, run, err)
				}
			}
		}
	}
	if layers != s.Layers {
		return fmt.Errorf("policy %q: Runs have %d layers, the model has %d", name, layers, s.Layers)
	}
	return nil
}

// verifyStep checks a step of decoding requests: each KV head is in a class of one device or of both, and attends to tokens of its context,
// each at most once.
func verifyStep(x *Step, requests []Request, heads int) error {
	var on [2]int // heads by device
	tokens := make([]int64, len(requests))
	for i := range x.Attend {
		c := &x.Attend[i]
		switch {
		case c.Device > GPU:
			return fmt.Errorf("class %d is on device %d, expected Home or GPU", i, c.Device)
		case c.Heads < 0:
			return fmt.Errorf("class %d has %d heads", i, c.Heads)
		case len(c.Tokens) != len(requests):
			return fmt.Errorf("class %d has Tokens of %d requests, expected %d", i, len(c.Tokens), len(requests))
		case c.PerHead != nil && len(c.PerHead) != len(requests)*c.Heads:
			return fmt.Errorf("class %d has PerHead of %d heads, expected %d", i, len(c.PerHead), len(requests)*c.Heads)
		}
		on[c.Device] += c.Heads
		for r, n := range c.Tokens {
			if n < 0 || n > requests[r].Context {
				return fmt.Errorf("class %d attends to %d tokens of a context of %d", i, n, requests[r].Context)
			}
			tokens[r] += int64(n) * int64(c.Heads)
		}
	}
	if on[Home] > heads || on[GPU] > heads || on[Home]+on[GPU] < heads {
		return fmt.Errorf("classes have %d heads at home and %d on the GPUs of %d KV heads, expected each on one of both or on both", on[Home], on[GPU], heads)
	}
	for r, n := range tokens {
		if most := int64(heads) * int64(requests[r].Context); n > most || n < int64(heads) {
			return fmt.Errorf("all heads attend to %d tokens, expected %d (each step's own) to %d (the context)", n, heads, most)
		}
	}
	if x.Merged < 0 || x.Merged > len(requests) {
		return fmt.Errorf("%d requests are merged of %d", x.Merged, len(requests))
	}
	return nil
}

// verifyPrompt checks a chunk: each KV head attends for each of its tokens, at least once.
func verifyPrompt(p *Prompt, chunk, finished, heads int) error {
	tokens := heads * p.Chosen.Tokens
	for i, x := range p.Pieces {
		if x.Heads < 0 || x.Count < 0 || x.Tokens < 0 || x.Behind < 0 || x.Behind > finished+chunk {
			return fmt.Errorf("piece %d is %+v", i, x)
		}
		tokens += x.Heads * x.Count * x.Tokens
	}
	if tokens < heads*chunk {
		return fmt.Errorf("pieces have %d tokens of heads, expected at least %d of each of %d KV heads", tokens, chunk, heads)
	}
	return nil
}
