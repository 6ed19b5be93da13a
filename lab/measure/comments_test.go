package measure

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/input/list"
)

// TestShippedComments: in shipped fits to AIConfigurator's tables, each key's comment has the current meaning, as in a newly written fit. It
// follows the value's origin; some have a source in between.
func TestShippedComments(t *testing.T) {
	texts, err := presetTexts()
	if err != nil {
		t.Fatal(err)
	}
	byHand := map[string]string{ // written by hand
		"gpu.all_reduce.small_limit": "; NCCL beyond; batches of up to 500 tokens",
		"gpu.power.pj_per_flop":      "; of 16-bit operations that are executed",
	}
	sections := map[string]bool{}
	for _, framework := range []string{"vllm", "sglang", "trtllm"} {
		files, err := filepath.Glob("../../configs/fits/*." + framework + "-*.toml")
		if err != nil || len(files) == 0 {
			t.Fatal(framework, err)
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			section := ""
			for line := range strings.Lines(string(source)) {
				line = strings.TrimSpace(line)
				key, _, isKey := strings.Cut(line, " = ")
				switch {
				case strings.HasPrefix(line, "["):
					section = strings.Trim(line, "[]")
				case isKey && strings.HasPrefix(section, "gpu."):
					sections[section] = true
					_, written, _ := strings.Cut(line, " # ")
					got, other := text(section, key, texts), byHand[section+"."+key]
					if got == "" || !strings.HasSuffix(written, "; "+got) && (other == "" || !strings.HasSuffix(written, other)) {
						t.Errorf("%s: %s.%s means %q, written is %q", filepath.Base(file), section, key, got, written)
					}
				}
			}
		}
	}
	for key := range moved(list.Map(Kinds(), func(k Kind) Fitted { return Fitted{Kind: k} })) {
		if key == "gpu.alone.flush_share" {
			continue // kernels measured alone, absent from the tables
		}
		if section := key[:strings.LastIndex(key, ".")]; !sections[section] {
			t.Errorf("no fit has %s", key)
		}
	}
}
