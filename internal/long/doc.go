// Package long says how much of a test to run: what a property needs with every
// change, or the whole of it, which .ci/long runs.
package long
