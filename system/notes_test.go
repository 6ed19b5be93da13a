package system

import (
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/traces"
)

// notesOf returns the notes of a run of a few requests, joined.
func notesOf(t *testing.T, trace *traces.Trace, sets ...string) string {
	t.Helper()
	cfg, err := everything().Load(configs.Options{Sets: sets})
	if err != nil {
		t.Fatal(err)
	}
	r, err := mustNode(t, cfg).Run(t.Context(), trace, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.Summary(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(s.Notes, "; ")
}

// TestNotes: a run says what its numbers rest on that none of them says, and nothing else.
func TestNotes(t *testing.T) {
	long := &traces.Trace{Name: "long", Requests: []traces.Request{{Input: 100, Output: 9}, {ID: 1, Input: 17_500, Output: 4}, {ID: 2, Input: 18_000, Output: 4}}}
	small := []string{"run.model=opt-66b", "model.tensor_parallel=2"} // 36 GiB of the GPUs for a cut prompt
	for _, c := range []struct {
		trace *traces.Trace
		sets  []string
		want  []string // in the notes; none: no notes
	}{
		{fewRequests(3), nil, nil},
		{fewRequests(3), []string{"node.ranksets=6"}, nil},
		{fewRequests(3), []string{"node.ranksets=6", "energy.ranks_per_dimm=1"}, []string{"node.ranksets = 6 are 6 DIMMs on a channel (energy.ranks_per_dimm = 1)"}},
		{fewRequests(3), []string{"node.ranksets=64"}, []string{"node.ranksets = 64 are 32 DIMMs on a channel (energy.ranks_per_dimm = 2): boards of servers have 2 at DDR4-3200 and DDR5, at most 3"}},
		{fewRequests(3), []string{"gpu.preset=h200-sxm", "gpu.name=b200", "gpu.memory_capacity=192GB"}, []string{
			"GPU b200 is h200-sxm with changed: memory_capacity; what is not changed (efficiencies of kernels, power and links among it) is that of h200-sxm",
			"has no GPU b200: it costs what h200-sxm does, "}},
		{fewRequests(3), []string{"gpu.preset=h200-sxm", "gpu.memory_capacity=192GB"}, nil}, // the title says it
		{long, append(small, "gpu.memory_capacity=120GiB"), nil},
		{long, small, []string{"2 prompts of up to 18000 tokens ran whole, as the GPUs have no room for keys and values of a cut one: all that decodes waits for them, TBT p99 "}},
		{long, append(small, "scheduler.chunking=false"), nil}, // nothing would have been cut
	} {
		got := notesOf(t, c.trace, c.sets...)
		if len(c.want) == 0 && got != "" {
			t.Errorf("%q: got %s", c.sets, got)
		}
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%q: got %q, want %q", c.sets, got, want)
			}
		}
	}
}
