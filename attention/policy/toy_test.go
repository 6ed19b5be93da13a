package policy

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input"
)

// paging has the keys of a toy policy that chooses pages.
type paging struct {
	PagesSpec
	Every int `toml:"every"`
}

func (k paging) Check(c *input.Check) {
	k.PagesSpec.Check(c)
	input.Within(c, "every", k.Every, 1, 9)
}

func (k paging) Blocks() (width, from int) { return k.Every, 2 }

// splitting has the keys of a toy policy with some streaming heads.
type splitting struct{ HeadsSpec }

// toys returns a list of three toy policies. They attend to everything, whatever their keys.
func toys(t *testing.T) *List {
	all := Policy{Homes: AnyHome, Costs: func(u *Use) Costs { return &everything{shape: u.Shape} },
		Values: func(*Use) (Values, error) { return nil, nil }}
	dense, pages, heads := all, all, all
	dense.Name, dense.Dense, dense.InOrder, dense.Others = "dense", true, true, []string{"full"}
	pages.Name, pages.Keys, pages.Homes, pages.Drafts, pages.CostKeys = "pages", paging{}, OnGPUs|InDIMMs, true, []string{"top_k_latency", "layout"}
	pages.Others, pages.Lossy, pages.Source, pages.About = []string{"mosaic"}, true, "a paper", About{"a", "s", "m"}
	pages.Defaults = `budget = 64 # b
page = 16 # p
select_device = "gpu" # d
top_k_latency = 5 # k
select_group = "sum" # g
select_precision = "fp32" # n
summary_device = "gpu" # s
layout = "row" # l
every = 4 # e
`
	pages.CheckAt = func(keys input.Checked, at Place, c *input.Check) {
		c.That(keys.(paging).Every < 4 || !at.Apart, "every", keys.(paging).Every, "less than 4 %s", at.Where)
	}
	heads.Name, heads.Keys, heads.Homes, heads.InOrder = "heads", splitting{}, OnGPUs, true
	heads.Defaults = `static_sparsity = 0.5 # s
sink = 4 # s
window = 60 # w
prefill_window = 0 # p
stream_device = "home" # d
`
	l, err := (&List{}).With(dense, pages, heads)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// everything is the costs of dense attention.
type everything struct {
	shape  Shape
	runs   []int
	step   func(x *Step)
	prompt func(x *Prompt)
}

func (e *everything) Runs() []int {
	if e.runs != nil {
		return e.runs
	}
	return []int{e.shape.Layers}
}

func (e *everything) Decode(requests []Request, _ int) *Step {
	c := Class{Heads: e.shape.KVHeads}
	for _, r := range requests {
		c.Tokens = append(c.Tokens, r.Context)
	}
	x := &Step{Attend: []Class{c}}
	if e.step != nil {
		e.step(x)
	}
	return x
}

func (e *everything) Prompt(_, chunk, finished int, _ bool) *Prompt {
	x := &Prompt{Pieces: []Piece{{e.shape.KVHeads, 1, chunk, finished}}}
	if e.prompt != nil {
		e.prompt(x)
	}
	return x
}

func (e *everything) Memory(int) (decoding, filling []Held) { return nil, nil }
func (e *everything) KV(int) int64                          { return 0 }
func (e *everything) Vectors() Vectors                      { return e.shape.Vectors() }

// TestLists: names of policies by ability, and sections with their defaults.
func TestLists(t *testing.T) {
	l := toys(t)
	for want, got := range map[string][]string{
		"dense pages heads": l.Names(), "dense heads": l.InOrder(), "pages": l.Drafting(),
		"dense": l.At(0), "dense  pages heads": l.At(OnGPUs), "dense pages": l.At(InDIMMs), " dense": l.At(OnHost),
	} {
		if !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%v, want %s", got, want)
		}
	}
	if s := l.Sections(); len(s) != 2 || s[0].Name != "policy.pages" || s[1].Name != "policy.heads" || s[1].Type != reflect.TypeFor[splitting]() {
		t.Errorf("%+v", s)
	}
	if text := l.Defaults(); !strings.HasPrefix(text, "[policy]\nname = \"dense\"") || !strings.Contains(text, "\n[policy.pages]\nbudget = 64 # b\n") || !strings.Contains(text, "\n[policy.heads]\nstatic_sparsity = 0.5 # s\n") {
		t.Error(text)
	}
	if s := l.Default(); s.Name != "dense" || Section[paging](&s).Budget != 64 || Section[splitting](&s).Window != 60 || Section[StreamSpec](&s) != (StreamSpec{}) {
		t.Errorf("%+v", l.Default())
	}
	d := l.Descriptions()
	if len(d) != 3 || len(d[0].Keys) != 0 || len(d[1].Keys) != 9 || len(d[2].Keys) != 5 || !d[1].Lossy || d[1].Source != "a paper" || d[1].Moves != "m" || d[0].Lossy {
		t.Errorf("%+v", d)
	}
	if k := d[1].Keys[1]; k != (Key{"policy.pages.page", "16", "p"}) || d[2].Keys[4] != (Key{"policy.heads.stream_device", `"home"`, "d"}) {
		t.Errorf("%+v, %+v", k, d[2].Keys[4])
	}
}

