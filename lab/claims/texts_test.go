package claims

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/internal/sweep"
	"github.com/l3sim/l3sim/results"
)

// TestPlacementNote counts the claims that come out with either placement for all of them, and names those that differ.
func TestPlacementNote(t *testing.T) {
	r := &Report{Judgements: []judgement{}}
	add := func(id string, placements []string, verdicts ...string) {
		j := judgement{ID: id, claim: &claim{}}
		for i, v := range verdicts {
			o := Outcome{Verdict: v, Number: &Number{Ours: float64(i + 1)}}
			j.claim.Readings = append(j.claim.Readings, reading{Placement: placements[i]})
			if i == 0 {
				j.Outcome = o
			} else {
				j.Others = append(j.Others, o)
			}
		}
		r.Judgements = append(r.Judgements, j)
	}
	add("text", []string{""}, reproduced)
	if note := r.placementNote(); note != "" {
		t.Errorf("no claim has a placement: %s", note)
	}
	add("both", []string{inTurn, evenly}, reproduced, reproduced)
	add("turn", []string{inTurn, inTurn, evenly, evenly}, reproduced, direction, notReproduced, reproduced)
	add("even", []string{inTurn, evenly}, notReproduced, reproduced)
	add("none", []string{""}, direction)
	add("alone", []string{inTurn, evenly}, direction, notReproduced)
	want := "With one placement of requests for all claims these come out: 3 of 6 with `comm.balance = \"round-robin\"`, 3 of 6 with `comm.balance = \"split\"`. " +
		"They differ in `turn` (1 and 3), `even` (1 and 2), `alone` (1 and 2)."
	if note := r.placementNote(); note != want {
		t.Errorf("got  %s\nwant %s", note, want)
	}
}

// TestTextsFollow: captions and limits state the models' own numbers.
func TestTextsFollow(t *testing.T) {
	m, err := loadModels()
	if err != nil {
		t.Fatal(err)
	}
	texts := func() string {
		var all strings.Builder
		for _, name := range []string{"fig2a", "fig2b", "fig8_batch", "fig10b", "limits"} {
			text, err := m.text(name)
			if err != nil {
				t.Fatal(err)
			}
			all.WriteString(text + "\n")
		}
		return all.String()
	}
	before := texts()
	for _, want := range []string{"156 TFLOP/s of `a100-paper`", "312 of `a100-sxm-80gb`", "7 requests of 16384 tokens", `memory.admission = "final"`,
		"no noise: errors", "72 heads do not divide over 16 channels", "0.5 of the physical rate", "fill by 76%"} {
		if !strings.Contains(before, want) {
			t.Errorf("no %q in %s", want, before)
		}
	}
	m.llama.GPU.Peak16 /= 4
	m.llama.Model.Layers /= 2
	m.largest.Memory.Admission, m.largest.Predictor.Noise = "current", 0.05
	m.served[0].Model.KVHeads, m.served[0].Model.TensorParallel = 64, 4
	after := texts()
	for _, want := range []string{"39 TFLOP/s of `a100-paper`", "16 requests of 16384 tokens", `memory.admission = "current"`, "a noise of 0.05",
		"0.12 of the physical rate", "fill by 38%"} {
		if !strings.Contains(after, want) {
			t.Errorf("no %q in %s", want, after)
		}
	}
	if strings.Contains(after, "do not divide") {
		t.Errorf("heads that divide: %s", after)
	}
}

// TestReasonsFollow: two opposite sets of results share no line with a number of a run: such lines are
// written from the results.
func TestReasonsFollow(t *testing.T) {
	deep.Heavy(t)
	lines := func(change float64) map[string]bool {
		r, err := fakeOptions(t, ClaimsOnly).run(t.Context(), newFake(func(c *configs.Config, p *sweep.Point) (*results.Summary, error) {
			s, err := plausible(c, p)
			if c.Run.System == "l3" { // compared with the others, and its own points with each other
				s.OutputTokensPerS *= 1 + change*(float64(c.Node.Ranksets)+float64(len(p.Name)))
				s.TBT.P50 *= 1 + change*float64(c.Run.Requests)
				s.Utilization.PIM += change
			}
			s.OutputTokensPerS += change * float64(len(c.Run.System))
			s.DecodeBatch.StepMean += change * float64(len(c.Run.System)+len(c.Run.Model))
			s.DecodeBatch.Mean, s.DecodeBatch.Max, s.KVBytes.Capacity = s.DecodeBatch.StepMean, int(1e6*s.DecodeBatch.StepMean), s.KVBytes.Capacity+1e12
			return s, err
		}).run)
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		r.writeReasons(&text)
		all := map[string]bool{}
		for _, line := range strings.Split(text.String(), "\n") {
			for _, figure := range []string{"`fig8.", "`fig9.", "`fig10.", "`fig11."} {
				if strings.HasPrefix(line, "- "+figure) {
					all[line] = true
				}
			}
		}
		return all
	}
	first, second := lines(0), lines(0.1)
	if len(first) != 14 { // Figs 8 to 11
		t.Errorf("%d reasons: %s", len(first), fmt.Sprint(first))
	}
	for line := range first {
		if second[line] {
			t.Errorf("other results, the same reason: %s", line)
		}
	}
}
