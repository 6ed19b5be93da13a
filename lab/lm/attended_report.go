package lm

import (
	"fmt"
	"io"
	"math"
)

// AttendedReport is LayerAttended as arrays over layers. An element is null if a layer has no heads
// that choose pages.
type AttendedReport struct {
	// Softmax mass of the attended tokens, in attention to all tokens with the same queries and keys.
	KeptMass []*float64 `json:"kept_mass"`
	// Share of the attended tokens that are among the same number with the highest scores.
	Recall []*float64 `json:"recall"`
	// Relative difference of a layer's results of all heads from attention to all tokens, before the output projection.
	OutputRelativeL2    []*float64 `json:"output_relative_l2"`
	AttendedTokens      []*float64 `json:"attended_tokens"`
	OutputRelativeL2P99 []*float64 `json:"output_relative_l2_p99"`
	DroppedMassP99      []*float64 `json:"dropped_mass_p99"` // of 1 less the kept mass
	RowsTouched         []*float64 `json:"rows_touched"`     // units of 512 tokens that contain attended ones
	PagesTouched        []*float64 `json:"pages_touched"`
	// Bound that the scores of dropped pages prove: with n tokens of score s in each, dropped over kept mass is at most Σ n·exp(s/√d −
	// lse).
	DroppedMassBound    []*float64 `json:"dropped_mass_bound"`
	DroppedMassBoundP99 []*float64 `json:"dropped_mass_bound_p99"`
	// Successive choices of pages, or of single tokens: share of all pages; overlaps by the steps between choices; unions by the number of choices. 0 and null if
	// none choose.
	PageShare   []float64   `json:"page_share"`
	PageOverlap [][]float64 `json:"page_overlap"`
	PageUnion   [][]float64 `json:"page_union"`
	// The same for the lists that searches for tokens examine.
	ListShare   []float64   `json:"list_share"`
	ListOverlap [][]float64 `json:"list_overlap"`
	ListUnion   [][]float64 `json:"list_union"`
}

// NewAttendedReport returns the report of a policy's attention.
func NewAttendedReport(a *Attended) *AttendedReport {
	r := &AttendedReport{}
	for i := range a.Layers {
		l := &a.Layers[i]
		for _, f := range []struct {
			to *[]*float64
			v  *float64
		}{
			{&r.KeptMass, &l.KeptMass}, {&r.Recall, &l.Recall}, {&r.OutputRelativeL2, &l.OutputRelativeL2}, {&r.AttendedTokens, &l.Tokens},
			{&r.OutputRelativeL2P99, &l.OutputRelativeL2P99}, {&r.DroppedMassP99, &l.DroppedMassP99}, {&r.RowsTouched, &l.Rows},
			{&r.PagesTouched, &l.Pages}, {&r.DroppedMassBound, &l.DroppedMassBound}, {&r.DroppedMassBoundP99, &l.DroppedMassBoundP99},
		} {
			if math.IsNaN(*f.v) {
				f.v = nil
			}
			*f.to = append(*f.to, f.v)
		}
		r.PageShare, r.PageOverlap, r.PageUnion = append(r.PageShare, l.PageShare), append(r.PageOverlap, l.PageOverlap), append(r.PageUnion, l.PageUnion)
		r.ListShare, r.ListOverlap, r.ListUnion = append(r.ListShare, l.ListShare), append(r.ListOverlap, l.ListOverlap), append(r.ListUnion, l.ListUnion)
	}
	return r
}

// WriteText writes a line for each layer, under the name of the policy.
func (a *Attended) WriteText(w io.Writer, name string) error {
	_, err := fmt.Fprintf(w, "%s, means over steps and heads:\nlayer  tokens   rows  kept mass  recall  output error  p99 of dropped mass  and its bound\n", name)
	for i, l := range a.Layers {
		if err != nil {
			return err
		}
		bound := "-"
		if !math.IsNaN(l.DroppedMassBoundP99) {
			bound = fmt.Sprintf("%.4f", l.DroppedMassBoundP99)
		}
		_, err = fmt.Fprintf(w, "%5d  %6.1f  %5.1f  %9.4f  %6.4f  %12.4f  %19.4f  %13s\n",
			i, l.Tokens, l.Rows, l.KeptMass, l.Recall, l.OutputRelativeL2, l.DroppedMassP99, bound)
	}
	if err != nil {
		return err
	}
	return a.writeChoices(w)
}
