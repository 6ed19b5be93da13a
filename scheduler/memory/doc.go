// Package memory accounts for the memory of one replica's requests. A Ledger counts keys and values in allocation units on
// ranksets; a request holds a Reservation for its Length. A cache in the Ledger keeps the blocks of prompts that later requests
// begin with, and moves evicted ones to the host. A Forecast says whether requests will still fit when they have grown. GPU is
// the memory that the weights leave free, for activations and prompts in progress.
//
// Read reservation.go (how many units a length takes), then ledger.go (where they are). cache.go and forecast.go can be read
// alone. scheduler/batching decides who reserves when; this package knows no queue, and of a batch only the blocks that move.
package memory
