// Package results holds the results of a run: exact distributions of its latencies, the summary in
// the JSON schema "l3sim/run/2" and as text, and a row for each request. It writes files
// atomically. Metrics are the numbers of a summary as columns of a table, each with the direction
// in which it improves.
//
// Start at Summary. Package system fills it, cmd/l3sim prints it. Package tables has the results of
// many runs, package figure draws them.
package results
