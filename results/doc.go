// Package results holds what a run found out: exact distributions of its
// latencies, the summary in the JSON schema "l3sim/run/1" and as text, a row
// for each request, and the writing of files that are whole or not there.
//
// Of many runs it holds tables (Table; as Parquet for other tools), what changed
// between two of them (Compare, Rule), and the best trade-offs between goals
// with what they have in common (Goal, Explore); package figure, below, draws them.
//
// Start at Summary. Package system fills it, cmd/l3sim prints it.
package results
