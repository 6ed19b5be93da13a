// Package validation holds the tests that compare the whole simulator with all available
// measurements, and that write lab/docs/validation.md from the results:
//
//	go test ./validation -update
//
// An anchor is a set of measured numbers of one kind. TestAnchors fails if an anchor's error
// exceeds the best ever recorded (errors.json); a higher limit needs a line with the reason in
// testdata/raised.tsv.
package validation
