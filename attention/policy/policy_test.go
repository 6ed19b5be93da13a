package policy

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestPolicies checks what holds for every policy: heads are covered once, no request
// attends over more than its context or over nothing, nor over more for a shorter one,
// keys and values add up, and the same question has the same answer.
func TestPolicies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }
		kv := number("KV heads", 1, 16)
		shape := Shape{Layers: number("layers", 1, 9), KVHeads: kv, QueryHeads: kv * number("group", 1, 8), Dim: 8 * number("dim", 1, 32), ElementBits: 16}
		requests := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Request {
			prompt := rapid.IntRange(1, 1<<20).Draw(t, "prompt")
			return Request{prompt, prompt + rapid.IntRange(1, 1<<14).Draw(t, "decoded")}
		}), 1, 20).Draw(t, "requests")
		for _, p := range []Policy{NewDense(shape)} {
			runs := p.Runs()
			layers := 0
			for run, n := range runs {
				layers += n
				conserves(t, p, shape, requests, run)
			}
			if layers != shape.Layers {
				t.Fatalf("%s has %d of %d layers", p.Name(), layers, shape.Layers)
			}
			n, m := number("tokens", 0, 1<<20), number("more", 0, 1<<20)
			if p.KV(n)+p.KV(m) != p.KV(n+m) {
				t.Fatalf("%s: %d bytes of KV and %d are %d", p.Name(), p.KV(n), p.KV(m), p.KV(n+m))
			}
		}
	})
}

// conserves checks the laws of a decode step in a layer of a run.
func conserves(t *rapid.T, p Policy, shape Shape, requests []Request, run int) {
	heads := [2]int{}
	for _, c := range p.Decode(slices.Clone(requests), run).Attend {
		heads[c.Device] += c.Heads
		if len(c.Tokens) != len(requests) {
			t.Fatalf("%s: %v for %v", p.Name(), c.Tokens, requests)
		}
		for i, n := range c.Tokens {
			if n < 1 || n > requests[i].Context {
				t.Fatalf("%s attends over %d of %d tokens", p.Name(), n, requests[i].Context)
			}
		}
	}
	if heads[Home] != shape.KVHeads {
		t.Fatalf("%s: %d of %d KV heads attend", p.Name(), heads[Home], shape.KVHeads)
	}
}

// TestDense checks counts by hand: 96 heads of 128 FP16 elements, and grouped queries.
func TestDense(t *testing.T) {
	d := NewDense(Shape{Layers: 96, QueryHeads: 96, KVHeads: 96, Dim: 128, ElementBits: 16})
	if got := d.Decode([]Request{{900, 1000}, {1, 3}}, 0).Attend; len(got) != 1 || got[0].Device != Home || got[0].Heads != 96 || !slices.Equal(got[0].Tokens, []int{1000, 3}) {
		t.Errorf("%+v", got)
	}
	if down, up := d.Vectors(); down != 3*96*128*2 || up != 96*128*2 {
		t.Errorf("%d bytes down, %d up", down, up)
	}
	if got := d.KV(10); got != 10*2*96*128*2 {
		t.Errorf("%d bytes of keys and values", got)
	}
	grouped := NewDense(Shape{Layers: 80, QueryHeads: 64, KVHeads: 8, Dim: 128, ElementBits: 16})
	if down, up := grouped.Vectors(); down != (64+16)*128*2 || up != 64*128*2 {
		t.Errorf("grouped: %d bytes down, %d up", down, up)
	}
}
