package results

import (
	"fmt"
	"strings"
)

// Known says how well the kernels are known that fill the GPUs' time: shares that add up to 1.
type Known struct {
	Fit       string  `json:"fit"`            // of the GPU's kernels
	Measured  float64 `json:"measured"`       // share of time on this GPU, with the framework of the fit
	Borrowed  float64 `json:"borrowed"`       // from another framework, or another GPU
	DataSheet float64 `json:"data_sheet"`     // from another GPU, in proportion to the data sheets
	Never     float64 `json:"never_measured"` // with parameters of other kernels, or of nothing
	// Beyond is the share in kernels beyond the measured range, of any of these.
	Beyond float64 `json:"beyond_range"`
	// Error is the mean error, in percent, of measured kernels on held-out shapes, weighted by the time of kernels that have one; 0
	// if none has.
	Error float64 `json:"expected_error_percent"`
}

// Text returns Known as a line of a result.
func (k *Known) Text() string {
	if *k == (Known{}) {
		return ""
	}
	var parts []string
	measured := ""
	if k.Error > 0 {
		measured = fmt.Sprintf("; expected error %.0f%%", k.Error)
	}
	for _, p := range []struct {
		share        float64
		what, behind string
	}{{k.Measured, "measured", " (" + k.Fit + measured + ")"}, {k.Borrowed, "borrowed", ""}, {k.DataSheet, "from data sheets", ""}, {k.Never, "never measured", ""},
		{k.Beyond, "beyond the range measured", ""}} {
		if text := fmt.Sprintf("%.0f%%", 100*p.share); text != "0%" {
			parts = append(parts, text+" "+p.what+p.behind)
		}
	}
	return strings.Join(parts, ", ")
}
