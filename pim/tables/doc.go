// Package tables answers how long attention and transfers take on a rank, for any length at once. KernelTable has a head's clocks and
// activity (for its energy) by context, alone and in a sequence. BoundTable has them for scoring the bounds of pages, and TransferTable for
// moving keys and values to a rank and back.
//
// Runs of package pim/machine fill them, as series that are measured until their growth repeats (package pim/series). They are exact: tests
// compare them with runs at random lengths. Read table.go first.
package tables
