// Package paper holds the evaluation of the L3 paper as files that can be run and changed one by one: a
// sweep file for each experiment, a figure definition for each figure.
//
//	l3sim sweep lab/claims/paper/fig8.toml --out out/fig8
//	l3sim plot out/fig8 --figure lab/claims/paper/fig8.figure.toml --out fig8.png
//
// evaluation.toml tells 'l3lab reproduce' the experiments of each target, and the claims of the paper
// with how each is judged. lserve*.toml, hgca.toml, csattention.toml and sparse.toml have claims of
// other papers. All are embedded, so that it needs no checkout. The sweep of Fig 11 names its trace from
// the repository's root and is run there.
package paper

import "embed"

// Files holds the sweep files (NAME.toml), the figure definitions
// (NAME.figure.toml), evaluation.toml and the traces that sweeps name (*.csv).
//
//go:embed *.toml *.csv
var Files embed.FS

// Folder is where the files are, from the repository's root.
const Folder = "lab/claims/paper"
