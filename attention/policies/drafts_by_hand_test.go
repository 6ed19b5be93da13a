package policies

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/input"
)

// TestPagesOfDraftsByHand: steps of three tokens of eight query heads on two KV heads. Pages are chosen from bounds of parts of 16 tokens, and the third token's
// context is 2,064, or 100, within the budget.
func TestPagesOfDraftsByHand(t *testing.T) {
	shape := policy.Shape{Layers: 1, QueryHeads: 8, KVHeads: 2, Dim: 64, ElementBits: 16, Verified: 3, Overlap: 0}
	requests := []policy.Request{{Prompt: 2000, Context: 2064}, {Prompt: 50, Context: 100}, {Prompt: 3000, Context: 3080}}
	for _, c := range []struct {
		reuse int
		group string
	}{{1, "sum"}, {1, "softmax-sum"}, {4, "max"}, {1, "per-head"}} {
		k := newKeys("lserve")
		k.Budget, k.Page, k.LogicalPage, k.Reuse, k.StaticSparsity, k.SelectGroup = 512, 64, 16, c.reuse, 0, c.group
		lists := listsOf(k)
		x := k.spec().Costs(shape).Decode(requests, 0)
		first, third := lists.together(2000, 2064, &shape), lists.together(3000, 3080, &shape)
		if want := []int{first.tokens, 100, third.tokens}; !slices.Equal(x.Attend[0].Tokens, want) || x.Attend[0].Heads != 2 || x.Attend[0].Page != 64 || x.Attend[0].PerQueryHead != (c.group == "per-head") {
			t.Errorf("%+v: %+v, by hand %v tokens", c, x.Attend[0], want)
		}
		// 129 and 193 parts are scored, 33 and 49 pages ranked; each token that makes a list chooses seven of them beside the newest.
		want := policy.Choice{Heads: 2, Scored: []int{129, 0, 193}, Ranked: []int{33, 0, 49}, Keep: 7, Lists: max(first.made, third.made), PerQueryHead: c.group == "per-head", PerQueryScores: c.group != "sum", Softmax: c.group == "softmax-sum"}
		if len(x.Choose) != 1 || !reflect.DeepEqual(x.Choose[0], want) || c.reuse == 1 && want.Lists != 3 {
			t.Errorf("%+v: chosen %+v, by hand %+v", c, x.Choose, want)
		}
		// For each of three tokens of three requests, a key is read and two bounds updated; for each list, each query head's scores are read
		// twice.
		var passes []policy.Pass
		if c.group == "softmax-sum" {
			passes = append(passes, policy.Pass{Device: policy.GPU, Kernels: 2, Bytes: 2 * 4 * (129 + 193) * 3 * 2 * 4})
		}
		passes = append(passes, policy.Pass{Device: policy.GPU, Bytes: 5 * 64 * 2 * 2 * 9})
		if !slices.Equal(x.Passes, passes) {
			t.Errorf("%+v: passes %+v, by hand %+v", c, x.Passes, passes)
		}
	}
	// Within the budget nothing is chosen, and no pages are read separately.
	k := newKeys("lserve")
	k.Budget, k.StaticSparsity = 4096, 0
	if x := k.spec().Costs(shape).Decode(requests, 0); len(x.Choose) != 0 || x.Attend[0].Page != 0 || !slices.Equal(x.Attend[0].Tokens, []int{2064, 100, 3080}) {
		t.Errorf("%+v", x)
	}
}

