// Package cli is what the programs l3sim and l3lab have in common: exit codes and errors, flags
// that set keys of a configuration, output, progress, completion. It models nothing.
//
// Start at Program; a command is a cobra.Command whose function returns an error.
package cli
