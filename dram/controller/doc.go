// Package controller is the memory controller of package dram: it replays traces of
// requests on channels of ranks. What the standard leaves to its designer is a Policy.
//
// Start at Setup (replay.go). Requests (requests.go) are split into bursts of the part (bursts.go), and package mapping says to
// which channel and bank each burst goes. A channel (channel.go) accepts bursts into its read queue and its write buffer
// (frontend.go), keeps them by bank (queues.go), chooses the command that issues next (schedule.go) and issues it. Refreshes
// (refresh.go), power states (power.go), the data clock (data_clock.go) and check bits (ecc.go) have their own state.
package controller
