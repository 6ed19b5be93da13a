package sweep

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"go/constant"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system"
)

// Plan is a sweep's points, in order.
type Plan struct {
	File    *File
	Version string   // of the code
	Keys    []string // of the configuration that some axis sets, in order
	Points  []Point

	traces   *traceCache
	resolver *resolver
	parts    [][]string // what each choice of each axis adds to a point's name
	columns  []string   // keys of Point.cells
	baseSeed uint64     // of points without configuration that set no seed
	baseErr  error      // what is wrong without the axes
	// simulate runs a point; tests of everything around it put something faster in
	// its place.
	simulate func(context.Context, *Point, *configs.Config) (*results.Summary, error)
}

// Point is one run. It holds what identifies it and what its row of the results
// shows; Plan.Config makes its configuration, of which a hundred thousand would
// not be small.
type Point struct {
	Name string // what its axes set; the repeats of one point share it
	Seed uint64
	Err  error // why the combination is no configuration, nil where it is one
	// Hash is the point's address: SHA-256, in hexadecimal, of the effective
	// configuration, the code's version and the trace's content.
	Hash        string
	Tokens      int64 // that the trace asks for
	Requests    int
	config      string   // SHA-256 of the configuration, "" of a point with an error
	cells       []string // of its row in the results, by Plan.columns
	combination int      // of the axes' choices; the last axis changes fastest
}

// NewPlan expands a sweep file: it loads every point's configuration and trace.
// A combination that is no valid configuration becomes a point with an error,
// unless every combination with one choice of an axis is such: then that choice
// is wrong, and the error is NewPlan's. So is a file that the system cannot read
// (IsSystemFault). Version is the code's, as CodeVersion gives it.
func NewPlan(f *File, version string) (*Plan, error) { return newPlan(f, version, false) }

// newPlan is NewPlan, which with loadAll takes no short way to a configuration.
func newPlan(f *File, version string, loadAll bool) (*Plan, error) {
	p := &Plan{File: f, Version: version, traces: newTraceCache(), resolver: &resolver{loadAll: loadAll}}
	p.simulate = p.runNode
	var base *configs.Config
	if base, p.baseErr = system.Load(p.options(f.Set)); p.baseErr == nil {
		p.baseSeed = base.Run.Seed
	}
	for _, a := range f.Axes {
		for key := range a.keys() {
			p.Keys = append(p.Keys, key)
		}
	}
	p.columns = p.columnKeys()
	p.nameParts()
	combinations, err := p.combinations()
	if err != nil {
		return nil, err
	}
	resolved := make([][]Point, len(combinations))
	errs := make([]error, len(combinations))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range combinations {
		group.Go(func() error {
			resolved[i], errs[i] = p.resolve(combinations[i])
			return nil
		})
	}
	_ = group.Wait() // of the errors the first in order counts, not in time
	p.Points = make([]Point, 0, len(combinations)*f.Repeats)
	for i := range resolved {
		if errs[i] != nil {
			return nil, errs[i]
		}
		p.Points = append(p.Points, resolved[i]...)
	}
	return p, p.check()
}

// keep says whether all conditions hold whose keys have a value; the others
// exclude nothing.
func (p *Plan) keep(value func(string) constant.Value) (bool, error) {
	for _, c := range p.File.Where {
		if slices.ContainsFunc(c.keys, func(key string) bool { return value(key) == nil }) {
			continue
		}
		holds, err := c.holds(value)
		if err != nil {
			return false, input.Edit(err, func(e *input.Error) { e.File = p.File.Path })
		}
		if !holds {
			return false, nil
		}
	}
	return true, nil
}

