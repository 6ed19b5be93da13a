package configs

import (
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/input"
)

// usual maps short names of GPUs to the presets that users mean.
var usual = map[string]string{"a100": "a100-sxm-80gb", "a100-sxm": "a100-sxm-80gb", "a100-80gb": "a100-sxm-80gb", "a100-40gb": "a100-sxm-40gb"}

// unknownPreset is the error for a name that is not a preset of a kind; key is what named it. It lists what else can be named, and how.
func unknownPreset(kind Kind, name, key string) error {
	return input.Edit(input.UnknownName(key, name, Names(kind)), func(bad *input.Error) {
		bad.Nearest = nearestPreset(kind, name)
		switch kind {
		case GPUs:
			bad.Expected += ", or a file that ends with .toml: 'l3sim gpu new' writes one from a data sheet"
			if like := sameSeries(name); bad.Nearest == "" && len(like) > 0 {
				bad.Details = []string{"other GPUs of a similar name: " + strings.Join(like, ", ")}
			}
		case Model:
			bad.Expected += ", a folder with a config.json, or a file that ends with .json or .toml"
		case PriceLists, Fits, EnergyTables:
			bad.Expected += ", or a file that ends with .toml"
		}
		if info, err := os.Stat(name); kind == Model && err == nil && info.IsDir() {
			bad.Expected, bad.Nearest = "a folder with a config.json", ""
		}
	})
}

// nearestPreset returns the preset that a misspelt name means. It returns "" if the name may be another product, since a different number
// is no misspelling. For a GPU the letters before the first number must match, too.
func nearestPreset(kind Kind, name string) string {
	names, low := Names(kind), strings.ToLower(name)
	if kind == GPUs && usual[low] != "" {
		return usual[low]
	}
	if kind == SystemPresets || kind == PriceLists || kind == EnergyTables {
		return input.Alike(name, names)
	}
	candidates := slices.DeleteFunc(names, func(preset string) bool {
		return !numbersWithin(low, preset) || (kind == GPUs || kind == Fits) && !sameChip(low, preset)
	})
	if same := slices.DeleteFunc(slices.Clone(candidates), func(preset string) bool { return chip(preset) != chip(low) }); kind == GPUs && len(same) > 0 {
		candidates = same // "b200" means b200-sxm, not gb200
	}
	return input.Alike(name, candidates)
}

var numbers = regexp.MustCompile(`\d+`)

// numbersWithin reports whether a preset has the numbers of a name, in their order.
func numbersWithin(name, preset string) bool {
	have := numbers.FindAllString(preset, -1)
	for _, n := range numbers.FindAllString(name, -1) {
		at := slices.Index(have, n)
		if at < 0 {
			return false
		}
		have = have[at+1:]
	}
	return true
}

// chip returns the beginning of a GPU's name up to the end of its first number, without separators.
func chip(name string) string {
	at := numbers.FindStringIndex(name)
	if at == nil {
		return ""
	}
	return strings.NewReplacer("-", "", "_", "", " ", "").Replace(name[:at[1]])
}

// sameSeries returns the GPUs whose names begin with the same letters, up to the first number: h100-sxm and h200-sxm for h300.
func sameSeries(name string) []string {
	series := strings.TrimRight(chip(strings.ToLower(name)), "0123456789")
	return slices.DeleteFunc(Names(GPUs), func(preset string) bool {
		return series == "" || strings.TrimRight(chip(preset), "0123456789") != series
	})
}

// sameChip reports whether two names may mean one GPU: rtx-a6000 and a6000, but not h20 and h200.
func sameChip(name, preset string) bool {
	a, b := chip(name), chip(preset)
	return a == "" || strings.HasSuffix(a, b) || strings.HasSuffix(b, a)
}
