package plan

import (
	"context"
	"encoding/json"
	"github.com/l3sim/l3sim/internal/deep"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/traces"
)

// Row compares knobs and decides, as the commands do.
func (s *Search) Row(ctx context.Context, o configs.Options, cfg *configs.Config, trace *traces.Trace) (*Row, error) {
	c, err := s.Contest(o, cfg, trace)
	if err != nil {
		return nil, err
	}
	if err := c.Compare(ctx); err != nil {
		return nil, err
	}
	return c.Decide(ctx)
}

// small searches a server, with further settings, in about a second.
func small(t *testing.T, sets ...string) *Row {
	t.Helper()
	o := configs.Options{Sets: append([]string{"run.system=gpu-only", "run.model=llama-3-8b", "model.layers=2", "node.gpus=1", "gpu.preset=h100-sxm", "run.trace=synthetic", "run.requests=500",
		"traces.input_mean=1500", "traces.input_std=700", "traces.output_mean=60", "traces.output_std=30", "slo.ttft=200ms", "slo.tbt=5ms", "arrivals.kind=poisson"}, sets...)}
	cfg, err := AsGiven(o)
	if err != nil {
		t.Fatal(err)
	}
	trace, err := Requests(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := &Search{Precision: 0.02, Tune: true}
	x, err := s.Contest(o, cfg, trace)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Compare(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(x.Candidates)
	if err != nil {
		t.Fatal(err)
	}
	found, err := x.Decide(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.Contest(o, cfg, trace)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &again.Candidates); err != nil {
		t.Fatal(err)
	}
	resumed, err := again.Decide(t.Context())
	if err != nil || !reflect.DeepEqual(found, resumed) {
		t.Errorf("resumed it is %+v, %v, at once %+v", resumed.Load, err, found.Load)
	}
	return found
}

// TestFixedKnobs: a fixed knob is not searched, and freeing it lowers the answer by at most the precision. The answer does not depend on
// whether the comparison of knobs was interrupted.
func TestFixedKnobs(t *testing.T) {
	deep.Only(t)
	free := small(t)
	if free.RatePerS == 0 || free.next == nil || free.next.Met || free.next.RatePerS > 1.02*free.RatePerS {
		t.Fatalf("%+v", free.Load)
	}
	for _, set := range []string{"batching.max_num_batched_tokens=432", "batching.max_num_batched_tokens=1024", "batching.max_num_seqs=32", "gpu_only.policy=prefill-first", "memory.admission=max"} {
		fixed := small(t, set)
		key, _, _ := strings.Cut(set, "=")
		if slices.ContainsFunc(fixed.Sets, func(s string) bool { return strings.HasPrefix(s, key+"=") }) {
			t.Errorf("%s is given and searched: %v", set, fixed.Sets)
		}
		if got, most := fixed.RatePerS, free.RatePerS; got > 1.02*most {
			t.Errorf("%s holds %v requests/s, all knobs free %v (%v)", set, got, most, free.Sets)
		}
	}
}

// TestGrid: the values of the grid, and the admission of servers unless the user chose another.
func TestGrid(t *testing.T) {
	all := chunks
	if len(all) != 21 || all[0] != "256" || all[3] != "432" || all[20] != "8192" {
		t.Errorf("%v", all)
	}
	if got := divisors(12); !slices.Equal(got, []string{"12", "6", "4", "3", "2", "1"}) {
		t.Errorf("%v", got)
	}
	if got := AsServer(configs.Options{}).Sets; !slices.Equal(got, append([]string{"gpu.memory_share=0.9"}, asServers...)) {
		t.Errorf("%v", got)
	}
	if got := AsServer(configs.Options{Sets: []string{"memory.admission=final"}}).Sets; !slices.Equal(got, []string{"gpu.memory_share=0.9", "memory.history=0", "memory.admission=final"}) {
		t.Errorf("%v", got)
	}
}

// TestReasons: a failure says whether smaller or larger chunks help.
func TestReasons(t *testing.T) {
	axes := []axis{{key: "chunk", values: make([][]string, 21), starts: []int{0}}}
	at := []int{10}
	for _, c := range []struct {
		fails    string
		down, up bool
	}{{"TBT", true, false}, {"TTFT", false, true}, {queueGrows, false, true}, {"E2E", true, true}, {turnedAway, false, true}} {
		all := around(axes, at, []Failure{{Name: c.fails}}, coarse)
		down := slices.ContainsFunc(all, func(p []int) bool { return p[0] < 10 })
		up := slices.ContainsFunc(all, func(p []int) bool { return p[0] > 10 })
		if down != c.down || up != c.up {
			t.Errorf("%s: %v", c.fails, all)
		}
	}
}
