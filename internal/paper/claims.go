package paper

import (
	"fmt"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/results"
)

// evidence is what the claims are found in.
type evidence struct {
	seeds    []uint64
	readings bool // it is for all readings of the claims
	// fig8 is of the common requests at least, l3 placed as it is judged; fig8Even has it with
	// even ranksets.
	fig8, fig8Even *experiment
	fig9           *experiment
	fig10          *experiment
	parts          *experiment // of the steps of fig10
	fig11          *experiment
	text           *models
}

// Claims returns all claims of the paper that are judged, in the order of the
// paper's figures.
func Claims() []*Claim {
	return slices.Concat(systemClaims(), scalingClaims(), ablationClaims(), latencyClaims(), textClaims())
}

// ClaimsOf returns the claims that belong to a target.
func ClaimsOf(t Target) []*Claim {
	var all []*Claim
	for _, c := range Claims() {
		figure, _, _ := strings.Cut(c.ID, ".")
		own := figure == string(t) || t == Fig2 && c.ID == "text.mha_share_16k" || t == Fair && figure == string(Fig8)
		if own || t == AllTargets || t == ClaimsOnly {
			all = append(all, c)
		}
	}
	return all
}

// busy describes what a run's resources did, the ranksets' balance where they have one.
func busy(s *results.Summary) string {
	text := fmt.Sprintf("GPUs %.0f%%, PIM %.0f%% busy", 100*s.Utilization.GPU, 100*s.Utilization.PIM)
	if s.RanksetImbalance > 0 {
		text += fmt.Sprintf(", busiest rankset over mean %.2f", s.RanksetImbalance)
	}
	return text
}

// terabytes is a run's memory for KV.
func terabytes(s *results.Summary) float64 { return float64(s.KVBytes.Capacity) / 1e12 }

// bottleneck names the resource that a run keeps busiest.
func bottleneck(s *results.Summary) string {
	if s.Utilization.GPU > s.Utilization.PIM {
		return fmt.Sprintf("GPUs %.0f%% busy", 100*s.Utilization.GPU)
	}
	return fmt.Sprintf("ranksets %.0f%% busy", 100*s.Utilization.PIM)
}

// throughput is what Fig 8 to 10 compare.
func throughput(s *results.Summary) float64 { return s.OutputTokensPerS }