// resolve returns the repeats of a combination. Where a condition on its configuration
// excludes it there are no repeats.
func (p *Plan) resolve(combination int) ([]Point, error) {
	settings := p.settings(combination)
	point := Point{Name: p.name(combination), combination: combination}
	base, err := p.resolver.resolve(p, settings)
	if IsSystemFault(err) {
		return nil, &unreadableError{err}
	}
	if err != nil {
		point.Err, point.Seed = err, p.plannedSeed(settings)
	} else {
		effective := func(key string) constant.Value {
			return keyConstant(keys.Key(key).Get(base))
		}
		if keep, err := p.keep(effective); !keep || err != nil {
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

// Config returns the configuration of a point of this plan, a copy of its own,
// or the point's error where the combination is not valid.
func (p *Plan) Config(point *Point) (*configs.Config, error) {
	if point.Err != nil {
		return nil, point.Err
	}
	config, err := p.resolver.resolve(p, p.settings(point.combination))
	if err != nil {
		return nil, err
	}
	config.Run.Seed = point.Seed
	return config, nil
}

// options returns what loads a configuration with the given settings.
func (p *Plan) options(settings []Setting) configs.Options {
	o := configs.Options{ConfigFiles: p.File.Configs, Sets: p.File.Sets}
	for _, s := range settings {
		o.Flags = append(o.Flags, configs.Flag{Name: p.place(s), Key: s.Key, Value: s.Value})
	}
	return o
}

// plannedSeed returns the seed of a point without configuration.
func (p *Plan) plannedSeed(settings []Setting) uint64 {
	if v := assigned(settings, results.SeedColumn); v != nil {
		if seed, exact := constant.Uint64Val(constant.ToInt(v)); exact {
			return seed
		}
	}
	return p.baseSeed
}

// place says where a setting stands, for errors.
func (p *Plan) place(s Setting) string {
	switch {
	case s.Line > 0:
		return fmt.Sprintf("%s:%d", p.File.Path, s.Line)
	case p.File.Path != "":
		return p.File.Path
	}
	return "--" + strings.TrimPrefix(s.Key, "run.")
}

// placed gives an input error without place that of the setting of key.
func (p *Plan) placed(err error, settings []Setting, key string) error {
	return input.Edit(err, func(e *input.Error) {
		if e.File != "" {
			return
		}
		e.File = p.File.Path
		for _, s := range settings {
			if s.Key == key {
				e.File = p.place(s)
			}
		}
	})
}

// address sets the point's hash and cells, or its error where its trace cannot be read.
// Config is nil for a point with an error. A fault of the system is returned.
func (p *Plan) address(point *Point, settings []Setting, config *configs.Config) error {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n", journalSchema, p.Version)
	if config != nil {
		info, err := p.traces.info(config)
		if IsSystemFault(err) {
			return &unreadableError{err}
		}
		if err == nil {
			point.Tokens, point.Requests = info.tokens, info.requests
			point.config, err = config.SHA256()
			fmt.Fprintf(h, "trace %s\nconfiguration %s\n", info.hash, point.config)
		}
		if err != nil {
			point.Err, point.config, config = p.placed(err, settings, "run.trace"), "", nil
		}
	}
	if config == nil {
		for _, s := range settings {
			fmt.Fprintf(h, "%s = %s\n", s.Key, s.Value)
		}
		fmt.Fprintf(h, "seed %d\n%v\n", point.Seed, placeless(point.Err))
	}
	point.Hash = hex.EncodeToString(h.Sum(nil))
	point.cells = p.cells(point, settings, config)
	return nil
}

// placeless returns an error of the input without its file and line, which are
// another's where the sweep file is spelt or laid out in another way.
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

// check reports what makes the whole sweep wrong.
func (p *Plan) check() error {
	if len(p.Points) == 0 {
		return &input.Error{File: p.File.Path, Key: "where", Expected: "at least one combination that fulfils every condition"}
	}
	if err := p.wrongChoice(); err != nil {
		return inputError(err)
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

// inputError makes err an error of the input, which configurations and traces
// are.
func inputError(err error) error {
	var bad *input.Error
	if errors.As(err, &bad) {
		return err
	}
	return &input.Error{Err: err}
}
