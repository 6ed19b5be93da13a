// Package configs turns TOML into the Specs of all other packages. It has embedded presets, a strict loader, and the validation that no
// single package can do.
//
// A configuration is built in layers, each a subset of the keys: the system preset, the files given with --config, each --set
// section.key=value, and the command's own flags. Later layers win. Three sections start from a preset or a file of their own: [gpu] and
// [dram] from their key `preset`, [model] from run.model. A layer that names such a preset, or a file with a whole section, begins the
// section anew: keys that a lower layer set for its own preset are dropped.
//
// Every fault is one *input.Error with file, line, key and value. No key has a default in code: a preset sets every key, each number with
// its source and effect, and (*Config).WriteTOML writes every key back. A new field of a Spec therefore needs a line in each system preset;
// a test says which. The field's comment goes to meanings.tsv ('go test ./configs -run Meanings -update'), which 'l3sim config explain'
// reads.
//
// The package knows no simulated system by name. New takes each system's section, defaults and rules, and returns the Loader;
// system.Configs is the loader of all systems.
//
// Read Config first, then Loader; the presets are in systems, gpus and models.
package configs
