package paper

import (
	"fmt"
	"strings"

	"github.com/l3sim/l3sim/configs"
)

// The steps of Fig 10a, as its sweep names them.
const (
	stepNaive      = "naive"
	stepScheduling = "+ scheduling"
	stepOverlap    = "+ overlap"
)

// ablationClaims are those of Fig 10a (section 6.2), for GPT-175B. The paper's "a
// further 1.7" is judged both ways: over scheduling, and in all.
func ablationClaims() []*Claim {
	claim := func(id string, paper float64, from, to, says string) *Claim {
		return &Claim{
			ID: "fig10." + id, Paper: paper, Kind: Value, Ratio: true, Says: says + ", GPT-175B on OpenR1 (Fig 10a)",
			find: func(e *evidence, seed uint64) (finding, error) { return findStep(e, seed, from, to) },
		}
	}
	return []*Claim{
		claim("scheduling", 1.3, stepNaive, stepScheduling, "scheduling alone: 1.3 times the naive node"),
		claim("overlap", 1.7, stepScheduling, stepOverlap, "overlap of communication and computation: a further 1.7 times"),
		claim("all", 1.7, stepNaive, stepOverlap, "both, where the 1.7 is read as the total"),
	}
}

// findStep compares two steps of the ablation.
func findStep(e *evidence, seed uint64, from, to string) (finding, error) {
	get := func(step string) (*point, error) {
		return e.fig10.one(seed, "gpt-175b, "+step, func(p *point) bool {
			return p.config.Run.Model == "gpt-175b" && strings.HasSuffix(p.name, step)
		})
	}
	before, err := get(from)
	if err != nil {
		return finding{}, err
	}
	after, err := get(to)
	if err != nil {
		return finding{}, err
	}
	a, b := before.summary, after.summary
	return finding{b.OutputTokensPerS / a.OutputTokensPerS, fmt.Sprintf(
		"GPUs %.0f%% to %.0f%%, ranksets %.0f%% to %.0f%% busy; busiest rankset over mean %.2f to %.2f; PCIe only %.1f%% busy at first",
		100*a.Utilization.GPU, 100*b.Utilization.GPU, 100*a.Utilization.PIM, 100*b.Utilization.PIM,
		a.RanksetImbalance, b.RanksetImbalance, 100*a.Utilization.PCIeDown)}, nil
}

// neededForAblation says that a claim of Fig 10a needs the point.
func neededForAblation(c *configs.Config) bool { return c.Run.Model == "gpt-175b" }
