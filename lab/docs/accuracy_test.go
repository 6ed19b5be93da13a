package docs

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// TestAccuracy: the first table of docs/accuracy.md has the least and the largest mean error of its anchors in
// lab/docs/validation.md, whose means are recorded beside the tests that write it.
func TestAccuracy(t *testing.T) {
	page, anchors := string(read(t, "../../docs/accuracy.md")), string(read(t, "validation.md"))
	var recorded map[string]struct {
		Mean float64 `json:"mean_ape"`
	}
	if err := json.Unmarshal(read(t, "../validation/testdata/errors.json"), &recorded); err != nil {
		t.Fatal(err)
	}
	for what, of := range map[string]struct{ section, anchor, not, form string }{
		"GPU kernels: products, attention":                     {"Kernels of", `\| (gemm|decode attention|prefill attention),`, "never", ""},
		"whole iterations of models that the fit has not seen": {"Iterations on h200-sxm", `(decode|prefill|mixed) iteration.*held out`, "never", ""},
		"energy of these iterations":                           {"Iterations on h200-sxm", `iteration energy.*held out`, "never", ""},
		"latency of vLLM and TensorRT-LLM":                     {"Services", `TensorRT-LLM|vLLM`, "on 8 x", ""},
		"iterations of L3, its units a stand-in of known time": {"Iterations of l3", `measured GPU part \|`, "never", ""},
		"one to four GPUs":                                     {"Services", `on 8 x h100`, "never", "%s; %.0f%% on eight |"},
	} {
		least, most := 1000.0, 0.0
		for _, part := range regexp.MustCompile("\n###? ").Split(anchors, -1) {
			for _, line := range strings.Split(part, "\n") {
				cells := strings.Split(line, "|")
				if !strings.HasPrefix(part, of.section) || len(cells) < 6 || !regexp.MustCompile(of.anchor).MatchString(line) || strings.Contains(line, of.not) {
					continue
				}
				heading, _, _ := strings.Cut(part, "\n")
				name := strings.ToLower(heading[:1]) + heading[1:] + ": " + strings.TrimSpace(cells[1])
				e, there := recorded[name]
				if !there {
					t.Fatalf("no error of %q is recorded", name)
				}
				least, most = min(least, 100*e.Mean), max(most, 100*e.Mean)
			}
		}
		row := fmt.Sprintf("| %s | %.0f to %.0f%% |", what, least, most)
		if least == most {
			row = fmt.Sprintf("| %s | %.0f%% |", what, most)
		}
		if of.form != "" {
			row = fmt.Sprintf(of.form, what, most)
		}
		if !strings.Contains(page, row) {
			t.Errorf("docs/accuracy.md lacks %q", row)
		}
	}
}
