package plan

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system/kinds"
	"github.com/l3sim/l3sim/traces"
)

// TestRowsBeyondBoards: a row with more DIMMs on a channel than slots has a sign, explained below the rows.
func TestRowsBeyondBoards(t *testing.T) {
	for part, beyond := range map[string]bool{"ddr4-3200-8gb-x8": true, "ddr4-2933-8gb-x8": false} {
		r := &Report{}
		for _, ranksets := range []string{"4", "6"} {
			cfg, err := kinds.Loader().Load(configs.Options{Sets: []string{"node.ranksets=" + ranksets, "dram.preset=" + part}})
			if err != nil {
				t.Fatal(err)
			}
			trace := &traces.Trace{Name: "none", Requests: make([]traces.Request, 10)}
			row := &Row{Load: Load{System: "l3", RatePerS: 1, Met: true, Summary: &results.Summary{}}}
			row.describe(&Judge{cfg: cfg, trace: trace})
			r.Add(row, nil, trace)
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

// TestBlocks: one blank line precedes each block that exists: a row's explanation, commands, notes, and combinations that fit nowhere.
func TestBlocks(t *testing.T) {
	for given := range 16 {
		r, blocks := &Report{Rows: []*Row{{Load: Load{System: "l3", RatePerS: 1, Met: true}, Called: []string{"l3", "", "", ""}, Highest: 1}}}, 1
		if given&1 > 0 {
			r.Rows[0].Asked, blocks = &Asked{RatePerS: 9, Nodes: 9}, blocks+1
		}
		if given&2 > 0 {
			r.Rows[0].Command, r.Rows[0].VLLM, blocks = "l3sim capacity", "--tensor-parallel-size 1", blocks+1
		}
		if given&4 > 0 {
			r.Notes, blocks = []string{"one", "two"}, blocks+1
		}
		if given&8 > 0 {
			r.Unable, blocks = []string{"three"}, blocks+1
		}
		var b strings.Builder
		if err := r.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		_, table, _ := strings.Cut(b.String(), "\n\n") // after the report's title
		if got := 1 + strings.Count(table, "\n\n"); strings.Contains(b.String(), "\n\n\n") || strings.HasSuffix(table, "\n\n") || got != blocks {
			t.Errorf("%d blocks, want %d:\n%s", got, blocks, b.String())
		}
	}
}

// TestBoardsLast: a row that no board holds is last, however good it is.
func TestBoardsLast(t *testing.T) {
	r := &Report{Rows: []*Row{{Load: Load{System: "slow", RatePerS: 1}}, {BeyondBoards: true, Load: Load{System: "best", RatePerS: 9}}, {Load: Load{System: "good", RatePerS: 5}}}}
	if err := r.Rank("rate_per_s"); err != nil {
		t.Fatal(err)
	}
	if got := r.Rows[0].RatePerS + 10*r.Rows[1].RatePerS; got != 15 || !r.Rows[2].BeyondBoards {
		t.Errorf("%+v", r.Rows)
	}
}

// TestInfeasible: GPUs, models and memory that do not fit together give no row; a wrong name, or a value that is wrong in any combination, is an
// error of its own, and so are other causes and other sections.
func TestInfeasible(t *testing.T) {
	for set, want := range map[string]bool{
		"node.gpus=4": true, "node.gpus=1": true, "node.gpus=3": true, "node.gpus=x": false, "node.gpus=0": false, "node.gpus=-1": false, "node.gpus=1.5": false, "node.gpus=99999999999": false,
		"node.memory_capacity=1": false, "run.system=l4": false, "model.gated_ffn=x": false, "model.expert_skew=x": false, "model.kv_format=x": false, "model.window_pattern=x": false, "model.kv_heads=7": false,
	} {
		_, err := AsGiven(configs.Options{Sets: []string{set}})
		if got := err == nil || Infeasible(err); got != want {
			t.Errorf("%s: %v, %v", set, got, err)
		}
	}
	rule := input.Error{Key: "node.gpus", Value: "3", OtherKeys: []string{"node.channels", "model.tensor_parallel"}}
	for name, x := range map[string]struct {
		change func(e *input.Error)
		want   bool
	}{
		"a rule of two sections": {func(*input.Error) {}, true},
		"of a model":             {func(e *input.Error) { e.Key, e.OtherKeys = "model.window", []string{"run.system"} }, true},
		"of one section":         {func(e *input.Error) { e.OtherKeys = []string{"node.channels", "ranksets"} }, false},
		"of no other key":        {func(e *input.Error) { e.OtherKeys = nil }, false},
		"of another key":         {func(e *input.Error) { e.Key = "policy.name" }, false},
		"with a cause":           {func(e *input.Error) { e.Err = errors.New("not read") }, false},
	} {
		bad := rule
		x.change(&bad)
		if got := Infeasible(fmt.Errorf("in a file: %w", &bad)); got != x.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if Infeasible(errors.New("disk full")) {
		t.Error("what is no error of input is one of what does not fit")
	}
}

// TestDescribe: a row describes its node's layout and resources. vLLM flags appear for GPU servers only. A system without data in
// DIMMs pays for fewer of them than its configuration has.
func TestDescribe(t *testing.T) {
	for _, x := range []struct {
		sets                      []string
		parallel, replicas, ranks int
		memory, dimms             float64 // GiB, as configured and of all DIMMs
		vllm                      string
	}{
		{[]string{"run.system=gpu-only", "node.gpus=4", "model.tensor_parallel=2", "node.memory_capacity=512GiB", "batching.max_num_seqs=64", "batching.max_num_batched_tokens=1024", "gpu_only.policy=chunked-prefill"},
			2, 2, 4, 512, 256, "--tensor-parallel-size 2 --max-num-batched-tokens 1024 --max-num-seqs 64 --gpu-memory-utilization 1 --kv-cache-dtype auto --data-parallel-size 2 --no-enable-prefix-caching"},
		{[]string{"run.system=l3", "node.gpus=4", "model.tensor_parallel=4", "node.ranksets=2"}, 4, 1, 2, 2048, 2048, ""},
		{[]string{"run.system=hbm-pim", "node.gpus=4", "model.tensor_parallel=1"}, 1, 4, 4, 2048, 256, ""},
	} {
		cfg, err := kinds.Loader().Load(configs.Options{Sets: append([]string{"run.model=llama-3-8b"}, x.sets...)})
		if err != nil {
			t.Fatal(err)
		}
		row := &Row{Load: Load{Summary: &results.Summary{}}}
		row.describe(&Judge{cfg: cfg, trace: &traces.Trace{Requests: make([]traces.Request, 10)}})
		if row.TensorParallel != x.parallel || row.Replicas != x.replicas || row.Ranksets != x.ranks || float64(row.Configured) != x.memory*(1<<30) || row.MemoryGiB != x.dimms || row.Prices != cfg.Prices.Name || row.VLLM != x.vllm || row.Config != cfg {
			t.Errorf("%v: tensor parallelism %d, %d replicas, %d ranksets, %v of %v GiB, prices %s, %q", x.sets, row.TensorParallel, row.Replicas, row.Ranksets, row.MemoryGiB, float64(row.Configured)/(1<<30), row.Prices, row.VLLM)
		}
	}
}

// TestReportHolds: a report holds the load asked for if one of its rows does.
func TestReportHolds(t *testing.T) {
	holds, any := &Row{Load: Load{Met: true}, Asked: &Asked{Met: true}}, &Row{Load: Load{Met: true}}
	less, none := &Row{Load: Load{Met: true}, Asked: &Asked{}}, &Row{}
	for _, x := range []struct {
		rows []*Row
		want bool
	}{
		{nil, false}, {[]*Row{holds}, true}, {[]*Row{any}, true}, {[]*Row{less}, false}, {[]*Row{none}, false},
		{[]*Row{less, holds, none}, true}, {[]*Row{holds, less}, true}, {[]*Row{none, any}, true}, {[]*Row{less, none}, false},
	} {
		if got := (&Report{Rows: x.rows}).Holds(); got != x.want {
			t.Errorf("%d rows: %v, want %v", len(x.rows), got, x.want)
		}
	}
}

// TestCommands: each row has its command, after its number. vLLM flags follow if there are any and the row holds some rate; without a command
// nothing follows.
func TestCommands(t *testing.T) {
	row := func(command, flags string, highest float64) *Row {
		return &Row{Load: Load{System: "gpu-only", Met: highest > 0}, Called: []string{"gpu-only", "", "", ""}, Command: command, VLLM: flags, Highest: highest}
	}
	r := &Report{Rows: []*Row{row("one", "--a 1", 2), row("two", "--b 2", 0), row("", "--c 3", 2), row("four", "", 2)}}
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	if _, got, _ := strings.Cut(b.String(), "\n1: "); got != "one\n   vllm serve ... --a 1\n2: two\n4: four\n" {
		t.Errorf("%q of\n%s", got, b.String())
	}
}
