package policies

import (
	"crypto/sha256"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"pgregory.net/rapid"
)

// TestPagesByHand checks counts of LServe's settings by hand.
func TestPagesByHand(t *testing.T) {
	s := newKeys("lserve")
	s.Budget, s.Page, s.Reuse = 512, 64, 4
	p := listsOf(s)
	for _, c := range []struct{ prompt, context, made, tokens, pages int }{
		{2048, 2049, 2049, 7*64 + 1, 8}, // the first step chooses pages
		{2048, 2050, 2049, 7*64 + 2, 8},
		{2048, 2052, 2052, 7*64 + 4, 8}, // the next choice is due at history 3 mod 4
		{2048, 2112, 2112, 8 * 64, 8},
		{2048, 2113, 2112, 8*64 + 1, 9}, // a new page is attended to in addition
		{2048, 2115, 2112, 8*64 + 3, 9},
		{2048, 2116, 2116, 7*64 + 4, 8},
		{1, 2, 2, 2, 1}, {1, 512, 512, 512, 8}, {1, 513, 512, 513, 9}, {1, 516, 516, 7*64 + 4, 8},
	} {
		if made, tokens, pages := p.MadeAt(c.prompt, c.context), p.Tokens(c.prompt, c.context), p.PagesRead(c.prompt, c.context); made != c.made || tokens != c.tokens || pages != c.pages {
			t.Errorf("%+v: made at %d, %d tokens of %d pages", c, made, tokens, pages)
		}
	}
	p.Replace = true
	if got, pages := p.Tokens(2048, 2113), p.PagesRead(2048, 2113); got != 7*64+1 || pages != 8 {
		t.Errorf("replaced: %d tokens of %d pages", got, pages)
	}
	s.Budget, s.Page = 1024, 512
	p = listsOf(s)
	if got := p.selected(4096); got != 3 {
		t.Errorf("%d pages of 512 for 1024 tokens, want 3", got)
	}
	q := newKeys("quest")
	q.Budget = 512
	p = listsOf(q)
	if got := p.Tokens(2048, 2049); got != 31*16+1 || p.summaries(2049) != 129 || p.Skip != 2 {
		t.Errorf("quest: %d tokens", got)
	}
}

// TestPagesAgainstSets compares counts with lists of pages that are built and updated step by step.
func TestPagesAgainstSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }
		p := Pages{Page: number("page", 1, 9), Least: rapid.SampledFrom([]int{1, 3}).Draw(t, "least"), Reuse: number("reuse", 1, 12),
			Budget: number("budget", 1, 60), Replace: rapid.Bool().Draw(t, "replace"), Logical: 1}
		prompt := number("prompt", 0, 80)
		var list uint64 // bits of pages; only the newest page's place matters
		newest := 0
		for context := prompt + 1; context < prompt+70; context++ {
			now := (context - 1) / p.Page
			if made := context == prompt+1 || context%p.Reuse == 0; made != p.selects(prompt, context) {
				t.Fatalf("list at %d: %v", context, made)
			} else if made {
				n := max(p.Least, p.Budget/p.Page)
				if n > now || context <= p.Budget {
					n = now + 1
				}
				list, newest = 1<<(n-1)-1, now
			}
			seen := func(page int) int { return min(p.Page, context-page*p.Page) }
			want, pages := 0, 0
			for page := newest; page <= now; page++ {
				if !p.Replace || page == now || context <= p.Budget {
					want += seen(page)
					pages++
				}
			}
			for b := list; b != 0; b &= b - 1 {
				want += seen(bits.TrailingZeros64(b))
				pages++
			}
			if got, read := p.Tokens(prompt, context), p.PagesRead(prompt, context); got != want || read != pages {
				t.Fatalf("%+v, %d of %d: %d tokens of %d pages, want %d of %d", p, context, prompt, got, read, want, pages)
			}
		}
	})
}

// TestStreamingCounts compares with the definition: t < sink or t > i - window.
func TestStreamingCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Streaming{rapid.IntRange(0, 20).Draw(t, "sink"), rapid.IntRange(1, 20).Draw(t, "window")}
		n, pairs := rapid.IntRange(1, 60).Draw(t, "n"), int64(0)
		for context := 1; context <= n; context++ {
			got := map[int]bool{}
			last := 0
			for _, r := range s.Ranges(nil, context) {
				if r[0] >= r[1] || r[0] < last {
					t.Fatalf("ranges %v", s.Ranges(nil, context))
				}
				for i := r[0]; i < r[1]; i++ {
					got[i] = true
				}
				last = r[1]
			}
			for i := range context {
				if want := i < s.Sink || i > context-1-s.Window; got[i] != want {
					t.Fatalf("%+v at %d: token %d: %v", s, context, i, got[i])
				}
			}
			if len(got) != s.Tokens(context) {
				t.Fatalf("%d tokens, want %d", s.Tokens(context), len(got))
			}
			pairs += int64(len(got))
		}
		if got := s.Pairs(n); got != pairs {
			t.Fatalf("%+v: %d pairs in %d tokens, want %d", s, got, n, pairs)
		}
	})
}

