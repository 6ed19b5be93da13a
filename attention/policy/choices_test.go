package policy

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/input"
)

// choicesOf returns the choices of heads after a prompt.
func choicesOf(prompt int, heads ...[][][2]int) *Choices {
	p := &Profile{Measured: ProfileMeasured{Prompt: prompt}, Heads: []ProfileHead{{}}}
	for _, steps := range heads {
		p.Heads = append(p.Heads, ProfileHead{Chosen: steps})
	}
	return p.Choices()
}

// tokensOf returns single tokens as ranges.
func tokensOf(tokens ...int) (ranges [][2]int) {
	slices.Sort(tokens)
	for _, t := range tokens {
		ranges = append(ranges, [2]int{t, t + 1})
	}
	return merged(ranges)
}

// TestMissesByHand: a memory of three pages of two tokens, after a prompt of 6 tokens, so that the steps' own tokens are 6 to 11.
func TestMissesByHand(t *testing.T) {
	steps := [][][2]int{{{0, 6}}, {{2, 4}, {7, 8}}, {{4, 6}, {6, 8}}, {{0, 1}, {6, 7}}, {{2, 3}}, {{0, 8}}}
	// Step 0 fetches pages 0, 1 and 2. Step 1 hits page 1, fetches page 3, which begins before its own token 7, and evicts page 0. Step 2 hits both
	// of its pages, 2 and 3. Step 3 fetches 0 and evicts 1. Step 4 fetches 1 and evicts 2. Step 5 fetches only 2.
	want := []float64{3, 1, 0, 1, 1, 1}
	if got := choicesOf(6, steps).Misses(2, 3); !slices.Equal(got, want) {
		t.Errorf("%v misses, by hand %v", got, want)
	}
	// A second head always chooses the page of its own token; this halves the mean.
	own := [][][2]int{{{6, 7}}, {{6, 8}}, {{8, 9}}, {{8, 10}}, {{10, 11}}, {{10, 12}}}
	if got := choicesOf(6, steps, own).Misses(2, 3); !slices.Equal(got, []float64{1.5, 0.5, 0, 0.5, 0.5, 0.5}) {
		t.Errorf("%v misses, by hand the half of %v", got, want)
	}
	// A step's pages stay for the whole step, even beyond the memory's size: the next step evicts the
	// first of them.
	if got := choicesOf(6, [][][2]int{{{0, 3}}, {{0, 3}}, {{1, 3}}}).Misses(1, 2); !slices.Equal(got, []float64{3, 1, 0}) {
		t.Errorf("%v misses of three tokens in a memory of two", got)
	}
}

// TestMissesOfOneChoice: if every step makes the same choice, all but the first hit everything.
func TestMissesOfOneChoice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		chosen := tokensOf(rapid.SliceOfNDistinct(rapid.IntRange(0, 99), 1, 40, rapid.ID).Draw(t, "tokens")...)
		page := rapid.IntRange(1, 20).Draw(t, "page")
		c := choicesOf(100, slices.Repeat([][][2]int{chosen}, 9))
		first := c.Groups(page)[0]
		got := c.Misses(page, int(first)+rapid.IntRange(0, 3).Draw(t, "more"))
		if got[0] != first || slices.Max(got[1:]) != 0 {
			t.Fatalf("%v misses of %v pages", got, first)
		}
	})
}

// TestMissesOfRandomChoices: an independent choice of k of n tokens hits k times the share in memory: n (1 − (1 − k/n)^t) tokens of earlier steps
// until the memory is full, then its size.
func TestMissesOfRandomChoices(t *testing.T) {
	const n, k, heads, steps = 200, 20, 400, 12
	rng := rand.New(rand.NewPCG(5, 2))
	var all [][][][2]int
	for range heads {
		var of [][][2]int
		for range steps {
			of = append(of, tokensOf(rng.Perm(n)[:k]...))
		}
		all = append(all, of)
	}
	for _, size := range []int{40, 120, 200} {
		for i, got := range choicesOf(n, all...).Misses(1, size) {
			has := min(float64(size), n*(1-math.Pow(1-float64(k)/n, float64(i))))
			want := k * (1 - has/n)
			// Three standard errors, plus the few tokens by which a nearly full memory varies.
			if math.Abs(got-want) > 3*math.Sqrt(k)/2/math.Sqrt(heads)+0.1 {
				t.Errorf("a memory of %d, step %d: %v misses, by the closed form %v", size, i, got, want)
			}
		}
	}
}

