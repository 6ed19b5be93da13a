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
	cfg, err := Load(configs.Options{Sets: sets})
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
	for _, c := range []struct {
		trace *traces.Trace
		sets  []string
		want  []string // in the notes; none: no notes
	}{
		{fewRequests(3), nil, nil},
		{fewRequests(3), []string{"gpu.preset=h200-sxm", "gpu.name=b200", "gpu.memory_capacity=192GB"}, []string{
			"GPU b200 is h200-sxm with changed: memory_capacity; what is not changed (efficiencies of kernels, power and links among it) is that of h200-sxm",
			"has no GPU b200: it costs what h200-sxm does, "}},
		{fewRequests(3), []string{"gpu.preset=h200-sxm", "gpu.memory_capacity=192GB"}, nil}, // the title says it
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
