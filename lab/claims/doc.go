// Package claims repeats the evaluation of the L3 paper and judges its claims.
//
//   - An experiment is a sweep file of lab/claims/paper with its finished points.
//   - A claim of lab/claims/paper/evaluation.toml has the paper's statement, how our
//     number follows from the experiments, and how the two compare.
//   - Run runs what a Target needs: experiments on one pool of workers with a
//     journal as cache, and without a sweep, directly on the models, figures 2 and
//     10b and the claims of the text.
//   - Claims of other papers, on sparse attention, come from the parts of single
//     iterations (sparse.go, lserve.go with CSAttention, hgca.go).
//   - Report is the result: verdicts, tables, figures, a page.
//
// Start at Run, then lab/claims/paper/evaluation.toml and claims.go; the page's texts
// are in page.md.tmpl. Nothing here changes a model: assumptions that the paper leaves
// open are keys of the presets "paper" and "fair".
package claims
