package policy

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// TestShapeByHand: bytes of vectors and of a token's key and value.
func TestShapeByHand(t *testing.T) {
	s := Shape{QueryHeads: 8, KVHeads: 2, Dim: 6, ElementBits: 16}
	if got := [...]int64{s.Elements(3), s.Token(), int64(s.Group()), int64(s.Ahead())}; got != [...]int64{6, 24, 4, 0} {
		t.Errorf("%v", got)
	}
	if got, want := s.Vectors(), (Vectors{Queries: 96, New: 48, Results: 96}); got != want { // 8·6·2 B, 2 heads of 2·6·2 B
		t.Errorf("%+v, want %+v", got, want)
	}
	s = Shape{QueryHeads: 8, KVHeads: 2, Dim: 7, ElementBits: 12, KVBits: 4, KVScaleBytes: 2, Verified: 5}
	// 36 bits in 5 B; a key of 28 bits in 4 B and its scale of 2 B, and as much for the value.
	if got := [...]int64{s.Elements(3), s.Token(), int64(s.Ahead())}; got != [...]int64{5, 12, 4} {
		t.Errorf("%v", got)
	}
	if got, want := s.Vectors(), (Vectors{Queries: 84, New: 24, Results: 84}); got != want { // 56 · 12 bits
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestCountsByHand: tokens of classes, lists of choices, and held tokens.
func TestCountsByHand(t *testing.T) {
	for want, c := range map[int64]Class{0: {Heads: 9}, 30: {Heads: 3, Tokens: []int{4, 6}}, 12: {Heads: 3, Tokens: []int{4}, PerHead: []int{3, 4, 5}}} {
		if got := c.All(); got != want {
			t.Errorf("%+v: %d tokens", c, got)
		}
	}
	for lists, want := range map[int]int{0: 1, 1: 1, 3: 3} {
		if got := (&Choice{Lists: lists}).Times(); got != want {
			t.Errorf("%d lists: %d", lists, got)
		}
	}
	for _, c := range []struct {
		held Held
		want int // of 100 tokens; the prompt has 70
	}{
		{Held{}, 100}, {Held{OfPrompt: true}, 70}, {Held{AfterPrompt: true}, 30}, {Held{Skip: 8}, 92}, {Held{Skip: -8}, 108}, {Held{OfPrompt: true, Skip: 71}, 0},
		{Held{Share: 0.25}, 25}, {Held{Share: 0.25, Skip: 1}, 25}, {Held{Share: 0.25, Skip: 4}, 24}, {Held{Most: 40}, 40}, {Held{Most: 140}, 100}, {Held{Share: 0.5, Most: 40, AfterPrompt: true}, 15},
	} {
		if got := c.held.Tokens(70, 100); got != c.want {
			t.Errorf("%+v: %d tokens, by hand %d", c.held, got, c.want)
		}
	}
	for _, c := range []struct {
		share    float64
		of, want int
	}{{0, 9, 0}, {0.1, 10, 1}, {0.1, 11, 2}, {1, 7, 7}} {
		if got := ShareOf(c.share, c.of); got != c.want {
			t.Errorf("%v of %d: %d", c.share, c.of, got)
		}
	}
	part := Part{Heads: []uint16{1, 3}, Ranges: [][2]int{{2, 5}, {9, 10}}}
	if part.Tokens() != 4 || part.For(0) || !part.For(1) || part.For(2) || !part.For(3) || !(&Part{}).For(7) || (&Part{Heads: []uint16{}}).For(0) {
		t.Errorf("%+v: %d tokens", part, part.Tokens())
	}
	for _, c := range []struct {
		homes, at Homes
		want      bool
	}{{OnGPUs, OnGPUs, true}, {OnGPUs | OnHost, OnHost, true}, {OnGPUs, InHBM, false}, {AnyHome, 0, true}, {OnGPUs, 0, false}} {
		if c.homes.At(c.at) != c.want {
			t.Errorf("%+v", c)
		}
	}
}

// TestBucketByHand: the bucket of a context, or the nearest one.
func TestBucketByHand(t *testing.T) {
	m := ProfileMeasured{Contexts: []int{5, 9, 20}}
	for context, want := range map[int]int{1: 0, 5: 0, 8: 0, 9: 1, 19: 1, 20: 2, 1000: 2} {
		if got := m.Bucket(context); got != want {
			t.Errorf("context %d: bucket %d, want %d", context, got, want)
		}
	}
}

// TestVerifyByHand: each promise, at its limit and beyond. Requests have contexts of at least 2 tokens; prompts have 2
// heads.
func TestVerifyByHand(t *testing.T) {
	shape := Shape{Layers: 4, QueryHeads: 4, KVHeads: 2}
	first := func(x *Step) *Class { return &x.Attend[0] }
	for want, e := range map[string]*everything{
		"":                                      {},
		" ":                                     {runs: []int{1, 3}},
		"Runs have 5 layers, the model has 4":   {runs: []int{1, 4}},
		"class 0 is on device 2":                {step: func(x *Step) { first(x).Device = 2 }},
		"class 0 has -1 heads":                  {step: func(x *Step) { first(x).Heads = -1 }},
		"has Tokens of 2 requests, expected 1":  {step: func(x *Step) { first(x).Tokens = append(first(x).Tokens, 1) }},
		"has PerHead of 1 heads, expected 2":    {step: func(x *Step) { first(x).PerHead = []int{1} }},
		"  ":                                    {step: func(x *Step) { first(x).PerHead = make([]int, 2*len(first(x).Tokens)) }},
		"attends to 3 tokens of a context of 2": {step: func(x *Step) { first(x).Tokens[0]++ }},
		"attends to -1 tokens":                  {step: func(x *Step) { first(x).Tokens[0] = -1 }},
		"classes have 3 heads at home and 0 on the GPUs of 2": {step: func(x *Step) { first(x).Heads = 3 }},
		"classes have 0 heads at home and 3 on the GPUs of 2": {step: func(x *Step) { first(x).Heads, first(x).Device = 3, GPU }},
		"classes have 1 heads at home and 0 on the GPUs of 2": {step: func(x *Step) { first(x).Heads = 1 }},
		"   ":  {step: func(x *Step) { first(x).Device = GPU }},
		"    ": {step: func(x *Step) { fill(x, 1) }}, // a token of each head
		"all heads attend to 0 tokens, expected 2 (each step's own) to 4 (the context)": {step: func(x *Step) { fill(x, 0) }},
		"all heads attend to 8 tokens, expected 2":                                      {step: func(x *Step) { c := *first(x); c.Device = GPU; x.Attend = append(x.Attend, c) }},
		"     ": {step: func(x *Step) {
			fill(x, 1)
			c := *first(x)
			c.Device = GPU
			x.Attend, x.Merged = append(x.Attend, c), len(c.Tokens)
		}},
		"2 requests are merged of 1":  {step: func(x *Step) { x.Merged = 1 + len(first(x).Tokens) }},
		"-1 requests are merged of 1": {step: func(x *Step) { x.Merged = -1 }},
		"Decode of [{1 2 0} {16 17 0} {16 40 0} {700 701 0} {700 1000 0} {5000 5001 0} {5000 7000 0} {20000 20100 0}] in run 0": {step: func(x *Step) {
			if len(first(x).Tokens) > 1 {
				x.Merged = 9
			}
		}},
		"Prompt of 1 tokens after 0 in run 0 of layers: pieces have 0 tokens of heads, expected at least 1 of each of 2": {prompt: func(p *Prompt) { p.Pieces = nil }},
		"      ":               {prompt: func(p *Prompt) { p.Pieces = append(p.Pieces, Piece{}) }},
		"piece 0 is {Heads:-1": {prompt: func(p *Prompt) { p.Pieces[0].Heads = -1 }}, "piece 0 is {Heads:2 Count:-1": {prompt: func(p *Prompt) { p.Pieces[0].Count = -1 }},
		"Tokens:-1 ": {prompt: func(p *Prompt) { p.Pieces[0].Tokens = -1 }}, "Behind:-1}": {prompt: func(p *Prompt) { p.Pieces[0].Behind = -1 }},
		"       ":   {prompt: func(p *Prompt) { p.Pieces[0].Behind += p.Pieces[0].Tokens }},
		"Behind:2}": {prompt: func(p *Prompt) { p.Pieces[0].Behind += p.Pieces[0].Tokens + 1 }},
		"        ": {prompt: func(p *Prompt) { // one head's token at a time: the same total
			n := p.Pieces[0].Tokens
			p.Pieces = []Piece{{1, n, 1, 0}, {1, 1, n, 0}}
		}},
		"pieces have 1 tokens": {prompt: func(p *Prompt) { p.Pieces[0].Heads = 1 }},
	} {
		e.shape = shape
		err, want := Verify("mine", e, shape), strings.TrimSpace(want)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), `policy "mine": `)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// fill makes each request attend to so many tokens.
func fill(x *Step, tokens int) {
	for i := range x.Attend[0].Tokens {
		x.Attend[0].Tokens[i] = tokens
	}
}

// TestAttendByHand: scores of ln 1 to ln 6 weigh tokens 1:2:…:6. Head 0 attends to five of them at home and to the last on the GPUs.
func TestAttendByHand(t *testing.T) {
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-6 }
	scores, v := make([]float64, 8), make([]float32, 16)
	for i := range scores {
		scores[i] = math.Log(float64(i + 1))
		v[2*i], v[2*i+1] = float32(i+1), 1
	}
	sel := &Selection{Parts: []Part{
		{Device: Home, Heads: []uint16{0}, Ranges: [][2]int{{0, 5}}}, {Device: GPU, Ranges: [][2]int{{5, 6}}}, {Device: GPU, Heads: []uint16{1}, Ranges: [][2]int{{7, 8}}}, {Device: Home},
	}}
	for _, c := range []struct {
		head    int
		sum     float64   // of exponentials
		mean    float64   // of the tokens' numbers
		weights []float32 // of each part
	}{
		{0, 21, 91. / 21, []float32{1. / 15, 2. / 15, 3. / 15, 4. / 15, 5. / 15, 1}}, {1, 14, 100. / 14, []float32{1, 1}}, {2, 6, 6, []float32{1}},
	} {
		out := []float64{99, 99}
		lse, weights := NewAttender(8, 2).Attend(out, sel, c.head, scores, v)
		if !near(lse, math.Log(c.sum)) || !near(out[0], c.mean) || !near(out[1], 1) || !slices.EqualFunc(weights, c.weights, func(a, b float32) bool { return near(float64(a), float64(b)) }) {
			t.Errorf("head %d: %v, %v of sum %v; by hand %+v", c.head, out, weights, math.Exp(lse), c)
		}
	}
	if lse, weights := NewAttender(8, 2).Attend([]float64{1, 1}, &Selection{}, 0, scores, v); !math.IsInf(lse, -1) || len(weights) != 0 {
		t.Errorf("nothing: %v, %v", lse, weights)
	}
	// Scores are q·k/√d of the ranges' tokens alone.
	got := []float64{-1, -1, -1}
	Scores(got, []float32{1, 2, 3, 4}, []float32{1, 0, 0, 0, 0, 1, 0, 0, 1, 1, 1, 1}, [][2]int{{0, 1}, {2, 3}})
	if !slices.Equal(got, []float64{0.5, -1, 5}) {
		t.Errorf("scores %v", got)
	}
}

// TestMergeByHand: sums of 2 and 6 with results of 1 and 5 give 4, of 8.
func TestMergeByHand(t *testing.T) {
	for _, shift := range []float64{0, 1000, -1000} {
		out := []float64{1}
		if lse := Merge(out, shift+math.Log(2), []float64{5}, shift+math.Log(6)); math.Abs(lse-shift-math.Log(8)) > 1e-9 || math.Abs(out[0]-4) > 1e-9 {
			t.Errorf("%v, %v", out, lse-shift)
		}
	}
	out := []float64{7}
	if lse := Merge(out, math.Inf(-1), []float64{5}, 3); lse != 3 || out[0] != 5 {
		t.Errorf("%v, %v", out, lse)
	}
	if lse := Merge(out, math.Inf(-1), []float64{5}, math.Inf(-1)); !math.IsInf(lse, -1) {
		t.Errorf("%v", lse)
	}
}

// TestTopByHand: the best scores in order of position; among equals, the first.
func TestTopByHand(t *testing.T) {
	scores := []float64{3, 1, 4, 1, 5, 4, 2, 4}
	scratch := make([]float64, 8)
	for k, want := range [][]int32{{}, {4}, {2, 4}, {2, 4, 5}, {2, 4, 5, 7}, {0, 2, 4, 5, 7}, {0, 2, 4, 5, 6, 7}, {0, 1, 2, 4, 5, 6, 7}, {0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 2, 3, 4, 5, 6, 7}} {
		if got := AppendTop([]int32{9}, scores, k, scratch); got[0] != 9 || !slices.Equal(got[1:], want) {
			t.Errorf("the best %d: %v, want %v", k, got, want)
		}
	}
	for k, want := range map[int][2]float64{1: {5, 1}, 2: {4, 1}, 3: {4, 2}, 4: {4, 3}, 5: {3, 1}, 6: {2, 1}, 7: {1, 1}, 8: {1, 2}} {
		if cut, ties := Cut(scores, k, scratch); cut != want[0] || ties != int(want[1]) {
			t.Errorf("%d: %v, %d", k, cut, ties)
		}
	}
	for want, c := range map[string][]int32{"": nil, "[3 4]": {3}, "[3 6] [8 9] [10 12]": {3, 4, 5, 8, 10, 11}} {
		text := []string{}
		for _, r := range AppendRanges(nil, c) {
			text = append(text, fmt.Sprint(r))
		}
		if got := strings.Join(text, " "); got != want {
			t.Errorf("%v: %s", c, got)
		}
	}
}

// TestPromptWeightsByHand: keys are one-hot, so query i scores token j with q[j]/√4. Scores of ln(j + 1) weigh tokens 1:2:3.
func TestPromptWeightsByHand(t *testing.T) {
	k := make([]float32, 12)
	q := [][]float32{make([]float32, 12), make([]float32, 12)}
	for i := range 3 {
		k[4*i+i] = 1
		for j := range 3 {
			q[0][4*i+j] = float32(2 * math.Log(float64(j+1)))
		}
	}
	var got [][]float32
	var tokens []int
	PromptWeights(q, k, 4, 1, func(token int, weights []float32) {
		tokens, got = append(tokens, token), append(got, slices.Clone(weights))
	})
	want := [][]float32{{1. / 3, 2. / 3}, {1. / 2, 1. / 2}, {1. / 6, 2. / 6, 3. / 6}, {1. / 3, 1. / 3, 1. / 3}}
	if !slices.Equal(tokens, []int{1, 1, 2, 2}) {
		t.Errorf("%v", tokens)
	}
	for i := range want {
		if !slices.EqualFunc(got[i], want[i], func(a, b float32) bool { return math.Abs(float64(a-b)) < 1e-6 }) {
			t.Errorf("%v, want %v", got[i], want[i])
		}
	}
	x := []float64{2 * math.Log(3), 2 * math.Log(5)}
	if lse := Softmax(x, 0.5); math.Abs(lse-math.Log(8)) > 1e-12 || math.Abs(x[0]-3./8) > 1e-12 || math.Abs(x[1]-5./8) > 1e-12 {
		t.Errorf("%v, %v", x, lse)
	}
}
