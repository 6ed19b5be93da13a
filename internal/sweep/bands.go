package sweep

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
	"github.com/l3sim/l3sim/internal/sweep/design"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/units/portable"
)

// Bands sets how points of a plan are drawn.
type Bands struct {
	Draws       int    // per point
	Seed        uint64 // of the draws
	Independent bool   // each point draws separately; else points share draws of common keys
}

// draw is the difference between a draw and its point, as settings that --set can repeat.
type draw struct {
	index    int // from 1
	of       int // index of the point in the plan
	settings []design.Setting
}

// Draw adds draws of all points to a new plan. In a draw each uncertain key takes a number within its band, and the
// trace another seed. In draws of the same number, points share a key's place in its band, except for kernels and watts
// of different GPUs, and except with Independent. A seed that the sweep sets stays.
func (p *Plan) Draw(b Bands) error {
	if p.File.Repeats > 1 {
		return &input.Error{File: p.File.Path, Key: "repeats", Value: fmt.Sprint(p.File.Repeats), Expected: "1 with --bands: each draw has a seed of its own"}
	}
	count := len(p.Points)
	if most := design.MaxCombinations/count - 1; b.Draws < 1 || b.Draws > most {
		return &input.Error{Key: "--bands", Value: fmt.Sprint(b.Draws), Expected: fmt.Sprintf("1 to %d draws of %s", most, input.Plural(count, "point", "points"))}
	}
	p.bands, p.count = &b, count
	for index := 1; index <= b.Draws; index++ { // draws of one number are adjacent, as they share a trace
		for i := range count {
			if point := &p.Points[i]; point.Err == nil {
				p.Points = append(p.Points, Point{Name: point.Name, trial: point.trial, draw: &draw{index: index, of: i}})
			}
		}
	}
	errs := make([]error, len(p.Points))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range p.Points[count:] {
		group.Go(func() error {
			errs[i] = p.resolveDraw(&p.Points[count+i])
			return nil
		})
	}
	_ = group.Wait() // the first error in order is returned, not the first in time
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// resolveDraw draws the uncertain keys of a point and sets its address.
func (p *Plan) resolveDraw(point *Point) error {
	settings := p.settingsOf(point.trial)
	config, origins, err := p.resolver.resolve(p, settings)
	if err != nil {
		return err
	}
	bands, err := origins.Uncertain(config)
	if err != nil {
		return p.placed(err, settings, "")
	}
	place := func(key string) float64 { return p.bands.place(point, config, key) }
	for i := range bands {
		b := &bands[i]
		const digits = 6
		point.draw.settings = append(point.draw.settings, design.Setting{Key: b.Key, Value: b.Text(portable.Significant(b.At(place(b.Key)), digits))})
	}
	point.Seed = config.Run.Seed
	if design.FindSetting(settings, tables.SeedColumn) == nil {
		point.Seed = 1 + uint64(float64(place(tables.SeedColumn)*(1<<31)))
	}
	if err := point.draw.apply(config); err != nil {
		return p.placed(err, settings, "")
	}
	config.Run.Seed = point.Seed
	return p.address(point, settings, config)
}

// place returns where in its band a key's number is in a point's draw, uniform from 0 to 1. It depends only on the
// seed, the number of the draw, the key and the points that share it.
func (b *Bands) place(point *Point, config *configs.Config, key string) float64 {
	shared := ""
	switch {
	case b.Independent:
		shared = "point " + point.Name
	case strings.HasPrefix(key, "gpu.") || key == "energy.gpu_factor":
		shared = "gpu " + config.GPU.Preset
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "l3sim/bands/%d/%d/%s/%s", b.Seed, point.draw.index, key, shared))
	const bits = 53 // of the fraction of a float64
	return (float64(binary.LittleEndian.Uint64(sum[:])>>(64-bits)) + 0.5) / (1 << bits)
}

// apply sets the drawn values in a configuration.
func (d *draw) apply(config *configs.Config) error {
	for _, s := range d.settings {
		if err := config.Set(s.Key, s.Value); err != nil {
			return err
		}
	}
	return input.Validate(config)
}

// own returns the points without their draws.
func (p *Plan) own() []Point {
	if p.bands == nil {
		return p.Points
	}
	return p.Points[:p.count]
}

