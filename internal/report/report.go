package report

import (
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/results"
)

// Report is the content of a page.
type Report struct {
	Title      string         `json:"title"`
	Sets       []*Set         `json:"sets"`
	Parts      []string       `json:"parts"` // columns of the energy's components
	Validation []ErrorOfParts `json:"validation"`
}

// ErrorOfParts is the error of predictions of one kind against measurements.
type ErrorOfParts struct {
	Kind   string  `json:"kind"`
	Rows   int     `json:"rows"`
	Mean   float64 `json:"mean"` // absolute relative error, mean over the rows
	Worst  float64 `json:"worst"`
	Anchor string  `json:"anchor"` // the set of measurements with the worst mean
}

// measuredErrors is how far the models are from measurements, by kind: a list of ErrorOfParts in JSON, which
// the lab's validation writes.
//
//go:embed errors.json
var measuredErrors []byte

// Options set what a report shows.
type Options struct {
	Title string
	Goals string // as tables.ParseGoals takes them, for all folders; "": default goals
}

// Read collects the results of sweeps' folders. Errors of the input are of type *input.Error.
func Read(dirs []string, o Options) (*Report, error) {
	r := &Report{Title: o.Title}
	for _, dir := range dirs {
		s, err := readSet(dir, "--goals", o.Goals)
		if err != nil {
			return nil, err
		}
		for n, name := 2, s.Name; slices.ContainsFunc(r.Sets, func(other *Set) bool { return other.Name == s.Name }); n++ {
			s.Name = fmt.Sprintf("%s (%d)", name, n)
		}
		r.Sets = append(r.Sets, s)
	}
	for _, name := range results.MetricNames() {
		part, ok := strings.CutPrefix(name, "site_energy_")
		if name == "gpu_energy_total_j" || ok && strings.HasSuffix(name, "_j") && !slices.Contains([]string{"total_j", "low_j", "high_j"}, part) {
			r.Parts = append(r.Parts, name)
		}
	}
	if err := json.Unmarshal(measuredErrors, &r.Validation); err != nil {
		return nil, err
	}
	r.Title = cmp.Or(r.Title, r.title())
	return r, nil
}

// title names the results: the systems, models and traces that all folders have, or the folders.
func (r *Report) title() string {
	badge := func(s *Set, name string) string {
		for _, b := range s.Badges {
			if b.Name == name {
				return b.Value
			}
		}
		return ""
	}
	shared := func(name string) string {
		value := badge(r.Sets[0], name)
		for _, s := range r.Sets[1:] {
			if badge(s, name) != value {
				return ""
			}
		}
		return value
	}
	system, model := shared("system"), shared("model")
	if system == "" || model == "" {
		names := list.Map(r.Sets, func(s *Set) string { return s.Name })
		return "Results of " + strings.Join(names, ", ")
	}
	title := system + " serving " + model
	if trace := shared("trace"); trace != "" {
		title += ", trace " + trace
	}
	return title
}

//go:embed report.html.tmpl report.css report.js echarts/echarts.min.js
var files embed.FS

// The largest size of a page, and the part of it for results.
const (
	mostBytes = 2 << 20
	dataBytes = 900 << 10
)

// page is the template's data.
type page struct {
	*Report
	Style  template.CSS
	Charts template.JS // Apache ECharts
	Script template.JS
}

// Write writes the page. If the results are too large for it, it leaves out points that are not on
// a front, and notes that.
func (r *Report) Write(w io.Writer) error {
	if err := r.fit(); err != nil {
		return err
	}
	t, err := template.ParseFS(files, "report.html.tmpl")
	if err != nil {
		return err
	}
	text := func(name string) string {
		b, _ := files.ReadFile(name) // it is embedded
		return string(b)
	}
	return t.Execute(w, page{r, template.CSS(text("report.css")), template.JS(text("echarts/echarts.min.js")), template.JS(text("report.js"))})
}

// fit drops points until the results take at most dataBytes: repeatedly every second point of each
// folder that is not on the front.
func (r *Report) fit() error {
	for {
		b, err := json.Marshal(r)
		if err != nil || len(b) <= dataBytes {
			return err
		}
		dropped := 0
		for _, s := range r.Sets {
			dropped += s.thin()
		}
		if dropped == 0 {
			return &input.Error{Key: "--out", Value: fmt.Sprintf("%d KiB", len(b)>>10),
				Expected: fmt.Sprintf("results of at most %d KiB for one page: fewer folders, or goals with fewer points on the front", dataBytes>>10)}
		}
	}
}

// thin drops every second point that is not on the front, and returns their number.
func (s *Set) thin() int {
	kept, place, odd := 0, map[int]int{}, false
	for i := range s.Rows {
		if !slices.Contains(s.Front, i) && !slices.Contains(s.Best, i) {
			if odd = !odd; !odd {
				continue
			}
		}
		place[i] = kept
		s.Rows[kept], s.Names[kept], s.Signs[kept], s.Seeds[kept], s.Spread[kept] = s.Rows[i], s.Names[i], s.Signs[i], s.Seeds[i], s.Spread[i]
		if s.Sets != nil {
			s.Sets[kept] = s.Sets[i]
		}
		kept++
	}
	dropped := len(s.Rows) - kept
	s.Rows, s.Names, s.Signs, s.Seeds, s.Spread, s.Sets = s.Rows[:kept], s.Names[:kept], s.Signs[:kept], s.Seeds[:kept], s.Spread[:kept], s.Sets[:min(kept, len(s.Sets))]
	for _, named := range [][]int{s.Front, s.Best} {
		for i, p := range named {
			named[i] = place[p]
		}
	}
	return dropped
}
