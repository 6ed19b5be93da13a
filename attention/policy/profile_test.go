package policy

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// recorded is a profile of 2 layers of 2 heads after a prompt of 4 tokens. Buckets begin at contexts of 2 + 4i: 5 alone, 6 to 9, then 10.
// Head h of layer l attends to the first 2l + h + 1 tokens at home; the GPUs hold the newest one.
func recorded(t *testing.T) *Profile {
	s := toys(t).New("pages")
	Edit(&s, func(k *paging) { k.TopKLatency, k.Page = 9, 8 })
	r := NewRecorder("toy", Shape{Layers: 2, QueryHeads: 4, KVHeads: 2, Dim: 8}, &s, 4)
	for context := 5; context <= 10; context++ {
		for layer := range 2 {
			for head := range 2 {
				r.Step(layer, head, context, &Selection{Parts: []Part{
					{Device: Home, Ranges: [][2]int{{0, 2*layer + head + 1}}}, {Device: Home, Ranges: [][2]int{{0, 1}}}, // the first for both query heads
					{Device: GPU, Ranges: [][2]int{{context - 1, context}}},
				}})
			}
		}
	}
	return r.Profile()
}

// TestRecorderByHand: shares are of the tokens outside the GPUs' window, over all steps of a bucket: 4, 5 + 6 + 7 + 8 and 9.
func TestRecorderByHand(t *testing.T) {
	p := recorded(t)
	if want := (ProfileMeasured{Prompt: 4, Last: 10, Contexts: []int{5, 6, 10}}); !reflect.DeepEqual(p.Measured, want) {
		t.Errorf("%+v, want %+v", p.Measured, want)
	}
	if want := (ProfileModel{"toy", 2, 4, 2, 8}); p.Model != want {
		t.Errorf("%+v, want %+v", p.Model, want)
	}
	if p.Policy.Name != "pages" || p.Policy.Profile != "" {
		t.Errorf("policy %q, profile %q", p.Policy.Name, p.Policy.Profile)
	}
	if k := Section[paging](&p.Policy); k.Page != 8 || k.TopKLatency != 5 { // keys of cost alone are not recorded
		t.Errorf("%+v", k)
	}
	for i, h := range p.Heads {
		n := float64(i + 1)
		if want := (ProfileHead{Share: []float64{n / 4, 4 * n / 26, n / 9}, Rows: []float64{1, 1, 1}}); !reflect.DeepEqual(h, want) {
			t.Errorf("head %d: %+v, want %+v", i, h, want)
		}
	}
	for context, want := range map[int]float64{1: 3. / 4, 5: 3. / 4, 6: 12. / 26, 9: 12. / 26, 10: 3. / 9, 99: 3. / 9} {
		if got := p.Share(1, 0, context); got != want {
			t.Errorf("context %d: share %v, want %v", context, got, want)
		}
	}
	if got := [2]int{p.Tokens(1, 0, 9, 100), p.Tokens(0, 1, 9, 100)}; got != [2]int{46, 31} { // 46.2 and 30.8
		t.Errorf("%v tokens", got)
	}
	// Policies without blocks have buckets of 128 contexts, from 1 on.
	dense := toys(t).New("dense")
	r := NewRecorder("toy", Shape{Layers: 1, QueryHeads: 1, KVHeads: 1}, &dense, 100)
	for context := 101; context <= 300; context++ {
		r.Step(0, 0, context, &Selection{Parts: []Part{{Ranges: [][2]int{{0, context}}}}})
	}
	if got := r.Profile(); !slices.Equal(got.Measured.Contexts, []int{101, 129, 257}) || !slices.Equal(got.Heads[0].Share, []float64{1, 1, 1}) {
		t.Errorf("%+v", got)
	}
	r = NewRecorder("toy", Shape{Layers: 1, QueryHeads: 1, KVHeads: 1}, &dense, 1) // nothing is at home
	r.Step(0, 0, 2, &Selection{Parts: []Part{{Device: GPU, Ranges: [][2]int{{0, 2}}}}})
	if h := r.Profile().Heads[0]; h.Share[0] != 0 || h.Rows[0] != 0 {
		t.Errorf("%+v", h)
	}
}

