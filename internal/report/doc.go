// Package report writes results of sweeps as one page of HTML, which opens
// without a network: fronts, axes, components, distributions, a table, and the command that
// reproduces each point.
//
// Read collects what the page shows from folders; Report.Write fills the template. The
// charts are drawn in the reader's browser by report.js with Apache ECharts, which is part of
// the page.
//
// Start at Read, then report.html.tmpl and report.js; docs/reference/sweeps.md says what is on a page.
package report
