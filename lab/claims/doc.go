// Package claims repeats the evaluation of the L3 paper and judges its claims.
//
//   - An experiment is a sweep file of lab/paper with its finished points.
//   - A claim of lab/paper/evaluation.toml says what the paper states, how our
//     number comes out of the experiments, and how the two compare.
//   - Run carries out what a Target needs: experiments on one pool of workers with
//     a journal as cache, what no sweep can do (figures 2 and 10b, the claims of the
//     text) directly on the models.
//   - Claims of other papers, on sparse attention, are found in iterations taken apart
//     (sparse.go, lserve.go with CSAttention, hgca.go).
//   - Report is what remains: verdicts, tables, figures, a page.
//
// Start at Run, then lab/paper/evaluation.toml and claims.go; the page's texts
// are in page.md.tmpl. Nothing here changes a model: assumptions that the paper leaves
// open are keys of the presets "paper" and "fair".
package claims
