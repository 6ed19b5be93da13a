// Package validation holds the tests that compare the whole simulator with everything
// that others or we have measured, and that write lab/docs/validation.md from it:
//
//	go test ./validation -update
//
// An anchor is a set of measured numbers of one kind. TestAnchors fails where an
// anchor's error is above the best ever recorded (errors.json); raising such a bar
// needs a line with the reason in testdata/raised.tsv.
package validation
