package machine

import (
	"fmt"
	"io"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/pim"
)

// Report is a Measurement in the form that pim attention prints.
type Report struct {
	Context     int    `json:"context"`
	Heads       int    `json:"heads"`
	KVHeads     int    `json:"kv_heads"`
	HeadDim     int    `json:"head_dim"`
	ValueDim    int    `json:"value_dim,omitempty"` // if values differ in width from keys; also padded
	KVBits      int    `json:"kv_bits"`
	PaddedDim   int    `json:"padded_head_dim"`
	PaddedValue int    `json:"padded_value_dim,omitempty"`
	Precision   string `json:"precision"`
	Activation  string `json:"activation"`
	TCKps       int64  `json:"tCK_ps"`

	QueryHead HeadReport `json:"query_head"`

	// All heads in sequence: their attention, and the clocks that appends and refresh add.
	Clocks         int64            `json:"clocks"`
	AppendClocks   int64            `json:"append_clocks"`
	RefreshClocks  int64            `json:"refresh_clocks"`
	TotalClocks    int64            `json:"total_clocks"`
	Refreshes      int64            `json:"refreshes"`
	TotalMS        float64          `json:"total_ms"`
	TotalOccupancy Occupancy        `json:"total_occupancy"`
	Commands       map[string]int64 `json:"commands"`
	EnergyMJ       dram.Millijoules `json:"energy_millijoules"`
}

// HeadReport is one query head, without append and refresh, however many there are.
type HeadReport struct {
	Clocks       int64     `json:"clocks"`
	Phases       Phases    `json:"phases"`
	StallClocks  int64     `json:"stall_clocks"`
	AppendClocks int64     `json:"append_clocks"` // clocks that its append would add
	PeakShare    float64   `json:"peak_share"`
	Occupancy    Occupancy `json:"occupancy"`
}

// NewReport returns the report of a load on a rank. unitRead is the energy of a read for a unit as a share of a read to the pins
// (dram.Energy.UnitReads).
func NewReport(l Load, spec *pim.Spec, d *dram.Spec, m *Measurement, unitRead float64) *Report {
	joules := m.Energy.UnitReads(unitRead)
	r := &Report{
		Context: l.Context, Heads: l.KVHeads * l.Shape.Queries, KVHeads: l.KVHeads,
		HeadDim: l.Shape.HeadDim, KVBits: l.Shape.KVBits, PaddedDim: m.Geometry.PaddedDim,
		Precision: spec.Precision.Preset, Activation: spec.Activation, TCKps: int64(d.TCK),
		QueryHead: HeadReport{m.Cycles, m.Phases, m.Phases.Stall, m.AppendCycles, m.PeakShare, m.Occupancy},
		Clocks:    m.AllCycles, AppendClocks: m.AllAppends, RefreshClocks: m.RefreshCycles, TotalClocks: m.TotalCycles, Refreshes: m.Refreshes,
		TotalMS: d.Nanoseconds(m.TotalCycles) / 1e6, TotalOccupancy: m.TotalOccupancy, Commands: dram.CommandCounts(m.Commands[:]),
		EnergyMJ: dram.NewMillijoules(d, &joules),
	}
	if g := &m.Geometry; g.ValueDim != g.HeadDim {
		r.ValueDim, r.PaddedValue = g.ValueDim, g.PaddedValueDim
	}
	return r
}

// WriteLines writes lines with tabs between cells.
func (r *Report) WriteLines(t io.Writer) {
	widths := fmt.Sprint(r.HeadDim)
	if r.ValueDim > 0 {
		widths += fmt.Sprintf(", values of %d", r.ValueDim)
	}
	fmt.Fprintf(t, "one query head alone, %d tokens, d = %s, precision %s, keys and values of %d bits, %s activation\n\n", r.Context, widths, r.Precision, r.KVBits, r.Activation)
	one := &r.QueryHead
	share := func(clocks int64) string { return fmt.Sprintf("%.1f%%", 100*float64(clocks)/float64(one.Clocks)) }
	for _, p := range []struct {
		name   string
		clocks int64
	}{{"load", one.Phases.Load}, {"score", one.Phases.Score}, {"context", one.Phases.Context}, {"row switches", one.Phases.RowSwitches},
		{"read-out, softmax", one.Phases.ReadOut}, {"drain", one.Phases.Drain}} {
		fmt.Fprintf(t, "%s\t%d\t%s\n", p.name, p.clocks, share(p.clocks))
	}
	fmt.Fprintf(t, "clocks\t%d\t%.3f ms, %.1f%% of the peak\n", one.Clocks, float64(one.Clocks)*float64(r.TCKps)/1e9, 100*one.PeakShare)
	fmt.Fprintf(t, "bubbles\t%d\tof score and context: the bank PUs wait for the rank's bus\n", one.StallClocks)
	fmt.Fprintf(t, "append\t%d\ton top\n", one.AppendClocks)
	if r.PaddedDim != r.HeadDim {
		fmt.Fprintf(t, "padding\t%d of %d elements\tzeros\n", r.PaddedDim-r.HeadDim, r.PaddedDim)
	}
	if r.PaddedValue != r.ValueDim {
		fmt.Fprintf(t, "padding\t%d of %d elements of a value\tzeros\n", r.PaddedValue-r.ValueDim, r.PaddedValue)
	}
	printOccupancy(t, &one.Occupancy)

	fmt.Fprintf(t, "\n%d query heads on %d KV heads, with append and refresh\n\n", r.Heads, r.KVHeads)
	fmt.Fprintf(t, "clocks\t%d\t%.3f ms\n", r.TotalClocks, r.TotalMS)
	fmt.Fprintf(t, "appends\t%d\tof it\n", r.AppendClocks)
	fmt.Fprintf(t, "refresh\t%d\t%d REFs\n", r.RefreshClocks, r.Refreshes)
	r.EnergyMJ.WriteLine(t)
	printOccupancy(t, &r.TotalOccupancy)
}

func printOccupancy(w io.Writer, o *Occupancy) {
	fmt.Fprintf(w, "busy\t\tbank PUs %.1f%%, command bus %.1f%%, data bus %.1f%%, adders %.1f%%, softmax %.1f%%\n",
		100*o.BankPUs, 100*o.CommandBus, 100*o.DataBus, 100*o.Adders, 100*o.Softmax)
}
