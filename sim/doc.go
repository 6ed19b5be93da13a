// Package sim is simulated time and the spans that a run leaves on a timeline. It
// knows nothing of what is simulated. Read package system/dataflow next, whose engine
// advances the time.
package sim
