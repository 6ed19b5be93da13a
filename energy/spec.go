package energy

import (
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
	"github.com/l3sim/l3sim/units"
)

// Spec is the section [energy]: the power of a node's parts other than those in [gpu.power] and
// [dram.power].
type Spec struct {
	Constants    string   `toml:"constants"`           // table that sets the other keys of the section: embedded, or a file
	GPU          Constant `toml:"gpu_factor"`          // factor on the power of [gpu.power]
	DRAMCurrents Constant `toml:"dram_current_factor"` // factor on the currents of [dram.power], which are a data sheet's maxima
	DRAMVPP      Constant `toml:"dram_vpp"`            // mW of a DRAM chip from the word lines' supply, constant
	DRAMIO       Constant `toml:"dram_io"`             // pJ for each bit that crosses the pins of DRAM chips: driver and termination
	// PIMRead is the energy of a bank's read for its processing unit, as a share of that of a read to the pins (without the
	// pins).
	PIMRead Constant `toml:"pim_read_share"`
	DIMMUnits
	HBMUnits
	Host
}

// DIMMUnits are the units of the DIMM-PIM while they work, and its DIMMs.
type DIMMUnits struct {
	// The units of the DIMM-PIM while they work.
	BankUnit     Constant `toml:"bank_unit"`      // mW of a bank's unit on a chip
	RelayoutUnit Constant `toml:"relayout_unit"`  // mW of a rank's re-layout unit
	AdderUnit    Constant `toml:"adder_unit"`     // mW of a rank's adders
	SoftmaxUnit  Constant `toml:"softmax_unit"`   // mW of a rank's softmax unit
	DIMMBuffer   Constant `toml:"dimm_buffer"`    // W of a DIMM's register and data buffers
	RanksPerDIMM int      `toml:"ranks_per_dimm"` // ranks of a DIMM, which share its buffers
	DIMMLimit    Constant `toml:"dimm_limit"`     // W that a DIMM's slot supplies
}

// HBMUnits are processing units in HBM, and the parts of the stack that their reads pass.
type HBMUnits struct {
	HBMPIMRead Constant `toml:"hbm_pim_read"` // pJ for each bit that units in HBM read and multiply
	// Parts of HBM, for units whose commands are simulated (hbm_pim.model).
	HBMRow      Constant `toml:"hbm_row"`      // nJ of activating and precharging a 1 KB row of a bank
	HBMArray    Constant `toml:"hbm_array"`    // pJ for each bit from the cells to the column decoder
	HBMGroup    Constant `toml:"hbm_group"`    // pJ for each bit from the column decoder to the bank group's multiplexer
	HBMDie      Constant `toml:"hbm_die"`      // pJ for each bit from the bank group to the buffer die
	HBMPins     Constant `toml:"hbm_pins"`     // pJ for each bit from the buffer die to the host
	HBMMultiply Constant `toml:"hbm_multiply"` // pJ of a 16-bit multiply-add in a unit
}

// Host is the rest of a node and of its site.
type Host struct {
	Link Constant `toml:"link"` // pJ for each bit on PCIe, both ends, beyond idle power
	// ServerSlots is the number of GPU slots of the server whose sockets, board and price are given. A node takes servers in
	// proportion to its GPUs, a fraction or several.
	ServerSlots int `toml:"server_slots"`
	HostCPUs    int `toml:"host_cpus"` // sockets of a server
	// UnusedMemory is the memory of a server, one DIMM a channel, whose system makes no use of host memory. A node has it in proportion to
	// its servers, at most node.memory_capacity. 0 gives every system node.memory_capacity.
	UnusedMemory units.Bytes `toml:"unused_memory"`
	CPUIdle      Constant    `toml:"cpu_idle"` // W of a socket without work
	CPUBusy      Constant    `toml:"cpu_busy"` // W of a socket whose cores compute attention
	Board        Constant    `toml:"board"`    // W of the rest of a server: switches, network, disks, fans, power-supply losses
	PUE          Constant    `toml:"pue"`      // factor of the site's power over the node's: cooling, distribution
}

