package claims

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	files "github.com/l3sim/l3sim/lab/claims/paper"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/figure"
	"github.com/l3sim/l3sim/results/tables"
)

// Figure is one figure of the paper with our numbers.
type Figure struct {
	Name  string // of its definition in lab/claims/paper
	Title string
	Data  *figure.Data
}

func (r *Report) addFigures(ctx context.Context, e *evidence, experiments []*experiment) error {
	var err error
	if r.Target == Fig2 || r.Target == AllTargets {
		err = cmp.Or(r.draw(e.text.utilizationTable(), "fig2a"), r.draw(e.text.latencyTable(), "fig2b"))
	}
	for _, x := range experiments {
		if err == nil {
			err = r.drawAll(x)
		}
		if err == nil && x.Name == "fig8" {
			err = r.addSystems(x.placed(inTurn))
		}
		if err == nil && x.Name == "fig10a" {
			var t *tables.Table
			if t, err = e.text.predictorTable(ctx, r.Requests); err == nil {
				err = r.draw(t, "fig10b")
			}
		}
	}
	return err
}

// drawAll adds an experiment's table and its figures.
func (r *Report) drawAll(x *experiment) error {
	t, err := x.table()
	if err != nil {
		return err
	}
	return r.draw(t, x.Figures...)
}

