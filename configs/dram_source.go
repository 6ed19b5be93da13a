package configs

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/l3sim/l3sim/dram"
)

// dramSource writes a part of package dram's tables as a section file with a
// comment on each number.
func dramSource(name string) (string, error) {
	spec, err := dram.LookupSpec(name)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	encoder := toml.NewEncoder(&text)
	encoder.Indent = ""
	if err := encoder.Encode(map[string]*dram.Spec{"dram": spec}); err != nil {
		return "", err
	}
	var out strings.Builder
	fmt.Fprintf(&out, "# %s: one rank of DDR4 devices by JESD79-4C; timing in clocks of tCK.\n\n", name)
	for line := range strings.Lines(text.String()) {
		line = strings.TrimSuffix(line, "\n")
		key, _, _ := strings.Cut(line, " =")
		if comment := dramComments[key]; comment != "" {
			line = fmt.Sprintf("%-20s # %s", line, comment)
		} else if strings.HasPrefix(line, "[dram.") {
			line = "\n" + line
		}
		out.WriteString(line + "\n")
	}
	return out.String(), nil
}

// dramComments says of each key of [dram] what it is, where JESD79-4C has it,
// and what it moves.
var dramComments = map[string]string{
	"bank_groups":     "section 2.7, two at x16; distance of bursts, all-bank width of the PIM",
	"banks_per_group": "section 2.7; all-bank width of the PIM",
	"rows":            "section 2.7, by density; capacity of a rank alone",
	"columns":         "section 2.7; tokens of one row, so row switches",
	"device_width":    "data pins of a chip; chips of a rank, re-layout",
	"bus_width":       "data pins of a DIMM without ECC; bytes of a burst",
	"burst_length":    "BL8; bytes and clocks of a burst",
	"tCK":             "speed bin, section 10; all times",
	"CL":              "speed bin, section 10; read latency",
	"CWL":             "first set for the speed bin; write latency, turnaround of the bus",
	"tRCD":            "speed bin, section 10; each row switch, ACT to column access",
	"tRP":             "speed bin, section 10; each row switch, PRE to ACT",
	"tRAS":            "speed bin, section 10; shortest life of an open row",
	"tRC":             "tRAS + tRP; row cycle of a bank",
	"tRRD_S":          "tables 169 to 171, by page size; all-bank activation",
	"tRRD_L":          "tables 169 to 171, by page size; all-bank activation",
	"tFAW":            "tables 169 to 171, by page size; all-bank activation: 16 ACTs take 3 tFAW + 3 tRRD_S",
	"tCCD_S":          "tables 169 to 171; bandwidth of the channel",
	"tCCD_L":          "tables 169 to 171; all-bank PIM reads, so PIM bandwidth",
	"tRTP":            "tables 169 to 171; read to PRE, each row switch after reads",
	"tWR":             "tables 169 to 171; write data to PRE, row switches after writes",
	"tWTR_S":          "tables 169 to 171; write to read turnaround",
	"tWTR_L":          "tables 169 to 171; write to read turnaround",
	"tRFC":            "table 36, by density; share of time lost to refresh",
	"tREFI":           "7.8 us, section 4.26; share of time lost to refresh",
	"tRTRS":           "the channel's, not in the standard; gap between bursts of two ranks",
	"VDD":             "volts; energy",
	"IDD0":            "mA a chip, data sheet; energy of a row cycle",
	"IDD2N":           "mA a chip, data sheet; energy of precharged standby",
	"IDD3N":           "mA a chip, data sheet; energy of active standby",
	"IDD4R":           "mA a chip, data sheet; energy of reads",
	"IDD4W":           "mA a chip, data sheet; energy of writes",
	"IDD5B":           "mA a chip, data sheet; energy of refresh",
}
