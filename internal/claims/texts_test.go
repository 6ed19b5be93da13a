package claims

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/lab/deep"
	"github.com/l3sim/l3sim/internal/sweep"
	"github.com/l3sim/l3sim/results"
)

// TestPlacementNote: the page says that no placement fits Figs 8 and 10 together where
// the numbers show it, with these numbers, and else says nothing.
func TestPlacementNote(t *testing.T) {
	for i, c := range []struct {
		name               string
		overHBM, evenGain  float64 // of l3 over hbm-pim in turn; what even ranksets gain
		inTurn10, evenly10 float64 // the whole of Fig 10, over the naive node
		want               []string
	}{
		{"neither", 6.1, 1.3, 1.2, 1.6, []string{"`fig10.all` is 1.2 in place of 1.7 (else 1.6)", "`fig8.max_over_hbm_pim` is 7.93 in place of 6.1 (else 6.1)"}},
		{"evenly gives all", 5.5, 1.1, 1.2, 1.6, nil},
		{"in turn gives all", 6.1, 1.3, 1.6, 2.5, nil},
	} {
		if i > 0 && !deep.On() {
			break
		}
		r, err := fakeOptions(t, ClaimsOnly).run(t.Context(), newFake(func(cfg *configs.Config, p *sweep.Point) (*results.Summary, error) {
			s, err := plausible(cfg, p)
			if s.TBT.P50 > 0 {
				return s, err
			}
			// Fig 8 and the whole steps of Fig 10 share runs of GPT-175B.
			even, opt := cfg.Comm.Balance == evenly, cfg.Run.Model == "opt-66b"
			s.OutputTokensPerS = map[string]float64{"hbm-pim": 100, "l3": 100}[cfg.Run.System]
			switch {
			case cfg.Run.System == "gpu-only" || cfg.Run.System == "rank-pim" || cfg.Run.System == "cpu-offload":
				s.OutputTokensPerS = 1e4
			case cfg.Run.System == "l3" && opt && even:
				s.OutputTokensPerS *= c.overHBM * c.evenGain
			case cfg.Run.System == "l3" && opt:
				s.OutputTokensPerS *= c.overHBM
			case cfg.Run.System == "l3" && even:
				s.OutputTokensPerS *= c.evenly10
			case cfg.Run.System == "l3" && cfg.Comm.AsyncPrefill:
				s.OutputTokensPerS *= c.inTurn10
			}
			return s, err
		}).run)
		if err != nil {
			t.Fatal(err)
		}
		note := r.placementNote()
		if (note != "") != (c.want != nil) {
			t.Errorf("%s: %q", c.name, note)
		}
		for _, want := range c.want {
			if !strings.Contains(note, want) {
				t.Errorf("%s: no %q in %q", c.name, want, note)
			}
		}
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
		"have no noise", "72 heads do not divide over 16 channels", "0.5 of the physical rate", "fill by 76%"} {
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

// TestReasonsFollow: two sets of results, one the reverse of the other, leave no line with
// a number of a run in common, so that none was written ahead of the runs.
func TestReasonsFollow(t *testing.T) {
	lines := func(change float64) map[string]bool {
		r, err := fakeOptions(t, ClaimsOnly).run(t.Context(), newFake(func(c *configs.Config, p *sweep.Point) (*results.Summary, error) {
			s, err := plausible(c, p)
			if c.Run.System == "l3" { // what is compared with the others, and its own points with each other
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
	if len(first) != 14 {
		t.Errorf("%d reasons: %s", len(first), fmt.Sprint(first))
	}
	for line := range first {
		if second[line] {
			t.Errorf("other results, the same reason: %s", line)
		}
	}
}
