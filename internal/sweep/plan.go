package sweep

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"go/constant"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/internal/sweep/design"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/traces"
)

// Plan is a sweep's points in order, followed by their draws.
type Plan struct {
	File    *design.File
	Version string   // version of the code
	Keys    []string // keys of the configuration that an axis sets, in order
	Points  []Point

	cache    *traceCache
	resolver *resolver
	parts    [][]string   // [axis][choice]: part of a point's name
	columns  []string     // keys of Point.cells
	baseSeed uint64       // seed of points without configuration that do not set a seed
	base     *tables.Base // nil: describe makes it
	bands    *Bands       // nil: points have no draws
	count    int          // number of points before their draws; 0 where bands is nil
	// Simulate runs a point's trace. The default runs its node; a caller may replace it to keep more
	// than the summary, or to supply a known one.
	Simulate func(context.Context, *Point, *configs.Config, *traces.Trace) (*results.Summary, error)
}

// Point is one run. It holds its identity and its cells in the results. Plan.Config rebuilds its
// configuration: a hundred thousand configurations would take too much memory.
type Point struct {
	Name string // settings of its axes; all repeats of a point have the same name
	Seed uint64
	Err  error // error of an invalid combination; nil if it is valid
	// Hash is the point's address: SHA-256, in hexadecimal, of the effective
	// configuration, the code's version and the trace's content.
	Hash     string
	Tokens   int64 // output tokens of the trace
	Requests int
	layout                  // zero for a point with an error
	config   string         // SHA-256 of the configuration; "" for a point with an error
	cells    []tables.Value // cells of its row in the results, by Plan.columns
	trial                   // the source of its configuration
	draw     *draw          // nil for a point itself
}

// NewPlan expands a sweep file: it loads every point's configuration and trace. An invalid
// combination becomes a point with an error. If all combinations with one choice of an axis are
// invalid, that choice is wrong, and NewPlan returns the error. It also returns an error if the
// system cannot read a file (input.IsSystemFault). version is the code's, from CodeVersion.
func NewPlan(f *design.File, version string) (*Plan, error) { return newPlan(f, version, false) }

// newPlan is NewPlan. With loadAll it loads every configuration from presets (resolver).
func newPlan(f *design.File, version string, loadAll bool) (*Plan, error) {
	p := emptyPlan(f, version, axisKeys(f))
	p.resolver.loadAll = loadAll
	p.nameParts()
	combinations, err := p.combinations()
	if err != nil {
		return nil, err
	}
	trials, err := p.trials(combinations)
	if err != nil {
		return nil, err
	}
	resolved := make([][]Point, len(trials))
	errs := make([]error, len(trials))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range trials {
		group.Go(func() error {
			resolved[i], errs[i] = p.resolve(trials[i])
			return nil
		})
	}
	_ = group.Wait() // errors belong to points: the first in order is returned, not the first in time
	p.Points = make([]Point, 0, len(combinations)*f.Repeats)
	for i := range resolved {
		if errs[i] != nil {
			return nil, errs[i]
		}
		p.Points = append(p.Points, resolved[i]...)
	}
	p.dropInvalid()
	p.showLayouts()
	return p, p.check()
}

// axisKeys returns the keys that the axes set, in order.
func axisKeys(f *design.File) (keys []string) {
	for _, a := range f.Axes {
		keys = append(keys, list.Map(a.Keys(), func(s design.Setting) string { return s.Key })...)
	}
	return keys
}

// emptyPlan returns a plan without points whose axes set keys.
func emptyPlan(f *design.File, version string, keys []string) *Plan {
	p := &Plan{File: f, Version: version, Keys: keys, cache: newTraceCache(), resolver: &resolver{}}
	p.Simulate = runNode
	if base, err := f.Loader.Load(p.options(f.Set)); err == nil {
		p.baseSeed = base.Run.Seed
	}
	p.columns = p.columnKeys()
	return p
}

