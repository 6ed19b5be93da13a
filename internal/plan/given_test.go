package plan

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

// TestGiven: a knob that the user sets by --set, a flag or a file is not searched. Knobs that a file leaves out are searched.
func TestGiven(t *testing.T) {
	file := filepath.Join(t.TempDir(), "own.toml")
	if err := os.WriteFile(file, []byte("[batching]\nmax_num_seqs = 64\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	all := []string{tensorParallel, "gpu_only.policy", "batching.max_num_batched_tokens", maxSeqs, admission}
	for name, x := range map[string]struct {
		o    configs.Options
		gone string // the knob that is not searched
	}{
		"nothing":    {configs.Options{}, ""},
		"--set":      {configs.Options{Sets: []string{"model.tensor_parallel=2"}}, tensorParallel},
		"a flag":     {configs.Options{Flags: []configs.Flag{{Name: "--tp", Key: tensorParallel, Value: "2"}}}, tensorParallel},
		"a policy":   {configs.Options{Flags: []configs.Flag{{Name: "--prefill", Key: "gpu_only.policy", Value: "prefill-first"}}}, "gpu_only.policy"},
		"a file":     {configs.Options{ConfigFiles: []string{file}}, maxSeqs},
		"other keys": {configs.Options{Sets: []string{"model.tensor_parallels=2", "batching.max=1"}, Flags: []configs.Flag{{Key: "node.gpus"}}}, ""},
		"admission":  {configs.Options{Sets: []string{"memory.admission=max"}}, admission},
		"history":    {configs.Options{Sets: []string{"memory.history=9"}}, admission},
		"a variant":  {configs.Options{Sets: []string{"run.variant=x"}}, admission},
	} {
		cfg, err := system.Load(configs.Options{Sets: []string{"run.system=gpu-only", "run.model=llama-3-8b", "node.gpus=4"}})
		if err != nil {
			t.Fatal(err)
		}
		want := slices.DeleteFunc(slices.Clone(all), func(key string) bool { return key == x.gone })
		var got []string
		for _, axis := range grid(x.o, cfg) {
			got = append(got, axis.key)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: the knobs are %v, want %v", name, got, want)
		}
	}
	// With a variant, the variant's admission applies.
	if got := AsServer(configs.Options{Sets: []string{"run.variant=x"}}).Sets; !slices.Equal(got, []string{"gpu.memory_share=0.9", "run.variant=x"}) {
		t.Errorf("a variant has %v", got)
	}
	if got := AsServer(configs.Options{Flags: []configs.Flag{{Key: admission}}}).Sets; !slices.Equal(got, []string{"gpu.memory_share=0.9", "memory.history=0"}) {
		t.Errorf("a flag for admission has %v", got)
	}
}

// TestStarts: a search begins at a chunk of 2,048, at 512 with a limit of 1,024, and at the least of both; if one of these is not on the grid, at
// its first value.
func TestStarts(t *testing.T) {
	cfg, err := system.Load(configs.Options{Sets: []string{"run.system=gpu-only", "run.model=llama-3-8b", "node.gpus=4"}})
	if err != nil {
		t.Fatal(err)
	}
	axes := grid(configs.Options{}, cfg)
	want := []string{
		"model.tensor_parallel=2 gpu_only.policy=prefill-first batching.max_num_batched_tokens=2048 batching.max_num_seqs=1024 memory.admission=current memory.history=0",
		"model.tensor_parallel=2 gpu_only.policy=prefill-first batching.max_num_batched_tokens=512 batching.max_num_seqs=1024 memory.admission=current memory.history=0",
		"model.tensor_parallel=2 gpu_only.policy=prefill-first batching.max_num_batched_tokens=256 batching.max_num_seqs=8 memory.admission=current memory.history=0",
	}
	all := arms(axes)
	if len(all) != 6 || !slices.Equal(all[3], []int{1, 1, 0, 0, 0}) { // 4, 2 and 1 GPUs a replica, each with two policies
		t.Fatalf("%v", all)
	}
	var got []string
	for _, p := range starts(axes, all[3]) {
		got = append(got, strings.Join(settings(axes, p), " "))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := starts(axes[:2], []int{1, 1}); len(got) != 1 {
		t.Errorf("without knobs that have an order there are %v", got)
	}
}

// TestDistinct: two configurations are equal if they differ only in hardware that the system does not use.
func TestDistinct(t *testing.T) {
	for _, x := range []struct {
		system, key, one, other string
		same                    bool
	}{
		{"l3", "node.ranksets", "4", "2", false},
		{"l3", "node.ranksets", "4", "4", true},
		{"l3", "node.gpus", "8", "4", false},
		{"gpu-only", "node.ranksets", "4", "2", true},
		{"gpu-only", "node.memory_capacity", "1TiB", "2TiB", true},
		{"gpu-only", "node.gpus", "4", "2", false},
		{"gpu-only", "gpu.memory_capacity", "80GiB", "96GiB", false},
		{"cpu-offload", "node.memory_capacity", "1TiB", "2TiB", false},
		{"hbm-pim", "node.memory_capacity", "1TiB", "2TiB", true},
	} {
		var got []string
		for _, value := range []string{x.one, x.other} {
			cfg, err := AsGiven(configs.Options{Sets: []string{"run.system=" + x.system, "run.model=llama-3-8b", x.key + "=" + value}})
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, Distinct(cfg))
		}
		if same := got[0] == got[1]; same != x.same {
			t.Errorf("%+v: %v", x, same)
		}
	}
}

// TestLoad: a kept row loads the searched configuration: with its knobs, and with the admission of servers unless the user chose another.
func TestLoad(t *testing.T) {
	for _, x := range []struct {
		given, knobs []string
		want         string
	}{
		{nil, nil, "current"}, {nil, []string{"memory.admission=max"}, "max"}, {[]string{"memory.admission=final"}, nil, "final"},
		{nil, []string{"batching.max_num_seqs=32"}, "current"},
	} {
		o := configs.Options{Sets: append([]string{"run.system=gpu-only", "run.model=llama-3-8b", "slo.ttft=1s", "arrivals.kind=poisson"}, x.given...)}
		s := &Search{}
		given, err := system.Load(o)
		if err != nil {
			t.Fatal(err)
		}
		c, err := s.Contest(o, given, &traces.Trace{})
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := c.Config(x.knobs...)
		if err != nil {
			t.Fatal(err)
		}
		if cfg.Memory.Admission != x.want {
			t.Errorf("%v and %v: admission %q", x.given, x.knobs, cfg.Memory.Admission)
		}
		c.ctx = t.Context()
		searched := c.open(c.entrant(nil, 0, x.knobs...))
		if searched == nil || Distinct(cfg) != Distinct(searched.cfg) {
			t.Errorf("%v and %v: another configuration than that of the search", x.given, x.knobs)
		}
	}
}

// TestFitsNowhere: if a model fits no layout of the GPUs, the error is that of the most GPUs a replica.
func TestFitsNowhere(t *testing.T) {
	for gpus, want := range map[string]string{"1": "model.tensor_parallel = 1 GPUs", "4": "model.tensor_parallel = 4 GPUs"} { // 131 GiB in 24 or 96
		o := configs.Options{Sets: []string{"run.system=gpu-only", "run.model=llama-3-70b", "gpu.preset=rtx-4090-vllm-0.19", "node.gpus=" + gpus, "slo.ttft=1s", "arrivals.kind=poisson"}}
		cfg, err := AsGiven(o)
		if err != nil {
			t.Fatal(err)
		}
		trace := &traces.Trace{Requests: slices.Repeat([]traces.Request{{Input: 1, Output: 1}}, 50)}
		if _, err = (&Search{Precision: 0.1, Tune: true}).Row(t.Context(), o, cfg, trace); !errors.As(err, new(*input.Error)) || !strings.Contains(err.Error(), want) {
			t.Errorf("of %s GPUs: %v, want %s", gpus, err, want)
		}
	}
}
