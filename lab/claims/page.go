package claims

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"text/template"
	"unicode"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/system/kinds"
	"github.com/l3sim/l3sim/units"
)

// section is a part of the page with a table.
type section struct {
	title, text string
	table       *tables.Table
}

// onPage says that a section is on the page; the others are only files.
func (s *section) onPage() bool {
	return slices.Contains([]string{answerTitle, shortTitle, sensitivityTitle}, s.title)
}

// file names the section's table, without its ending.
func (s *section) file() string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(s.title), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }), "_")
}

const pageFile = "reproduction.md" // the page's name in the folder of Write

const figureFolder = "figures" // where Write puts pictures, from the page

// WriteText writes what a person reads on a terminal: the claims or the effects.
func (r *Report) WriteText(w io.Writer) error {
	if r.Target == Sensitivity {
		s := r.sections[0]
		return s.table.WriteText(w)
	}
	if err := r.claimTable().WriteText(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	if r.Target == Sparse {
		fmt.Fprintf(w, "%s\n\n", r.counts())
	}
	r.writeReasons(w)
	if r.Target != Fair {
		return nil
	}
	for _, s := range r.sections {
		switch s.title {
		case answerTitle:
			fmt.Fprintf(w, "\n%s: %s\n\n", s.title, s.text)
		case bestTitle:
			fmt.Fprintf(w, "\n%s\n\n", s.title)
		default:
			continue
		}
		if err := s.table.WriteText(w); err != nil {
			return err
		}
	}
	if r.Requests < AllTargets.DefaultRequests() {
		fmt.Fprintf(w, "\n%d requests of each trace: the end of a run, where large batches drain, counts much; --requests %d shows less of it.\n",
			r.Requests, AllTargets.DefaultRequests())
	}
	return nil
}

// part is the part of the page that a target writes: some have one each, everything else
// the main one.
func (t Target) part() string {
	if slices.Contains(parts, string(t)) {
		return string(t)
	}
	return evaluationPart
}

// parts are the parts of the page in order.
var parts = []string{evaluationPart, string(Sensitivity), string(Fair), string(Sparse)}

// evaluationPart is the part of lab/docs/reproduction.md that the paper's own evaluation fills.
const evaluationPart = "evaluation"

// page returns the page with this report's part; the others are taken from the page at path.
func (r *Report) page(path string) ([]byte, error) {
	old, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	var b, own bytes.Buffer
	head, err := r.models.text("head")
	if err = cmp.Or(err, r.writePart(&own)); err != nil {
		return nil, err
	}
	b.WriteString(head)
	for _, name := range parts {
		text := oldPart(string(old), name)
		if name == r.Target.part() {
			text = own.String()
		}
		if text != "" {
			fmt.Fprintf(&b, "\n<!-- begin %s -->\n%s<!-- end %s -->\n", name, text, name)
		}
	}
	return b.Bytes(), nil
}

func oldPart(page, name string) string {
	_, rest, _ := strings.Cut(page, "<!-- begin "+name+" -->\n")
	text, _, whole := strings.Cut(rest, "<!-- end "+name+" -->")
	if !whole {
		return ""
	}
	return text
}

func (r *Report) writePart(w io.Writer) error {
	title := map[string]string{evaluationPart: "Claims", string(Sensitivity): sensitivityTitle, string(Fair): "The fair comparison", string(Sparse): "Papers on sparse attention"}[r.Target.part()]
	switch fmt.Fprintf(w, "\n## %s\n\n`l3lab reproduce %s`", title, r.Target); r.Target {
	case Sparse:
		text, err := r.models.text("sparse")
		if err != nil {
			return err
		}
		fmt.Fprintf(w, ". %s %s\n\n", r.counts(), text)
	default:
		fmt.Fprintf(w, ", %d requests of each trace, %s.\n\n%s", r.Requests, r.seedText(), r.intro)
	}
	if len(r.Judgements) > 0 && r.Target != Fair {
		if err := r.writeClaims(w); err != nil {
			return err
		}
	}
	if text := r.placementNote(); text != "" {
		fmt.Fprintf(w, "\n%s\n", text)
	}
	if len(r.Figures) > 1 {
		fmt.Fprintf(w, "\n### Figures\n")
	}
	for i := range r.Figures {
		f := &r.Figures[i]
		caption, err := r.models.text(f.Name)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "\n![%s](%s/%s)\n%s\n", f.Title, figureFolder, f.file()+".png", caption)
	}
	for i := range r.sections {
		s := &r.sections[i]
		if !s.onPage() {
			continue
		}
		if s.title != title {
			fmt.Fprintf(w, "\n### %s\n\n", s.title)
		}
		if s.text != "" {
			fmt.Fprintf(w, "%s\n\n", s.text)
		}
		if err := s.table.WriteMarkdown(w); err != nil {
			return err
		}
	}
	if r.Target != AllTargets {
		return nil
	}
	limits, err := r.models.text("limits")
	fmt.Fprintf(w, "\n%s", limits)
	return err
}

