// Package policies has the shipped attention policies, one file for each, which begins with its policy.Policy: dense.go is the shortest,
// quest.go the one to copy. builtin.go lists them.
//
// Costs and values of a policy share counts of tokens and pages, which are pure functions (pages.go, streaming.go, hgca.go). heads.go has
// the costs of policies whose heads stream, choose pages or attend to everything. hybrid.go has those of policies with a window on the GPUs
// and a home elsewhere. common.go has what most policies share. Read the contract, package policy, first.
package policies
