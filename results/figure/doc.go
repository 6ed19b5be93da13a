// Package figure draws tables of results: bars, stacked bars, lines, scatter, distributions,
// heat maps and Pareto fronts in one house style.
//
// Select turns a table's rows into Data: cells by facet, group and x, each with
// the samples that the seeds left. Draw puts them on a canvas and Write into a
// PNG, SVG or PDF file; Data.Table gives the same numbers as text. The same
// table gives the same bytes.
//
// House style: the colours of Okabe and Ito, which colour-blind readers tell
// apart; a marker and a dash pattern, or a hatch, of its own for each group, so
// that nothing is lost in black and white; the legend above the data; units on
// the axes; a system alike in every figure (stylesOf); error bars of one sample standard deviation over seeds.
//
// Start at kinds.go, which has the kinds of figures, then Select (data.go) and draw.go.
package figure
