package sweep

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"go/constant"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/results"
)

// Plan is a sweep's points, in order.
type Plan struct {
	File    *File
	Version string   // of the code
	Keys    []string // of the configuration that some axis sets, in order
	Points  []Point

	traces *traceCache
	// simulate runs a point; tests of everything around it put something faster in
	// its place.
	simulate func(context.Context, *Point) (*results.Summary, error)
	baseSeed uint64 // of points without configuration that set no seed
}

// Point is one run.
type Point struct {
	Name string // what its axes set; the repeats of one point share it
	Seed uint64
	// Config is nil where Err says why the combination is none.
	Config *configs.Config
	Err    error
	// Hash is the point's address: SHA-256, in hexadecimal, of the effective
	// configuration, the code's version and the trace's content.
	Hash     string
	Tokens   int64 // that the trace asks for
	Requests int
	config   string // SHA-256 of the configuration, "" where there is none
	settings []Setting
	choices  []int // by axis
}

// NewPlan expands a sweep file: it loads every point's configuration and trace.
// A combination that is no valid configuration becomes a point with an error,
// unless every combination with one choice of an axis is such: then that choice
// is wrong, and the error is NewPlan's. Version is the code's, as CodeVersion
// gives it.
func NewPlan(f *File, version string) (*Plan, error) {
	p := &Plan{File: f, Version: version, traces: newTraceCache()}
	p.simulate = p.runNode
	if base, err := configs.Load(p.options(f.Set)); err == nil {
		p.baseSeed = base.Run.Seed
	}
	for _, a := range f.Axes {
		for key := range a.keys() {
			p.Keys = append(p.Keys, key)
		}
	}
	combinations, err := p.combinations()
	if err != nil {
		return nil, err
	}
	resolved := make([][]Point, len(combinations))
	errs := make([]error, len(combinations))
	parallel(len(combinations), func(i int) { resolved[i], errs[i] = p.resolve(combinations[i]) })
	for i := range resolved {
		if errs[i] != nil {
			return nil, errs[i]
		}
		p.Points = append(p.Points, resolved[i]...)
	}
	return p, p.check()
}

