// Package report writes results of sweeps as one page of HTML, which opens
// without a network: fronts, axes, components, distributions, a table, and the command that
// reproduces each point.
//
// Read collects the data of the page from folders; Report.Write fills the template. In the reader's
// browser report.js draws the charts with Apache ECharts, which is part of the page.
//
// Start at Read, then report.html.tmpl and report.js; docs/reference/sweeps.md says what is on a page.
package report
