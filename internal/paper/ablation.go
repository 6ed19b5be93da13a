package paper

import (
	"fmt"
	"strings"
)

// firstStep is the step of Fig 10a that has no mechanism, as its sweep names it.
const firstStep = "naive"

// part is one mechanism of a step: with it, the step's node is that of a point of
// fig10a or fig10a_parts.
type part struct{ what, point string }

// ablationParts are the mechanisms of the paper's steps, in the order in which they are
// added: scheduling (sections 5.2, 5.3), then overlap (5.1).
var ablationParts = []part{
	{"two sub-batches", "two sub-batches"}, {"chunked prefill", "+ scheduling"},
	{"concurrent transfers", "concurrent transfers"}, {"rotation", "rotation"}, {"round-robin offsets", "round-robin offsets"},
	{"asynchronous prefill transfers", "+ overlap"}, {"even ranksets", "+ even ranksets"},
}

// findStep compares two steps of the ablation, and says what each mechanism in
// between adds.
func findStep(e *evidence, seed uint64, r *reading) (finding, error) {
	before, err := e.step(seed, r.From)
	if err != nil {
		return finding{}, err
	}
	var worth []string
	last, inside := before, r.From == firstStep
	for _, p := range ablationParts {
		if inside {
			with, err := e.step(seed, p.point)
			if err != nil {
				return finding{}, err
			}
			worth = append(worth, fmt.Sprintf("%s %.2f", p.what, throughput(with.summary)/throughput(last.summary)))
			last = with
		}
		if p.point == r.To {
			break
		}
		inside = inside || p.point == r.From
	}
	a, b := before.summary, last.summary
	reason := fmt.Sprintf("%s; GPUs %.0f%% to %.0f%%, ranksets %.0f%% to %.0f%% busy; busiest rankset over mean %.2f to %.2f; PCIe %.1f%% busy at first",
		strings.Join(worth, ", "), 100*a.Utilization.GPU, 100*b.Utilization.GPU, 100*a.Utilization.PIM, 100*b.Utilization.PIM,
		a.RanksetImbalance, b.RanksetImbalance, 100*a.Utilization.PCIeDown)
	if a.Utilization.PIM > 0 {
		reason += fmt.Sprintf("; ranksets that never wait would give %.2f", 1/a.Utilization.PIM)
	}
	return finding{value: throughput(b) / throughput(a), reason: reason}, nil
}

// step returns a point of Fig 10a, or of what lies between its steps.
func (e *evidence) step(seed uint64, name string) (*point, error) {
	of := func(p *point) bool { return p.config.Run.Model == "gpt-175b" && strings.HasSuffix(p.name, name) }
	if len(e.of["fig10a_parts"].find(seed, of)) > 0 {
		return e.of["fig10a_parts"].one(seed, "gpt-175b, "+name, of)
	}
	return e.of["fig10a"].one(seed, "gpt-175b, "+name, of)
}