// TestListsOfAProfileByHand: in a profile, any query head of a group reads 1/8 of 2,064 tokens, in 5 of their rows of 512. Two lists of 17 pages of 16 tokens overlap by
// chance, in pages and rows.
func TestListsOfAProfileByHand(t *testing.T) {
	p := paged{Pages: Pages{Page: 16, Budget: 128}}
	for _, c := range []struct {
		context, lists int
		overlap        float64
		rows, read     int
		wantRows, want int
	}{
		{2064, 1, 0, 3, 258, 3, 258}, {2064, 2, 1, 3, 258, 3, 17 * 16}, {2064, 2, 0, 3, 258, 5, 32 * 16}, // 129 · (1 − (112/129)²) = 31.8, 5 · (1 − 0.16) = 4.2
		{2064, 3, 0, 5, 2064, 5, 2064}, {2050, 2, 0, 5, 2045, 5, 2050},
	} {
		rows, read := c.rows, c.read
		if p.join(c.context, c.lists, c.overlap, &rows, &read); rows != c.wantRows || read != c.want {
			t.Errorf("%+v: %d rows and %d tokens", c, rows, read)
		}
	}
	m := pagesProfile{&policy.ProfileMeasured{Contexts: []int{10, 100}}, []float64{1.5, 3}, []float64{0.5, 2}}
	for context, want := range map[int][2]int{11: {2, 6}, 101: {3, 101}} { // rounded up, at most all
		if rows, read := m.at(context); rows != want[0] || read != want[1] {
			t.Errorf("%d tokens: %d rows and %d tokens, by hand %v", context, rows, read, want)
		}
	}
	shape := policy.Shape{Layers: 1, QueryHeads: 2, KVHeads: 1, Dim: 64, ElementBits: 16, Verified: 2, Overlap: 0.5}
	profile := &policy.Profile{Model: policy.ProfileModel{Layers: 1, KVHeads: 1}, Measured: policy.ProfileMeasured{Prompt: 10, Last: 5000, Contexts: []int{11}}, Heads: []policy.ProfileHead{{Share: []float64{0.125}, Rows: []float64{3}}}}
	k := newKeys("quest")
	k.Budget, k.Page, k.SkipLayers = 128, 16, 0
	x := quest.Costs(&policy.Use{Keys: *keysOf[QuestSpec](k), Shape: shape, Profile: profile}).Decode([]policy.Request{{Prompt: 1000, Context: 2064}}, 0)
	rows, read := 3, 258
	p.join(2064, 2, 0.5, &rows, &read)
	if c := x.Attend[0]; !slices.Equal(c.Rows, []int{rows}) || !slices.Equal(c.Read, []int{read}) || read == 258 {
		t.Errorf("%+v, by hand %d rows and %d tokens", c, rows, read)
	}
}

// TestFlagsOfPolicies: which policies change results, attend at home to all tokens or to none, and count the drafts of a step.
func TestFlagsOfPolicies(t *testing.T) {
	for _, c := range []struct {
		name                   string
		lossy, inOrder, drafts bool
	}{
		{"dense", false, true, true}, {"window", false, false, true}, {"streaming", true, false, true}, {"h2o", true, false, true}, {"quest", true, false, true},
		{"lserve", true, false, true}, {"duo", true, true, true}, {"hgca", true, false, true}, {"csattention", true, false, true}, {"dsa", true, false, true},
	} {
		at := slices.IndexFunc(builtin, func(p policy.Policy) bool { return p.Name == c.name })
		if p := builtin[at]; p.Lossy != c.lossy || p.InOrder != c.inOrder || p.Drafts != c.drafts || p.Indexed != (c.name == "dsa") {
			t.Errorf("%s: lossy %t, in order %t, drafts %t", c.name, p.Lossy, p.InOrder, p.Drafts)
		}
	}
	if len(builtin) != 10 {
		t.Errorf("%d policies", len(builtin))
	}
}

