package results

// CostReport is what the run's tokens cost by a price list: docs/cost.md. It is 0 where nothing is emitted.
type CostReport struct {
	Prices string `json:"prices"` // the list's name
	Date   string `json:"date"`   // of its prices
	Grade  string `json:"grade"`  // of the least known price that the cost rests on
	// Capital is the node's price, PerHour what an hour of the run costs with electricity, which is EnergyPerHour.
	Capital       float64 `json:"capital_usd"`
	PerHour       float64 `json:"usd_per_hour"`
	EnergyPerHour float64 `json:"energy_usd_per_hour"`
	PerMToken     float64 `json:"usd_per_mtoken"` // of a million output tokens
	PerMTokenLow  float64 `json:"usd_per_mtoken_low"`
	PerMTokenHigh float64 `json:"usd_per_mtoken_high"`
	TokensPerMW   float64 `json:"output_tokens_per_s_per_mw"` // of the site
	CO2PerMToken  float64 `json:"kg_co2_per_mtoken"`          // of electricity
}

// writeText writes the cost.
func (c *CostReport) writeText(row func(name, format string, args ...any)) {
	if c.PerMToken == 0 {
		return
	}
	row("cost", "%s USD a million output tokens (%s to %s)", grouped(c.PerMToken, 2), grouped(c.PerMTokenLow, 2), grouped(c.PerMTokenHigh, 2))
	row("an hour", "%s USD, electricity %s; prices of %s, grade %s", grouped(c.PerHour, 2), percent(c.EnergyPerHour/c.PerHour), c.Date, c.Grade)
}
