package claims

import (
	"cmp"
	"context"
	"fmt"

	files "github.com/l3sim/l3sim/configs/paper"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/figure"
)

// Figure is one figure of the paper with our numbers.
type Figure struct {
	Name  string // of its definition in configs/paper
	Title string
	Data  *figure.Data
}

// newFigure draws a table by a definition of configs/paper.
func newFigure(name string, t *results.Table) (*Figure, error) {
	path := name + ".figure.toml"
	text, err := files.Files.ReadFile(path)
	if err != nil {
		return nil, err
	}
	d, err := figure.ParseDefinition(files.Folder+"/"+path, string(text))
	if err != nil {
		return nil, err
	}
	data, err := figure.Select(t, d.Selection)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &Figure{Name: name, Title: d.Title, Data: data}, data.Check()
}

// addFigures adds the tables and figures of the target.
func (r *Report) addFigures(ctx context.Context, e *evidence, experiments []*experiment) error {
	if r.Target == Fig2 || r.Target == AllTargets {
		if err := cmp.Or(r.draw(e.text.utilizationTable(), "fig2a"), r.draw(e.text.latencyTable(), "fig2b")); err != nil {
			return err
		}
	}
	for _, x := range experiments {
		t, err := x.table()
		if err != nil {
			return err
		}
		if err := r.draw(t, x.Figures...); err != nil {
			return err
		}
		if x.Name == "fig8" {
			if err := r.addSystems(x.placed(inTurn)); err != nil {
				return err
			}
		}
		if x.Name == "fig10a" {
			t, err := e.text.predictorTable(ctx, r.Requests)
			if err != nil {
				return err
			}
			if err := r.draw(t, "fig10b"); err != nil {
				return err
			}
		}
	}
	return nil
}

// draw adds a table and its figures.
func (r *Report) draw(t *results.Table, names ...string) error {
	r.Tables = append(r.Tables, t)
	for _, name := range names {
		f, err := newFigure(name, t)
		if err != nil {
			return err
		}
		r.Figures = append(r.Figures, *f)
	}
	return nil
}

// figureFiles returns the pictures of all figures for the folder of figures.
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