// TestMissesCounted compares misses with a memory that is searched token by token, and groups with sets.
func TestMissesCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prompt, size, page := rapid.IntRange(1, 30).Draw(t, "prompt"), rapid.IntRange(1, 12).Draw(t, "size"), rapid.IntRange(1, 5).Draw(t, "page")
		steps := [][][2]int{}
		last, want, groups := map[int]int{}, []float64{}, []float64{} // the latest step that used a page in memory
		for i := range rapid.IntRange(1, 12).Draw(t, "steps") {
			tokens := rapid.SliceOfNDistinct(rapid.IntRange(0, prompt+i), 1, 10, rapid.ID).Draw(t, "tokens")
			steps = append(steps, tokensOf(tokens...))
			pages := map[int]bool{}
			for _, token := range tokens {
				pages[token/page] = true
			}
			missed := 0.
			for p := range pages {
				if _, there := last[p]; !there && p*page != prompt+i {
					missed++
				}
				last[p] = i
			}
			for len(last) > size {
				oldest := -1
				for p := range last {
					if oldest < 0 || last[p] < last[oldest] || last[p] == last[oldest] && p < oldest {
						oldest = p
					}
				}
				delete(last, oldest)
			}
			want, groups = append(want, missed), append(groups, float64(len(pages)))
		}
		c := choicesOf(prompt, steps)
		if got := c.Misses(page, size); !slices.Equal(got, want) {
			t.Fatalf("%v: %v misses, counted %v", steps, got, want)
		}
		if got := c.Groups(page); !slices.Equal(got, groups) {
			t.Fatalf("%v: %v groups, counted %v", steps, got, groups)
		}
	})
}

// TestTouchedAsRecorded: a mean over heads is rounded up, and a recorded group counts once however many of its tokens are chosen. A step touches at
// least the groups that its chosen tokens fill, and at most those of its context.
func TestTouchedAsRecorded(t *testing.T) {
	c := choicesOf(100, [][][2]int{{{0, 5}}, {{0, 40}, {90, 92}}}, [][][2]int{{{0, 5}}, {{3, 4}}})
	for _, x := range []struct{ context, chosen, size, want int }{
		{101, 5, 10, 1},
		{102, 5, 10, 3},  // five groups and one
		{102, 1, 16, 3},  // 0, 1, 2 and 5, and one: 2.5
		{102, 42, 10, 5}, // 42 tokens fill more
		{102, 5, 1, 22},  // 42 and one
		{120, 5, 10, 3},  // as the last step
		{60, 5, 10, 1},   // as the first
		{20, 20, 10, 2},
		{12, 50, 10, 2}, // no more than there are
	} {
		if got := c.Touched(x.context, x.chosen, x.size); got != x.want {
			t.Errorf("%+v: %d groups", x, got)
		}
	}
	if got, want := (*Choices)(nil).Touched(1000, 100, 16), Touched(1000, 100, 16); got != want {
		t.Errorf("%d groups without a recording, %d of random tokens", got, want)
	}
}

// TestTouchedOfRandomChoices: many heads that choose the newest token and random others touch as many groups as the closed form says.
func TestTouchedOfRandomChoices(t *testing.T) {
	const context, chosen, heads = 1003, 60, 400
	rng := rand.New(rand.NewPCG(3, 1))
	var all [][][][2]int
	for range heads {
		tokens := append(rng.Perm(context - 1)[:chosen-1], context-1)
		all = append(all, [][][2]int{tokensOf(tokens...)})
	}
	c := choicesOf(context-1, all...)
	for _, size := range []int{1, 7, 16, 48, 512} {
		// The newest group may be short, which Touched leaves out: at most one group less.
		if got, want := c.Touched(context, chosen, size), Touched(context, chosen, size); got > want+1 || got < want-1 {
			t.Errorf("%d groups of %d, by the closed form %d", got, size, want)
		}
	}
}

