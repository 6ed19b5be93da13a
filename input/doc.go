// Package input holds what every reader of user input shares: Error, the
// one error type that makes the program exit with code 2, and the search for
// the nearest valid name.
//
// Parsers (traces, configurations, DRAM command logs, measurements) return an
// *Error that names file, line, key, value and what was expected; the
// command line recognises it with errors.As.
package input
