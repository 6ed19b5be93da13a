// Package hostkv compares fetches of rows out of pinned host memory, and decode iterations that need them, with package pcie's model of
// them and the flow of the system sparse-offload.
//
// Read the three kinds of files in read.go. Fit finds the parameters of pcie.Gather; Judge compares whole iterations.
package hostkv