// TestRecorderCountByHand: tokens in several ranges count once, as do rows of 512 tokens.
func TestRecorderCountByHand(t *testing.T) {
	for _, c := range []struct {
		ranges       [][2]int
		tokens, rows int
	}{
		{nil, 0, 0}, {[][2]int{{0, 1}}, 1, 1}, {[][2]int{{0, 512}}, 512, 1}, {[][2]int{{0, 513}}, 513, 2}, {[][2]int{{511, 513}}, 2, 2},
		{[][2]int{{600, 610}, {0, 5}}, 15, 2}, {[][2]int{{0, 10}, {5, 20}}, 20, 1}, {[][2]int{{0, 20}, {5, 10}}, 20, 1}, {[][2]int{{0, 10}, {10, 600}}, 600, 2},
		{[][2]int{{0, 10}, {20, 30}, {2048, 2049}}, 21, 2}, {[][2]int{{100, 600}, {700, 1100}}, 900, 3},
	} {
		tokens, rows := new(Recorder).count(&Selection{Parts: []Part{{Device: GPU, Ranges: [][2]int{{0, 9999}}}, {Ranges: c.ranges}}}, Home)
		if tokens != c.tokens || rows != c.rows {
			t.Errorf("%v: %d tokens in %d rows, want %d in %d", c.ranges, tokens, rows, c.tokens, c.rows)
		}
	}
}

// profileText returns a profile's file.
func profileText(t *testing.T, p *Profile) string {
	var b strings.Builder
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestProfileFile: a profile is read back as written, and errors name what is wrong.
func TestProfileFile(t *testing.T) {
	p := recorded(t)
	text := profileText(t, p)
	for _, part := range []string{
		"schema = \"l3sim/profile/1\"\n\n[model]\nname = \"toy\"\nlayers = 2\nheads = 4\nkv_heads = 2\nhead_dim = 8\n\n[policy]\nname = \"pages\"\nbudget = 64\npage = 8\n",
		"\n[measured]\nprompt = 4\nlast = 10\ncontexts = [5, 6, 10]\n", "\n[[head]]\nlayer = 1\nkv_head = 0\nshare = [0.75, ", "]\nrows = [1.0, 1.0, 1.0]\n",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
	if strings.Contains(text, "top_k_latency") {
		t.Error("a key of costs is in a profile")
	}
	for _, c := range []struct{ old, new, want string }{
		{"", "", ""},
		{"profile/1", "profile/2", `p.toml:2: schema = "l3sim/profile/2"`},
		{"layers = 2", "layers = 0", "p.toml:6: model.layers = 0: expected 1 to 65536"},
		{"kv_heads = 2", "kv_heads = 0", "model.kv_heads = 0: expected 1 to 65536"},
		{"head_dim = 8\n", "", "model.head_dim"},
		{"heads = 4\n", "", "model.heads"},
		{"name = \"toy\"\n", "", "model.name"},
		{"prompt = 4", "prompt = 0", "measured.prompt = 0: expected 1 to 16777216"},
		{"last = 10", "last = 0", "measured.last = 0: expected 1"},
		{"[5, 6, 10]", "[4, 6, 10]", "measured.contexts[0] = 4: expected 5 to 10"},
		{"[5, 6, 10]", "[5, 5, 10]", "measured.contexts[1] = 5: expected 6 to 10"},
		{"[5, 6, 10]", "[5, 6, 11]", "measured.contexts[2] = 11: expected 7 to 10"},
		{"[5, 6, 10]", "[]", "measured.contexts"},
		{"layers = 2", "layers = 3", `head = "4 tables": expected [[head]] 6 times`},
		{"layer = 1\nkv_head = 0", "layer = 0\nkv_head = 0", "head[2].layer = 0: expected 1"},
		{"layer = 1\nkv_head = 0", "layer = 1\nkv_head = 1", "head[2].kv_head = 1: expected 0"},
		{"rows = [1.0, 1.0, 1.0]", "rows = [1.0, 1.0]", `head[0].rows = "2 elements": expected an array of 3 numbers`},
		{"rows = [1.0, 1.0, 1.0]", "rows = [1.0, -1.0, 1.0]", "head[0].rows[1] = -1"},
		{"share = [0.75", "share = [1.375", "head[2].share[0] = 1.375: expected 0 to 1"},
		{`name = "pages"`, `name = "page"`, "policy.name"},
		{"page = 8\n", "", "policy.page"},
		{"page = 8\n", "page = 0\n", "policy.page = 0: expected 1 to 65536"},
		{"page = 8\n", "page = 8\ntop_k_latency = 1\n", "policy.top_k_latency"},
		{"page = 8\n", "page = \"8\"\n", "policy.page"},
		{"[measured]", "[measured]\nmore = 1", "measured.more"},
	} {
		got, err := toys(t).ParseProfile("p.toml", strings.Replace(text, c.old, c.new, 1))
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "p.toml:")) {
			t.Errorf("%q for %q: %v, want %s", c.new, c.old, err, c.want)
		}
		if err == nil && (got.Policy.Name != "pages" || !reflect.DeepEqual(got.Heads, p.Heads) || !reflect.DeepEqual(got.Measured, p.Measured) || got.Model != p.Model || Section[paging](&got.Policy) != Section[paging](&p.Policy)) {
			t.Errorf("%+v was read as %+v", p, got)
		}
	}
	// A profile of a policy with streaming heads has the gates.
	heads := toys(t).New("heads")
	if text := profileText(t, NewRecorder("toy", Shape{Layers: 1, KVHeads: 1}, &heads, 1).Profile()); !strings.Contains(text, "gates = \"\"\n") {
		t.Error(text)
	}
	if strings.Contains(text, "gates") {
		t.Error("a policy without gates has some")
	}
}

