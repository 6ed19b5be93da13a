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
	stepEven       = "+ even ranksets"
)

// Where a request begins, as comm.balance has it, is what section 5.1 leaves open: it
// describes that a request's layers alternate over the ranksets, and claims that this
// "ensures load balance at the rankset-level".
const (
	inTurn = "round-robin"
	evenly = "split"

	placedInTurn = "requests begin on one rankset after the other, as section 5.1 alternates layers"
	placedEvenly = "even ranksets, as section 5.1 claims"
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
		{"round-robin offsets", "round-robin offsets"}, {"asynchronous prefill transfers", stepOverlap}, {"even ranksets", stepEven},
	}
)

// ablationClaims are those of Fig 10a (section 6.2), for GPT-175B. The paper's "further
// improves the throughput by 1.7" is judged both ways: over scheduling, and in all. Both
// stand on the ranksets' balance, which section 5.1 claims.
func ablationClaims() []*Claim {
	claim := func(id string, paper float64, from, says string) *Claim {
		return &Claim{
			ID: "fig10." + id, Paper: paper, Kind: Value, Ratio: true, Says: says + " (Fig 10a)",
			Reading: placedEvenly,
			find:    findStep(from, stepEven),
			others:  []reading{{placedInTurn, findStep(from, stepOverlap)}},
		}
	}
	scheduling := claim("scheduling", 1.3, stepNaive, "scheduling: 1.3 times the naive node, GPT-175B on OpenR1")
	scheduling.Reading, scheduling.find, scheduling.others = "", findStep(stepNaive, stepScheduling), nil
	return []*Claim{
		scheduling,
		claim("overlap", 1.7, stepScheduling, "overlap of communication and computation: a further 1.7 times"),
		claim("all", 1.7, stepNaive, "scheduling and overlap, where the 1.7 is read as the total"),
	}
}

// findStep compares two steps of the ablation, and says what each mechanism in
// between adds.
func findStep(from, to string) finder {
	return func(e *evidence, seed uint64) (finding, error) {
		before, err := e.step(seed, from)
		if err != nil {
			return finding{}, err
		}
		var worth []string
		last, inside := before, from == stepNaive
		for _, p := range slices.Concat(schedulingParts, overlapParts) {
			if inside {
				with, err := e.step(seed, p.point)
				if err != nil {
					return finding{}, err
				}
				worth = append(worth, fmt.Sprintf("%s %.2f", p.what, throughput(with.summary)/throughput(last.summary)))
				last = with
			}
			if p.point == to {
				break
			}
			inside = inside || p.point == from
		}
		a, b := before.summary, last.summary
		reason := fmt.Sprintf("%s; GPUs %.0f%% to %.0f%%, ranksets %.0f%% to %.0f%% busy; busiest rankset over mean %.2f to %.2f; PCIe %.1f%% busy at first",
			strings.Join(worth, ", "), 100*a.Utilization.GPU, 100*b.Utilization.GPU, 100*a.Utilization.PIM, 100*b.Utilization.PIM,
			a.RanksetImbalance, b.RanksetImbalance, 100*a.Utilization.PCIeDown)
		if a.Utilization.PIM > 0 {
			reason += fmt.Sprintf("; ranksets that never wait would give %.2f", 1/a.Utilization.PIM)
		}
		return finding{throughput(b) / throughput(a), reason}, nil
	}
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
