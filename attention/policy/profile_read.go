package policy

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
)

// maxProfileHeads bounds the layers, and the heads of a layer, of a profile.
const maxProfileHeads = 1 << 16

// profileReader reads a document and keeps the first error.
type profileReader struct {
	file   string
	places map[string]schema.Place
	err    error
}

// parseProfile reads the text of a profile's file. What is wrong with it is an *input.Error.
func parseProfile(file, text string) (*Profile, error) {
	var document map[string]any
	if _, err := input.DecodeTOML(file, text, &document); err != nil {
		return nil, err
	}
	r := &profileReader{file: file, places: schema.Scan(text)}
	r.known("", document, "schema", "model", "policy", "measured", "head")
	if got, _ := document["schema"].(string); got != profileSchema {
		r.fail("schema", strconv.Quote(got), strconv.Quote(profileSchema)+", a file of 'l3lab eval --profile'")
	}
	p := &Profile{Policy: New("dense")}
	r.section("model", document, schema.Of[ProfileModel]().Keys, &p.Model)
	r.policy(document, p)
	m := r.section("measured", document, schema.Of[ProfileMeasured]().Keys, &p.Measured, "contexts")
	p.Measured.Contexts = r.integers("measured.contexts", m["contexts"])
	r.bounds(p)
	r.heads(document["head"], p)
	if r.err != nil {
		return nil, r.err
	}
	return p, nil
}

// fail keeps the first error.
func (r *profileReader) fail(key, value, expected string) {
	r.keep(&input.Error{Key: key, Value: value, Expected: expected})
}

// keep remembers the first error, with file and line.
func (r *profileReader) keep(err error) {
	if r.err == nil {
		r.err = input.Edit(err, func(e *input.Error) { e.File, e.Line = r.file, r.line(e.Key) })
	}
}

// line returns the line of a key, or of the innermost table or array around it that has one.
func (r *profileReader) line(key string) int {
	for r.places[key].Line == 0 && key != "" {
		key = key[:max(0, strings.LastIndexAny(key, ".["))]
	}
	return r.places[key].Line
}

// known refuses keys of a table beside names.
func (r *profileReader) known(prefix string, table map[string]any, names ...string) {
	unknown := ""
	for key := range table {
		if !slices.Contains(names, key) && (unknown == "" || key < unknown) {
			unknown = key
		}
	}
	if unknown != "" {
		full := prefix + toml.Key{unknown}.String()
		r.keep(input.Edit(input.UnknownName(full, unknown, names), func(e *input.Error) { e.Value = "" }))
	}
}

// section reads a table whose keys are those of a struct and others.
func (r *profileReader) section(name string, document map[string]any, keys []schema.Key, to any, others ...string) map[string]any {
	table, ok := document[name].(map[string]any)
	if !ok {
		r.fail(name, "", "a table, ["+name+"]")
		return nil
	}
	names := others
	for _, k := range keys {
		names = append(names, k.Name)
	}
	r.known(name+".", table, names...)
	for _, k := range keys {
		r.value(name+"."+k.Name, table[k.Name], k.Type, func(v reflect.Value) { k.Set(to, v) })
	}
	return table
}

// value reads a value of a type.
func (r *profileReader) value(key string, value any, t reflect.Type, set func(reflect.Value)) {
	if value == nil {
		r.fail(key, "", "a value")
		return
	}
	v, err := schema.Convert(t, value)
	if err != nil {
		r.keep(input.Edit(err, func(e *input.Error) { e.Key = key }))
		return
	}
	set(v)
}

// policy reads the section [policy], which has all keys that choose tokens, and no other.
func (r *profileReader) policy(document map[string]any, p *Profile) {
	table, _ := document["policy"].(map[string]any)
	name, _ := table["name"].(string)
	if !slices.Contains(Names(), name) {
		r.keep(input.UnknownName("policy.name", name, Names()))
		return
	}
	r.section("policy", document, choosing(name), &p.Policy)
	if r.err != nil {
		return
	}
	var c input.Check
	if c.In("policy", &p.Policy); c.Err() != nil {
		r.keep(input.Edit(c.Err(), func(e *input.Error) { e.Key = strings.Replace(e.Key, "policy."+name+".", "policy.", 1) }))
	}
}

