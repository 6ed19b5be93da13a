package configs

import (
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
)

// Content is the section [content]: which files the configuration was loaded with, where what they hold is in no key.
// Load fills it in, so a configuration that it writes names them by content too, and refuses to load others.
type Content struct {
	DRAMPreset    string `toml:"dram_preset"`    // SHA-256, in hexadecimal, of the table of a standard that dram.preset names, which must have it; "": of whatever is there
	PolicyGates   string `toml:"policy_gates"`   // SHA-256, in hexadecimal, of the file that policy.gates names, which must have it; "": of whatever is there
	PolicyProfile string `toml:"policy_profile"` // SHA-256, in hexadecimal, of the file that policy.profile names, which must have it; "": of whatever is there
}

// contentDefaults is the section [content] below all presets.
const contentDefaults = `[content]
dram_preset = ""    # whatever dram.preset names; the rules of commands
policy_gates = ""   # whatever policy.gates names; which heads stream
policy_profile = "" # whatever policy.profile names; how much heads attend to
`

const contentPrefix = "content." // begins the keys of Content

// contents are the keys of Content with the keys that name the files.
var contents = []struct{ key, of string }{
	{contentPrefix + "dram_preset", "dram.preset"},
	{contentPrefix + "policy_gates", "policy.gates"},
	{contentPrefix + "policy_profile", "policy.profile"},
}

// forget drops what lower layers say of the content of files that a layer names anew.
func (r *resolution) forget(l *layer) {
	for _, f := range contents {
		if l.find(f.of) != nil {
			e := *r.config.loader.defaults.find(f.key)
			r.set(e, origin{entry: e, preset: true})
		}
	}
}

// readFiles reads the files whose content belongs to the configuration, and compares it with what layers say of it.
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
