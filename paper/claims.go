package paper

import (
	"fmt"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/results"
)

// evidence is what the claims are found in.
type evidence struct {
	seeds []uint64
	fig8  *experiment // of the common requests at least
	fig9  *experiment
	fig10 *experiment
	parts *experiment // of the steps of fig10
	fig11 *experiment
	text  *models
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

// busy describes what a run's resources did.
func busy(s *results.Summary) string {
	return fmt.Sprintf("GPUs %.0f%%, PIM %.0f%% busy", 100*s.Utilization.GPU, 100*s.Utilization.PIM)
}

// bottleneck names the resource that a run keeps busiest.
func bottleneck(s *results.Summary) string {
	if s.Utilization.GPU > s.Utilization.PIM {
		return fmt.Sprintf("GPUs %.0f%% busy", 100*s.Utilization.GPU)
	}
	return fmt.Sprintf("ranksets %.0f%% busy", 100*s.Utilization.PIM)
}

// throughput is what Fig 8 to 10 compare.
func throughput(s *results.Summary) float64 { return s.OutputTokensPerS }

// decodeBatch is the mean over the iterations that decode.
func decodeBatch(s *results.Summary) float64 { return s.DecodeBatch.StepMean }
