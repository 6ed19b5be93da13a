package policies

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/attention/policy"
)

// TestSearchesOfDraftsByHand: steps of three tokens, the first at 1,101 after a prompt of 1,000. A search takes 50 of 1,097 tokens, in 2 of 20 lists of 250
// entries; 4 tokens are recent, and 2 more in all. Searches without anything in common find 1,097 · (1 − (1047/1097)³) = 143.3 tokens in 20 · (1 − 0.9³) = 5.4 lists, two of them
// 97.7 tokens in 3.8 lists.
func TestSearchesOfDraftsByHand(t *testing.T) {
	for _, c := range []struct {
		mode, search            string
		period                  int
		overlap                 float64
		searches, lists         int
		attended, fetched, most int // of a query head, of a KV head, searches of a choice
	}{
		{"gpu", "causal", 1, 1, 3, 2, 56, 0, 3},
		{"gpu", "causal", 1, 0, 3, 6, 150, 0, 3},
		{"gpu", "causal", 2, 0, 2, 4, 104, 0, 2},    // the first and third token search, the second uses the first's list
		{"gpu", "causal", 3, 0, 1, 2, 104, 0, 1},    // the third searches, the others use the list of 1100
		{"gpu", "causal", 4, 0, 1, 2, 56, 0, 1},     // the first one's list is for all
		{"gpu", "causal", 8, 0, 0, 0, 56, 0, 0},     // all use the list of 1097
		{"gpu", "lagged", 1, 0, 1, 2, 56, 0, 1},     // with the last accepted token's query
		{"host", "causal", 1, 0, 3, 6, 150, 294, 0}, // two query heads find twice 144 tokens
		{"host", "causal", 1, 1, 3, 2, 56, 106, 0},
		{"host", "lagged", 1, 0, 3, 6, 56, 294, 0}, // one of the three becomes the next step's previous token
		{"host", "lagged", 3, 0, 3, 6, 56, 294, 0},
		{"host", "lagged", 8, 0, 0, 0, 56, 106, 0},
	} {
		k := newKeys("csattention")
		k.Subspaces, k.Centroids, k.SelectShare, k.RecentTokens, k.SelectGroup = 2, 10, 0.05, 4, "per-head"
		k.Mode, k.Search, k.Period, k.TokenOverlap, k.ListOverlap = c.mode, c.search, c.period, c.overlap, c.overlap
		p := k.spec().Costs(policy.Shape{Layers: 1, QueryHeads: 2, KVHeads: 1, Dim: 8, ElementBits: 16, Apart: c.mode == "host", Verified: 3})
		x := p.Decode([]policy.Request{{Prompt: 1000, Context: 1103, Accepted: 1}}, 0)
		if got := x.Attend[0].Tokens[0]; got != c.attended {
			t.Errorf("%+v: %d tokens are attended to", c, got)
		}
		if c.mode == "host" && x.Fetched[0] != c.fetched {
			t.Errorf("%+v: %d tokens come up", c, x.Fetched[0])
		}
		var got sum
		for _, s := range add(map[policy.Device]sum{}, x.Passes) {
			got = s
		}
		// A product with 10 centroids of 8 elements for each search of a query head, and for two new keys.
		want := sum{kernels: 1, flops: int64(2 * 10 * 8 * (2*c.searches + 2)), bytes: 10*8*2 + 2*10*6}
		switch {
		case c.mode == "host": // 250 entries of 6 bytes, each added to a sum of each search; fetched tokens are copied
			want.bytes += int64(2*250*6*c.lists + 2*32*c.fetched)
			want.elements = int64(2 * c.searches * (2*250 + 3*1103))
		case c.searches > 0:
			want.kernels = 3
			want.bytes += int64(2*250*6*c.lists + 2*c.searches*(2*250*8+4*1103))
		}
		if got != want {
			t.Errorf("%+v: %+v passes over, want %+v", c, got, want)
		}
		if most := 0; len(x.Choose) > 0 {
			if most = x.Choose[0].Lists; most != c.most || x.Choose[0].Ranked[0] != 1103 || x.Choose[0].Keep != 50 {
				t.Errorf("%+v: a choice %+v", c, x.Choose[0])
			}
		} else if c.most > 0 {
			t.Errorf("%+v: nothing is chosen", c)
		}
	}
}

