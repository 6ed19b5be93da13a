// Package hbm computes decode attention on processing units in HBM, command by command. The programs are those of AttAcc (Park et al.,
// ASPLOS 2024; https://github.com/scale-snu/attacc_simulator): a head is spread over all banks of one channel. Units at the banks, at the
// bank groups or in the buffer die (Level) each read one column at a time. A program has two interpretations: Measure issues it under the
// timing rules of package dram, either those of AttAcc's simulator or those of the HBM3 standard, and a test computes attention values with
// it (values_test.go).
//
// Start at Level and layouts (spec.go), then program.go and machine.go. lab/docs/baselines.md has the evidence.
package hbm
