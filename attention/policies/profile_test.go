package policies

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
)

// profileText returns the text of a profile.
func profileText(t rapid.TB, p *policy.Profile) string {
	var b strings.Builder
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// small is a profile of HGCA for a model of two layers.
func small(t rapid.TB) *policy.Profile {
	s := ownSpec(t, "hgca", func(s *keys) { s.Window, s.Block = 10, 4 })
	r := policy.NewRecorder("toy", policy.Shape{Layers: 2, QueryHeads: 2, KVHeads: 1, Dim: 8, ElementBits: 16}, s.spec(), 12)
	w := hgcaWindow{10, 4}
	for context := 13; context <= 20; context++ {
		left := w.Evicted(context - 1)
		for layer := range 2 {
			r.Step(layer, 0, context, &policy.Selection{Parts: []policy.Part{
				{Device: policy.Home, Ranges: [][2]int{{0, 1 + layer}}}, {Device: policy.GPU, Ranges: [][2]int{{left, context}}},
			}})
		}
	}
	return r.Profile()
}

// TestProfileOfBareSpec: recording a Spec that no list has made, or with an unknown name, does not panic.
func TestProfileOfBareSpec(t *testing.T) {
	shape, none := policy.Shape{Layers: 1, QueryHeads: 1, KVHeads: 1, Dim: 8, ElementBits: 16}, New("qest")
	for _, s := range []policy.Spec{{}, {Name: "quest"}, none} {
		r := policy.NewRecorder("toy", shape, &s, 12)
		r.Step(0, 0, 13, &policy.Selection{Parts: []policy.Part{{Ranges: [][2]int{{0, 13}}}}})
		if text := profileText(t, r.Profile()); !strings.Contains(text, "[policy]\nname = "+strconv.Quote(s.Name)+"\n\n[measured]") {
			t.Error(text)
		}
	}
}

// TestProfileByHand: with a window of 10 tokens in blocks of 4, 4 tokens have left it up to context 14, 8 up to 18, then 12.
func TestProfileByHand(t *testing.T) {
	p := small(t)
	if want := (policy.ProfileMeasured{Prompt: 12, Last: 20, Contexts: []int{13, 15, 19}}); !reflect.DeepEqual(p.Measured, want) {
		t.Errorf("%+v", p.Measured)
	}
	for i, want := range []policy.ProfileHead{{Share: []float64{1. / 4, 1. / 8, 1. / 12}, Rows: []float64{1, 1, 1}}, {Share: []float64{2. / 4, 2. / 8, 2. / 12}, Rows: []float64{1, 1, 1}}} {
		if !reflect.DeepEqual(p.Heads[i], want) {
			t.Errorf("head %d: %+v", i, p.Heads[i])
		}
	}
	p.Heads[1].Rows = []float64{2, 3, 5}
	for context, want := range map[int]float64{1: 2, 14: 2, 15: 3, 18: 3, 19: 5, 30: 5} {
		if got := rowsOf(p, 1, 0, context); got != want || rowsOf(p, 0, 0, context) != 1 {
			t.Errorf("context %d: %v rows, want %v", context, got, want)
		}
	}
	for context, want := range map[int]float64{1: 0.5, 13: 0.5, 14: 0.5, 15: 0.25, 18: 0.25, 19: 2. / 12, 20: 2. / 12, 1 << 20: 2. / 12} {
		if got := p.Share(1, 0, context); got != want {
			t.Errorf("context %d: share %v, want %v", context, got, want)
		}
	}
}

// TestProfileHeads: heads are written and read layer by layer.
func TestProfileHeads(t *testing.T) {
	p := small(t)
	p.Model.Layers, p.Model.KVHeads = 3, 2
	p.Heads = nil
	for i := range 6 {
		share := float64(i) / 8
		p.Heads = append(p.Heads, policy.ProfileHead{Share: []float64{share, share, share}, Rows: []float64{0, 0, 0}})
	}
	again, err := Builtin().ParseProfile("p", profileText(t, p))
	if err != nil || !reflect.DeepEqual(p, again) {
		t.Fatalf("%+v, again %+v, %v", p, again, err)
	}
	for layer := range 3 {
		for head := range 2 {
			if got := again.Share(layer, head, 13); got != float64(2*layer+head)/8 {
				t.Errorf("layer %d, head %d: %v", layer, head, got)
			}
		}
	}
}

// TestProfileCounts: shares give the exact tokens that a state had at home at every step if the number of candidates is constant within a
// bucket (HGCA), otherwise their mean.
func TestProfileCounts(t *testing.T) {
	for _, name := range plainNames() {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			d := drawPlay(t, name)
			r := policy.NewRecorder("toy", d.shape(), d.spec.spec(), d.prompt)
			home, union, rows := map[int]int{}, map[int]int{}, map[int]int{}
			d.play(t, d.state, d.prompt, func(p *played) {
				r.Step(0, 0, p.context, &p.selection)
				on := map[policy.Device]map[int]bool{policy.Home: {}, policy.GPU: {}}
				touched := map[int]bool{}
				for _, part := range p.selection.Parts {
					for _, of := range part.Ranges {
						for j := of[0]; j < of[1]; j++ {
							on[part.Device][j] = true
							touched[j/512] = touched[j/512] || part.Device == policy.Home
						}
					}
				}
				home[p.context], union[p.context] = p.context-len(on[policy.GPU]), len(on[policy.Home])
				for _, is := range touched {
					if is {
						rows[p.context]++
					}
				}
			})
			p, err := Builtin().ParseProfile("p", profileText(t, r.Profile()))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(p, r.Profile()) {
				t.Fatalf("%+v was read as %+v", r.Profile(), p)
			}
			var got, want, gotRows, wantRows float64
			for context := d.prompt + 1; context <= d.tokens; context++ {
				n := p.Share(0, 0, context) * float64(home[context])
				if exact := p.Tokens(0, 0, context, home[context]); name == "hgca" && exact != union[context] {
					t.Fatalf("context %d: %d tokens of %d, want %d", context, exact, home[context], union[context])
				}
				got, want = got+n, want+float64(union[context])
				gotRows, wantRows = gotRows+rowsOf(p, 0, 0, context), wantRows+float64(rows[context])
			}
			if math.Abs(got-want) > 1e-6*want || math.Abs(gotRows-wantRows) > 1e-6*wantRows {
				t.Fatalf("%v tokens and %v rows in all steps, want %v and %v", got, gotRows, want, wantRows)
			}
		}))
	}
}

