package whole

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
)

//go:embed data/whole.toml
var knownText string

// known maps names in tables.
type known struct {
	GPU       map[string]struct{ Names []string } `toml:"gpu"`
	Framework map[string]framework                `toml:"framework"`
	Precision map[string][]string                 `toml:"precision"`
	Model     map[string]model                    `toml:"model"`
	Server    []server                            `toml:"server"`
}

// server has settings of the servers of some rows: a framework's defaults for a GPU or model, or published launch commands. A condition
// that is left out holds for all rows.
type server struct {
	Framework   string   `toml:"framework"`
	GPU         []string `toml:"gpu"`         // presets
	Model       []string `toml:"model"`       // keys of models
	Source      string   `toml:"source"`      // a part of the row's source
	Parallelism string   `toml:"parallelism"` // as the row has it
	Set         []string `toml:"set"`
}

// serves reports whether a row's server has the settings.
func (s *server) serves(row *Row, framework, gpu, model string) bool {
	in := func(all []string, name string) bool { return len(all) == 0 || slices.Contains(all, name) }
	return (s.Framework == "" || s.Framework == framework) && in(s.GPU, gpu) && in(s.Model, model) &&
		strings.Contains(row.Source, s.Source) && (s.Parallelism == "" || s.Parallelism == row.Parallelism)
}

// serverSets returns the settings of a row's server, the last of which apply.
func (k *known) serverSets(row *Row, framework, gpu, model string) (sets []string) {
	for i := range k.Server {
		if s := &k.Server[i]; s.serves(row, framework, gpu, model) {
			sets = append(sets, s.Set...)
		}
	}
	return sets
}

type framework struct {
	Names []string `toml:"names"`
	Seats int      `toml:"seats"` // requests that decode at once, on each GPU with attention by requests; 0: no limit
	// Tokens is the prompt tokens of an iteration. Divides says that GPUs with attention by requests share them; otherwise each has
	// as many.
	Tokens  int      `toml:"tokens"`
	Divides bool     `toml:"divides"`
	Set     []string `toml:"set"`
}

type model struct {
	Names     []string            `toml:"names"`
	Preset    string              `toml:"preset"` // "" if it has the model's name
	Set       []string            `toml:"set"`
	Precision map[string][]string `toml:"precision"`
}

func readKnown() (*known, error) {
	k := &known{}
	_, err := input.DecodeTOML("whole.toml", knownText, k)
	return k, err
}

var unwritten = strings.NewReplacer(" ", "", "-", "", "_", "", ".", "")

// plain returns a name in the form for comparison.
func plain(name string) string {
	name = strings.ToLower(strings.TrimSpace(bracketed.ReplaceAllString(name, "")))
	if i := strings.LastIndexByte(name, '/'); i >= 0 && !strings.Contains(name, " ") { // a repository's owner
		name = name[i+1:]
	}
	return unwritten.Replace(strings.TrimPrefix(name, "nvidia "))
}

// find returns the entry of a name.
func find[E any](all map[string]E, name string, names func(E) []string) (key string, entry E, ok bool) {
	for _, key := range sortedKeys(all) {
		if e := all[key]; plain(key) == plain(name) || slices.ContainsFunc(names(e), func(n string) bool { return plain(n) == plain(name) }) {
			return key, e, true
		}
	}
	return "", entry, false
}

// fitOf returns the embedded fit of a GPU's kernels in a framework, and whether it is borrowed because the GPU has none of that
// framework.
func fitOf(gpu, framework string) (name string, borrowed bool) {
	names := configs.Names(configs.Fits)
	of := func(prefix string) int {
		return slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, prefix) })
	}
	if i := of(gpu + "." + framework + "-"); i >= 0 {
		return names[i], false
	}
	if i := of(gpu + "."); i >= 0 {
		return names[i], true
	}
	return "", true // the preset's own
}

// modelSets returns the key, the preset and the settings of a row's model, or why there are none.
func (k *known) modelSets(row *Row, framework string) (name, preset string, sets []string, reason string) {
	name, m, ok := find(k.Model, row.Model, func(m model) []string { return m.Names })
	if !ok {
		i := slices.IndexFunc(configs.Names(configs.Model), func(n string) bool { return plain(n) == plain(row.Model) })
		if i < 0 {
			return "", "", nil, "no configuration of " + quoted(row.Model, "the model, which the row leaves out")
		}
		name = configs.Names(configs.Model)[i]
	}
	if preset = m.Preset; preset == "" {
		preset = name
	}
	precision, kv := precisionOf(row.Precision)
	for _, p := range []string{framework + " " + precision, precision} {
		for _, of := range []map[string][]string{m.Precision, k.Precision} {
			if set, ok := of[p]; ok {
				return name, preset, slices.Concat(widths, m.Set, set, kv), ""
			}
		}
	}
	return "", "", nil, "precision " + quoted(row.Precision, "is left out") + " is not known of " + name
}

// quoted returns a text in quotation marks, or a replacement if it is empty.
func quoted(text, empty string) string {
	if text == "" {
		return empty
	}
	return `"` + text + `"`
}

// widths sets all widths to the elements', whatever the preset's checkpoint has.
var widths = []string{
	"model.weight_bits=0", "model.expert_bits=0", "model.attention_bits=0", "model.activation_bits=0", "model.weight_block=0",
	"model.kept_attention=0", "model.kept_network=0", "model.kv_bits=0", `model.kv_format=""`,
}

var kvPrecision = regexp.MustCompile(`(?i)(?:kv[ -]*(?:cache)?[ -=]*(fp8|bf16|fp16|int8)|(fp8|bf16|fp16|int8)[ -]*kv(?:[ -]*cache)?)`)

// precisionOf splits a row's precision into that of weights and the setting of keys and values.
func precisionOf(text string) (weights string, kv []string) {
	if m := kvPrecision.FindStringSubmatch(text); m != nil {
		kv = []string{`model.kv_format="` + strings.ToLower(m[1]+m[2]) + `"`}
		text = strings.Replace(text, m[0], "", 1)
	}
	return strings.ToLower(strings.Trim(text, " ,;+/")), kv
}
