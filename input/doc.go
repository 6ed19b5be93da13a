// Package input holds what every reader of user input shares: Error, the one error type that makes the program exit with code 2;
// Check, with which a configuration section states its rules; bounded readers of CSV, JSON and TOML; and the search for the
// nearest valid name.
//
// Parsers (traces, configurations, DRAM command logs, measurements) return an *Error as an error; it names file, line, key, value
// and what was expected. The command line recognises it with errors.As, and Edit adds what only the caller knows.
//
// Start at Error (error.go), then check.go. Package schema turns text into values.
package input
