package sweep

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/input/schema"
	"github.com/l3sim/l3sim/internal/sweep/design"
	"github.com/l3sim/l3sim/results/tables"
)

// layoutKey is the key for the number of GPUs of a replica.
const layoutKey = "model.tensor_parallel"

// layout is how a point places its model on GPUs.
type layout struct {
	model    string // run.model
	parallel int    // GPUs per replica
}

// openLayout is the needs of the rows of a comparison with one model, if the number of GPUs per replica is not
// given.
type openLayout struct {
	model       string // as the axis of models names it; run.model without such an axis
	least, most int
	needs       string // the first row with the largest need
	gpus        []int  // of the rows' nodes
}

// OneLayout gives all rows of a comparison the same number of GPUs per replica if a model's file does not set it: the largest that
// any row needs. Otherwise a GPU with more memory would hold a replica on fewer GPUs, with more work each, and look slower. It
// returns its changes in words. A row that sets model.tensor_parallel keeps its own.
func OneLayout(f *design.File) (changes []string, err error) {
	p := emptyPlan(f, "", axisKeys(f))
	if slices.Contains(p.Keys, layoutKey) || design.FindSetting(f.Set, layoutKey) != nil {
		return nil, nil
	}
	p.nameParts()
	rows, err := p.openLayouts()
	for _, o := range rows {
		if o.least == o.most || slices.ContainsFunc(o.gpus, func(n int) bool { return n%o.most != 0 }) {
			continue
		}
		of := "all rows"
		if len(rows) > 1 {
			of = "all rows of " + o.model
		}
		setLayout(f, o.model, o.most)
		changes = append(changes, fmt.Sprintf("%s: %s a replica, as %s needs; --tp sets it, and --tp fit gives each row the fewest that hold the weights",
			of, input.Plural(o.most, "GPU", "GPUs"), o.needs))
	}
	return changes, err
}

// openLayouts returns the needs of the combinations, by model in order. An invalid combination needs nothing; its error is reported when it
// runs.
func (p *Plan) openLayouts() (all []*openLayout, err error) {
	combinations, err := p.combinations()
	for _, c := range combinations {
		settings := p.settings(c)
		cfg, origins, bad := p.resolver.resolve(p, settings)
		if bad != nil {
			continue
		}
		if _, open := origins.DerivesLayout(); !open {
			continue
		}
		model := cfg.Run.Model
		if s := design.FindSetting(settings, "run.model"); s != nil {
			model = schema.Plain(s.Value)
		}
		i := slices.IndexFunc(all, func(o *openLayout) bool { return o.model == model })
		if i < 0 {
			i, all = len(all), append(all, &openLayout{model: model, least: cfg.Model.TensorParallel})
		}
		o, n := all[i], cfg.Model.TensorParallel
		o.least, o.gpus = min(o.least, n), append(o.gpus, cfg.Node.GPUs)
		if n > o.most {
			o.most, o.needs = n, p.name(c)
		}
	}
	return all, err
}

// setLayout sets the GPUs per replica for the combinations with a model.
func setLayout(f *design.File, model string, gpus int) {
	own := design.Setting{Key: layoutKey, Value: strconv.Itoa(gpus)}
	for i := range f.Axes {
		for j := range f.Axes[i].Choices {
			choice := &f.Axes[i].Choices[j]
			s := design.FindSetting(choice.Settings, "run.model")
			if s == nil {
				continue
			}
			if schema.Plain(s.Value) == model {
				choice.Settings = append(slices.Clone(choice.Settings), own)
			}
			if j == len(f.Axes[i].Choices)-1 {
				return
			}
		}
	}
	f.Set = append(slices.Clone(f.Set), own)
}

// showLayouts adds a column with the GPUs per replica if points of one model differ in them.
func (p *Plan) showLayouts() {
	if slices.Contains(p.columns, layoutKey) || len(p.differing()) == 0 {
		return
	}
	at := len(p.columns) - 1 // before the seed
	p.columns = slices.Insert(p.columns, at, layoutKey)
	for i := range p.Points {
		cell := tables.Value{}
		if n := p.Points[i].parallel; n > 0 {
			cell = tables.Of(int64(n))
		}
		p.Points[i].cells = slices.Insert(p.Points[i].cells, at, cell)
	}
}

// differing returns, for models whose points differ in GPUs per replica, one point for each number, by model in the points' order.
func (p *Plan) differing() (models [][]*Point) {
	for i := range p.Points {
		point := &p.Points[i]
		if point.parallel == 0 {
			continue
		}
		at := slices.IndexFunc(models, func(m []*Point) bool { return m[0].model == point.model })
		if at < 0 {
			models = append(models, []*Point{point})
		} else if !slices.ContainsFunc(models[at], func(o *Point) bool { return o.parallel == point.parallel }) {
			models[at] = append(models[at], point)
		}
	}
	return slices.DeleteFunc(models, func(m []*Point) bool { return len(m) == 1 })
}

// Layouts describes where points of one model differ in GPUs per replica although no axis sets
// them.
func (p *Plan) Layouts() []string {
	if slices.Contains(p.Keys, layoutKey) {
		return nil
	}
	return list.Map(p.differing(), func(points []*Point) string {
		slices.SortStableFunc(points, func(a, b *Point) int { return b.parallel - a.parallel })
		each := list.Map(points, func(x *Point) string { return fmt.Sprintf("%d (%s)", x.parallel, x.Name) })
		return fmt.Sprintf("points of %s differ in the GPUs of a replica: %s; model.tensor_parallel sets it", points[0].model, strings.Join(each, ", "))
	})
}
