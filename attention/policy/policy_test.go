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
		contexts := rapid.SliceOfN(rapid.IntRange(1, 1<<20), 1, 20).Draw(t, "contexts")
		slices.Sort(contexts)
		for _, p := range []Policy{NewDense(shape)} {
			first := p.Decode(slices.Clone(contexts), 0, 0)
			heads := 0
			for _, c := range first {
				heads += c.Heads
				if len(c.Tokens) != len(contexts) || !slices.IsSorted(c.Tokens) {
					t.Fatalf("%s: %v for contexts of %v", p.Name(), c.Tokens, contexts)
				}
				for i, n := range c.Tokens {
					if n < 1 || n > contexts[i] {
						t.Fatalf("%s attends over %d of %d tokens", p.Name(), n, contexts[i])
					}
				}
			}
			if heads != kv {
				t.Fatalf("%s: %d of %d KV heads attend", p.Name(), heads, kv)
			}
			n, m := number("tokens", 0, 1<<20), number("more", 0, 1<<20)
			if p.KV(n)+p.KV(m) != p.KV(n+m) || p.Behind(n) < 0 || p.Behind(n) > n {
				t.Fatalf("%s: %d bytes of KV and %d are %d; %d tokens behind %d", p.Name(), p.KV(n), p.KV(m), p.KV(n+m), p.Behind(n), n)
			}
		}
	})
}

// TestDense checks counts by hand: 96 heads of 128 FP16 elements, and grouped queries.
func TestDense(t *testing.T) {
	d := NewDense(Shape{Layers: 96, QueryHeads: 96, KVHeads: 96, Dim: 128, ElementBits: 16})
	if got := d.Decode([]int{1000, 3}, 0, 7); len(got) != 1 || got[0].Device != Home || got[0].Heads != 96 || !slices.Equal(got[0].Tokens, []int{1000, 3}) {
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
