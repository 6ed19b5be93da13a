// Package figure draws tables of results: bars, stacked bars, lines, scatter, distributions,
// heat maps and Pareto fronts in one house style.
//
// Select turns a table's rows into Data: cells by facet, group and x, each with a sample per seed. Write draws
// them into a PNG, SVG or PDF file; Data.Table returns the same numbers as a table. The same table gives the
// same bytes.
//
// House style: the colours of Okabe and Ito, which colour-blind readers tell apart; for each group its own
// marker and dash pattern, or hatch, for print in black and white; the legend above the data; units on the
// axes; the same style for a system in every figure (stylesOf); error bars of one sample standard deviation
// over seeds.
//
// Start at kinds.go, which has the kinds of figures, then Select (data.go) and draw.go.
package figure
