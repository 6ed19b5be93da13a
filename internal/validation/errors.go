package validation

import _ "embed" // the recorded errors

// Errors is the recorded errors of the anchors, in JSON: an object by the anchor's name, each
// with its rows, the mean, median and 90th percentile of the absolute relative error, and the bias.
//
//go:embed testdata/errors.json
var Errors []byte