// Size describes the number of points of a plan, and of draws of each.
func (p *Plan) Size() string {
	size := input.Plural(len(p.own()), "point", "points")
	if n := p.draws(); n > 0 {
		size += " and " + input.Plural(n, "draw", "draws") + " of each"
		if p.tries() {
			size += " that counts"
		}
	}
	return size
}

// draws returns the number of draws of a point, 0 without bands.
func (p *Plan) draws() int {
	if p.bands == nil {
		return 0
	}
	return p.bands.Draws
}

// bandColumns are the columns with percentiles over draws.
var bandColumns = []string{
	"output_tokens_per_s", "total_tokens_per_s", "goodput_requests_per_s", "ttft_mean_ms", "ttft_p99_ms", "tbt_mean_ms", "tbt_p99_ms",
	"tpot_mean_ms", "e2e_mean_ms", "e2e_p99_ms", "gpu_energy_per_output_token_j", "output_tokens_per_site_joule",
	"site_power_mean_w", "usd_per_million_output_tokens", "kg_co2_per_million_output_tokens",
}

// addBands adds to a table of points the percentiles of their completed draws, and the number of these.
func (p *Plan) addBands(t *tables.Table, o *Outcome) {
	t.Columns = append(t.Columns, tables.DrawsColumn)
	for _, c := range bandColumns {
		t.Columns = append(t.Columns, c+tables.LowEnd, c+tables.HighEnd)
	}
	all := p.drawn(o)
	of := all.Group(all.All(), slices.Index(all.Columns, tables.PointColumn))
	rows := map[tables.Value][]int{}
	for _, group := range of {
		rows[all.Value(group[0], tables.PointColumn)] = group
	}
	for i := range t.Rows {
		mine, done := rows[t.Value(i, tables.PointColumn)], 0
		cells := make([]tables.Value, 0, 1+2*len(bandColumns))
		for _, c := range bandColumns {
			var values []float64
			for _, r := range mine {
				if v, is := all.Float(r, c); is {
					values = append(values, v)
				}
			}
			slices.Sort(values)
			done = max(done, len(values))
			cells = append(cells, nearestRank(values, 0.1), nearestRank(values, 0.9))
		}
		t.Rows[i] = append(append(t.Rows[i], tables.Of(done)), cells...)
	}
}

// nearestRank returns a percentile of sorted values by nearest rank, as Distribution does; an empty
// value if there are none.
func nearestRank(sorted []float64, q float64) tables.Value {
	if len(sorted) == 0 {
		return tables.Value{}
	}
	return tables.Of(sorted[max(0, int(math.Ceil(float64(q*float64(len(sorted)))))-1)])
}

// drawn returns the table of all draws of points that count: a row per draw, with the keys of its point, the drawn values, and all
// metrics.
func (p *Plan) drawn(o *Outcome) *tables.Table {
	var keys []string // that some point draws
	for i := p.count; i < len(p.Points); i++ {
		for _, s := range p.Points[i].draw.settings {
			if !slices.Contains(keys, s.Key) {
				keys = append(keys, s.Key)
			}
		}
	}
	slices.Sort(keys)
	keys = slices.DeleteFunc(keys, func(key string) bool { return slices.Contains(p.columns, key) })
	header := p.header()
	status := slices.Index(header, tables.StatusColumn)
	t := &tables.Table{Kinds: p.kinds()}
	t.Kinds[tables.DrawColumn] = tables.Integer
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = columnName(p.keys().Key(key))
		t.Kinds[names[i]] = tables.Real
	}
	t.Columns = slices.Concat(header[:1], []string{tables.DrawColumn}, header[1:status], names, header[status:])
	counts := p.counts(o)
	for i := p.count; i < len(p.Points); i++ {
		point := &p.Points[i]
		if !counts(i) {
			continue // of a variant that does not count
		}
		cells := make([]any, len(keys))
		for j, key := range keys {
			if s := design.FindSetting(point.draw.settings, key); s != nil {
				cells[j] = number(p.keys().Key(key), s.Value)
			}
		}
		all := row(point, o.Entries[i])
		t.Add(slices.Concat(all[:1], []any{point.draw.index}, all[1:status], cells, all[status:])...)
	}
	return t
}

// number returns the cell of a drawn number.
func number(k *schema.Key, text string) tables.Value {
	v, err := schema.Parse(k.Type, text)
	if err != nil {
		return tables.Value{}
	}
	if c, is := v.Interface().(interface{ Number() float64 }); is {
		return tables.Of(c.Number())
	}
	return cell(v)
}
