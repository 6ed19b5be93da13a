// Package hostkv compares measured fetches of rows from pinned host memory with package pcie's model, and decode iterations with such
// fetches with the flow of the system sparse-offload.
//
// Read the three kinds of files in read.go. Fit finds the parameters of pcie.Gather; Judge compares whole iterations.
package hostkv
