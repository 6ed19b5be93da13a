// Package controller is the memory controller of package dram: it replays traces of
// requests on channels of ranks. What the standard leaves to its designer is a Policy.
//
// Start at Setup. Package mapping says to which channel and bank a request goes. A channel's requests go from front (read queue and write buffer) to queues (one a bank); sched, with one of the
// schedulers, picks the command that issues next, and channel takes it. Refreshes, refresh management, power states, the data clock
// and check bits (ECC) each have a file with their state.
package controller
