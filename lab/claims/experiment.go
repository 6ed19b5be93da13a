package claims

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/internal/sweep"
	"github.com/l3sim/l3sim/internal/sweep/design"
	files "github.com/l3sim/l3sim/lab/claims/paper"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/system"
)

// experiment is one sweep of the evaluation.
type experiment struct {
	*experimentSpec
	plan    *sweep.Plan
	configs []*configs.Config // by point, nil if a combination is not valid
	outcome sweep.Outcome
	// whole says that systems are compared on whole traces; otherwise on the points with run.common_to
	// = "all". A system that rejects requests of a whole trace is not compared.
	whole bool
	// requests of one seed with which layouts and policies were tried (try); 0: all have run in full
	triedOn int
}

// point is one finished point of an experiment.
type point struct {
	name    string // as the sweep names it
	system  string // as in experiment.systemOf
	work           // on which systems are compared
	config  *configs.Config
	summary *results.Summary
}

// loader plans experiments.
type loader struct {
	version  string // of the code
	requests int    // of each trace whose size the sweep's axes do not set; 0 for the file's number
	seeds    int
	traces   string // folder for the traces that sweeps name
}

// load plans a sweep of lab/claims/paper; forClaims keeps only the points that claims need.
func (l *loader) load(spec *experimentSpec, forClaims bool) (*experiment, error) {
	name := spec.Name + ".toml"
	text, err := files.Files.ReadFile(name)
	if err != nil {
		return nil, err
	}
	f, err := design.ParseFile(system.Configs(), files.Folder+"/"+name, string(text))
	if err != nil {
		return nil, err
	}
	f.Repeats = l.seeds
	if l.requests > 0 {
		setKey(f, "run.requests", strconv.Itoa(l.requests))
	}
	if forClaims && spec.Claims != "" {
		needed, bad := design.ParseCondition(system.Keys(), spec.Claims)
		if bad != nil {
			return nil, bad
		}
		f.Where = append(f.Where, needed)
	}
	if err := l.materialise(f); err != nil {
		return nil, err
	}
	e := &experiment{experimentSpec: spec}
	if e.plan, err = sweep.NewPlan(f, l.version); err != nil {
		return nil, err
	}
	e.configs = make([]*configs.Config, len(e.plan.Points))
	for i := range e.plan.Points {
		if p := &e.plan.Points[i]; p.Err == nil {
			if e.configs[i], err = e.plan.Config(p); err != nil {
				return nil, err
			}
		}
	}
	return e, nil
}

// setKey sets a key for all points, unless an axis sets it.
func setKey(f *design.File, key, value string) {
	for _, axis := range f.Axes {
		for _, c := range axis.Choices {
			if slices.ContainsFunc(c.Settings, func(s design.Setting) bool { return s.Key == key }) {
				return
			}
		}
	}
	for i := range f.Set {
		if f.Set[i].Key == key {
			f.Set[i].Value = value
			return
		}
	}
	f.Set = append(f.Set, design.Setting{Key: key, Value: value})
}

