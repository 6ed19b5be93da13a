package dram

import "slices"

// Command is a DRAM command, the processing-in-memory ones included.
type Command uint8

// The commands of all standards, by JEDEC's names. A standard's table lists the commands that it has and their effects. REF is REFab, and
// PREA is PREab. ACTA, MACA, RDRES and WRBUF belong to the DIMM-PIM; their data move on a rank's private buses. WRGB and later commands
// are for units in HBM (package pim/hbm), whose tables also have ACTA and MACA.
const (
	ACT   Command = iota // activate a row of one bank
	ACTA                 // activate the same row in all banks of a rank at once, breaking tRRD and tFAW
	PRE                  // precharge one bank
	PREA                 // precharge all banks of a rank
	RD                   // read one burst
	RDA                  // read with auto-precharge
	WR                   // write one burst
	WRA                  // write with auto-precharge
	REF                  // refresh all banks of a rank
	MACA                 // read a column in all banks of a rank into the bank processing units
	RDRES                // read 64 B of the result buffers over the rank's data bus, past the banks
	WRBUF                // write 64 B into the shared buffers over the rank's data bus, past the banks
	REFsb                // refresh the same bank of every bank group
	REFpb                // refresh one bank, or a pair
	PREsb                // precharge the same bank of every bank group
	RFM                  // refresh management of all banks
	RFMsb                // refresh management of the same bank of every bank group
	RFMpb                // refresh management of one bank, or a pair
	CAS                  // start the data clock (WCK) of a rank
	PDE                  // enter power-down
	PDX                  // leave power-down
	SRE                  // enter self-refresh
	SRX                  // leave self-refresh
	WRGB                 // write 32 B of a query into the buffers of the units at an HBM channel's banks
	MVSB                 // move 32 B of the units' results of one bank group to the softmax unit in the buffer die
	MVGB                 // move 32 B of probabilities from the softmax unit into the units' buffers
	SFM                  // start the softmax unit
	ACTsb                // activate the same row in the same bank of every bank group at once, breaking tRRD and tFAW
	MACsb                // read a column of the same bank of every bank group into these banks' units
	MAC                  // read a column of one bank into a unit in the buffer die

	Commands = iota // their number
)

// commandNames are as in JEDEC's standards and tables.
var commandNames = [Commands]string{
	"ACT", "ACTA", "PRE", "PREA", "RD", "RDA", "WR", "WRA", "REF", "MACA", "RDRES", "WRBUF",
	"REFsb", "REFpb", "PREsb", "RFM", "RFMsb", "RFMpb", "CAS", "PDE", "PDX", "SRE", "SRX", "WRGB", "MVSB", "MVGB", "SFM",
	"ACTsb", "MACsb", "MAC",
}

// String returns the name that command logs use.
func (c Command) String() string {
	if int(c) < len(commandNames) {
		return commandNames[c]
	}
	return "Command(?)"
}

// CommandNames returns the names of all commands.
func CommandNames() []string { return commandNames[:] }

// CommandCounts returns, by name, the counts of commands that are not 0.
func CommandCounts(counts []int64) map[string]int64 {
	named := map[string]int64{}
	for c, n := range counts {
		if n > 0 {
			named[commandNames[c]] = n
		}
	}
	return named
}

// ParseCommand returns the command of that name.
func ParseCommand(name string) (Command, bool) {
	i := slices.Index(commandNames[:], name)
	return Command(max(i, 0)), i >= 0
}

// IsRead reports whether c puts data on the bus from the device.
func (c Command) IsRead() bool { return c == RD || c == RDA || c == RDRES }

// IsWrite reports whether c puts data on the bus towards the device.
func (c Command) IsWrite() bool { return c == WR || c == WRA || c == WRBUF }

// IsColumn reports whether c reads or writes one burst of an open row.
func (c Command) IsColumn() bool { return c >= RD && c <= WRA }

// AllBank reports whether c acts on a whole rank: its address has bank group and bank -1.
func (c Command) AllBank() bool {
	return slices.Contains([]Command{ACTA, PREA, REF, MACA, RDRES, WRBUF, RFM, CAS, PDE, PDX, SRE, SRX}, c)
}

// Address is the target of a command. Absent parts are -1: an all-bank command has bank group and bank -1. Bank counts within its bank
// group. Column counts bursts (64 B of a 64-bit rank), not the device's column addresses.
type Address struct{ Rank, BankGroup, Bank, Row, Column int32 }

// Observe is called with each command and the step at which it issues.
type Observe func(step int64, c Command, a Address)
