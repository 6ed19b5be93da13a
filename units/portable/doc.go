// Package portable holds functions of which every machine computes the same bits.
// Package math's differ in the last digit: amd64, arm64 and s390x have assembly of
// their own for some of them; elsewhere a compiler may fuse. A run's
// results must not depend on the machine.
//
// Start at Exp; lab/docs/laws-and-metrics.md says where a last digit may differ all the same.
package portable