// materialise writes the traces that a sweep names to disk, so that runs can read them from any
// working folder.
func (l *loader) materialise(f *design.File) error {
	for i := range f.Set {
		name, own := strings.CutPrefix(strings.Trim(f.Set[i].Value, `"`), files.Folder+"/")
		if f.Set[i].Key != "run.trace" || !own {
			continue
		}
		text, err := files.Files.ReadFile(name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(text)
		path := filepath.Join(l.traces, strings.TrimSuffix(name, ".csv")+"-"+hex.EncodeToString(sum[:4])+".csv")
		if old, err := os.ReadFile(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		} else if string(old) != string(text) {
			err := results.WriteFileAtomic(path, func(w io.Writer) error { _, err := w.Write(text); return err })
			if err != nil {
				return err
			}
		}
		f.Set[i].Value = strconv.Quote(path)
	}
	return nil
}

// runner runs a plan: (*sweep.Plan).Run, or a test's replacement.
type runner func(*sweep.Plan, context.Context, sweep.RunOptions) (*sweep.Outcome, error)

// runAll runs the points of experiments, one experiment after the other. Points with the same work run once.
func runAll(ctx context.Context, experiments []*experiment, run runner, o sweep.RunOptions) error {
	parts := make([]sweep.Plan, len(experiments))
	works := make([][]string, len(experiments)) // by experiment and point
	done, total := map[string]*sweep.Entry{}, int64(0)
	workOf := map[string]string{} // by address
	for i, e := range experiments {
		parts[i] = *e.plan
		parts[i].Points = nil
		for k := range e.plan.Points {
			work, err := e.work(k)
			if err != nil {
				return err
			}
			workOf[e.plan.Points[k].Hash], works[i] = work, append(works[i], work)
			if _, seen := done[work]; !seen {
				done[work], parts[i].Points = nil, append(parts[i].Points, e.plan.Points[k])
			}
		}
		slices.SortStableFunc(parts[i].Points, func(a, b sweep.Point) int { return cmp.Compare(b.Tokens, a.Tokens) })
		total += int64(len(parts[i].Points))
	}
	finished := int64(0)
	for i, e := range experiments {
		part := o
		part.Progress = func(done, _ int64) {
			if o.Progress != nil {
				o.Progress(finished+done, total)
			}
		}
		outcome, err := run(&parts[i], ctx, part)
		if err != nil {
			return err
		}
		finished += int64(len(parts[i].Points))
		for _, entry := range outcome.Entries {
			done[workOf[entry.Point]] = entry
		}
		for _, work := range works[i] {
			entry := done[work]
			if e.outcome.Entries = append(e.outcome.Entries, entry); entry.Status == tables.StatusFailed {
				e.outcome.Failed++
			}
		}
	}
	return nil
}

// work identifies the work of a point: its configuration and its requests. Run.common_to does not
// count if it keeps all requests of the trace.
func (e *experiment) work(i int) (string, error) {
	p, config := &e.plan.Points[i], e.configs[i]
	if config == nil || p.Requests != config.Run.Requests {
		return p.Hash, nil
	}
	plain := *config
	plain.Run.CommonTo = ""
	return plain.SHA256()
}

// keepBest keeps, for each system, the best of its variants.
func (e *experiment) keepBest() {
	e.configs = list.Map(e.plan.Best(&e.outcome), func(i int) *configs.Config { return e.configs[i] })
	e.plan.KeepBest(&e.outcome)
}

// failed returns an error that names the first failed point, nil without one.
func (e *experiment) failed() error {
	for i, entry := range e.outcome.Entries {
		if entry.Status == tables.StatusFailed {
			return fmt.Errorf("%s: %d of %d points failed, the first is %s: %s", e.Name, e.outcome.Failed, len(e.outcome.Entries), e.plan.Points[i].Name, entry.Error)
		}
	}
	return nil
}

func (e *experiment) seeds() []uint64 {
	var all []uint64
	for i := range e.plan.Points {
		if s := e.plan.Points[i].Seed; !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	slices.Sort(all)
	return all
}

// find returns the finished points of a seed that fulfil a condition.
func (e *experiment) find(seed uint64, where func(*point) bool) []point {
	var found []point
	for i := range e.plan.Points {
		p := &e.plan.Points[i]
		if p.Seed != seed || e.configs[i] == nil || e.outcome.Entries[i].Summary == nil {
			continue
		}
		if q := (point{p.Name, e.systemOf(i), e.workOf(i), e.configs[i], e.outcome.Entries[i].Summary}); where(&q) {
			found = append(found, q)
		}
	}
	return found
}

// systemOf names the system of a point: by the sweep file's list that sets run.system, which may
// list a system several times with other hardware, else by run.system.
func (e *experiment) systemOf(i int) string {
	names := strings.Split(e.plan.Points[i].Name, ",")
	for _, axis := range e.plan.File.Axes {
		for _, c := range axis.Choices {
			sets := slices.ContainsFunc(c.Settings, func(s design.Setting) bool { return s.Key == "run.system" })
			if axis.Kind == "list" && sets && slices.Contains(names, c.Name) {
				return c.Name
			}
		}
	}
	return e.configs[i].Run.System
}

// one is find for a condition that exactly one point fulfils.
func (e *experiment) one(seed uint64, what string, where func(*point) bool) (*point, error) {
	found := e.find(seed, where)
	if len(found) != 1 {
		return nil, fmt.Errorf("%s, seed %d: %d points of %s, expected one", e.Name, seed, len(found), what)
	}
	return &found[0], nil
}

// table returns the results in a form that is the same on every machine: traces by their names in
// the sweep file, and no hashes of configurations, which contain paths.
func (e *experiment) table() (*tables.Table, error) {
	t, err := e.plan.Table(&e.outcome)
	if err != nil {
		return nil, err
	}
	var kept []int
	for i, name := range t.Columns {
		if name != tables.ConfigColumn {
			kept = append(kept, i)
		}
	}
	t = t.Select(kept)
	t.Name = e.Name
	trace := slices.Index(t.Columns, "run.trace")
	for _, row := range t.Rows {
		if path := row[trace].String(); filepath.IsAbs(path) {
			name, _, _ := strings.Cut(filepath.Base(path), "-")
			row[trace] = tables.Of(files.Folder + "/" + name + ".csv")
		}
	}
	return t, nil
}