// TestRecorderCount compares tokens and rows with sets, also if query heads share tokens.
func TestRecorderCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const context = 1 << 20
		dense := New("dense")
		r := policy.NewRecorder("toy", policy.Shape{Layers: 1, QueryHeads: 1, KVHeads: 1, Dim: 8, ElementBits: 16}, &dense, 1)
		s, tokens, rows := &policy.Selection{}, map[policy.Device]map[int]bool{policy.Home: {}, policy.GPU: {}}, map[int]bool{}
		for range rapid.IntRange(0, 5).Draw(t, "parts") {
			p := policy.Part{Device: rapid.SampledFrom([]policy.Device{policy.Home, policy.GPU}).Draw(t, "device")}
			at := 0
			for range rapid.IntRange(0, 6).Draw(t, "ranges") {
				from := at + rapid.IntRange(1, 700).Draw(t, "gap")
				at = from + rapid.IntRange(1, 900).Draw(t, "length")
				p.Ranges = append(p.Ranges, [2]int{from, at})
				for j := from; j < at; j++ {
					tokens[p.Device][j] = true
					rows[j/512] = rows[j/512] || p.Device == policy.Home
				}
			}
			s.Parts = append(s.Parts, p)
		}
		r.Step(0, 0, context, s)
		maps.DeleteFunc(rows, func(_ int, home bool) bool { return !home })
		want := policy.ProfileHead{Share: []float64{float64(len(tokens[policy.Home])) / float64(context-len(tokens[policy.GPU]))}, Rows: []float64{float64(len(rows))}}
		if got := r.Profile().Heads[0]; !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v of %+v, want %+v", got, s, want)
		}
	})
}