// TestFoundOfDrafts: searches of three tokens find tokens before the first one's recent tokens. The GPUs have room for the results of
// lagged searches: a sixteenth of the prompt for each, plus 4 recent tokens of the first and 2 more.
func TestFoundOfDrafts(t *testing.T) {
	tables := CSATables{Selected: 50, Recent: 4}
	for context, want := range map[int]int{60: 54, 56: 50, 40: 34, 6: 0, 3: 0} { // 54 · (1 − (4/54)³) = 53.98
		if found, attended := tables.found(context, 2, 3, 0), tables.attended(context, 2, 3, 0); found != want || attended != min(context, want+6) {
			t.Errorf("context %d: %d tokens are found of %d", context, found, attended)
		}
	}
	k := newKeys("csattention")
	k.SelectShare, k.RecentTokens, k.Mode, k.Search, k.TokenOverlap = 1./16, 4, "host", "lagged", 0
	held, _ := k.spec().Costs(policy.Shape{Layers: 1, QueryHeads: 1, KVHeads: 1, Dim: 8, ElementBits: 16, Apart: true, Verified: 3}).Memory(0)
	if found, recent := held[3].Tokens(1600, 1703), held[4].Tokens(1600, 1703); found != 300 || recent != 6 {
		t.Errorf("%d found and %d recent tokens are held", found, recent)
	}
}

// drawSearches draws settings of CSAttention and a model's shape for them.
func drawSearches(t *rapid.T) (*keys, policy.Shape) {
	k, shape := drawSpecOf(t, "csattention"), drawShape(t)
	shape.Apart = rapid.Bool().Draw(t, "apart")
	if k.Mode = "gpu"; shape.Apart {
		k.Mode = "host"
	}
	k.Search = rapid.SampledFrom([]string{"causal", "lagged"}).Draw(t, "search")
	k.TokenOverlap, k.ListOverlap = rapid.Float64Range(0, 1).Draw(t, "tokens' overlap"), rapid.Float64Range(0, 1).Draw(t, "lists' overlap")
	return k, shape
}

// costsOf returns the costs of a step of one request as a vector.
func costsOf(x *policy.Step) (all []int64) {
	all = append(all, x.Attend[0].All())
	for _, n := range x.Fetched {
		all = append(all, int64(n))
	}
	var passes sum
	for _, p := range x.Passes {
		passes = sum{0, passes.bytes + p.Bytes, passes.flops + p.FLOPs, passes.elements + p.Elements}
	}
	all = append(all, passes.bytes, passes.flops, passes.elements)
	ranked := int64(0)
	for i := range x.Choose {
		ranked += int64(x.Choose[i].Times() * x.Choose[i].Ranked[0])
	}
	return append(all, ranked)
}

// TestSearchesOfDrafts: a step of k tokens costs at least as much as a step of its last token alone, and at most k times that. It costs at
// least as much as a step of k − 1 tokens, and no more if its searches are more alike.
func TestSearchesOfDrafts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec, shape := drawSearches(t)
		spec.Period = 1
		verified := rapid.IntRange(1, 9).Draw(t, "verified")
		prompt := rapid.IntRange(1, 4000).Draw(t, "prompt")
		context := prompt + verified + rapid.IntRange(0, 3000).Draw(t, "decoded")
		step := func(of *keys, verified, accepted int) []int64 {
			shape := shape
			shape.Verified = verified
			return costsOf(of.spec().Costs(shape).Decode([]policy.Request{{Prompt: prompt, Context: context, Accepted: accepted}}, 0))
		}
		accepted := rapid.IntRange(0, verified-1).Draw(t, "accepted")
		one, got := step(spec, 1, 0), step(spec, verified, accepted)
		fewer := one
		if verified > 1 {
			fewer = step(spec, verified-1, min(accepted, verified-2))
		}
		alike := *spec
		alike.TokenOverlap = rapid.Float64Range(spec.TokenOverlap, 1).Draw(t, "more of tokens")
		alike.ListOverlap = rapid.Float64Range(spec.ListOverlap, 1).Draw(t, "more of lists")
		less := step(&alike, verified, accepted)
		for i := range got {
			if got[i] < one[i] || got[i] > int64(verified)*one[i] || got[i] < fewer[i] || got[i] < less[i] {
				t.Fatalf("%+v: %d tokens take %v, one %v, one fewer %v, more alike %v", *spec, verified, got, one, fewer, less)
			}
		}
	})
}

