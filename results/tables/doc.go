// Package tables holds the results of many runs as a table, with its queries: the rows that fulfil
// conditions (Where), means over seeds (Means), the best of points that differ in some keys (Best),
// a column per value (Wide), the changes between two tables (Compare, Rule), and the best
// trade-offs between goals with their common settings (Goal, Explore). A table is read from CSV and
// written as CSV, Parquet, JSON, Markdown and aligned text.
//
// A row is a point of a sweep and a seed. Its columns are PointColumn, the keys that vary,
// StatusColumn, ErrorColumn, ConfigColumn and the metrics of package results.
//
// Start at Table, then where.go and reshape.go. Package figure draws tables.
package tables