// resolve returns the repeats of a combination, none if a condition on its configuration excludes
// it.
func (p *Plan) resolve(t trial) ([]Point, error) {
	settings := p.settingsOf(t)
	point := Point{Name: p.nameOf(t), trial: t}
	base, _, err := p.resolver.resolve(p, settings)
	if input.IsSystemFault(err) {
		return nil, &unreadableError{err}
	}
	if err != nil {
		point.Err, point.Seed = err, p.plannedSeed(settings)
	} else {
		effective := func(key string) constant.Value {
			return design.KeyConstant(p.keys().Key(key).Get(base))
		}
		if keep, err := p.File.Keeps(effective); !keep || err != nil {
			return nil, err
		}
		point.Seed = base.Run.Seed
	}
	repeats := make([]Point, p.File.Repeats)
	for i := range repeats {
		repeats[i] = point
		if i > 0 {
			repeats[i].Seed += uint64(i)
		}
		if base != nil {
			base.Run.Seed = repeats[i].Seed
		}
		if err := p.address(&repeats[i], settings, base); err != nil {
			return nil, err
		}
	}
	return repeats, nil
}

// Config returns the configuration of a point of this plan, or the point's error if the combination
// is not valid. The caller owns it.
func (p *Plan) Config(point *Point) (*configs.Config, error) {
	if point.Err != nil {
		return nil, point.Err
	}
	config, _, err := p.resolver.resolve(p, p.settingsOf(point.trial))
	if err != nil {
		return nil, err
	}
	if point.draw != nil {
		err = point.draw.apply(config)
	}
	config.Run.Seed = point.Seed
	return config, err
}

// options returns the options that load a configuration with the given settings.
func (p *Plan) options(settings []design.Setting) configs.Options {
	o := configs.Options{ConfigFiles: p.File.Configs, Sets: p.File.Sets}
	for _, s := range settings {
		o.Flags = append(o.Flags, configs.Flag{Name: p.place(s), Key: s.Key, Value: s.Value})
	}
	return o
}

// keys returns the keys of the plan's configurations.
func (p *Plan) keys() *configs.Schema { return p.File.Loader.Keys() }

// plannedSeed returns the seed of a point without configuration.
func (p *Plan) plannedSeed(settings []design.Setting) uint64 {
	if s := design.FindSetting(settings, tables.SeedColumn); s != nil {
		if seed, exact := constant.Uint64Val(constant.ToInt(s.Constant())); exact {
			return seed
		}
	}
	return p.baseSeed
}

// place returns the place of a setting, for errors.
func (p *Plan) place(s design.Setting) string {
	switch {
	case s.Line > 0:
		return fmt.Sprintf("%s:%d", p.File.Path, s.Line)
	case p.File.Path != "":
		return p.File.Path
	}
	if name := flagNames[s.Key]; name != "" {
		return name
	}
	return "--" + strings.TrimPrefix(s.Key, "run.")
}

// flagNames are the flags of keys with other names.
var flagNames = map[string]string{"node.gpus": "--gpus", "gpu.preset": "--gpu", "model.tensor_parallel": "--tp"}

// placed adds the place of key's setting to an input error without a place.
func (p *Plan) placed(err error, settings []design.Setting, key string) error {
	return input.Edit(err, func(e *input.Error) {
		if e.File != "" {
			return
		}
		e.File = p.File.Path
		if s := design.FindSetting(settings, key); s != nil {
			e.File = p.place(*s)
		}
	})
}

