package sweep

import (
	"github.com/l3sim/l3sim/internal/schema"
	"github.com/l3sim/l3sim/results"
)

// describe returns what all points share. The keys are those of the first point that is a
// configuration, none where no point is.
func (p *Plan) describe() *results.Base {
	if p.base != nil {
		return p.base
	}
	b := &results.Base{Version: p.Version, File: p.File.Path, Configs: p.File.Configs, Keys: map[string]string{}}
	b.Sets = append(b.Sets, p.File.Sets...)
	for _, s := range p.File.Set {
		b.Sets = append(b.Sets, s.Key+"="+s.Value)
	}
	for i := range p.Points {
		config, err := p.Config(&p.Points[i])
		if err != nil {
			continue
		}
		for _, name := range keys.Names() {
			b.Keys[name] = schema.Text(keys.Key(name).Get(config))
		}
		break
	}
	return b
}

// SettingOf returns the setting of a key, as --set takes it, that a cell of its column in
// the results stands for; false where the column is of no key, or the cell of no value.
func SettingOf(column, text string) (string, bool) {
	for _, name := range keys.Names() {
		if columnName(name) != column {
			continue
		}
		if _, unit := results.SplitUnit(column); column != name {
			text += map[string]string{"bytes": "B"}[unit]
			if unit != "bytes" {
				text += unit
			}
		}
		v, err := schema.Parse(keys.Key(name).Type, text)
		if err != nil {
			return "", false
		}
		literal, ok := schema.Literal(v.Interface())
		return name + "=" + literal, ok
	}
	return "", false
}
