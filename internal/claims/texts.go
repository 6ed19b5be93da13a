package claims

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"
	"text/template"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/units"
)

//go:embed page.md.tmpl
var pageText string

// pageTemplates are the texts of the page by name: the caption of each figure under the
// figure's, and the parts of the page.
var pageTemplates = sync.OnceValues(func() (*template.Template, error) {
	return template.New("").Option("missingkey=error").Funcs(template.FuncMap{
		"tera":    func(r units.FLOPRate) string { return fmt.Sprintf("%.0f", float64(r)/1e12) },
		"percent": func(share float64) string { return fmt.Sprintf("%.0f%%", 100*share) },
	}).Parse(pageText)
})

// namedSystem is a system of the fair comparison: the name that its sweep gives it, and
// a configuration.
type namedSystem struct {
	Name string
	*configs.Config
}

// HBMPIM returns the section of PIM in the GPUs' memory.
func (s namedSystem) HBMPIM() system.HBMPIM { return configs.Section[system.HBMPIM](s.Config) }

// text returns a text of the page, made of the models' numbers and of the systems that
// are compared.
func (m *models) text(name string, systems ...namedSystem) (string, error) {
	all, err := pageTemplates()
	if err != nil {
		return "", err
	}
	small := m.served[0]
	var b strings.Builder
	err = all.ExecuteTemplate(&b, name, map[string]any{
		"Llama": m.llama, "Measured": m.measured, "Small": small, "Largest": m.largest, "Systems": systems,
		"Batch": m.fig2Batch(), "Context": fig2Context, "Gigabytes": float64(gpuMemory) / 1e9,
		"Peak": float64(m.llama.GPU.Peak16) / float64(m.measured.Peak16), "SmallWeights": 100 * m.weightsOf(small),
		"Divides": small.Model.KVHeads%small.Node.Channels == 0,
	})
	return b.String(), err
}

// Where a request begins, as comm.balance has it.
const (
	inTurn = "round-robin"
	evenly = "split"
)

// placementNote names the claims that one placement of requests reproduces and the other
// does not, "" where one placement reproduces all that either does.
func (r *Report) placementNote() string {
	missing := map[string][]string{} // by the reading's name, of the claims that the other one gives
	names := map[string]string{}     // of the readings, by placement
	for i := range r.Judgements {
		j := &r.Judgements[i]
		if len(j.Others) != 1 || j.claim.Readings[0].Placement == "" {
			continue
		}
		for _, read := range j.claim.Readings {
			names[read.Placement] = read.Name
		}
		for _, pair := range [][2]*Outcome{{&j.Outcome, &j.Others[0]}, {&j.Others[0], &j.Outcome}} {
			if out, in := pair[0], pair[1]; out.Verdict != reproduced && in.Verdict == reproduced {
				missing[out.Reading] = append(missing[out.Reading], fmt.Sprintf("`%s` is %.3g in place of %.3g (else %.3g)", j.ID, out.Ours, j.Paper, in.Ours))
			}
		}
	}
	if len(missing) < 2 {
		return ""
	}
	return fmt.Sprintf("No one placement of requests gives all of these figures. Where %s, %s. With %s, %s.",
		names[inTurn], strings.Join(missing[names[inTurn]], ", "), names[evenly], strings.Join(missing[names[evenly]], ", "))
}

// weightsOf returns the share of the memory of a replica's GPUs that weights take.
func (m *models) weightsOf(c *configs.Config) float64 {
	return float64(c.Model.WeightBytes()) / (float64(c.Model.TensorParallel) * float64(c.GPU.MemoryCapacity))
}