// TestProfileErrors: the error about a file has the line and the key.
func TestProfileErrors(t *testing.T) {
	text := profileText(t, small(t))
	for _, c := range []struct{ old, new, want string }{
		{"", "", ""},
		{"hgca", "hgka", `p.toml:12: policy.name = "hgka": expected one of ` + sortedNames() + `; did you mean "hgca"?`},
		{"beta = ", "betta = ", `p.toml:14: policy.betta = "": expected to be left out: no key of hgca that chooses tokens`},
		{"beta = 1.0", "beta = 1.0\nbudget = 4", `p.toml:15: policy.budget = "": expected to be left out`},
		{"beta = 1.0", "", `p.toml:11: policy.beta = "": expected a value`},
		{"beta = 1.0", "beta = \"much\"", `p.toml:14: policy.beta = "much": expected a finite number`},
		{"beta = 1.0", "beta = -3.0", `p.toml:14: policy.beta = -3: expected 0 to 1e+06`},
		{"block = 4", "block = 40", `p.toml:16: policy.block = 40: expected at most window = 10`},
		{`schema = "l3sim/profile/1"`, "", `p.toml: schema = "": expected "l3sim/profile/1", a file of 'l3lab eval --profile'`},
		{"[measured]", "[[measured]]", `p.toml:20: measured: expected a table, not a list`},
		{"profile/1", "profile/2", `p.toml:2: schema = "l3sim/profile/2": expected "l3sim/profile/1"`},
		{"layers = 2", "layers = 0", `p.toml:6: model.layers = 0: expected 1 to 65536`},
		{"kv_heads = 1", "kv_heads = 2", `p.toml:25: head = "2 tables": expected [[head]] 4 times`},
		{"share = [0.5,", "shares = [0.5,", `p.toml:34: head.shares = "": expected to be left out`},
		{"rows = [1.0,", "rows = [1,", ""},
		{"layers = 2", "layers = 3", `p.toml:25: head = "2 tables": expected [[head]] 3 times`},
		{"[13, 15, 19]", "[13, 15, 15]", `p.toml:23: measured.contexts[2] = 15: expected 16 to 20`},
		{"[13, 15, 19]", "[12, 15, 19]", `p.toml:23: measured.contexts[0] = 12: expected 13 to 20`},
		{"[13, 15, 19]", "[13, 15, 21]", `p.toml:23: measured.contexts[2] = 21: expected 16 to 20`},
		{"[13, 15, 19]", "[]", `p.toml:23: measured.contexts = "": expected an array of whole numbers, at least one`},
		{"[13, 15, 19]", "[13, 15]", `p.toml:28: head[0].share = "3 elements": expected an array of 2 numbers`},
		{"[13, 15, 19]", "[13, 15, 19.0]", `measured.contexts: expected a whole number`},
		{"share = [0.5,", "share = [1.5,", `p.toml:34: head[1].share[0] = 1.5: expected 0 to 1`},
		{"share = [0.5,", "share = [nan,", `p.toml:34: head[1].share[0] = NaN: expected 0 to 1`},
		{"rows = [1.0,", "rows = [-1,", `p.toml:29: head[0].rows[0] = -1: expected 0 to`},
		{"layer = 1", "layer = 0", `p.toml:32: head[1].layer = 0: expected 1: heads come layer by layer`},
		{"[measured]", "[measure]", `p.toml:20: measure = "": expected to be left out`},
		{"[model]", "[model", `p.toml:5: not TOML`},
	} {
		_, err := Builtin().ParseProfile("p.toml", strings.Replace(text, c.old, c.new, 1))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s for %s: %v\nwant %s", c.new, c.old, err, c.want)
		}
	}
}

// TestProfileFits: a profile is valid only for its model and policy; keys that do not affect the choice of tokens may differ.
func TestProfileFits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.toml")
	if err := os.WriteFile(path, []byte(profileText(t, small(t))), 0o666); err != nil {
		t.Fatal(err)
	}
	shape := policy.Shape{Layers: 2, QueryHeads: 2, KVHeads: 1, Dim: 8, ElementBits: 16}
	for _, c := range []struct {
		name, model, want string
		change            func(s *keys, shape *policy.Shape)
	}{
		{"hgca", "toy", "", func(s *keys, _ *policy.Shape) { s.Share, s.KeepAll = 0.5, false }},
		{"hgca", "toy", "", func(s *keys, _ *policy.Shape) { s.Beta = 1 }}, // the default, set explicitly
		{"hgca", "llama", `a profile with model.name = "llama", not "toy", which 'l3lab eval --profile' writes`, nil},
		{"hgca", "toy", "model.layers = 3, not 2", func(_ *keys, shape *policy.Shape) { shape.Layers = 3 }},
		{"hgca", "toy", "model.heads = 4, not 2", func(_ *keys, shape *policy.Shape) { shape.QueryHeads = 4 }},
		{"hgca", "toy", "policy.beta = 0.5, not 1.0", func(s *keys, _ *policy.Shape) { s.Beta = 0.5 }},
		{"h2o", "toy", `policy.name = "h2o", not "hgca"`, nil},
	} {
		k, shape := newKeys(c.name), shape
		k.Window, k.Block, k.Profile = 10, 4, path
		if c.change != nil {
			c.change(k, &shape)
		}
		s := k.spec()
		shape.Model = c.model
		err := s.ReadFiles()
		if err == nil {
			err = s.Fits(shape)
		}
		if c.want == "" && (err != nil || profileSum(s) == "") || c.want != "" && (err == nil || !strings.Contains(err.Error(), "policy.profile = ") || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s on %s: %v, want %s", c.name, c.model, err, c.want)
		}
	}
	none := New("hgca")
	if err := none.ReadFiles(); profileSum(&none) != "" || err != nil || none.Fits(shape) != nil {
		t.Errorf("no profile: %v", err)
	}
	none.Profile = path + "x"
	if err := none.Fits(shape); err == nil || !strings.Contains(err.Error(), "p.tomlx") {
		t.Errorf("not read: %v", err)
	}
	if err := none.ReadFiles(); err == nil || !strings.Contains(err.Error(), "p.tomlx") {
		t.Errorf("no file: %v", err)
	}
}

