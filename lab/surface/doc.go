// Command surface prints the size of a checkout: tokens and lines of Go by kind and package,
// exported names, commands, flags, keys, columns, the largest structs and the words of the
// documentation. Run it as .ci/surface.
package main