// TestSearchesByToken counts, token by token, which tokens of a step search and how many lists they have.
func TestSearchesByToken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec, shape := drawSearches(t)
		shape.Verified = rapid.IntRange(1, 9).Draw(t, "verified")
		c := spec.spec().Costs(shape).(*csaCost)
		r := policy.Request{Prompt: rapid.IntRange(1, 100).Draw(t, "prompt")}
		r.Context = r.Prompt + shape.Verified + rapid.IntRange(0, 60).Draw(t, "decoded")
		made, lists := 0, map[int]bool{}
		for context := r.Context - shape.Verified + 1; context <= r.Context; context++ {
			search := context - (context-r.Prompt-1)%spec.Period
			if lists[search] = true; search == context {
				made++
			}
		}
		want := csaStep{len(lists), made, len(lists)}
		if spec.Search == "lagged" {
			want = csaStep{1, min(made, 1), 1}
			if c.host && made > 0 {
				want = csaStep{1, shape.Verified, shape.Verified}
			}
		}
		if got := c.together(&r); got != want {
			t.Fatalf("%+v of %+v: %+v, want %+v", *spec, r, got, want)
		}
	})
}

// TestKeysTriedOnce: whatever drafts are accepted, the key of each accepted token is compared with the lists once, and those of rejected
// drafts never.
func TestKeysTriedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec, shape := drawSearches(t)
		spec.Period, spec.Search = 1<<16, "causal"
		shape.Verified = rapid.IntRange(1, 5).Draw(t, "verified")
		p := spec.spec().Costs(shape)
		prompt := rapid.IntRange(1, 500).Draw(t, "prompt")
		centroids := min(spec.Centroids, prompt*shape.Group())
		want, got := 0, int64(0)
		for tokens := prompt + 1; tokens < prompt+60; { // after the step that searches
			accepted := rapid.IntRange(0, shape.Ahead()).Draw(t, "accepted")
			x := p.Decode([]policy.Request{{Prompt: prompt, Context: tokens + shape.Verified, Accepted: accepted}}, 0)
			for _, pass := range x.Passes {
				got += pass.FLOPs
			}
			tokens, want = tokens+1+accepted, want+1+accepted
		}
		if each := int64(2 * centroids * shape.Dim * shape.KVHeads); got != each*int64(want) {
			t.Fatalf("%+v: %d keys are tried, %d tokens stay", *spec, got/each, want)
		}
	})
}

// TestFoundIsHeld: the GPUs hold the tokens that lagged searches of several tokens find.
func TestFoundIsHeld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec, shape := drawSearches(t)
		spec.Mode, spec.Search, shape.Apart = "host", "lagged", true
		shape.Verified = rapid.IntRange(1, 9).Draw(t, "verified")
		spec.SelectShare = rapid.SampledFrom([]float64{0.01, 0.05, 0.4, 1}).Draw(t, "share")
		prompt := rapid.IntRange(100, 5000).Draw(t, "prompt")
		p := spec.spec().Costs(shape)
		context := prompt + shape.Verified + rapid.IntRange(0, 500).Draw(t, "decoded")
		fetched, held := p.Decode([]policy.Request{{Prompt: prompt, Context: context}}, 0).Fetched[0], 0
		decoding, _ := p.Memory(0)
		for _, h := range decoding {
			if h.Device == policy.GPU {
				held += h.Tokens(prompt, context)
			}
		}
		if decoded := context - prompt; held < fetched-decoded { // shares are at most the whole prompt
			t.Fatalf("%+v: %d tokens come up of %d after a prompt of %d, %d are held", *spec, fetched, context, prompt, held)
		}
	})
}

// TestUnionTimes: a union has at most as many pages as its limit, and reaches it if there are many more pages than one choice has.
func TestUnionTimes(t *testing.T) {
	for _, c := range []struct {
		choices int
		overlap float64
		want    float64
	}{{1, 0.3, 1}, {4, 0, 4}, {4, 1, 1}, {2, 0.6, 1.4}, {3, 0.5, 1 + 0.5 + 1./3}} {
		if got := unionTimes(c.choices, c.overlap); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%+v: %v", c, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		chosen, k, overlap := rapid.IntRange(1, 500).Draw(t, "chosen"), rapid.IntRange(1, 20).Draw(t, "choices"), rapid.Float64Range(0, 1).Draw(t, "overlap")
		all := chosen + rapid.IntRange(0, 5000).Draw(t, "others")
		limit := float64(chosen) * unionTimes(k, overlap)
		if got := unionOf(chosen, all, k, overlap); float64(got) >= limit+1 {
			t.Fatalf("%d choices of %d of %d pages have %d, %v at most", k, chosen, all, got, limit)
		}
		if got := unionOf(chosen, 1<<40, k, overlap); math.Abs(float64(got)-limit) > 2 {
			t.Fatalf("%d choices of %d pages have %d, want %v", k, chosen, got, limit)
		}
	})
}
