// Command l3lab validates and fits the models of l3sim: it compares predictions with measured kernels
// and servers, fits GPUs to measurements, and decodes a language model in the simulated DIMMs.
//
// Like cmd/l3sim it has one file per command; internal/cli has what both share. No package of the
// product imports lab.
package main
