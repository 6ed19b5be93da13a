// Command rooms counts the names (types, fields and methods included) by which packages use each
// other, and lists those that run up: names of a package above its user in the rows of
// docs/reference/architecture.md. It also lists interfaces with a single implementation in a higher
// package, since such an interface may only hide a name that runs up.
//
//	rooms [-v] DIR
package main
