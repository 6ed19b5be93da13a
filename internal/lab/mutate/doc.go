// Command mutate plants single-line mistakes in a package, one at a time, and lists
// those that its tests do not find. docs/lab/mutation.md says how to use it.
package main
