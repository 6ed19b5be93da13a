// Package power computes the power that a node's hardware draws for its work, and the node's cost.
//
// Read energy_causes.go for the causes and components, then power.go, which gives each cause its joules. Package ranks has
// the commands of a rank; attention_table.go tabulates attention on ranks with its energy.
package power
