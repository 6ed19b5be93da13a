// Package controller is the memory controller of package dram: it replays traces of
// requests on channels of ranks. What the standard leaves to its designer is a Policy.
//
// Start at Setup.
package controller
