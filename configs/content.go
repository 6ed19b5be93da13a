package configs

import (
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
)

// Content is the section [content]: hashes of the files whose contents no key holds. Load fills it in. A configuration that it writes thus
// identifies its files, and refuses to load with other ones.
type Content struct {
	DRAMPreset    string `toml:"dram_preset"`    // SHA-256, in hexadecimal, that the table named by dram.preset must have; "" accepts any
	PolicyGates   string `toml:"policy_gates"`   // SHA-256, in hexadecimal, that the file named by policy.gates must have; "" accepts any
	PolicyProfile string `toml:"policy_profile"` // SHA-256, in hexadecimal, that the file named by policy.profile must have; "" accepts any
}

// contentDefaults are the defaults of [content], below all presets.
const contentDefaults = `[content]
dram_preset = ""    # whatever dram.preset names; the rules of commands
policy_gates = ""   # whatever policy.gates names; which heads stream
policy_profile = "" # whatever policy.profile names; how much heads attend to
`

const contentPrefix = "content." // prefix of the keys of Content

// contents pairs each key of Content with the key that names the file.
var contents = []struct{ key, of string }{
	{contentPrefix + "dram_preset", "dram.preset"},
	{contentPrefix + "policy_gates", "policy.gates"},
	{contentPrefix + "policy_profile", "policy.profile"},
}

// forget clears the content that lower layers gave for a file when a layer names the file anew.
func (r *resolution) forget(l *layer) {
	for _, f := range contents {
		if l.find(f.of) != nil {
			e := *r.config.loader.defaults.find(f.key)
			r.set(e, origin{entry: e, preset: true})
		}
	}
}

// readFiles hashes the files that belong to the configuration, and compares the hashes with those in layers.
func (r *resolution) readFiles() error {
	c := r.config
	if err := c.Policy.ReadFiles(); err != nil {
		return r.locate(err)
	}
	sums := [3]string{}
	if sums[1], sums[2] = c.Policy.Sums(); r.table != nil {
		sums[0] = r.table.sum
	}
	for i, sum := range sums {
		f := contents[i]
		said := keys.Key(f.key).Get(c)
		if old := said.String(); old != "" && !strings.EqualFold(old, sum) {
			bad := &input.Error{Key: f.key, Value: strconv.Quote(old), Expected: "to be left out: " + f.of + " names no file whose content is in no key", OtherKeys: []string{f.of}}
			if sum != "" {
				bad.Expected = sum + ", of " + keys.Key(f.of).Get(c).String() + ": the file has changed"
			}
			return r.locate(bad)
		}
		said.SetString(sum)
	}
	return nil
}
