package dram

import (
	"fmt"
	"io"
)

// Millijoules is energy in millijoules.
type Millijoules struct {
	// NotEstimated is the reason why the energy is unknown and all values are 0; else "".
	NotEstimated string  `json:"not_estimated,omitempty"`
	Activate     float64 `json:"activate"`
	Read         float64 `json:"read"`
	UnitRead     float64 `json:"unit_read,omitempty"` // of banks, for processing units
	Write        float64 `json:"write"`
	Refresh      float64 `json:"refresh"`
	Background   float64 `json:"background"`
	Total        float64 `json:"total"`
}

// NewMillijoules converts the joules of a part's ranks.
func NewMillijoules(d *Spec, e *Energy) Millijoules {
	return Millijoules{d.NotKnown(), e.ActivateJoules * 1e3, e.ReadJoules * 1e3, e.UnitReadJoules * 1e3, e.WriteJoules * 1e3, e.RefreshJoules * 1e3, e.BackgroundJoules * 1e3,
		e.TotalJoules() * 1e3}
}

// WriteLine writes the energy as a line of table cells.
func (e *Millijoules) WriteLine(w io.Writer) {
	if e.NotEstimated != "" {
		fmt.Fprintf(w, "energy\tnot estimated\t%s\n", e.NotEstimated)
		return
	}
	fmt.Fprintf(w, "energy\t%.4f mJ\tactivate %.4f, read %.4f, write %.4f, refresh %.4f, background %.4f", e.Total, e.Activate, e.Read, e.Write, e.Refresh, e.Background)
	if e.UnitRead > 0 {
		fmt.Fprintf(w, ", for units %.4f", e.UnitRead)
	}
	fmt.Fprintln(w)
}
