// Package measure compares the models of packages gpu and pcie with measured
// kernel times, and fits their parameters.
//
// Read reads measurements from CSV files, Judge reports the error of a specification over them,
// FitAll fits parameters to some shapes and judges them on others. lab/docs/model-gpu.md has the
// results.
//
// Start at Target (sample.go), then fitall.go. programs/ has the scripts that measure.
package measure
