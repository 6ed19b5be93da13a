package sweep

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/input/schema"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/system"
)

// columnKeys returns the keys in the table: those of the axes, the system, model and trace, and the
// seed.
func (p *Plan) columnKeys() []string {
	var keys []string
	for _, k := range p.Keys {
		if k != tables.SeedColumn {
			keys = append(keys, k)
		}
	}
	for _, k := range []string{"run.system", "run.model", "run.trace"} {
		if !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	return append(keys, tables.SeedColumn)
}

// Table returns the results as a tidy table: one row per point, in point order, with columns as package tables describes them. Of the
// variants of a combination it has the best (Best). Two runs of the same points give the same table.
func (p *Plan) Table(o *Outcome) (*tables.Table, error) {
	counts := p.counts(o)
	for i := range p.Points {
		point := &p.Points[i]
		if (point.draw == nil || counts(i)) && o.Entries[i] == nil {
			return nil, fmt.Errorf("point %s, seed %d, has no result", point.Name, point.Seed)
		}
	}
	t := &tables.Table{Columns: p.header(), Kinds: p.kinds()}
	for _, i := range p.Best(o) {
		t.Add(row(&p.Points[i], o.Entries[i])...)
	}
	if p.bands != nil {
		p.addBands(t, o)
	}
	return t, nil
}

// kinds returns the kinds of the keys' columns.
func (p *Plan) kinds() map[string]tables.Kind {
	kinds := map[string]tables.Kind{}
	for _, key := range p.columns {
		k := p.keys().Key(key)
		kinds[columnName(k)] = columnKind(k)
	}
	return kinds
}

// header returns the names of the table's columns.
func (p *Plan) header() []string {
	return slices.Concat([]string{tables.PointColumn}, list.Map(p.columns, func(key string) string { return columnName(p.keys().Key(key)) }),
		[]string{tables.StatusColumn, tables.ErrorColumn, tables.ConfigColumn}, results.MetricNames())
}

func row(point *Point, e *Entry) []any {
	metrics := make([]any, len(results.MetricNames()))
	if e.Summary != nil {
		metrics = e.Summary.MetricValues()
	}
	keys := list.Map(point.cells, func(v tables.Value) any { return v })
	return slices.Concat([]any{point.Name}, keys, []any{e.Status, strings.ReplaceAll(e.Error, "\n", " "), point.config}, metrics)
}

// provenance returns the metadata of the Parquet file. It depends on the same input as the rows,
// not on the file, machine or date of this run.
func (p *Plan) provenance() map[string]string {
	return map[string]string{
		tables.MetaSchema:  tables.ParquetSchema,
		tables.MetaVersion: p.Version,
		tables.MetaPlan:    p.Identity(),
	}
}

// Write writes the results into dir: a tables.Folder, and in the folder points the summary of each point that is done, in the
// form of 'l3sim run --json'. Files are written atomically. Write removes the points of an earlier plan and temporary files.
// The caller must hold the journal in dir open: its lock keeps others from writing there, so any temporary file is from a
// killed process.
func (p *Plan) Write(dir string, o *Outcome) error {
	placed := slices.Clone(p.Points)
	for i := range placed {
		placed[i].Err = nil // errors come from the journal: they do not name the sweep file's lines
	}
	report := &Report{Schema: reportSchema, Points: len(p.own()), Draws: p.draws(), Failed: o.Failed, Faults: Failures(placed, o)}
	f, err := p.Folder("sweep", o, func(w io.Writer) error { return results.WriteJSON(w, report) })
	if err != nil {
		return err
	}
	points := filepath.Join(dir, "points")
	for _, folder := range []string{dir, points} {
		if err := removeStale(folder, results.IsTemporary); err != nil {
			return err
		}
	}
	var files []results.File
	names, written := p.fileNames(), map[string]bool{}
	for i := range p.own() {
		if s := o.Entries[i].Summary; s != nil {
			files = append(files, results.File{Name: names[i], Write: s.WriteJSON})
			written[names[i]] = true
		}
	}
	if err := results.WriteFiles(points, files); err != nil {
		return err
	}
	if err := removeStale(points, func(name string) bool { return pointFile.MatchString(name) && !written[name] }); err != nil {
		return err
	}
	if f.Draws == nil { // draws of an earlier plan are of other points
		if err := removeStale(dir, func(name string) bool { return name == tables.DrawsFile || name == tables.DrawsParquet }); err != nil {
			return err
		}
	}
	return results.WriteFiles(dir, f.Files())
}

// Folder returns the folder of a plan's results; summary writes summary.json.
func (p *Plan) Folder(command string, o *Outcome, summary func(io.Writer) error) (*tables.Folder, error) {
	t, err := p.Table(o)
	if err != nil {
		return nil, err
	}
	base := *p.describe()
	base.Command = command
	f := &tables.Folder{Table: t, Meta: p.provenance(), Base: &base, Summary: summary,
		Config: func(w io.Writer) error { return p.writeConfig(w, base.Keys) }}
	if p.bands != nil {
		f.Draws = p.drawn(o)
	}
	return f, nil
}

// writeConfig writes the configuration with the values of keys, as in Base.Keys.
func (p *Plan) writeConfig(w io.Writer, texts map[string]string) error {
	config, err := p.File.Loader.Load(configs.Options{})
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		if err == nil {
			err = config.Set(key, texts[key])
		}
	}
	if err != nil {
		return err
	}
	return config.WriteTOML(w)
}

