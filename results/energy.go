package results

import (
	"reflect"
)

// EnergyReport is the energy of the whole node and its site from 0 to the last finish; lab/docs/energy.md says what counts.
// Low and High have all constants at the low and at the high end of their bands.
type EnergyReport struct {
	Total      float64          `json:"total_j"` // all components together
	Low        float64          `json:"low_j"`   // with all constants at the low ends of their bands
	High       float64          `json:"high_j"`  // with all constants at the high ends of their bands
	Components EnergyComponents `json:"components"`
	Grade      string           `json:"grade"` // of the least certain constant behind the total
	// AssumedShare is the share of the total that rests on assumptions.
	AssumedShare         float64 `json:"assumed_share"`
	OutputTokensPerJoule float64 `json:"output_tokens_per_site_joule"` // output tokens
	TotalTokensPerJoule  float64 `json:"total_tokens_per_site_joule"`  // prompts of the requests served, and output
	Watts                float64 `json:"site_power_mean_w"`            // Total over the time
	// Rank is the power of a rank while it attends at long contexts or, without PIM, while the host reads at the channel's
	// rate.
	Rank float64 `json:"rank_w"`
	// DIMM is the power of a module with all its ranks attending or, without PIM, with one read at the
	// channel's rate.
	DIMM      float64 `json:"dimm_peak_w"`
	DIMMHigh  float64 `json:"dimm_peak_high_w"` // DIMM with all constants at the high ends of their bands
	DIMMLimit float64 `json:"dimm_limit_w"`     // of a slot
	RankDies  int     `json:"rank_dies"`        // DRAM dies of a rank, with those for check bits: all draw standby and refresh power
	Die       string  `json:"die"`              // density of one
	// NotEstimated names parts of the node that the total leaves out, since no figure of them is
	// published.
	NotEstimated []string `json:"not_estimated,omitempty"`
	// DRAMEstimated is false if the total leaves out the DRAM chips, as NotEstimated says.
	DRAMEstimated bool `json:"dram_estimated"`
}

// EnergyComponents is the energy of the node's components and of its site, in joules.
type EnergyComponents struct {
	GPU          float64 `json:"gpu_j"`                 // with their memory, as in Energy
	DRAMActivate float64 `json:"dram_activate_j"`       // activations and precharges of rows
	DRAMRead     float64 `json:"dram_read_j"`           // bursts that leave the chips, without their pins
	DRAMWrite    float64 `json:"dram_write_j"`          // bursts that enter the chips, without their pins
	DRAMIO       float64 `json:"dram_io_j"`             // drivers and termination of both
	DRAMRefresh  float64 `json:"dram_refresh_j"`        // refreshes
	DRAMOpen     float64 `json:"dram_active_standby_j"` // standby power added by open rows
	DRAMClosed   float64 `json:"dram_standby_j"`        // standby with all rows closed and the clock running, for the whole time
	DRAMVPP      float64 `json:"dram_vpp_j"`            // of the supply of word lines
	PIMRead      float64 `json:"pim_read_j"`            // reads of banks for their units
	BankUnits    float64 `json:"bank_units_j"`          // units at banks
	RankUnits    float64 `json:"rank_units_j"`          // adders, softmax units and re-layout units of ranks
	DIMMBuffers  float64 `json:"dimm_buffers_j"`        // registers and data buffers of DIMMs
	HBMPIM       float64 `json:"hbm_pim_j"`             // reads and products of units in the GPUs' memory
	Links        float64 `json:"links_j"`               // PCIe, beyond idle
	HostCPUs     float64 `json:"host_cpus_j"`           // sockets of the host, idle or at work
	Board        float64 `json:"board_j"`               // the rest of a server: switches, network, disks, fans, losses of its power supplies
	Cooling      float64 `json:"cooling_j"`             // cooling and power distribution, as PUE adds
}

// EnergyParts is the number of components.
var EnergyParts = reflect.TypeFor[EnergyComponents]().NumField()

// NewEnergyComponents returns components from a list in their order.
func NewEnergyComponents(parts []float64) (c EnergyComponents) {
	v := reflect.ValueOf(&c).Elem()
	for i, joules := range parts {
		v.Field(i).SetFloat(joules)
	}
	return c
}

// Parts returns the components in their order.
func (c *EnergyComponents) Parts() []float64 {
	v := reflect.ValueOf(c).Elem()
	parts := make([]float64, EnergyParts)
	for i := range parts {
		parts[i] = v.Field(i).Float()
	}
	return parts
}

// CostReport is the cost of the run's tokens by a price list: lab/docs/energy.md. It is 0 without output.
type CostReport struct {
	Prices        string  `json:"prices"`                             // the list's name
	Date          string  `json:"date"`                               // of its prices
	Grade         string  `json:"grade"`                              // of the least certain price behind the cost
	Capital       float64 `json:"capital_usd"`                        // price of the node
	PerHour       float64 `json:"usd_per_hour"`                       // cost of an hour of the run, electricity included
	EnergyPerHour float64 `json:"energy_usd_per_hour"`                // electricity of an hour of the run
	PerMToken     float64 `json:"usd_per_million_output_tokens"`      // cost of a million output tokens
	PerMTokenLow  float64 `json:"usd_per_million_output_tokens_low"`  // low end of the band of usd_per_million_output_tokens
	PerMTokenHigh float64 `json:"usd_per_million_output_tokens_high"` // high end of the band of usd_per_million_output_tokens
	TokensPerMW   float64 `json:"output_tokens_per_s_per_mw"`         // of the site
	CO2PerMToken  float64 `json:"kg_co2_per_million_output_tokens"`   // of electricity
}
