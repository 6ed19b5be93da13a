package paper

import (
	"fmt"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/configs"
)

// The steps of Fig 10a, as its sweep names them.
const (
	stepNaive      = "naive"
	stepScheduling = "+ scheduling"
	stepOverlap    = "+ overlap"
	stepBalanced   = "+ balanced offsets" // not the paper's
)

// part is one mechanism of a step: with it, the step's node is that of a point of
// fig10a or fig10a_parts.
type part struct{ what, point string }

// The mechanisms of the paper's steps (sections 5.2, 5.3; 5.1), in the order in
// which they are added.
var (
	schedulingParts = []part{{"two sub-batches", "two sub-batches"}, {"chunked prefill", stepScheduling}}
	overlapParts    = []part{
		{"concurrent transfers", "concurrent transfers"}, {"rotation", "rotation"},
		{"round-robin offsets", "round-robin offsets"}, {"asynchronous prefill transfers", stepOverlap},
	}
	balancedPart = part{"and beyond the paper balanced offsets", stepBalanced}
)

// ablationClaims are those of Fig 10a (section 6.2), for GPT-175B. The paper's "a
// further 1.7" is judged both ways: over scheduling, and in all.
func ablationClaims() []*Claim {
	claim := func(id string, paper float64, from, to, says string, consists ...part) *Claim {
		return &Claim{
			ID: "fig10." + id, Paper: paper, Kind: Value, Ratio: true, Says: says + ", GPT-175B on OpenR1 (Fig 10a)",
			find: func(e *evidence, seed uint64) (finding, error) { return findStep(e, seed, from, to, consists) },
		}
	}
	return []*Claim{
		claim("scheduling", 1.3, stepNaive, stepScheduling, "scheduling alone: 1.3 times the naive node", schedulingParts...),
		claim("overlap", 1.7, stepScheduling, stepOverlap, "overlap of communication and computation: a further 1.7 times", overlapParts...),
		claim("all", 1.7, stepNaive, stepOverlap, "both, where the 1.7 is read as the total",
			part{"scheduling", stepScheduling}, part{"overlap", stepOverlap}),
	}
}

// findStep compares two steps of the ablation, and says what each mechanism in
// between adds.
func findStep(e *evidence, seed uint64, from, to string, consists []part) (finding, error) {
	before, err := e.step(seed, from)
	if err != nil {
		return finding{}, err
	}
	after, err := e.step(seed, to)
	if err != nil {
		return finding{}, err
	}
	var worth []string
	last := before
	if to == stepOverlap {
		consists = append(slices.Clone(consists), balancedPart)
	}
	for _, p := range consists {
		with, err := e.step(seed, p.point)
		if err != nil {
			return finding{}, err
		}
		worth = append(worth, fmt.Sprintf("%s %.2f", p.what, throughput(with.summary)/throughput(last.summary)))
		last = with
	}
	a, b := before.summary, after.summary
	return finding{throughput(b) / throughput(a), fmt.Sprintf(
		"%s; GPUs %.0f%% to %.0f%%, ranksets %.0f%% to %.0f%% busy; busiest rankset over mean %.2f to %.2f; PCIe only %.1f%% busy at first",
		strings.Join(worth, ", "), 100*a.Utilization.GPU, 100*b.Utilization.GPU, 100*a.Utilization.PIM, 100*b.Utilization.PIM,
		a.RanksetImbalance, b.RanksetImbalance, 100*a.Utilization.PCIeDown)}, nil
}

// step returns a point of Fig 10a, or of what lies between its steps.
func (e *evidence) step(seed uint64, name string) (*point, error) {
	of := func(p *point) bool { return p.config.Run.Model == "gpt-175b" && strings.HasSuffix(p.name, name) }
	if len(e.parts.find(seed, of)) > 0 {
		return e.parts.one(seed, "gpt-175b, "+name, of)
	}
	return e.fig10.one(seed, "gpt-175b, "+name, of)
}

// neededForAblation says that a claim of Fig 10a needs the point.
func neededForAblation(c *configs.Config) bool { return c.Run.Model == "gpt-175b" }
