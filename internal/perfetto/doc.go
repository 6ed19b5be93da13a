// Package perfetto checks that Perfetto (https://ui.perfetto.dev) shows timelines as they were
// written. It does not if, for example, a slice ends after the slice around it, or a time is no whole
// number of nanoseconds. Only tests import it.
//
// Start at Read in perfetto.go. Package results/timeline writes the timelines.
package perfetto
