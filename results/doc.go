// Package results holds what a run found out: exact distributions of its
// latencies, the summary in the JSON schema "l3sim/run/1" and as text, a row
// for each request, and the writing of files that are whole or not there.
//
// Start at Summary. Package system fills it, cmd/l3sim prints it.
package results
