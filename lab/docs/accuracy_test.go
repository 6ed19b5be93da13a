package docs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// kind is the part of an anchor's name beyond its row, if the page has a column for each kind of anchors.
var kind = regexp.MustCompile(`(decode|prefill|mixed) iteration, |iteration energy, |(decode|decode and chunks), (measured GPU part|own kernels)`)

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
		"GPU kernels: products, attention":                     {"kernels of", `\| (gemm|decode attention|prefill attention),`, "never", ""},
		"whole iterations of models that the fit has not seen": {"iterations on h200-sxm", `(decode|prefill|mixed) iteration.*held out`, "never", ""},
		"energy of these iterations":                           {"iterations on h200-sxm", `iteration energy.*held out`, "never", ""},
		"latency of vLLM and TensorRT-LLM":                     {"services", `TensorRT-LLM|vLLM`, "on 8 x", ""},
		"iterations of L3, its units a stand-in of known time": {"iterations of l3", `measured GPU part \|`, "never", ""},
		"one to four GPUs":                                     {"services", `on 8 x h100`, "never", "%s; %.0f%% on eight |"},
	} {
		least, most := 1000.0, 0.0
		for key, e := range recorded {
			group, name, _ := strings.Cut(key, ": ")
			if !strings.HasPrefix(group, of.section) || strings.Contains(name, of.not) {
				continue
			}
			_, part, shown := strings.Cut(anchors, "## "+strings.ToUpper(group[:1])+group[1:]+"\n")
			part, _, _ = strings.Cut(part, "\n##")
			seen := ""
			for _, row := range []string{name, cmp.Or(strings.Trim(kind.ReplaceAllString(name, ""), ", "), "all other rows")} {
				if _, rest, ok := strings.Cut(part, "\n| "+row+" | "); ok {
					seen, _, _ = strings.Cut(rest, " |")
					break
				}
			}
			if !shown || seen == "" {
				t.Fatalf("no row of the page is of %q", key)
			}
			if regexp.MustCompile(of.anchor).MatchString("| " + name + " | " + seen) {
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
