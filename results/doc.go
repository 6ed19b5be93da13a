// Package results holds the results of a run: exact distributions of its latencies,
// the summary in the JSON schema "l3sim/run/1" and as text, and a row for each request.
// It writes files so that they are whole or not there.
//
// For many runs it holds tables (Table; as Parquet for other tools), the changes between
// two tables (Compare, Rule), and the best trade-offs between goals with their common
// settings (Goal, Explore). Package figure, below, draws them.
//
// Start at Summary. Package system fills it, cmd/l3sim prints it.
package results