// draw adds a table and its figures, by their definitions in lab/claims/paper.
func (r *Report) draw(t *tables.Table, names ...string) error {
	r.Tables = append(r.Tables, t)
	for _, name := range names {
		path := name + ".figure.toml"
		text, _ := files.Files.ReadFile(path) // if there is none, the definition's error says so
		d, err := figure.ParseDefinition(files.Folder+"/"+path, string(text))
		if err != nil {
			return err
		}
		data, err := figure.Select(t, d.Selection)
		if err == nil {
			err = cmp.Or(referToPaper(name, data), data.Check())
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		r.Figures = append(r.Figures, Figure{Name: name, Title: d.Title, Data: data})
	}
	return nil
}

// referToPaper adds the paper's numbers to a figure, each as a multiple of our number to which it is
// relative.
func referToPaper(name string, data *figure.Data) error {
	all, err := readEvaluation()
	if err != nil {
		return err
	}
	for _, c := range all.Claim {
		for _, p := range c.Points {
			if p.Figure != name {
				continue
			}
			p.Factor = c.Paper
			if len(p.Xs) == 0 {
				p.Xs = []string{p.X}
			}
			for _, p.X = range p.Xs {
				if err := data.Refer("paper", p.Reference); err != nil {
					return fmt.Errorf("%s: %w", c.ID, err)
				}
			}
		}
	}
	return nil
}

func (r *Report) figureFiles() []results.File {
	var all []results.File
	for i := range r.Figures {
		f := &r.Figures[i]
		all = append(all, f.Data.File(f.file(), "png", f.Title), f.Data.File(f.file(), "svg", f.Title))
	}
	return all
}

// file names the figure's picture, without its ending.
func (f *Figure) file() string { return "reproduction_" + f.Name }

// effect is a changed assumption of the evaluation, with the resulting best cases of Fig 8.
type effect struct {
	Assumption string `json:"assumption"` // as the sweep names it
	// The first claims of Fig 8 in their order: means over the seeds.
	OverHBMPIM  float64 `json:"max_over_hbm_pim"`
	OverGPUOnly float64 `json:"max_over_gpu_only"`
	OverRankPIM float64 `json:"max_over_rank_pim"`
	BatchRatio  float64 `json:"max_batch_ratio"`
	Ordering    float64 `json:"opt66b_dolphin_hbm_over_gpu"`
}

// values returns the numbers in the order of the claims.
func (e *effect) values() []float64 {
	return []float64{e.OverHBMPIM, e.OverGPUOnly, e.OverRankPIM, e.BatchRatio, e.Ordering}
}

const unchanged = "paper" // names the points with every assumption unchanged

// addSensitivity evaluates each assumption of the sweep. A system that an assumption does not
// affect has no points of its own there; its unchanged ones are used.
func (r *Report) addSensitivity(x *experiment) error {
	claims, err := claimsOf(Fig8)
	if err != nil {
		return err
	}
	for _, name := range x.assumptions() {
		under := x.under(name)
		if err := under.matched(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		judgements, err := judge(claims, &evidence{seeds: r.Seeds, of: map[string]*experiment{"fig8": under}})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		r.Sensitivity = append(r.Sensitivity, effect{name, judgements[0].Ours, judgements[1].Ours, judgements[2].Ours, judgements[3].Ours, judgements[4].Ours})
	}
	r.sections = append(r.sections, r.effects(claims))
	return r.drawAll(x)
}

// assumptions returns the names of the sweep's list, in order.
func (x *experiment) assumptions() []string {
	var names []string
	for _, axis := range x.plan.File.Axes {
		if axis.Kind == "list" {
			for _, c := range axis.Choices {
				names = append(names, c.Name)
			}
		}
	}
	return names
}

func (x *experiment) under(name string) *experiment {
	type place struct {
		work
		system string
		seed   uint64
	}
	at := func(i int) place { return place{x.workOf(i), x.configs[i].Run.System, x.plan.Points[i].Seed} }
	is := func(i int, name string) bool { return slices.Contains(strings.Split(x.plan.Points[i].Name, ","), name) }
	changed := map[place]bool{}
	for i := range x.plan.Points {
		if is(i, name) {
			changed[at(i)] = true
		}
	}
	return x.pick(func(i int) bool { return is(i, name) || is(i, unchanged) && !changed[at(i)] })
}

// matched checks that all systems served the same requests of each model, trace and seed: a change
// that excludes requests must apply to every system.
func (x *experiment) matched() error {
	type work struct {
		model, trace string
		seed         uint64
	}
	requests := map[work]results.Trace{}
	for i, entry := range x.outcome.Entries {
		c := x.configs[i]
		w := work{c.Run.Model, c.Run.Trace, x.plan.Points[i].Seed}
		if first, ok := requests[w]; ok && first != entry.Summary.Trace {
			return fmt.Errorf("%s serves other requests of %s with %s than other systems", c.Run.System, w.trace, w.model)
		}
		requests[w] = entry.Summary.Trace
	}
	return nil
}

const sensitivityTitle = "Sensitivity"

// effects is the table of the sensitivity. Numbers in bold change the claim's verdict.
func (r *Report) effects(claims []*claim) section {
	t := &tables.Table{Columns: []string{"one change", "over hbm-pim", "over gpu-only", "over rank-pim", "batch over hbm-pim", "OPT-66B, Dolphin: hbm-pim over gpu-only"}}
	base, still := &r.Sensitivity[0], []string{}
	for i := range r.Sensitivity {
		e := &r.Sensitivity[i]
		row, moves := []any{e.Assumption}, i == 0
		for k, now := range e.values() {
			cell, was := fmt.Sprintf("%.2f", now), base.values()[k]
			if i > 0 && fmt.Sprintf("%.2f", was) != cell {
				cell += fmt.Sprintf(" (%+.0f%%)", 100*(now/was-1))
			}
			turned := claims[k].holds(now) != claims[k].holds(was)
			if turned {
				cell = "**" + cell + "**"
			}
			row, moves = append(row, cell), moves || turned || math.Abs(now/was-1) > 0.01
		}
		if moves {
			t.Add(row...)
		} else {
			still = append(still, e.Assumption)
		}
	}
	var holds []string
	for k, was := range base.values() {
		if claims[k].holds(was) {
			holds = append(holds, "`"+claims[k].ID+"`")
		}
	}
	text := "Best cases of Fig 8 over all models and traces, also those out of memory, with one assumption of the preset `paper` changed at a time " +
		"(`lab/claims/paper/sensitivity.toml`).\n\nUnchanged, these claims are reproduced: " + strings.Join(holds, ", ") + ". Bold: the change turns the verdict."
	if len(still) > 0 {
		text += "\n\nNo number moves by more than 1% with: " + strings.Join(still, "; ") + "."
	}
	return section{sensitivityTitle, text, t}
}
