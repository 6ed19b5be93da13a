// Package power tells what the hardware of a node draws for what it does, and what the node costs.
//
// Read energy_causes.go for the causes and components, then power.go, which gives each cause its joules. Package ranks has the
// commands of a rank, attention_table.go tabulates attention on ranks with its energy.
package power
