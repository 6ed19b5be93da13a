// Package policies is the attention policies that ship, a file each, which begins with its policy.Policy: dense.go is the shortest,
// quest.go the one to copy. builtin.go lists them.
//
// Costs and values of a policy share counts of tokens and pages, which are pure functions (pages.go, streaming.go,
// hgca.go). heads.go is the costs of policies whose heads stream, choose pages or attend to everything; hybrid.go those of
// a window on the GPUs beside a home elsewhere; common.go what all have in common. Read the contract first, package policy.
package policies
