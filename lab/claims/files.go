package claims

import (
	"cmp"
	"io"
	"path/filepath"

	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
)

// WriteJSON writes the judgements, and effects where there are any, as one object.
func (r *Report) WriteJSON(w io.Writer) error {
	if r.Target == Sensitivity {
		return results.WriteJSON(w, map[string]any{"sensitivity": r.Sensitivity})
	}
	claims := r.Judgements
	if claims == nil {
		claims = []judgement{}
	}
	return results.WriteJSON(w, map[string]any{"claims": claims})
}

// Write writes tables (CSV), figures, claims.json and the page into dir. The page keeps the parts
// of other targets. Files are written atomically.
func (r *Report) Write(dir string) error {
	page, err := r.page(filepath.Join(dir, pageFile))
	if err != nil {
		return err
	}
	if err := results.WriteFiles(filepath.Join(dir, figureFolder), r.figureFiles()); err != nil {
		return err
	}
	var all []results.File
	for _, t := range r.Tables {
		all = append(all, results.File{Name: t.Name + ".csv", Write: t.WriteCSV})
	}
	for i := range r.sections {
		if s := &r.sections[i]; !s.onPage() {
			all = append(all, results.File{Name: s.file() + ".csv", Write: s.table.WriteCSV})
		}
	}
	name := "claims.json"
	if part := r.Target.part(); part != evaluationPart {
		name = part + ".json"
	}
	all = append(all,
		results.File{Name: name, Write: r.WriteJSON},
		results.File{Name: pageFile, Write: func(w io.Writer) error { _, err := w.Write(page); return err }})
	if len(r.Judgements) > 0 {
		all = append(all, results.File{Name: "claims.csv", Write: r.claimNumbers().WriteCSV})
	}
	if len(r.experiments) == 0 {
		return results.WriteFiles(dir, all)
	}
	f, err := r.folder()
	if err != nil {
		return err
	}
	f.More = all
	return results.WriteFiles(dir, f.Files())
}

// folder returns the results of all experiments; with several, a column names a row's experiment.
func (r *Report) folder() (*tables.Folder, error) {
	var f *tables.Folder
	var names []string
	var all []*tables.Table
	for _, x := range r.experiments {
		one, err := x.plan.Folder("reproduce", &x.outcome, r.WriteJSON)
		if err != nil {
			return nil, err
		}
		f, names, all = cmp.Or(f, one), append(names, x.Name), append(all, one.Table)
	}
	if len(all) > 1 {
		f.Table = tables.Join(names, all)
		f.Base.File, f.Base.Configs, f.Base.Sets = "", nil, nil // each experiment has its own
	}
	return f, nil
}

// claimNumbers returns the judgements as a table of numbers, a row a claim.
func (r *Report) claimNumbers() *tables.Table {
	t := &tables.Table{Columns: []string{"claim", "paper", "ours", "ours_low", "ours_high", "verdict", "on_the_edge", "reading", "reason"}}
	for i := range r.Judgements {
		j := &r.Judgements[i]
		var ours, low, high any
		if j.Number != nil {
			ours, low, high = j.Ours, j.Low, j.High
		}
		t.Add(j.ID, j.Paper, ours, low, high, j.Verdict, j.Edge, j.Reading, j.Reason)
	}
	return t
}
