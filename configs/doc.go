// Package configs turns TOML into the Specs of all other packages: embedded
// presets, a strict loader, and the validation that no single package can do.
//
// A configuration is built in layers, each a subset of the keys: the system
// preset, the files given with --config, each --set section.key=value, and the
// command's own flags. Later layers win. Three sections start from a preset or a
// file of their own: [gpu] and [dram] from their key `preset`, [model] from
// run.model. A layer that names such a preset begins the section anew: what a
// lower layer set for a preset that it named itself is dropped. So does a file
// with a whole section.
//
// Whatever is wrong is one *input.Error with file, line, key and value.
// No key has a default in code: a preset sets every key, each number with its
// source and what it moves, and (*Config).WriteTOML writes every key back. So a
// new field of a Spec needs a line in each system preset; a test says which. What
// its comment says goes to meanings.tsv ('go test ./configs -run Meanings -update'),
// which 'l3sim config explain' reads.
//
// The package knows no system that a node can be. New takes what each system says of
// itself, its section with defaults and rules, and returns the Loader; system.Configs
// has that of all systems.
//
// Read Config first, then Loader; the presets are in systems, gpus and models.
package configs