// address sets the point's hash and cells, or its error if its trace cannot be read. config is nil
// for a point with an error. A fault of the system is returned.
func (p *Plan) address(point *Point, settings []design.Setting, config *configs.Config) error {
	if config != nil {
		info, err := p.cache.info(config)
		if input.IsSystemFault(err) {
			return &unreadableError{err}
		}
		if err == nil {
			point.layout = layout{config.Run.Model, config.Model.TensorParallel}
			point.Tokens, point.Requests = info.tokens, info.requests
			err = point.identify(p.Version, config, info.hash)
		}
		if err != nil {
			point.Err, point.config, config = p.placed(err, settings, "run.trace"), "", nil
		}
	}
	if config == nil {
		h := sha256.New()
		fmt.Fprintf(h, "%s\n%s\n", journalSchema, p.Version)
		for _, s := range settings {
			fmt.Fprintf(h, "%s = %s\n", s.Key, s.Value)
		}
		fmt.Fprintf(h, "seed %d\n%v\n", point.Seed, placeless(point.Err))
		point.Hash = hex.EncodeToString(h.Sum(nil))
	}
	point.cells = p.cells(point, settings, config)
	return nil
}

// placeless returns an input error without its file and line, which depend on the name and the
// layout of the sweep file.
func placeless(err error) error {
	var bad *input.Error
	if !errors.As(err, &bad) {
		return err
	}
	copied := *bad
	copied.File, copied.Line = "", 0
	if copied.Err != nil {
		copied.Err = placeless(copied.Err)
	}
	return &copied
}

// check returns an error that concerns the whole sweep.
func (p *Plan) check() error {
	if len(p.Points) == 0 {
		return &input.Error{File: p.File.Path, Key: "where", Expected: "at least one combination that fulfils every condition"}
	}
	if err := p.wrongChoice(); err != nil {
		if !errors.As(err, new(*input.Error)) {
			err = &input.Error{Err: err} // configurations and traces are input
		}
		return err
	}
	type identity struct {
		name string
		seed uint64
	}
	seen := map[identity]bool{}
	for i := range p.Points {
		id := identity{p.Points[i].Name, p.Points[i].Seed}
		if seen[id] {
			return &input.Error{File: p.File.Path, Key: "name", Value: fmt.Sprintf("%q", id.name), Expected: "a name that no other point has"}
		}
		seen[id] = true
	}
	return nil
}

// wrongChoice finds a fault of the sweep file itself. If every point with one value of a grid, a zip or the list is
// invalid, or every point at all, that value is at fault, and wrongChoice returns the first such point's error. Values of a
// Latin hypercube are drawn, so one of them may fail.
func (p *Plan) wrongChoice() error {
	type choice struct{ axis, at int }
	choices := func(point *Point) []choice {
		all := []choice{{-1, 0}} // shared by all points
		for axis, at := range p.choices(point.combination) {
			if p.File.Axes[axis].Kind != design.LatinHypercube {
				all = append(all, choice{axis, at})
			}
		}
		return all
	}
	works := map[choice]bool{}
	for i := range p.Points {
		if p.Points[i].Err == nil {
			for _, c := range choices(&p.Points[i]) {
				works[c] = true
			}
		}
	}
	for i := range p.Points {
		if err := p.Points[i].Err; err != nil && slices.ContainsFunc(choices(&p.Points[i]), func(c choice) bool { return !works[c] }) {
			return err
		}
	}
	return nil
}

// CodeVersion identifies the code of the running program: the commit of its build or, for a build
// from a modified checkout or without one, the hash of the executable.
func CodeVersion() (string, error) {
	if info, ok := debug.ReadBuildInfo(); ok {
		if revision := cleanRevision(info); revision != "" {
			return revision, nil
		}
	}
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("neither a commit nor the executable identifies the code: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("the executable identifies the code: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("the executable identifies the code: %w", err)
	}
	return "executable-" + hex.EncodeToString(h.Sum(nil)), nil
}

// cleanRevision returns the commit of a build from an unmodified checkout, "" for other builds and
// if a folder replaces one of the program's modules.
func cleanRevision(info *debug.BuildInfo) string {
	if slices.ContainsFunc(info.Deps, func(m *debug.Module) bool { return m.Replace != nil }) {
		return ""
	}
	revision, modified := "", "true"
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value
		case "vcs.modified":
			modified = s.Value
		}
	}
	if modified != "false" {
		return ""
	}
	return revision
}