// TestProfileIsForOneModel: errors name what does not fit.
func TestProfileIsForOneModel(t *testing.T) {
	l, path := toys(t), filepath.Join(t.TempDir(), "p.toml")
	if err := os.WriteFile(path, []byte(profileText(t, recorded(t))), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(k *paging, shape *Shape, s *Spec){
		"":                                   func(k *paging, _ *Shape, _ *Spec) { k.TopKLatency = 77 },
		`model.name = "other", not "toy"`:    func(_ *paging, shape *Shape, _ *Spec) { shape.Model = "other" },
		"model.layers = 3, not 2":            func(_ *paging, shape *Shape, _ *Spec) { shape.Layers = 3 },
		"model.heads = 8, not 4":             func(_ *paging, shape *Shape, _ *Spec) { shape.QueryHeads = 8 },
		"model.kv_heads = 4, not 2":          func(_ *paging, shape *Shape, _ *Spec) { shape.KVHeads = 4 },
		"model.head_dim = 16, not 8":         func(_ *paging, shape *Shape, _ *Spec) { shape.Dim = 16 },
		"policy.page = 16, not 8":            func(k *paging, _ *Shape, _ *Spec) { k.Page = 16 },
		`policy.name = "heads", not "pages"`: func(_ *paging, _ *Shape, s *Spec) { s.Name = "heads" },
		"a file that was read":               func(_ *paging, _ *Shape, s *Spec) { s.Profile += "x" },
	} {
		s, shape := l.New("pages"), Shape{Model: "toy", Layers: 2, QueryHeads: 4, KVHeads: 2, Dim: 8}
		s.Profile = path
		if err := s.ReadFiles(); err != nil {
			t.Fatal(err)
		}
		Edit(&s, func(k *paging) { k.Page = 8; change(k, &shape, &s) })
		if err := s.Fits(shape); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if g, p := s.Sums(); g != "" || len(p) != 64 || s.use(shape).Profile == nil {
			t.Errorf("%q, %q", g, p)
		}
	}
}