// TestStepOfContext: a context outside the recorded steps uses the nearest one.
func TestStepOfContext(t *testing.T) {
	c := choicesOf(10, make([][][2]int, 3))
	for context, want := range map[int]int{1: 0, 10: 0, 11: 0, 12: 1, 13: 2, 14: 2, 999: 2} {
		if got := c.Step(context); got != want {
			t.Errorf("context %d: step %d, want %d", context, got, want)
		}
	}
}

// TestChoicesFile: choices are read back as written, and errors name what is wrong. Heads that attend to everything at home have none.
func TestChoicesFile(t *testing.T) {
	s := toys(t).New("pages")
	r := NewRecorder("toy", Shape{Layers: 1, QueryHeads: 4, KVHeads: 2, Dim: 8}, &s, 4)
	r.KeepChoices()
	for context := 5; context <= 7; context++ {
		r.Step(0, 0, context, &Selection{Parts: []Part{{Ranges: [][2]int{{2, context}}}, {Ranges: [][2]int{{0, 1}, {2, 3}}}}}) // both query heads'
		r.Step(0, 1, context, &Selection{Parts: []Part{{Ranges: [][2]int{{0, 3}}}, {Device: GPU, Ranges: [][2]int{{3, context}}}}})
	}
	p := r.Profile()
	want := [][][2]int{{{0, 1}, {2, 5}}, {{0, 1}, {2, 6}}, {{0, 1}, {2, 7}}}
	if p.Heads[1].Chosen != nil || !reflect.DeepEqual(p.Heads[0].Chosen, want) {
		t.Fatalf("%+v, want %v of the first head alone", p.Heads, want)
	}
	text := profileText(t, p)
	if lines := "chosen = [ # tokens, a text for each step\n  \"0 2-4\",\n  \"0 2-5\",\n  \"0 2-6\",\n]\n"; strings.Count(text, "chosen") != 1 || !strings.Contains(text, lines) {
		t.Fatalf("no %s in\n%s", lines, text)
	}
	for _, c := range []struct{ old, new, want string }{
		{"", "", ""},
		{`"0 2-6"`, `""`, ""},
		{`  "0 2-6",` + "\n", "", `head[0].chosen = "2 elements": expected an array of 3 texts, one for each step`},
		{`"0 2-6"`, `"0 2-7"`, `p.toml:31: head[0].chosen[2] = "2-7": expected tokens as in "0-15 40", ascending, 1 to 6 here`},
		{`"0 2-6"`, `"2 2-6"`, `head[0].chosen[2] = "2-6": expected tokens as in "0-15 40", ascending, 3 to 6 here`},
		{`"0 2-6"`, `"0 6-2"`, `head[0].chosen[2] = "6-2"`},
		{`"0 2-6"`, `"0 2-"`, `head[0].chosen[2] = "2-"`},
		{`"0 2-6"`, `"0 x"`, `head[0].chosen[2] = "x"`},
		{`"0 2-6"`, `"-1 2"`, `head[0].chosen[2] = "-1"`},
		{`"0 2-6"`, `6`, "p.toml:"},
	} {
		got, err := toys(t).ParseProfile("p.toml", strings.Replace(text, c.old, c.new, 1))
		if _, ok := err.(*input.Error); (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || !ok) {
			t.Errorf("%s for %s: %v, want %s", c.new, c.old, err, c.want)
		}
		if c.old == "" && !reflect.DeepEqual(got.Heads, p.Heads) {
			t.Errorf("%+v was read as %+v", p.Heads, got.Heads)
		}
	}
	// A run uses them for steps of one token.
	s.Profile = filepath.Join(t.TempDir(), "p.toml")
	if s.Choices() != nil {
		t.Error("choices of a file that nobody has read")
	}
	if err := os.WriteFile(s.Profile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	shape := Shape{Model: "toy", Layers: 1, QueryHeads: 4, KVHeads: 2, Dim: 8, Verified: 1}
	if err := s.ReadFiles(); err != nil || s.Fits(shape) != nil || !reflect.DeepEqual(s.Choices(), choicesOf(4, want)) {
		t.Errorf("%v, %v: %+v", err, s.Fits(shape), s.Choices())
	}
	shape.Verified = 3
	if err := s.Fits(shape); err == nil || !strings.Contains(err.Error(), "expected a profile without chosen tokens, which are of steps of one token each, or serving.verified_tokens = 1, not 3") {
		t.Error(err)
	}
}