// TestLimitsOfKeys: the smallest and largest values of each policy's numbers are valid; those just beyond are refused by their key.
func TestLimitsOfKeys(t *testing.T) {
	const most = "16777216"
	for _, c := range []struct{ policy, key, low, high, below, above string }{
		{"quest", "skip_layers", "0", "65536", "-1", "65537"}, {"lserve", "reuse", "1", "65536", "0", "65537"}, {"lserve", "logical_page", "1", "64", "0", "65537"},
		{"lserve", "static_sparsity", "0", "1", "-0.01", "1.01"}, {"duo", "static_sparsity", "0", "1", "-0.01", "1.01"}, {"duo", "sink", "0", most, "-1", "16777217"}, {"duo", "window", "1", most, "0", "16777217"},
		{"csattention", "subspaces", "1", "512", "0", "513"}, {"csattention", "centroids", "1", "65536", "0", "65537"}, {"csattention", "iterations", "0", "1000", "-1", "1001"},
		{"csattention", "table_share", "0", "1", "-0.01", "1.01"}, {"csattention", "select_share", "0", "1", "-0.01", "1.01"}, {"csattention", "recent_tokens", "1", most, "0", "16777217"},
		{"csattention", "period", "1", "65536", "0", "65537"}, {"csattention", "token_overlap", "0", "1", "-0.01", "1.01"}, {"csattention", "list_overlap", "0", "1", "-0.01", "1.01"},
		{"csattention", "mode", `"gpu"`, `"host"`, `"cpu"`, `""`}, {"csattention", "search", `"causal"`, `"lagged"`, `"any"`, `""`}, {"csattention", "weight", `"one"`, `"norm"`, `"two"`, `""`}, {"csattention", "select_group", `"mean"`, `"per-head"`, `"sum"`, `""`},
		{"hgca", "beta", "0", "1000000", "-0.01", "1000001"}, {"hgca", "alpha", "0", "1", "-0.01", "1.01"}, {"hgca", "prompt_queries", "1", most, "0", "16777217"},
		{"hgca", "pin_sinks", "0", most, "-1", "16777217"}, {"hgca", "share", "0", "1", "-0.01", "1.01"}, {"hgca", "window", "128", most, "127", "16777217"},
		{"window", "sink", "0", most, "-1", "16777217"}, {"h2o", "heavy", "0", "0.5", "-0.01", "1.01"}, {"h2o", "recent", "0", "0.5", "-0.01", "1.01"}, {"streaming", "prefill_window", "0", most, "-1", "16777217"},
	} {
		for value, fits := range map[string]bool{c.low: true, c.high: true, c.below: false, c.above: false} {
			s := New(c.policy)
			if err := specSchema(Builtin()).Set(&s, c.policy+"."+c.key, strings.Trim(value, `"`)); err != nil {
				t.Fatal(err)
			}
			err := input.Validate(&s)
			if (err == nil) != fits || err != nil && !strings.Contains(err.Error(), c.policy+".") {
				t.Errorf("%s.%s = %s: %v", c.policy, c.key, value, err)
			}
		}
	}
}

// TestGroupScoresByHand: four pages of one token and two query heads, which score the pages 0, 2, 1, 3 and 8, 4, 2, 0 (products with the first and
// the second element). One page is chosen beside the newest: by sum, maximum, softmax, or each head for itself.
func TestGroupScoresByHand(t *testing.T) {
	for group, want := range map[string][][2]int{"sum": {{0, 1}, {4, 5}}, "max": {{0, 1}, {4, 5}}, "per-head": {{3, 5}}, "softmax-sum": {{0, 1}, {4, 5}}} {
		s := newKeys("quest")
		s.Page, s.Budget, s.SelectGroup, s.SelectPrecision, s.SkipLayers = 1, 2, group, "fp32", 0
		p := newPageState(s.spec().Pages(), listsOf(s), policy.Shape{Layers: 1, QueryHeads: 2, KVHeads: 1, Dim: 2}, 6)
		p.Prompt(nil, []float32{0, 8, 2, 4, 1, 2, 3, 0}, nil)
		p.Append([]float32{0, 0}, nil)
		q := [][]float32{{1, 0}, {0, 1}}
		got := p.Select(q)
		if parts := len(got.Parts); parts != map[bool]int{true: 2, false: 1}[group == "per-head"] || !slices.Equal(got.Parts[0].Ranges, want) {
			t.Errorf("%s: %+v, by hand %v", group, got.Parts, want)
		}
		if group == "per-head" {
			if r := got.Parts[1].Ranges; !slices.Equal(r, [][2]int{{0, 1}, {4, 5}}) || !slices.Equal(got.Parts[1].Heads, []uint16{1}) || !slices.Equal(got.Parts[0].Heads, []uint16{0}) {
				t.Errorf("the second head %+v", got.Parts[1])
			}
			continue
		}
		scores := make([]float64, 4)
		p.groupScores(scores, q)
		soft := func(x, a, b, c, d float64) float64 {
			e := func(v float64) float64 { return math.Exp(v / math.Sqrt2) }
			return e(x) / (e(a) + e(b) + e(c) + e(d))
		}
		byHand := map[string][]float64{"sum": {8, 6, 3, 3}, "max": {8, 4, 2, 3}, "softmax-sum": {
			soft(0, 0, 2, 1, 3) + soft(8, 8, 4, 2, 0), soft(2, 0, 2, 1, 3) + soft(4, 8, 4, 2, 0), soft(1, 0, 2, 1, 3) + soft(2, 8, 4, 2, 0), soft(3, 0, 2, 1, 3) + soft(0, 8, 4, 2, 0),
		}}[group]
		for i := range scores {
			if math.Abs(scores[i]-byHand[i]) > 1e-6 {
				t.Errorf("%s: page %d has a score of %v, by hand %v", group, i, scores[i], byHand[i])
			}
		}
		// Scoring elsewhere uses a sixteenth of the query: this changes no order, and softmax undoes it.
		p.ScoreBy(func(scores []float64, split []float32) {
			for i := range scores {
				scores[i] = 0
				for j, b := range p.Bounds(i) {
					scores[i] += float64(split[j]) * float64(b)
				}
			}
		})
		p.groupScores(scores, q)
		for i := range scores {
			want := byHand[i]
			if group != "softmax-sum" {
				want /= 16
			}
			if math.Abs(scores[i]-want) > 1e-6 {
				t.Errorf("%s, elsewhere: page %d has a score of %v, by hand %v", group, i, scores[i], want)
			}
		}
	}
}

