package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
)

const maxProfileHeads = 1 << 16 // bounds the layers, and the heads of a layer, in a profile

// profileFile is the text of a profile.
type profileFile struct {
	Schema   string          `toml:"schema"`
	Model    ProfileModel    `toml:"model"`
	Policy   map[string]any  `toml:"policy"`
	Measured ProfileMeasured `toml:"measured"`
	Head     []struct {
		Layer  int       `toml:"layer"`
		KVHead int       `toml:"kv_head"`
		Share  []float64 `toml:"share"`
		Rows   []float64 `toml:"rows"`
		Chosen []string  `toml:"chosen"`
	} `toml:"head"`
}

// ParseProfile parses a profile's file. A fault is an *input.Error with the line of the key, or of the innermost enclosing table or array.
func (l *List) ParseProfile(file, text string) (*Profile, error) {
	var f profileFile
	meta, err := input.DecodeTOML(file, text, &f)
	if err != nil {
		return nil, err
	}
	var c input.Check
	for _, key := range meta.Undecoded() {
		c.That(false, key.String(), "", "to be left out: no profile has such a key")
	}
	c.That(f.Schema == profileSchema, "schema", f.Schema, "%q, a file of 'l3lab eval --profile'", profileSchema)
	for _, key := range []string{"model.name", "model.heads", "model.head_dim"} {
		c.That(meta.IsDefined(strings.Split(key, ".")...), key, "", "a value")
	}
	p := &Profile{Model: f.Model, Measured: f.Measured}
	input.Within(&c, "model.layers", p.Model.Layers, 1, maxProfileHeads)
	input.Within(&c, "model.kv_heads", p.Model.KVHeads, 1, maxProfileHeads)
	input.Within(&c, "measured.prompt", p.Measured.Prompt, 1, MaxTokens)
	input.Within(&c, "measured.last", p.Measured.Last, 1, MaxTokens)
	p.Policy = l.policyOf(&c, f.Policy)
	c.That(len(p.Measured.Contexts) > 0, "measured.contexts", "", "an array of whole numbers, at least one")
	before := p.Measured.Prompt
	for i, first := range p.Measured.Contexts {
		c.That(first > before && first <= p.Measured.Last, fmt.Sprintf("measured.contexts[%d]", i), first,
			"%d to %d: contexts ascend from measured.prompt + 1 to measured.last", before+1, p.Measured.Last)
		before = first
	}
	n := p.Model.Layers * p.Model.KVHeads
	c.That(len(f.Head) == n, "head", fmt.Sprintf("%d tables", len(f.Head)), "[[head]] %d times, for %s times %s", n, input.Key("model.layers"), input.Key("model.kv_heads"))
	for i := 0; c.OK() && i < n; i++ {
		h, at := &f.Head[i], fmt.Sprintf("head[%d].", i)
		c.That(h.Layer == i/p.Model.KVHeads, at+"layer", h.Layer, "%d: heads come layer by layer", i/p.Model.KVHeads)
		c.That(h.KVHead == i%p.Model.KVHeads, at+"kv_head", h.KVHead, "%d: heads come layer by layer", i%p.Model.KVHeads)
		buckets(&c, at+"share", h.Share, len(p.Measured.Contexts), 1)
		buckets(&c, at+"rows", h.Rows, len(p.Measured.Contexts), MaxTokens)
		p.Heads = append(p.Heads, ProfileHead{Share: h.Share, Rows: h.Rows})
		if h.Chosen != nil {
			p.Heads[i].Chosen = parseChosen(&c, at+"chosen", h.Chosen, p.Measured.Prompt+1, p.Measured.Last)
		}
	}
	if c.OK() {
		return p, nil
	}
	places := schema.Scan(text)
	return nil, input.Edit(c.Err(), func(e *input.Error) {
		key := e.Key
		for places[key].Line == 0 && key != "" {
			key = key[:max(0, strings.LastIndexAny(key, ".["))]
		}
		e.File, e.Line = file, places[key].Line
	})
}

// policyOf reads the section [policy], which must have exactly the keys that affect choices.
func (l *List) policyOf(c *input.Check, table map[string]any) Spec {
	name, _ := table["name"].(string)
	p, keys := l.New(name), l.choosing(name)
	input.OneOf(c, "policy.name", name, l.Names()...)
	for _, key := range slices.Sorted(maps.Keys(table)) {
		known := slices.ContainsFunc(keys, func(k schema.Key) bool { return k.Name == key })
		c.That(known, "policy."+key, "", "to be left out: no key of %s that chooses tokens", name)
	}
	for _, k := range keys {
		if !c.OK() {
			return p
		}
		c.That(table[k.Name] != nil, "policy."+k.Name, "", "a value")
		if v, err := schema.Convert(k.Type, table[k.Name]); err == nil {
			k.Set(&p, v)
		} else {
			c.Fails("policy", input.Edit(err, func(e *input.Error) { e.Key = k.Name }))
		}
	}
	if err := input.Validate(&p); err != nil && c.OK() {
		c.Fails("policy", input.Edit(err, func(e *input.Error) { e.Key = strings.TrimPrefix(e.Key, name+".") }))
	}
	return p
}

func buckets(c *input.Check, key string, values []float64, n int, high float64) {
	c.That(len(values) == n, key, fmt.Sprintf("%d elements", len(values)), "an array of %d numbers, one for each of measured.contexts", n)
	for i, v := range values {
		input.Within(c, fmt.Sprintf("%s[%d]", key, i), v, 0, high)
	}
}
