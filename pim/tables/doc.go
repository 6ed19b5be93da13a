// Package tables answers how long attention and transfers take on a rank, for any length at once. KernelTable has a head's clocks and
// activity (for its energy) by context, alone and in a sequence; BoundTable those of scoring bounds of pages; TransferTable those of
// keys and values on their way to a rank and back.
//
// Runs of package pim/machine fill them, by series that are measured until they grow evenly (package pim/series). They are exact: tests
// compare them with runs at random lengths. Read table.go first.
package tables