func (r *Report) seedText() string {
	if len(r.Seeds) == 1 {
		return fmt.Sprintf("seed %d", r.Seeds[0])
	}
	return fmt.Sprintf("means and ranges over seeds %d to %d, reasons and tables of the first", r.Seeds[0], r.Seeds[len(r.Seeds)-1])
}

//go:embed page.md.tmpl
var pageText string

// pageTemplates are the texts of the page by name: captions by the figure's name, and the parts of
// the page.
var pageTemplates = sync.OnceValues(func() (*template.Template, error) {
	return template.New("").Option("missingkey=error").Funcs(template.FuncMap{
		"tera":    func(r units.FLOPRate) string { return fmt.Sprintf("%.0f", float64(r)/1e12) },
		"percent": func(share float64) string { return fmt.Sprintf("%.0f%%", 100*share) },
	}).Parse(pageText)
})

// namedSystem is a system of the fair comparison: its name in the sweep, and a configuration.
type namedSystem struct {
	Name string
	*configs.Config
}

// HBMPIM returns the section of PIM in the GPUs' memory.
func (s namedSystem) HBMPIM() kinds.HBMPIM { return configs.Section[kinds.HBMPIM](s.Config) }

// text returns a text of the page, filled with numbers of the models and of the compared systems.
func (m *models) text(name string, systems ...namedSystem) (string, error) {
	all, err := pageTemplates()
	if err != nil {
		return "", err
	}
	sparse, err := readSparse()
	if err != nil {
		return "", err
	}
	small := m.served[0]
	var b strings.Builder
	err = all.ExecuteTemplate(&b, name, map[string]any{
		"Llama": m.llama, "Measured": m.measured, "Small": small, "Largest": m.largest, "Systems": systems,
		"Batch": m.fig2Batch(), "Context": fig2Context, "Gigabytes": float64(gpuMemory) / 1e9,
		"Peak": float64(m.llama.GPU.Peak16) / float64(m.measured.Peak16), "SmallWeights": 100 * m.weightsOf(small),
		"HostMs":  sparse.HostMs,
		"Divides": small.Model.KVHeads%small.Node.Channels == 0,
	})
	return b.String(), err
}

// Placements of a request, as in comm.balance.
const (
	inTurn = "round-robin"
	evenly = "split"
)

// placementNote counts the reproduced claims with the same placement for all, and names those on which the
// placements differ. Claims without a placement have one verdict for all.
func (r *Report) placementNote() string {
	if !slices.ContainsFunc(r.Judgements, func(j judgement) bool { return j.claim.Readings[0].Placement != "" && j.Others != nil }) {
		return ""
	}
	var counts, differ []string
	byPlacement := map[string][]*Outcome{}
	for _, p := range []string{inTurn, evenly} {
		n := 0
		for i := range r.Judgements {
			o := r.Judgements[i].under(p)
			if byPlacement[p] = append(byPlacement[p], o); o != nil && o.Verdict == reproduced {
				n++
			}
		}
		counts = append(counts, fmt.Sprintf("%d of %d with `comm.balance = %q`", n, len(r.Judgements), p))
	}
	for i := range r.Judgements {
		a, b := byPlacement[inTurn][i], byPlacement[evenly][i]
		if a == nil || b == nil {
			continue
		}
		if a.Verdict != b.Verdict {
			differ = append(differ, fmt.Sprintf("`%s` (%.3g and %.3g)", r.Judgements[i].ID, a.Ours, b.Ours))
		}
	}
	text := fmt.Sprintf("With one placement of requests for all claims these come out: %s.", strings.Join(counts, ", "))
	if len(differ) > 0 {
		text += " They differ in " + strings.Join(differ, ", ") + "."
	}
	return text
}

// under returns a claim's outcome with a placement: of the first reading with it, or of the deciding one if it has none.
func (j *judgement) under(placement string) *Outcome {
	readings := j.claim.Readings
	if readings[0].Placement == "" || readings[0].Placement == placement {
		return &j.Outcome
	}
	for n := range j.Others {
		if readings[n+1].Placement == placement {
			return &j.Others[n]
		}
	}
	return nil
}

// weightsOf returns the share of the memory of a replica's GPUs that weights take.
func (m *models) weightsOf(c *configs.Config) float64 {
	return float64(c.Model.WeightBytes()) / (float64(c.Model.TensorParallel) * float64(c.GPU.MemoryCapacity))
}
