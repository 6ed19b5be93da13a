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
	fmt.Fprintf(&out, "# %s: one rank of devices by %s; timing in clocks of tCK.\n\n", name, spec.Rules().Title)
	sources := map[string]string{}
	for _, p := range spec.Parameters() {
		sources[p.Term] = p.Source + "; "
	}
	for line := range strings.Lines(text.String()) {
		line = strings.TrimSuffix(line, "\n")
		key, _, _ := strings.Cut(line, " =")
		if comment := dramComments[key]; comment != "" {
			line = fmt.Sprintf("%-20s # %s%s", line, sources[key], comment)
		} else if strings.HasPrefix(line, "[dram.") {
			line = "\n" + line
		}
		out.WriteString(line + "\n")
	}
	return out.String(), nil
}

// dramComments says of each key of [dram] what it moves, and of those that are no timings,
// whose source is in the standard's table, what they are and where from.
var dramComments = map[string]string{
	"standard":        "the rules; every distance of two commands",
	"timings":         "timings of the standard's own that differ from its table; the distances that they name",
	"bank_groups":     "the standard's addressing, two at x16; distance of bursts, all-bank width of the PIM",
	"banks_per_group": "the standard's addressing; all-bank width of the PIM",
	"rows":            "the standard's addressing, by density; capacity of a rank alone",
	"columns":         "the standard's addressing; tokens of one row, so row switches",
	"ecc":             "check bits: none, side-band (DIMMs of 72 bits), inline, inline-16; energy of the chips, capacity for data",
	"device_width":    "data pins of a chip; chips of a rank, re-layout",
	"bus_width":       "data pins of a DIMM without ECC; bytes of a burst",
	"burst_length":    "transfers, BL; bytes and clocks of a burst",
	"tCK":             "speed bin; all times",
	"CL":              "read latency",
	"CWL":             "write latency, turnaround of the bus",
	"tRCD":            "each row switch, ACT to column access",
	"tRP":             "each row switch, PRE to ACT",
	"tRAS":            "shortest life of an open row",
	"tRC":             "row cycle of a bank",
	"tRRD_S":          "all-bank activation",
	"tRRD_L":          "all-bank activation",
	"tFAW":            "all-bank activation: 16 ACTs take 3 tFAW + 3 tRRD_S",
	"tCCD_S":          "bandwidth of the channel",
	"tCCD_L":          "all-bank PIM reads, so PIM bandwidth",
	"tRTP":            "read to PRE, each row switch after reads",
	"tWR":             "write data to PRE, row switches after writes",
	"tWTR_S":          "write to read turnaround",
	"tWTR_L":          "write to read turnaround",
	"tRFC":            "share of time lost to refresh",
	"tREFI":           "share of time lost to refresh",
	"tRTRS":           "gap between bursts of two ranks",
	"VDD":             "volts; energy",
	"IDD0":            "mA a chip, data sheet; energy of a row cycle",
	"IDD2N":           "mA a chip, data sheet; energy of precharged standby",
	"IDD2P":           "mA a chip, data sheet; energy of precharged power-down, which dram replay alone models",
	"IDD3P":           "mA a chip, data sheet; energy of active power-down, which dram replay alone models",
	"IDD6":            "mA a chip, data sheet; energy of self-refresh, which dram replay alone models",
	"IDD3N":           "mA a chip, data sheet; energy of active standby",
	"IDD4R":           "mA a chip, data sheet; energy of reads",
	"IDD4W":           "mA a chip, data sheet; energy of writes",
	"IDD5B":           "mA a chip, data sheet; energy of refresh",
}
