// Command rooms counts the names by which packages use each other, with types, fields
// and methods included, and tells those that run up: a name of a package that stands
// above its user in the rows of docs/reference/architecture.md. It also lists the interfaces
// that have a single implementation in a package above them, since such an interface
// may be there only to hide a name that runs up.
//
//	rooms [-v] DIR
package main
