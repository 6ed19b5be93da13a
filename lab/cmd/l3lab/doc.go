// Command l3lab proves and fits what l3sim simulates with: it compares predictions with measured
// kernels and servers, fits GPUs to measurements, and decodes a language model in the simulated DIMMs.
//
// As cmd/l3sim it has one file a command; what both share is in internal/cli. No package of the
// product imports what it is made of, lab.
package main