func constants[T any](section *T, each func(key string, c Constant)) {
	for _, k := range schema.Of[T]().Keys {
		if c, ok := k.Get(section).Interface().(Constant); ok {
			each(k.Name, c)
		}
	}
}

// Check has the rules of the section [energy].
func (s *Spec) Check(c *input.Check) {
	constants(s, func(key string, v Constant) {
		low, high := 0.0, 1e6
		switch key {
		case "pue":
			low = 1
		case "pim_read_share":
			high = 1
		case "dimm_limit":
			low = 0.1
		}
		within(c, key, v, low, high)
	})
	c.That(s.UnusedMemory >= 0, "unused_memory", s.UnusedMemory, "at least 0B")
	input.Within(c, "ranks_per_dimm", s.RanksPerDIMM, 1, 8)
	input.Within(c, "server_slots", s.ServerSlots, 1, 1024)
	input.Within(c, "host_cpus", s.HostCPUs, 0, 64)
}

// Servers returns the number of servers that GPUs take up, which may be a fraction.
func (h *Host) Servers(gpus int) float64 { return float64(gpus) / float64(h.ServerSlots) }

// within is the rule that a constant's band lies between low and high.
func within(c *input.Check, key string, v Constant, low, high float64) {
	e, err := parse(string(v))
	c.That(err == nil && e.Low >= low && e.High <= high, key, v, "a constant whose band lies in %v to %v", low, high)
}

// Point is the constants of a Spec at one place of their bands, in SI units: joules, watts.
type Point struct {
	GPU, DRAMCurrents, DRAMVPP, DRAMIO, PIMRead                float64
	BankUnit, RelayoutUnit, AdderUnit, SoftmaxUnit, DIMMBuffer float64
	HBMPIMRead, Link, CPUIdle, CPUBusy, Board, PUE             float64
	HBMRow, HBMArray, HBMGroup, HBMDie, HBMPins, HBMMultiply   float64
}

// Place is a place in the bands of constants: low end, value or high end.
type Place int

// The places.
const (
	Low Place = iota
	Mid
	High
	Places int = iota
)

// At returns the estimate's number at a place.
func (e Estimate) At(p Place) float64 { return [...]float64{e.Low, e.Value, e.High}[p] }

// At returns all constants at a place.
func (s *Spec) At(p Place) Point {
	at := func(c Constant, unit float64) float64 { return c.Estimate().At(p) * unit }
	return Point{
		GPU: at(s.GPU, 1), DRAMCurrents: at(s.DRAMCurrents, 1), DRAMVPP: at(s.DRAMVPP, 1e-3), DRAMIO: at(s.DRAMIO, 1e-12), PIMRead: at(s.PIMRead, 1),
		BankUnit: at(s.BankUnit, 1e-3), RelayoutUnit: at(s.RelayoutUnit, 1e-3), AdderUnit: at(s.AdderUnit, 1e-3), SoftmaxUnit: at(s.SoftmaxUnit, 1e-3),
		DIMMBuffer: at(s.DIMMBuffer, 1), HBMPIMRead: at(s.HBMPIMRead, 1e-12), Link: at(s.Link, 1e-12),
		HBMRow: at(s.HBMRow, 1e-9), HBMArray: at(s.HBMArray, 1e-12), HBMGroup: at(s.HBMGroup, 1e-12), HBMDie: at(s.HBMDie, 1e-12), HBMPins: at(s.HBMPins, 1e-12),
		HBMMultiply: at(s.HBMMultiply, 1e-12),
		CPUIdle:     at(s.CPUIdle, 1), CPUBusy: at(s.CPUBusy, 1), Board: at(s.Board, 1), PUE: at(s.PUE, 1),
	}
}