// TestListsRefuse: policies that a list refuses.
func TestListsRefuse(t *testing.T) {
	for want, change := range map[string]func(p *Policy){
		"":                                  func(*Policy) {},
		`policy "profile": expected a name`: func(p *Policy) { p.Name = "profile" },
		`policy "name": expected a name`:    func(p *Policy) { p.Name = "name" },
		`policy "Mine": expected a name`:    func(p *Policy) { p.Name = "Mine" },
		`policy "": expected a name`:        func(p *Policy) { p.Name = "" },
		`policy "heads": there is a policy of this name`: func(p *Policy) { p.Name = "heads" },
		`Homes, Costs and Values`:                        func(p *Policy) { p.Homes = 0 },
		`policy "mine": expected Homes`:                  func(p *Policy) { p.Costs = nil },
		`mine": expected Homes`:                          func(p *Policy) { p.Values = nil },
		`policy "mine": expected Keys to be a struct of a type of its own, not policy.paging`: func(p *Policy) { p.Keys = paging{} },
		`Defaults have windw, which`:                           func(p *Policy) { p.Defaults = "sink = 4\nwindw = 3\nprefill_window = 0\n" },
		`no value in Defaults for the key mine.window`:         func(p *Policy) { p.Defaults = "sink = 4\nprefill_window = 0\n" },
		`defaults of policies: mine.window = 0: expected 1 to`: func(p *Policy) { p.Defaults = "sink = 4\nwindow = 0\nprefill_window = 0\n" },
		`defaults of policies`:                                 func(p *Policy) { p.Defaults = "sink 4" },
	} {
		p := *toys(t).policy("heads")
		p.Name, p.Keys, p.Defaults = "mine", StreamSpec{}, "sink = 4 # s\nwindow = 6 # w\nprefill_window = 0 # p\n"
		change(&p)
		l, err := toys(t).With(p)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if err == nil {
			if s := l.New("mine"); Section[StreamSpec](&s).Window != 6 {
				t.Errorf("%+v", s)
			}
		}
	}
}

// TestSections: a section's description of its policy, and changes to it.
func TestSections(t *testing.T) {
	l := toys(t)
	dense, pages, heads := l.New("dense"), l.New("pages"), l.New("heads")
	if !dense.Dense() || pages.Dense() || !pages.Drafts() || heads.Drafts() || (&Spec{}).Drafts() || (&Spec{}).Dense() {
		t.Error("dense, drafts")
	}
	if dense.Pages() != nil || heads.Pages() != nil || pages.Pages().Budget != 64 || dense.Heads() != nil || pages.Heads() != nil || heads.Heads().Sink != 4 {
		t.Error("pages, heads")
	}
	for s, want := range map[*Spec]int{&dense: 0, &pages: 0, &heads: 60} {
		key := "policy.name"
		if want > 0 {
			key = "policy.heads.window"
		}
		if k, n := s.GPUWindow(); k != key || n != want {
			t.Errorf("%s: %s = %d", s.Name, k, n)
		}
	}
	other := pages
	Edit(&other, func(k *paging) { k.Budget = 32 })
	if Section[paging](&pages).Budget != 64 || Section[paging](&other).Budget != 32 || Section[splitting](&other).Window != 60 || other.Pages().Budget != 32 {
		t.Error("a copy is changed alone")
	}
}

