// Package example is a policy as a module of its own adds it: SnapKV. It has tests only. snapkv_test.go is the program of which
// docs/reference/policies-and-systems.md shows the parts, snapkv_laws_test.go what its counts of tokens, its costs and its keys must obey.
// Package policy, which it implements, is what to read next.
package example
