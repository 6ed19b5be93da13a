// Command l3sim simulates LLM serving on GPUs with processing-in-memory DIMMs.
//
// This package is the command line alone and models nothing: one file a
// command, each with a constructor newXCommand that root.go registers. A
// command's function returns an error; run turns it into one line on standard
// error and an exit code. Tests are scripts in testdata/script, which run the
// program as a user does.
//
// Read main.go and root.go, then run.go; docs/lab/architecture.md says where what they call is.
package main