// profileSum returns the checksum of the profile that a section has read, or "".
func profileSum(s *policy.Spec) string {
	_, profile := s.Sums()
	return profile
}

// TestChoosing: a profile records the policy's name first and every key that affects choices.
func TestChoosing(t *testing.T) {
	for i := range builtin {
		p := &builtin[i]
		s := New(p.Name)
		text := profileText(t, policy.NewRecorder("toy", policy.Shape{Layers: 1, KVHeads: 1, QueryHeads: 1, Dim: 8}, &s, 1).Profile())
		_, text, _ = strings.Cut(text, "[policy]\n")
		text, _, _ = strings.Cut(text, "\n\n")
		var keys, want []string
		for line := range strings.Lines(text) {
			key, _, _ := strings.Cut(line, " = ")
			keys = append(keys, key)
		}
		for _, k := range specSchema(Builtin()).Keys {
			section, last := schema.Split(k.Name)
			heads := strings.Contains(p.Defaults, "static_sparsity")
			if k.Name == "name" || k.Name == "gates" && heads || section == p.Name && !slices.Contains(p.CostKeys, last) {
				want = append(want, last)
			}
		}
		if !slices.Equal(keys, want) || keys[0] != "name" {
			t.Errorf("%s: a profile has %v, want %v", p.Name, keys, want)
		}
	}
}

// FuzzProfile: any text gives a profile or an *input.Error. A profile has shares and rows at any context, and is unchanged by writing
// and reading.
func FuzzProfile(f *testing.F) {
	text := profileText(f, small(f))
	f.Add(text)
	f.Add(strings.Replace(text, "[measured]", "measured = 3", 1))
	f.Add(strings.ReplaceAll(text, "[[head]]", "[head]"))
	f.Add("head = [{layer = 0}]\n" + text[:strings.Index(text, "[[head]]")])
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Builtin().ParseProfile("p.toml", text)
		if err != nil {
			if _, ok := err.(*input.Error); !ok || err.Error() == "" {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		for _, context := range []int{1, p.Measured.Prompt, p.Measured.Last, math.MaxInt} {
			if s := p.Share(p.Model.Layers-1, p.Model.KVHeads-1, context); !(s >= 0 && s <= 1) || !(rowsOf(p, 0, 0, context) >= 0) {
				t.Fatalf("share %v", s)
			}
		}
		again, err := Builtin().ParseProfile("again", profileText(t, p))
		if err != nil || !reflect.DeepEqual(p, again) {
			t.Fatalf("%+v, again %+v, %v", p, again, err)
		}
	})
}

// rowsOf counts the rows of 512 tokens with attended tokens at home, like the recorder.
func rowsOf(p *policy.Profile, layer, kvHead, context int) float64 {
	return p.Heads[layer*p.Model.KVHeads+kvHead].Rows[p.Measured.Bucket(context)]
}

// TestProfileOfHeads: rows are means over the heads that choose pages; Quest's skipped layers and streaming heads do not count.
func TestProfileOfHeads(t *testing.T) {
	p := &policy.Profile{Model: policy.ProfileModel{Layers: 2, KVHeads: 2}, Measured: policy.ProfileMeasured{Prompt: 1, Last: 9, Contexts: []int{2}},
		Heads: []policy.ProfileHead{{Share: []float64{1}, Rows: []float64{90}}, {Share: []float64{1}, Rows: []float64{70}}, {Share: []float64{1}, Rows: []float64{30}}, {Share: []float64{1}, Rows: []float64{10}}}}
	shape := policy.Shape{Layers: 2, KVHeads: 2, QueryHeads: 2, Dim: 8, ElementBits: 16}
	q, l := keysOf[QuestSpec](newKeys("quest")), keysOf[LServeSpec](newKeys("lserve"))
	q.SkipLayers, l.StaticSparsity = 1, 0.5 // the last head of each layer streams
	for _, c := range []struct {
		costs policy.Costs
		run   int
		want  int
	}{{quest.Costs(&policy.Use{Keys: *q, Shape: shape, Profile: p}), 1, 20}, {lserve.Costs(&policy.Use{Keys: *l, Shape: shape, Profile: p}), 0, 60}} {
		if got := c.costs.Decode([]policy.Request{{Prompt: 9000, Context: 9216}}, c.run).Attend[0].Rows; len(got) != 1 || got[0] != c.want {
			t.Errorf("%v rows, want %d", got, c.want)
		}
	}
}
