package energy

import (
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
	"github.com/l3sim/l3sim/units"
)

// Spec is the section [energy]: what a node draws, beside what [gpu.power] and [dram.power] say.
type Spec struct {
	GPU          Constant `toml:"gpu_factor"`          // factor on what [gpu.power] says
	DRAMCurrents Constant `toml:"dram_current_factor"` // factor on the currents of [dram.power], which are a data sheet's maxima
	DRAMVPP      Constant `toml:"dram_vpp"`            // mW that a DRAM chip takes from the word lines' supply, whatever it does
	DRAMIO       Constant `toml:"dram_io"`             // pJ for each bit that crosses the pins of DRAM chips: driver and termination
	// PIMRead is what a bank's read for its processing unit takes, of the same read up to the pins (without these).
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

// HBMUnits are units in HBM and what their reads pass.
type HBMUnits struct {
	HBMPIMRead Constant `toml:"hbm_pim_read"` // pJ a bit that units in HBM read and multiply
	// Parts of HBM, which units whose commands are run (hbm_pim.model) are counted by.
	HBMRow      Constant `toml:"hbm_row"`      // nJ of opening and closing a row of 1 KB of a bank
	HBMArray    Constant `toml:"hbm_array"`    // pJ a bit from the cells to the column decoder
	HBMGroup    Constant `toml:"hbm_group"`    // pJ a bit between there and the multiplexer of the bank group
	HBMDie      Constant `toml:"hbm_die"`      // pJ a bit between there and the buffer die
	HBMPins     Constant `toml:"hbm_pins"`     // pJ a bit between the buffer die and the host
	HBMMultiply Constant `toml:"hbm_multiply"` // pJ of a multiply-add of 16 bits in a unit
}

// Host is the rest of a node and of its site.
type Host struct {
	Link Constant `toml:"link"` // pJ for each bit on PCIe, both ends, beyond what they take idle
	// ServerSlots is the GPU slots of the server whose sockets, board and price are given. A node with fewer or more GPUs
	// takes that share of a server, or as many of them.
	ServerSlots int `toml:"server_slots"`
	HostCPUs    int `toml:"host_cpus"` // sockets of a server
	// UnusedMemory is the memory of a server, a DIMM a channel, where the system has no use for it. A node has that of its slots,
	// at most node.memory_capacity. 0: that is there in any case.
	UnusedMemory units.Bytes `toml:"unused_memory"`
	CPUIdle      Constant    `toml:"cpu_idle"` // W of a socket without work
	CPUBusy      Constant    `toml:"cpu_busy"` // W of a socket whose cores attend
	Board        Constant    `toml:"board"`    // W of the rest of a server: switches, network, disks, fans, losses of its power supplies
	PUE          Constant    `toml:"pue"`      // what the site draws over what the node draws: cooling, distribution
}

// Defaults is the sections [energy] and [prices] below all presets.
const Defaults = `
[energy]
gpu_factor = "1 [0.8, 1.2] assumption" # the power models of h200-sxm and h100-sxm are fitted to measurements (3.5%), the others take shares of theirs; the GPUs' energy
dram_current_factor = "1 [0.6, 1] datasheet" # data sheets have maxima; Ghose et al. (SIGMETRICS 2018) measured 0.6 and less on DDR3; energy of the DIMMs
dram_vpp = "7.5 [5, 15] datasheet" # 3 mA (IPP0 of Micron's 8 Gb DDR4, as DRAMsim3 publishes it) at 2.5 V, taken for all states; standby of the DIMMs
dram_io = "2.7 [1.8, 5] assumption" # computed: POD12 (JESD79-4), 1.2 V over 34 and 48 ohms for every second bit, at 3.2 Gbit/s; the low end ends at 90 ohms, the high one is a second rank's termination; host traffic to DIMMs
pim_read_share = "0.54 [0.16, 0.56] paper" # O'Connor et al. (MICRO 2017), as AttAcc's simulator has it (src/config.py, MIT): 0.44 + 1.01 of 2.68 pJ/bit end at a bank group's multiplexer; 0.44 at the bank, where AttAcc has its units; energy of the units' reads
bank_unit = "1.129 [1.129, 3.4] paper" # L3, Table 5: 28 nm; what a DRAM process does to power is not published, three times is our guess; energy of attention on DIMMs
relayout_unit = "0.245 [0.245, 0.5] paper" # L3, Table 5; transfers to DIMMs
adder_unit = "1.812 [1.812, 3.6] paper" # L3, Table 5; attention on DIMMs
softmax_unit = "4.345 [4.345, 8.7] paper" # L3, Table 5, without the score buffer's memory; attention on DIMMs
dimm_buffer = "1.5 [0.5, 3] assumption" # register and nine data buffers of an LRDIMM, idle or not, the order of data sheets; the DIMMs' share
ranks_per_dimm = 2 # L3, Table 2; watts of a DIMM
dimm_limit = "10 [10, 15] paper" # L3, section 6.4; says whether a DIMM may draw what it does
hbm_pim_read = "1.56 [0.55, 3.3] paper" # 0.11 + 0.44 + 1.01: AttAcc's units at the bank groups (src/config.py, from O'Connor et al., MICRO 2017); low: at the bank; high: in the buffer die; energy of hbm-pim's attention with hbm_pim.model = "factor", its multipliers are 0.04 of it
hbm_row = "0.9 [0.76, 1.1] paper" # derived: 0.11 pJ of each of 8,192 bits, AttAcc's simulator (https://github.com/scale-snu/attacc_simulator, src/config.py) from O'Connor et al. (MICRO 2017), of HBM2 at 1.2 V; low, here and below: HBM3's 1.1 V; high: a fifth more; hbm-pim's attention by commands
hbm_array = "0.44 [0.37, 0.53] paper" # the same; reads of hbm-pim's units by commands
hbm_group = "1.01 [0.85, 1.21] paper" # the same; reads of units at the bank groups or in the buffer die, moves of those at the banks
hbm_die = "1.73 [1.45, 2.08] paper" # the same: 1.23 to the edge of the die, 0.5 of its TSVs; reads of units in the buffer die, moves of the others
hbm_pins = "0.3 [0.25, 0.8] paper" # the same, the interposer; high: O'Connor et al.'s pins; queries
hbm_multiply = "0.32 [0.2, 0.6] paper" # the same, which names no source; band: our choice; hbm-pim's attention by commands
link = "10 [5, 20] assumption" # 5 pJ/bit of PCIe 4.0 transceivers at each end is the order of published ones; transfers
server_slots = 8 # DGX A100, H100 and H200: eight GPUs; a node of fewer takes its share of board, sockets that it does not use and prices.server
host_cpus = 2 # DGX A100: two EPYC 7742; what the host draws
unused_memory = "512GiB" # our choice: 64 GiB a GPU, 16 DIMMs of 32 GiB a server, which hold GPT-175B's weights while they are loaded; DIMMs of systems that keep nothing in the host's memory, their watts and dollars
cpu_idle = "75 [50, 110] press" # EPYC 7742, package idle: reviews of 2019 and 2020, from memory; what the host draws
cpu_busy = "225 [180, 240] datasheet" # EPYC 7742, thermal design power; attention on the host
board = "1000 [600, 2000] assumption" # DGX A100: its data sheet's 6.5 kW, less GPUs, CPUs and DIMMs at their limits, is 2 to 2.5 kW with fans at full speed; all systems alike
pue = "1.25 [1.1, 1.58] press" # hyperscalers report 1.1, Uptime Institute's mean of 2023 is 1.58; all that the site draws
`

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

// Servers returns the servers that GPUs take up: a share of one, or several.
func (h *Host) Servers(gpus int) float64 { return float64(gpus) / float64(h.ServerSlots) }

// within is the rule that the band of a constant lies from low to high.
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

// Place is a place in the bands of constants.
type Place int

// The places.
const (
	Low Place = iota
	Mid
	High
	Places int = iota
)

// At returns the estimate's number there.
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
