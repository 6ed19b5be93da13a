package plan

import (
	"bytes"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/capacity"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system/kinds"
)

// TestRowsBeyondBoards: a row with more DIMMs on a channel than slots has a sign, which a line below the rows explains.
func TestRowsBeyondBoards(t *testing.T) {
	for part, beyond := range map[string]bool{"ddr4-3200-8gb-x8": true, "ddr4-2933-8gb-x8": false} {
		r := &Report{}
		for _, ranksets := range []string{"4", "6"} {
			cfg, err := kinds.Loader().Load(configs.Options{Sets: []string{"node.ranksets=" + ranksets, "dram.preset=" + part}})
			if err != nil {
				t.Fatal(err)
			}
			r.Add(&Tuned{Config: cfg, Answer: &capacity.Answer{Best: capacity.Load{System: "l3", Met: true}}}, "", "")
		}
		var b bytes.Buffer
		if err := r.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		if signs := strings.Count(text, "  2    l3 †  "); beyond != (signs == 1) || strings.Contains(text, "\n"+(results.Limits{Boards: true}).Legend()+"\n") != beyond || strings.Contains(text, "1  l3 †") {
			t.Errorf("%v:\n%s", beyond, text)
		}
	}
}
