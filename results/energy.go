package results

import (
	"reflect"
)

// EnergyReport is what the whole node draws from 0 to the last finish, with what the site adds: lab/docs/energy.md says what
// is counted. Low and High are of all constants at the low and at the high end of their bands.
type EnergyReport struct {
	Total      float64          `json:"total_j"` // all components together
	Low        float64          `json:"low_j"`
	High       float64          `json:"high_j"`
	Components EnergyComponents `json:"components"`
	Grade      string           `json:"grade"` // of the least known constant that the total rests on
	// AssumedShare is the share of the total that rests on assumptions.
	AssumedShare         float64 `json:"assumed_share"`
	OutputTokensPerJoule float64 `json:"output_tokens_per_site_joule"`
	TotalTokensPerJoule  float64 `json:"total_tokens_per_site_joule"` // prompts of the requests served, and output
	Watts                float64 `json:"site_power_mean_w"`           // Total over the time
	// Rank is a rank's power while it attends at long contexts, or else while the host reads all that its channel carries;
	// DIMM is a DIMM's with all its ranks attending, or one read so, and DIMMHigh the same with constants at their high ends.
	Rank      float64 `json:"rank_w"`
	DIMM      float64 `json:"dimm_peak_w"`
	DIMMHigh  float64 `json:"dimm_peak_high_w"`
	DIMMLimit float64 `json:"dimm_limit_w"` // of a slot
	RankDies  int     `json:"rank_dies"`    // DRAM dies of a rank, those for check bits included: all draw standby and refresh
	Die       string  `json:"die"`          // density of one
	// NotEstimated names parts of the node that the total lacks, since no figure of them is published.
	NotEstimated []string `json:"not_estimated,omitempty"`
	// DRAMEstimated is false where the total lacks the DRAM chips, as NotEstimated says: a column beside those of joules.
	DRAMEstimated bool `json:"dram_estimated"`
}

// EnergyComponents is what parts of the node draw, in joules, and what the site draws beside them.
type EnergyComponents struct {
	GPU          float64 `json:"gpu_j"` // with their memory, as Energy has them
	DRAMActivate float64 `json:"dram_activate_j"`
	DRAMRead     float64 `json:"dram_read_j"` // bursts that leave the chips, without their pins
	DRAMWrite    float64 `json:"dram_write_j"`
	DRAMIO       float64 `json:"dram_io_j"` // drivers and termination of both
	DRAMRefresh  float64 `json:"dram_refresh_j"`
	DRAMOpen     float64 `json:"dram_active_standby_j"` // what open rows add to DRAMClosed
	DRAMClosed   float64 `json:"dram_standby_j"`        // all rows closed, clock running, for the whole time
	DRAMVPP      float64 `json:"dram_vpp_j"`            // of the word lines\' supply
	PIMRead      float64 `json:"pim_read_j"`            // what banks read for their units
	BankUnits    float64 `json:"bank_units_j"`
	RankUnits    float64 `json:"rank_units_j"`
	DIMMBuffers  float64 `json:"dimm_buffers_j"`
	HBMPIM       float64 `json:"hbm_pim_j"` // what units in the GPUs' memory read, and multiply
	Links        float64 `json:"links_j"`   // PCIe, beyond idle
	HostCPUs     float64 `json:"host_cpus_j"`
	Board        float64 `json:"board_j"`
	Cooling      float64 `json:"cooling_j"` // and distribution: what PUE adds
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

// CostReport is what the run's tokens cost by a price list: lab/docs/energy.md. It is 0 where nothing is emitted.
type CostReport struct {
	Prices string `json:"prices"` // the list's name
	Date   string `json:"date"`   // of its prices
	Grade  string `json:"grade"`  // of the least known price that the cost rests on
	// Capital is the node's price, PerHour what an hour of the run costs with electricity, which is EnergyPerHour.
	Capital       float64 `json:"capital_usd"`
	PerHour       float64 `json:"usd_per_hour"`
	EnergyPerHour float64 `json:"energy_usd_per_hour"`
	PerMToken     float64 `json:"usd_per_million_output_tokens"`      // cost of a million output tokens
	PerMTokenLow  float64 `json:"usd_per_million_output_tokens_low"`  // low end of the band of usd_per_million_output_tokens
	PerMTokenHigh float64 `json:"usd_per_million_output_tokens_high"` // high end of the band of usd_per_million_output_tokens
	TokensPerMW   float64 `json:"output_tokens_per_s_per_mw"`         // of the site
	CO2PerMToken  float64 `json:"kg_co2_per_million_output_tokens"`   // of electricity
}