// TestBoundsOfPagesByHand: pages of four tokens in parts of two. A part's bounds are its largest and smallest elements; they bound the weight of dropped tokens:
// e^(score/√d) for each.
func TestBoundsOfPagesByHand(t *testing.T) {
	s := newKeys("lserve")
	s.Page, s.LogicalPage, s.Budget, s.Reuse, s.SelectPrecision = 4, 2, 4, 1, "fp32"
	of := listsOf(s)
	of.Least = 1
	p := newPageState(s.spec().Pages(), of, policy.Shape{Layers: 1, QueryHeads: 1, KVHeads: 1, Dim: 1}, 9)
	p.Prompt(nil, []float32{1, -3, 2, 5, 0, 4, -1, -2}, nil)
	if b := p.Bounds(1); !slices.Equal(b, []float32{5, 2}) || !slices.Equal(p.Bounds(0), []float32{1, -3}) || !slices.Equal(p.Bounds(3), []float32{-1, -2}) || p.Bounded() != 4 || p.LogicalTokens() != 2 || p.PageTokens() != 4 {
		t.Errorf("%v, %d full parts", b, p.Bounded())
	}
	p.Append([]float32{7}, nil) // nine tokens in three pages, the newest of one
	if p.Bounded() != 4 {
		t.Errorf("%d full parts of nine tokens", p.Bounded())
	}
	e := math.Exp
	for _, c := range []struct {
		ranges [][2]int
		want   float64
	}{
		{[][2]int{{8, 9}}, 2*e(2-1) + 2*e(10-1) + 2*e(8-1) + 2*e(-2-1)}, {[][2]int{{4, 9}}, 2*e(2-1) + 2*e(10-1)}, {[][2]int{{0, 4}, {8, 9}}, 2*e(8-1) + 2*e(-2-1)},
		{[][2]int{{0, 9}}, 0}, {[][2]int{{0, 8}}, e(14 - 1)}, {nil, 2*e(2-1) + 2*e(10-1) + 2*e(8-1) + 2*e(-2-1) + e(14-1)},
	} {
		if got := p.DroppedBound([]float32{2}, &policy.Part{Ranges: c.ranges}, 1); math.Abs(got-c.want) > 1e-9*(1+c.want) {
			t.Errorf("%v: at most %v is dropped, by hand %v", c.ranges, got, c.want)
		}
	}
	// A list from an earlier step contains that step's newest page. With replace, the page begun since takes its place, beyond the
	// budget.
	p.pages.Replace = true
	l := &pageList{chosen: []int32{0}, newest: 1}
	if got := p.ranges(l, nil); !slices.Equal(got, [][2]int{{0, 4}, {8, 9}}) {
		t.Errorf("with the newest page in place of the list's %v", got)
	}
	p.pages.Replace = false
	if got := p.ranges(l, nil); !slices.Equal(got, [][2]int{{0, 9}}) {
		t.Errorf("with the pages since %v", got)
	}
	p.pages.Replace, p.pages.Budget = true, 9
	if got := p.ranges(l, nil); !slices.Equal(got, [][2]int{{0, 9}}) {
		t.Errorf("within the budget %v", got)
	}
}

