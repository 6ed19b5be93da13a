// Package controller is the memory controller of package dram: it replays traces of requests on channels of ranks. A Policy has the choices
// that the standard leaves to the designer.
//
// Start at Setup (replay.go). Requests (requests.go) are split into bursts of the part (bursts.go), and package mapping gives the channel
// and bank of each burst. The controller accepts bursts into its read queue and its write buffer (frontend.go), queues them by bank
// (queues.go), chooses the next command (schedule.go) and issues it on the channel (channel.go). Refreshes (refresh.go), power states
// (power.go), the data clock (data_clock.go) and check bits (ecc.go) have their own state.
package controller
