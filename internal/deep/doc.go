// Package deep says how much of a test to run. There are three depths:
//
//   - quick, the default: what go test ./... runs on a laptop or on a slow machine.
//     A test of many seconds is left out, heavy tests take turns, and a property is tried
//     on few random cases, the same every time.
//   - deep, with L3SIM_DEEP=1: .ci/run runs a share of these with every commit.
//   - long, with L3SIM_LONG=1: the nightly .ci/long, every property at full length.
package deep