// TestSalienceOfHeadsByHand: three KV heads of four query heads each attend to 1/4, 1/2 and 1 of 8 tokens at home: 14 of 24, on average 5 each (rounded up). A step of two tokens writes weights
// of both and two averages, for each token on the GPUs and each query head. Leaving tokens carry the salience of each query head of a group.
func TestSalienceOfHeadsByHand(t *testing.T) {
	k := newKeys("hgca")
	k.Window, k.Block, k.KeepAll = 10, 4, true
	p := &policy.Profile{Model: policy.ProfileModel{Layers: 1, KVHeads: 3}, Measured: policy.ProfileMeasured{Prompt: 12, Last: 30, Contexts: []int{13}},
		Heads: []policy.ProfileHead{{Share: []float64{0.25}}, {Share: []float64{0.5}}, {Share: []float64{1}}}}
	c := hgca.Costs(&policy.Use{Keys: *keysOf[HGCASpec](k), Shape: policy.Shape{Layers: 1, QueryHeads: 12, KVHeads: 3, Dim: 8, ElementBits: 16, Verified: 2}, Profile: p})
	x := c.Decode([]policy.Request{{Prompt: 12, Context: 18}, {Prompt: 12, Context: 18}}, 0) // 16 before the step: 8 at home
	away := 18 - x.Attend[0].Tokens[0]
	if home := x.Attend[1]; away != 8 || !slices.Equal(home.Tokens, []int{5, 5}) || !slices.Equal(home.PerHead, []int{2, 4, 8, 2, 4, 8}) || home.Longest != 8 || !home.Whole || home.Heads != 3 || x.Merged != 2 {
		t.Errorf("%+v with %d at home", home, away)
	}
	if want := int64(4 * 4 * 20 * 12); len(x.Passes) != 1 || x.Passes[0].Bytes != want {
		t.Errorf("passes %+v, by hand %d B", x.Passes, want)
	}
	for _, l := range x.Leave {
		if l.Notes != 4*4 || l.Heads != 3 {
			t.Errorf("%+v leaves, by hand with four numbers of four bytes", l)
		}
	}
	if v := c.Vectors(); v.Sums != 4*12 || v.New != 0 {
		t.Errorf("vectors %+v", v)
	}
	prompt := c.Prompt(0, 6, 14, true) // 20 tokens, of which 10 in the window and 8 or 12 at home
	if prompt.Away == 0 || len(prompt.Leave) != 2 || prompt.Leave[0].Notes != 16 || !prompt.Leave[1].Copies {
		t.Errorf("%+v", prompt)
	}
	// For each of the last 20 queries, kernels read a score and an average, and write an average, for each token and query head, in four
	// bytes each.
	pairs := int64(20 * 20 * 12)
	if p := prompt.Passes; len(p) != 1 || p[0].Kernels != 2 || p[0].Bytes != 3*4*pairs || p[0].FLOPs != 2*8*pairs {
		t.Errorf("passes %+v, by hand %d B", p, 3*4*pairs)
	}
}

// TestH2OOfDraftsByHand: with budgets of 10% and 10%, prompts of 200 tokens keep 40. A step that verifies three tokens attends to these and its own three; it reads weights of all three and updates sums,
// for eight query heads. Two drafts have memory of their own.
func TestH2OOfDraftsByHand(t *testing.T) {
	k := newKeys("h2o")
	k.Heavy, k.Recent = 0.1, 0.1
	shape := policy.Shape{Layers: 1, QueryHeads: 8, KVHeads: 2, Dim: 64, ElementBits: 16, Verified: 3}
	c := k.spec().Costs(shape)
	x := c.Decode([]policy.Request{{Prompt: 200, Context: 203}, {Prompt: 200, Context: 900}, {Prompt: 10, Context: 14}}, 0)
	if want := []int{43, 43, 5}; !slices.Equal(x.Attend[0].Tokens, want) || !x.Attend[0].Weights {
		t.Errorf("%+v, by hand %v", x.Attend[0], want)
	}
	if want := int64(6 * 4 * (43 + 43 + 5) * 8); x.Passes[0].Bytes != want || x.Passes[0].Kernels != 2 {
		t.Errorf("%+v, by hand %d B", x.Passes[0], want)
	}
	held, _ := c.Memory(0)
	share := policy.Held{Device: policy.Home, Heads: 2, Bytes: 256, OfPrompt: true, Skip: -1, Share: k.Heavy + k.Recent}
	sums := share
	sums.Bytes, sums.Index = 4*4, true
	want := []policy.Held{share, sums, {Device: policy.Home, Heads: 2, Bytes: 256, Most: 2}, {Device: policy.Home, Heads: 2, Bytes: 16, Index: true, Most: 2}}
	if !reflect.DeepEqual(held, want) {
		t.Errorf("%+v, by hand %+v", held, want)
	}
	shape.Verified = 1
	if held, _ := k.spec().Costs(shape).Memory(0); len(held) != 2 {
		t.Errorf("without drafts %+v", held)
	}
}