// bounds checks the model's shape and the buckets.
func (r *profileReader) bounds(p *Profile) {
	for _, n := range []struct {
		key       string
		v         int
		low, high int
	}{
		{"model.layers", p.Model.Layers, 1, maxProfileHeads}, {"model.kv_heads", p.Model.KVHeads, 1, maxProfileHeads},
		{"measured.prompt", p.Measured.Prompt, 1, most}, {"measured.last", p.Measured.Last, 1, most},
	} {
		if n.v < n.low || n.v > n.high {
			r.fail(n.key, fmt.Sprint(n.v), fmt.Sprintf("%d to %d", n.low, n.high))
		}
	}
	before := p.Measured.Prompt
	for i, c := range p.Measured.Contexts {
		if c <= before || c > p.Measured.Last {
			r.fail(fmt.Sprintf("measured.contexts[%d]", i), fmt.Sprint(c), fmt.Sprintf("%d to %d: contexts ascend from measured.prompt + 1 to measured.last", before+1, p.Measured.Last))
		}
		before = c
	}
}

// heads reads the tables of heads, which come layer by layer.
func (r *profileReader) heads(value any, p *Profile) {
	tables, ok := value.([]map[string]any)
	if n := p.Model.Layers * p.Model.KVHeads; r.err == nil && (!ok || len(tables) != n) {
		r.fail("head", fmt.Sprintf("%d tables", len(tables)), fmt.Sprintf("[[head]] %d times, for model.layers times model.kv_heads", n))
	}
	for i, table := range tables {
		if r.err != nil {
			return
		}
		prefix := fmt.Sprintf("head[%d].", i)
		r.known(prefix, table, "layer", "kv_head", "share", "rows")
		for _, at := range []struct {
			key  string
			want int
		}{{"layer", i / p.Model.KVHeads}, {"kv_head", i % p.Model.KVHeads}} {
			if got, ok := table[at.key].(int64); !ok || got != int64(at.want) {
				r.fail(prefix+at.key, fmt.Sprint(table[at.key]), fmt.Sprintf("%d: heads come layer by layer", at.want))
			}
		}
		buckets := len(p.Measured.Contexts)
		p.Heads = append(p.Heads, ProfileHead{
			Share: r.numbers(prefix+"share", table["share"], buckets, 1),
			Rows:  r.numbers(prefix+"rows", table["rows"], buckets, most),
		})
	}
}

// integers reads an array of at least one whole number.
func (r *profileReader) integers(key string, value any) (all []int) {
	list, ok := value.([]any)
	if !ok || len(list) == 0 {
		r.fail(key, "", "an array of whole numbers, at least one")
	}
	for i, v := range list {
		n, ok := v.(int64)
		if !ok || n < 1 || n > most {
			r.fail(fmt.Sprintf("%s[%d]", key, i), fmt.Sprint(v), fmt.Sprintf("a whole number, 1 to %d", most))
			break
		}
		all = append(all, int(n))
	}
	return all
}

// numbers reads an array of n numbers from 0 to high.
func (r *profileReader) numbers(key string, value any, n int, high float64) (all []float64) {
	list, ok := value.([]any)
	if !ok || len(list) != n {
		r.fail(key, fmt.Sprintf("%d elements", len(list)), fmt.Sprintf("an array of %d numbers, one for each of measured.contexts", n))
	}
	for i, v := range list {
		x, ok := v.(float64)
		if whole, isInt := v.(int64); isInt {
			x, ok = float64(whole), true
		}
		if !ok || math.IsNaN(x) || x < 0 || x > high {
			r.fail(fmt.Sprintf("%s[%d]", key, i), fmt.Sprint(v), fmt.Sprintf("0 to %v", high))
			break
		}
		all = append(all, x)
	}
	return all
}
