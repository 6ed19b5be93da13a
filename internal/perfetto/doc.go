// Package perfetto checks timelines by the rules by which Perfetto (https://ui.perfetto.dev) reads
// them: a slice that ends after the slice around it, or a time that is no whole number of nanoseconds,
// is not shown as it was written. Only tests import it.
//
// Start at Read in perfetto.go. The timelines that it is for are written by package results/timeline.
package perfetto
