package kinds

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/system/flow"
)

// recordedFile writes a profile of the choices of a configuration's heads in so many steps after a prompt, and returns the setting that names it.
func recordedFile(t *testing.T, sets []string, prompt, steps int, choose func(step, layer, head int) [][2]int) string {
	n := rigOf(t, sets...)
	shape := flow.PolicyShape(n.Hardware)
	r := policy.NewRecorder(n.cfg.Model.Name, shape, &n.cfg.Policy, prompt)
	r.KeepChoices()
	for step := range steps {
		for layer := range shape.Layers {
			for head := range shape.KVHeads {
				r.Step(layer, head, prompt+1+step, &policy.Selection{Parts: []policy.Part{{Ranges: choose(step, layer, head)}}})
			}
		}
	}
	path := filepath.Join(t.TempDir(), "recorded.toml")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Profile().Write(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return "policy.profile=" + path
}

// TestRecordedChoicesByHand: six layers choose 500 tokens in each step after a prompt of 9,000, shifted by 20 tokens from step to step; half of
// them return to the first choice after three steps. A buffer of 4,096 still has that choice; one of 500 has only the previous step's.
func TestRecordedChoicesByHand(t *testing.T) {
	sets := slices.Concat(indexedModel, []string{"run.system=sparse-offload", "node.gpus=1", "model.tensor_parallel=1"})
	file := recordedFile(t, sets, 9000, 7, func(step, layer, _ int) [][2]int {
		if layer%2 == 0 {
			step %= 3 // 0, 1, 2, 0, 1, 2, 0
		}
		return [][2]int{{20 * step, 20*step + 500}}
	})
	for _, c := range []struct {
		rows    int
		context int
		want    int64
	}{
		{4096, 9001, 500},                                                                         // a request's first step has nothing in the buffer
		{4096, 9002, 20}, {4096, 9003, 20}, {4096, 9004, 10}, {4096, 9007, 10}, {4096, 20000, 10}, // contexts beyond the last one are as that
		{500, 9002, 20}, {500, 9003, 20}, {500, 9004, 30}, {500, 9005, 20}, {500, 9007, 30}, // back from the third choice to the first: 40 tokens
	} {
		_, e := sparseOf(t, file, fmt.Sprintf("sparse_offload.buffer_rows=%d", c.rows), "sparse_offload.hit_rate=0")
		sub := steps(c.context)
		sub.Decode[0].Prompt = 9000
		e.runs(t, sub)
		if f := e.fetch[0][0]; f.Count != c.want || e.Rows != 6*c.want || f.took == 0 {
			t.Errorf("a buffer of %d, context %d: %d rows in %v, by hand %d", c.rows, c.context, f.Count, f.took, c.want)
		}
	}
	// A shorter prompt begins before the recording; the recording's first step applies only to its first step.
	_, e := sparseOf(t, file)
	for context, want := range map[int]int64{5001: 500, 5002: 20} {
		sub := steps(context)
		sub.Decode[0].Prompt = 5000
		if e.runs(t, sub); e.fetch[0][0].Count != want {
			t.Errorf("context %d: %d rows, by hand %d", context, e.fetch[0][0].Count, want)
		}
	}
	// The remark has the recording's hit rate instead of the assumption: 20, 20, and 10 four times, of 6 times 500.
	cfg, err := Loader().Load(configs.Options{Sets: append(sets, file)})
	if err != nil {
		t.Fatal(err)
	}
	if got := hits(cfg); !strings.Contains(got, "beyond 4096 tokens, in place of sparse_offload.hit_rate") || !strings.Contains(got, "find 97.3 of 100 chosen rows") || strings.Contains(got, "assumption") {
		t.Error(got)
	}
	if got := recordedHits(cfg.Policy.Choices(), 1, 4096); math.Abs(got-(1-80./3000)) > 1e-12 {
		t.Errorf("a hit rate of %v", got)
	}
	// Pages of 16 tokens: a buffer of 32 tokens has two of them, without those of two steps before; one of 64 has both.
	p := policy.Profile{Measured: policy.ProfileMeasured{Prompt: 99}, Heads: []policy.ProfileHead{{Chosen: [][][2]int{{{0, 32}}, {{32, 64}}, {{0, 32}}}}}}
	for rows, want := range map[int]float64{32: 0, 64: 0.5} {
		if got := recordedHits(p.Choices(), 16, rows); got != want {
			t.Errorf("a buffer of %d tokens: a hit rate of %v, by hand %v", rows, got, want)
		}
	}
	// Without a recording, or with a profile of heads that attend to everything, the remark has the assumption and what it means.
	sets = append(sets, "sparse_offload.hit_rate=0.8", "sparse_offload.buffer_rows=5000")
	all := recordedFile(t, sets, 9000, 2, func(step, _, _ int) [][2]int { return [][2]int{{0, 9001 + step}} })
	if cfg, err = Loader().Load(configs.Options{Sets: append(sets, all)}); err != nil {
		t.Fatal(err)
	}
	if got := hits(cfg); !strings.Contains(got, "hit_rate = 0.8 is an assumption") {
		t.Error(got)
	}
	if cfg, err = Loader().Load(configs.Options{Sets: sets}); err != nil {
		t.Fatal(err)
	}
	if got := hits(cfg); !strings.Contains(got, "hit_rate = 0.8 is an assumption") || !strings.Contains(got, "; 20 of 100 chosen rows are fetched in each step and layer of contexts beyond 5000 tokens") {
		t.Error(got)
	}
}

// TestRecordedChoiceOfOne: a recording with equal choices in each step has a hit rate of 1 after the first step, and takes the same time.
func TestRecordedChoiceOfOne(t *testing.T) {
	sets := slices.Concat(indexedModel, []string{"run.system=sparse-offload", "node.gpus=1", "model.tensor_parallel=1"})
	file := recordedFile(t, sets, 9000, 5, func(int, int, int) [][2]int { return [][2]int{{100, 600}} })
	_, e := sparseOf(t, file)
	_, all := sparseOf(t, "sparse_offload.hit_rate=1")
	_, none := sparseOf(t, "sparse_offload.hit_rate=0")
	for context, want := range map[int]*sparseOffload{9001: none, 9002: all, 9005: all, 30000: all} {
		sub := steps(context)
		sub.Decode[0].Prompt = 9000
		if got, want := e.runs(t, sub), want.runs(t, sub); got != want {
			t.Errorf("context %d: %v, want %v", context, got, want)
		}
	}
}

// TestRecordedPages: heads that choose fetch whole pages of keys and values.
func TestRecordedPages(t *testing.T) {
	sets := []string{"run.system=sparse-offload", "run.model=llama-3-8b", "policy.name=quest", "policy.quest.budget=1024", "node.gpus=2", "model.tensor_parallel=2"}
	file := recordedFile(t, sets, 8000, 3, func(step, layer, head int) [][2]int {
		if layer < 2 {
			return [][2]int{{0, 8001 + step}} // attends to everything
		}
		return [][2]int{{16 * (head + 8*step), 1008 + 16*(head+8*step)}, {8000, 8001 + step}} // eight of 63 pages are new
	})
	e := rigOf(t, append(sets, file)...).replica(nil).Engine.(*sparseOffload)
	sub := steps(8002)
	sub.Decode[0].Prompt = 8000
	e.runs(t, sub)
	if first, rest := e.fetch[0][0], e.fetch[0][1]; first.took != 0 || rest.Count != 2*4*8 || rest.Bytes != 16*256 {
		t.Errorf("%d rows of %v, by hand 64 of 4 KiB: eight pages, four heads, keys and values", rest.Count, rest.Bytes)
	}
}

// TestRecordedChoicesRefused: an error names what a recording does not fit.
func TestRecordedChoicesRefused(t *testing.T) {
	sets := slices.Concat(indexedModel, []string{"run.system=sparse-offload"})
	file := recordedFile(t, sets, 9000, 3, func(int, int, int) [][2]int { return [][2]int{{100, 600}} })
	for set, want := range map[string]string{
		"model.index_top_k=400":                            "expected a profile with model.index_top_k = 400, not 500",
		"serving.verified_tokens=2 serving.acceptance=0.5": "or serving.verified_tokens = 1, not 2",
		"model.layers=7":                                   "expected a profile with model.layers = 7, not 6",
	} {
		if _, err := Loader().Load(configs.Options{Sets: slices.Concat(sets, []string{file}, strings.Fields(set))}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", set, err, want)
		}
	}
}