// TestSectionErrors: keys of a section that break a rule.
func TestSectionErrors(t *testing.T) {
	page := func(change func(k *paging)) func(*Spec) {
		return func(s *Spec) { s.Name = "pages"; Edit(s, change) }
	}
	head := func(change func(k *splitting)) func(*Spec) {
		return func(s *Spec) { s.Name = "heads"; Edit(s, change) }
	}
	for want, change := range map[string]func(s *Spec){
		"": func(*Spec) {},
		`expected one of dense, heads, pages; did you mean "pages"?`: func(s *Spec) { s.Name = "Mosaic" },
		`did you mean "heads"?`: func(s *Spec) { s.Name = "head" },
		`gates = "g": expected to be left out with policy.name = "pages": some heads stream with heads`: func(s *Spec) { s.Name, s.Gates = "pages", "g" },
		` `: func(s *Spec) { s.Name, s.Gates, s.Profile = "heads", "g", "p" },
		`profile = "p": expected to be left out with policy.name = "dense"`: func(s *Spec) { s.Profile = "p" },
		`pages.budget = 0: expected 1 to 16777216`:                          page(func(k *paging) { k.Budget = 0 }),
		`pages.budget = 15: expected at least page = 16`:                    page(func(k *paging) { k.Budget = 15 }),
		`  `:                                  page(func(k *paging) { k.Budget = 16 }),
		`pages.page = 0: expected 1 to 65536`: page(func(k *paging) { k.Page = 0 }),
		`pages.top_k_latency = 4097: expected 0 to 4096`: page(func(k *paging) { k.TopKLatency = 4097 }),
		`pages.every = 10`:               page(func(k *paging) { k.Every = 10 }),
		`pages.select_device = "dimm"`:   page(func(k *paging) { k.SelectDevice = "dimm" }),
		`pages.select_group = "mean"`:    page(func(k *paging) { k.SelectGroup = "mean" }),
		`pages.select_precision = "fp8"`: page(func(k *paging) { k.SelectPrecision = "fp8" }),
		`pages.layout = "bank"`:          page(func(k *paging) { k.Layout = "bank" }),
		`pages.summary_device = "bank"`:  page(func(k *paging) { k.SummaryDevice = "bank" }),
		`pages.summary_device = "rank": expected "gpu" with select_device = "gpu"`: page(func(k *paging) { k.SummaryDevice = "rank" }),
		`   `: page(func(k *paging) { k.SelectDevice, k.SummaryDevice = "bank", "rank" }),
		`heads.static_sparsity = 1.5: expected 0 to 1`: head(func(k *splitting) { k.StaticSparsity = 1.5 }),
		`heads.sink = -1`: head(func(k *splitting) { k.Sink = -1 }),
		`heads.window = 0: expected 1 to 16777216: a token attends to itself`: head(func(k *splitting) { k.Window = 0 }),
		`heads.window = 16777217`:      head(func(k *splitting) { k.Window = MaxTokens + 1 }),
		`heads.prefill_window = -1`:    head(func(k *splitting) { k.PrefillWindow = -1 }),
		`heads.stream_device = "rank"`: head(func(k *splitting) { k.StreamDevice = "rank" }),
	} {
		s := toys(t).Default()
		change(&s)
		err, want := input.Validate(&s), strings.TrimSpace(want)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for apart, want := range map[bool]string{false: "", true: "policy.pages.every = 4: expected less than 4 in the DIMMs"} {
		s := toys(t).New("pages")
		var c input.Check
		if s.CheckAt(Place{Where: "in the DIMMs", Apart: apart}, &c); c.OK() != (want == "") || !c.OK() && !strings.Contains(c.Err().Error(), want) {
			t.Errorf("%v, want %q", c.Err(), want)
		}
		s.Name = "heads" // has no rule on this
		s.CheckAt(Place{Apart: true}, new(input.Check))
	}
}

// TestFilesOfSections: which files are read, their contents, and the models they fit.
func TestFilesOfSections(t *testing.T) {
	l, dir := toys(t), t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	shape := Shape{Model: "toy", Layers: 2, QueryHeads: 4, KVHeads: 2, Dim: 8, ElementBits: 16}
	gates := write("g.tsv", "0.5 1\n\n[0, 0.25]\n")
	s := l.New("heads")
	s.Gates = gates
	if err := s.Fits(shape); err == nil || !strings.Contains(err.Error(), "a file that was read") {
		t.Error(err)
	}
	if err := errors.Join(s.ReadFiles(), s.Fits(shape)); err != nil {
		t.Fatal(err)
	}
	if g, p := s.Sums(); len(g) != 64 || p != "" {
		t.Errorf("%q, %q", g, p)
	}
	u := s.use(shape)
	if want := [][]bool{{false, false}, {true, true}}; !reflect.DeepEqual(u.Streaming(), want) || u.Profile != nil { // half of the heads, those with the lowest gates
		t.Errorf("%v", u.Streaming())
	}
	for want, shape := range map[string]Shape{
		`g.tsv:1: 2 numbers in layer 0: expected 2 layers, each of 3 numbers`: {Layers: 2, KVHeads: 3}, `g.tsv:3: 2 numbers in layer 1: expected 1 layers`: {Layers: 1, KVHeads: 2},
		`g.tsv: 2 layers: expected 3 layers`: {Layers: 3, KVHeads: 2},
	} {
		_, valuesErr := NewValues(&s, shape)
		for _, err := range []error{s.Fits(shape), valuesErr} {
			if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "policy.gates = ") {
				t.Errorf("%v, want %s", err, want)
			}
		}
	}
	s.Gates = write("h.tsv", "2 1\n")
	if err := s.Fits(shape); err == nil || !strings.Contains(err.Error(), "a file that was read") { // another model was recorded
		t.Error(err)
	}
	if err := s.ReadFiles(); err == nil || !strings.Contains(err.Error(), `h.tsv:1`) || !strings.Contains(err.Error(), "a gate, a number from 0 to 1") {
		t.Error(err)
	}
	s.Gates = filepath.Join(dir, "none")
	if err := s.ReadFiles(); err == nil || !strings.Contains(err.Error(), "expected a line of numbers for each layer") {
		t.Error(err)
	}
	// Files of keys that the policy does not have are not read: Check refuses the keys.
	s = l.New("pages")
	if s.Gates = filepath.Join(dir, "none"); s.ReadFiles() != nil || s.Fits(shape) != nil {
		t.Error(s.ReadFiles())
	}
	s = l.New("dense")
	if s.Profile = filepath.Join(dir, "none"); s.ReadFiles() != nil || s.Fits(shape) != nil {
		t.Error(s.ReadFiles())
	}
	s = l.New("pages")
	if s.Profile = filepath.Join(dir, "none"); s.ReadFiles() == nil || s.Fits(shape) == nil {
		t.Error("no profile")
	}
	none := l.New("page")
	if err := none.Fits(shape); err == nil || !strings.Contains(err.Error(), `did you mean "pages"?`) || none.Costs(shape) != nil {
		t.Error(err)
	}
	if _, err := NewValues(&none, shape); err == nil {
		t.Error("values of no policy")
	}
	s = l.New("dense")
	if got := s.Costs(shape).Runs(); !slices.Equal(got, []int{2}) {
		t.Errorf("%v", got)
	}
}