// parallel calls do for 0 to n-1 on all cores.
func parallel(n int, do func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(n, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// combinations returns the unloaded points, one for each combination of choices
// that no condition on the axes' own keys excludes; the last axis changes
// fastest.
func (p *Plan) combinations() ([]Point, error) {
	axes := p.File.Axes
	choices := make([]int, len(axes))
	var all []Point
	for {
		point := Point{choices: slices.Clone(choices), settings: slices.Clone(p.File.Set)}
		for i, c := range choices {
			point.settings = append(point.settings, axes[i].Choices[c].Settings...)
		}
		point.Name = p.name(choices)
		keep, err := p.keep(&point, point.assigned)
		if err != nil {
			return nil, err
		}
		if keep {
			all = append(all, point)
		}
		i := len(axes) - 1
		for ; i >= 0; i-- {
			if choices[i]++; choices[i] < len(axes[i].Choices) {
				break
			}
			choices[i] = 0
		}
		if i < 0 {
			return all, nil
		}
	}
}

// name returns the name of a combination: the parts of its axes, joined by
// commas. The seed is no part of it.
func (p *Plan) name(choices []int) string {
	var parts []string
	for i, c := range choices {
		choice := &p.File.Axes[i].Choices[c]
		if choice.Name != "" {
			parts = append(parts, choice.Name)
			continue
		}
		for _, s := range choice.Settings {
			if s.Key != "run.seed" {
				parts = append(parts, p.shortKey(s.Key)+"="+plainText(s.Value))
			}
		}
	}
	if len(parts) == 0 {
		return "default"
	}
	return strings.Join(parts, ",")
}

// shortKey returns a key without its section where no other key of the axes
// ends with the same name.
func (p *Plan) shortKey(key string) string {
	_, last := splitKey(key)
	for _, other := range p.Keys {
		if _, l := splitKey(other); l == last && other != key {
			return key
		}
	}
	return last
}

// assigned returns what the point's settings give a key, nil where none does.
func (p *Point) assigned(key string) constant.Value {
	for _, s := range slices.Backward(p.settings) {
		if s.Key == key {
			return textConstant(s)
		}
	}
	return nil
}

// effective returns the value of a key in the point's configuration.
func (p *Point) effective(key string) constant.Value {
	return keyConstant(reflect.ValueOf(p.Config).Elem().FieldByIndex(configKeys()[key].index))
}

// keep says whether all conditions hold whose keys have a value; the others
// exclude nothing.
func (p *Plan) keep(point *Point, value func(string) constant.Value) (bool, error) {
	for _, c := range p.File.Where {
		if slices.ContainsFunc(c.keys, func(key string) bool { return value(key) == nil }) {
			continue
		}
		holds, bad := c.Holds(value)
		if bad != nil {
			bad.File = p.File.Path
			return false, bad
		}
		if !holds {
			return false, nil
		}
	}
	return true, nil
}

// resolve loads the configuration of a combination and returns its repeats,
// none where a condition excludes it.
func (p *Plan) resolve(point Point) ([]Point, error) {
	base, err := configs.Load(p.options(point.settings))
	if err != nil {
		point.Err = err
	} else {
		point.Config = base
		if keep, err := p.keep(&point, point.effective); !keep || err != nil {
			return nil, err
		}
	}
	repeats := make([]Point, p.File.Repeats)
	for i := range repeats {
		r := point
		if r.Config != nil {
			repeated := *base
			repeated.Run.Seed += uint64(i)
			r.Config, r.Seed = &repeated, repeated.Run.Seed
		} else {
			r.Seed = p.plannedSeed(&r) + uint64(i)
		}
		p.address(&r)
		repeats[i] = r
	}
	return repeats, nil
}

// options returns what loads a configuration with the given settings.
func (p *Plan) options(settings []Setting) configs.Options {
	o := configs.Options{ConfigFile: p.File.Config, Sets: p.File.Sets}
	for _, s := range settings {
		o.Flags = append(o.Flags, configs.Flag{Name: p.place(s), Key: s.Key, Value: s.Value})
	}
	return o
}

// plannedSeed returns the seed of a point without configuration.
func (p *Plan) plannedSeed(point *Point) uint64 {
	if v := point.assigned(results.SeedColumn); v != nil {
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
func (p *Plan) placed(err error, point *Point, key string) error {
	bad, ok := err.(*input.InputError)
	if !ok || bad.File != "" {
		return err
	}
	copied := *bad
	copied.File = p.File.Path
	for _, s := range point.settings {
		if s.Key == key {
			copied.File = p.place(s)
		}
	}
	return &copied
}

// address sets the point's hash, or its error where its trace cannot be had.
func (p *Plan) address(point *Point) {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n", journalSchema, p.Version)
	if point.Config != nil {
		info, err := p.traces.info(point.Config)
		if err == nil {
			point.Tokens, point.Requests = info.tokens, info.requests
			point.config, err = point.Config.SHA256()
			fmt.Fprintf(h, "trace %s\nconfiguration %s\n", info.hash, point.config)
		}
		if err != nil {
			point.Err, point.Config, point.config = p.placed(err, point, "run.trace"), nil, ""
		}
	}
	if point.Config == nil {
		for _, s := range point.settings {
			fmt.Fprintf(h, "%s = %s\n", s.Key, s.Value)
		}
		fmt.Fprintf(h, "seed %d\n%v\n", point.Seed, point.Err)
	}
	point.Hash = hex.EncodeToString(h.Sum(nil))
}

// check reports what makes the whole sweep wrong.
func (p *Plan) check() error {
	if len(p.Points) == 0 {
		return &input.InputError{File: p.File.Path, Key: "where", Expected: "at least one combination that fulfils every condition"}
	}
	for i, a := range p.File.Axes {
		failed := make([]error, len(a.Choices)) // of the first point with each choice
		works := make([]bool, len(a.Choices))
		for j := range p.Points {
			point := &p.Points[j]
			c := point.choices[i]
			works[c] = works[c] || point.Err == nil
			if failed[c] == nil {
				failed[c] = point.Err
			}
		}
		for c, err := range failed {
			if err != nil && !works[c] {
				return inputError(err)
			}
		}
	}
	if len(p.File.Axes) == 0 && p.Points[0].Err != nil {
		return inputError(p.Points[0].Err)
	}
	type identity struct {
		name string
		seed uint64
	}
	seen := map[identity]bool{}
	for i := range p.Points {
		id := identity{p.Points[i].Name, p.Points[i].Seed}
		if seen[id] {
			return &input.InputError{File: p.File.Path, Key: "name", Value: fmt.Sprintf("%q", id.name), Expected: "a name that no other point has"}
		}
		seen[id] = true
	}
	return nil
}

// inputError makes err an error of the input, which configurations and traces
// are.
func inputError(err error) error {
	var bad *input.InputError
	if errors.As(err, &bad) {
		return err
	}
	return &input.InputError{Err: err}
}