// fileNames returns the file of each point's summary: the point's name and seed if all file systems
// keep these names apart, otherwise the beginning of the name and a hash.
func (p *Plan) fileNames() []string {
	const longest = 100
	names, taken := make([]string, len(p.Points)), map[string]bool{}
	for i := range p.own() {
		name := fmt.Sprintf("%s,seed=%d", p.Points[i].Name, p.Points[i].Seed)
		plain := strings.Map(func(r rune) rune {
			if strings.ContainsRune("=,.+-_", r) || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
				return r
			}
			return '_'
		}, name)
		if plain != name || len(name) > longest || name[0] == '.' || taken[strings.ToLower(name)] {
			sum := sha256.Sum256([]byte(name))
			plain = strings.TrimLeft(plain[:min(len(plain), longest)], ".") + "-" + hex.EncodeToString(sum[:8])
		}
		taken[strings.ToLower(name)] = true
		names[i] = plain + ".json"
	}
	return names
}

// pointFile matches the file names of Plan.fileNames.
var pointFile = regexp.MustCompile(`^[A-Za-z0-9=,.+_-]+(,seed=[0-9]+|-[0-9a-f]{16})\.json$`)

// removeStale removes from dir the regular files whose names are stale. It ignores a missing
// folder, and files that others have removed.
func removeStale(dir string, stale func(name string) bool) error {
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, f := range files {
		if !f.Type().IsRegular() || !stale(f.Name()) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// removeResults removes the table of an earlier plan from a sweep's folder, which could be taken
// for the unfinished table of this plan. The journal holds all results of the removed table.
func removeResults(dir string) error {
	return removeStale(dir, func(name string) bool {
		return slices.Contains([]string{tables.ResultsFile, tables.ParquetFile, tables.BaseFile, tables.SummaryFile, tables.DrawsFile, tables.DrawsParquet}, name)
	})
}

// describe returns what all points share. Keys are those of the first valid point; there are none
// if every point is an error.
func (p *Plan) describe() *tables.Base {
	if p.base != nil {
		return p.base
	}
	for i := range p.Points {
		if config, err := p.Config(&p.Points[i]); err == nil {
			return p.describeWith(config)
		}
	}
	return p.describeWith(nil)
}

// describeWith returns what all points share; config is that of the first point, nil for none.
func (p *Plan) describeWith(config *configs.Config) *tables.Base {
	b := &tables.Base{Version: p.Version, File: p.File.Path, Configs: p.File.Configs, Keys: map[string]string{}}
	b.Sets = append(b.Sets, p.File.Sets...)
	for _, s := range p.File.Set {
		b.Sets = append(b.Sets, s.Key+"="+s.Value)
	}
	for i := range p.keys().Keys {
		if k := &p.keys().Keys[i]; config != nil {
			b.Keys[k.Name] = schema.Text(k.Get(config))
		}
	}
	return b
}

// SettingOf returns the setting for --set that corresponds to a cell of a results column; false if
// the column is no key, or the cell has no value.
func SettingOf(column, text string) (string, bool) {
	keys := system.Keys().Keys
	for i := range keys {
		k := &keys[i]
		if columnName(k) != column {
			continue
		}
		if _, unit := tables.SplitUnit(column); column != k.Name {
			text += map[string]string{"bytes": "B"}[unit]
			if unit != "bytes" {
				text += unit
			}
		}
		v, err := schema.Parse(k.Type, text)
		if err != nil {
			return "", false
		}
		literal, ok := schema.Literal(v.Interface())
		return k.Name + "=" + literal, ok
	}
	return "", false
}