// TestGates reads files in the published forms, and refuses others with the reason.
func TestGates(t *testing.T) {
	shape := policy.Shape{Layers: 2, KVHeads: 2}
	const want, gate = "expected 2 layers, each of 2 numbers, one for each KV head", "expected a gate, a number from 0 to 1"
	for _, c := range []struct{ text, want string }{
		{"0.1\t0.2\n0.3\t0.4\n", ""}, {"0.1, 0.2\r\n\r\n0.3 0.4", ""}, {"0 0\n1 1", ""}, {"-0 0e9\n1e0 1.000", ""},
		{" [[0.1, 0.2],\n [0.3, 4e-1]]\n", ""}, {"[[1, 0.2]]", "gates.tsv: 1 layers: " + want}, {"[[1, 1],\n [1]]", "gates.tsv:2: 1 numbers in layer 1: " + want},
		{"[\n[1, 1],\n[\"x\", 1]\n]", "gates.tsv:3: \"x\": " + gate}, {"[[1, {}]]", "gates.tsv:1: {}: " + gate},
		{"1 1\n", "gates.tsv: 1 layers: " + want}, {"", "gates.tsv: 0 layers: " + want}, {"[]", "gates.tsv: 0 layers: " + want},
		{"1 1\n\n1 1\n1 1\n", "gates.tsv:4: 2 numbers in layer 2: " + want},
		{"1 1 1\n1 1 1\n", "gates.tsv:1: 3 numbers in layer 0: " + want},
		{"1 x\n", "gates.tsv:1: x: " + gate}, {"1 1\n1 NaN\n", "gates.tsv:2: NaN: " + gate}, {"1 -3\n1 1\n", "gates.tsv:1: -3: " + gate},
		{"1 1\n\ninf 1\n", "gates.tsv:3: inf: " + gate}, {"1 1e300\n", "gates.tsv:1: 1e300: " + gate}, {"1 1.0000001\n", "gates.tsv:1: 1.0000001: " + gate},
	} {
		s := New("duo")
		s.Gates = filepath.Join(t.TempDir(), "gates.tsv")
		if err := os.WriteFile(s.Gates, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := s.ReadFiles()
		if err == nil {
			err = s.Fits(shape)
		}
		if c.want != "" {
			if err == nil || !strings.HasPrefix(err.Error(), "policy.gates = ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q:\ngot  %v\nwant %s", c.text, err, c.want)
			}
			continue
		}
		if err := os.Remove(s.Gates); err != nil { // it is not read again
			t.Fatal(err)
		}
		values, also := policy.NewValues(&s, shape)
		if err != nil || also != nil {
			t.Fatal(c.text, err, also)
		}
		for at := range 4 {
			state := values.NewState(at/2, at%2, 9).(*streamingState)
			if streams := state.streaming.Window == policy.Section[DuoSpec](&s).Window; streams != (at < 2) {
				t.Errorf("%q: layer %d, head %d: streams %v", c.text, at/2, at%2, streams)
			}
		}
	}
}

// TestUnreadFiles: a section that names files but has not read them is not equal to one that has.
func TestUnreadFiles(t *testing.T) {
	shape := policy.Shape{Layers: 1, KVHeads: 2, QueryHeads: 2, Dim: 8, ElementBits: 16}
	dir := t.TempDir()
	one, other := filepath.Join(dir, "one"), filepath.Join(dir, "other")
	for _, path := range []string{one, other} {
		if err := os.WriteFile(path, []byte("0 1"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := New("duo")
	s.Gates = one
	unread := "policy.gates = " + strconv.Quote(one) + ": expected a file that was read"
	if err := s.Fits(shape); err == nil || !strings.HasPrefix(err.Error(), unread) {
		t.Errorf("not read: %v", err)
	}
	if _, err := policy.NewValues(&s, shape); err == nil || !strings.HasPrefix(err.Error(), unread) {
		t.Errorf("values of what was not read: %v", err)
	}
	if err := s.ReadFiles(); err != nil || s.Fits(shape) != nil {
		t.Errorf("read: %v, %v", err, s.Fits(shape))
	}
	gates, profile := s.Sums()
	if want := fmt.Sprintf("%x", sha256.Sum256([]byte("0 1"))); gates != want || profile != "" {
		t.Errorf("sums %q and %q", gates, profile)
	}
	if s.Gates = other; s.Fits(shape) == nil {
		t.Error("another file passes")
	}
	if s.Gates = ""; s.ReadFiles() != nil || s.Fits(shape) != nil {
		t.Error("no file does not pass")
	} else if gates, _ := s.Sums(); gates != "" {
		t.Error("the old file is kept")
	}
}

// PagesRead returns the number of pages with any of these tokens.
func (p *Pages) PagesRead(prompt, context int) int {
	made := p.MadeAt(prompt, context)
	if p.Replace && context > p.Budget {
		return p.selected(made)
	}
	return p.selected(made) + p.Pages(context) - p.Pages(made)
}

// Pairs returns the pairs of a query and a key in a prompt of n tokens.
func (s Streaming) Pairs(n int) int64 {
	full := int64(min(n, s.Sink+s.Window))
	return full*(full+1)/2 + (int64(n)-full)*full
}
