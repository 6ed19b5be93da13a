package l3sim_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/l3sim/l3sim"
	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/check"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
	"github.com/l3sim/l3sim/pim/tables"
	"github.com/l3sim/l3sim/pim/values"
	rows "github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

// small returns a configuration that runs in milliseconds.
func small(t *testing.T, sets ...string) *l3sim.Config {
	t.Helper()
	cfg, err := l3sim.Load(l3sim.Options{Sets: append([]string{"run.model=llama-2-7b", "model.layers=1", "run.trace=synthetic", "run.requests=2", "traces.max_tokens=64", "traces.input_mean=20", "traces.output_mean=4", "traces.input_std=2", "traces.output_std=1"}, sets...)})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// misuse is a call with what a program must not give, and what the message must have.
type misuse struct {
	name, want string
	call       func() error
}

// ofOne drops a result.
func ofOne[T any](_ T, err error) error { return err }

// TestMisuse: nil, and values of types that no function returned, are an *Error and no panic wherever a function of the
// module can say so.
func TestMisuse(t *testing.T) {
	ctx := t.Context()
	good := small(t)
	node, err := l3sim.NewNode(good)
	if err != nil {
		t.Fatal(err)
	}
	trace := &l3sim.Trace{Requests: []l3sim.Request{{Input: 8, Output: 2}}}
	changed := small(t)
	changed.GPU.MemoryBandwidth = 0
	part := &good.DRAM.Spec
	head := good.HeadShape()
	row := make([]float32, good.Model.HeadDim)
	const loader, made, node0 = "loader: expected", "configuration: expected", "node: expected"
	for _, m := range []misuse{
		{"Load by nil", loader, func() error { return ofOne((*l3sim.Loader)(nil).Load(l3sim.Options{})) }},
		{"Load by zero", loader, func() error { return ofOne(new(l3sim.Loader).Load(l3sim.Options{})) }},
		{"Explain", loader, func() error { return ofOne(new(l3sim.Loader).Explain(l3sim.Options{}, "node.gpus")) }},
		{"Find", loader, func() error { return ofOne(new(l3sim.Loader).Find(l3sim.Options{}, "gpus")) }},
		{"Variants", loader, func() error { return ofOne(new(l3sim.Loader).Variants(l3sim.Options{})) }},
		{"Sweep by nil", loader, func() error { return ofOne(l3sim.Sweep(ctx, nil, "examples/context.toml", l3sim.SweepOptions{})) }},
		{"Sweep of nothing", "no such file", func() error { return ofOne(l3sim.Sweep(ctx, l3sim.Builtin(), "", l3sim.SweepOptions{})) }},
		{"Extend by zero policy", "policy", func() error { return ofOne(l3sim.Extend(l3sim.Extension{Policies: make([]l3sim.Policy, 1)})) }},
		{"Extend by zero system", "system", func() error { return ofOne(l3sim.Extend(l3sim.Extension{Systems: make([]l3sim.System, 1)})) }},
		{"Measure of zero", "hardware", func() error { return ofOne(new(l3sim.System).Measure(nil)) }},

		{"Run of nil", made, func() error { return ofOne(l3sim.Run(ctx, nil)) }},
		{"Run of zero", made, func() error { return ofOne(l3sim.Run(ctx, &l3sim.Config{})) }},
		{"Run of a changed one", "gpu.memory_bandwidth", func() error { return ofOne(l3sim.Run(ctx, changed)) }},
		{"Compare", made, func() error { return ofOne(l3sim.Compare(ctx, good, nil)) }},
		{"LoadTrace", made, func() error { return ofOne(l3sim.LoadTrace(&l3sim.Config{})) }},
		{"TraceMoments", made, func() error { return ofOne(system.TraceMoments(nil)) }},
		{"NewNode", made, func() error { return ofOne(l3sim.NewNode(&l3sim.Config{})) }},
		{"TimeHead", made, func() error { return ofOne(l3sim.TimeHead(&l3sim.Config{})) }},
		{"TimeHead of a changed one", "gpu.memory_bandwidth", func() error { return ofOne(l3sim.TimeHead(changed)) }},
		{"VerifyHead", made, func() error { return ofOne(l3sim.VerifyHead(ctx, nil, row, row, row)) }},
		{"VerifyHead of nothing", "head.q = 0 elements", func() error { return ofOne(l3sim.VerifyHead(ctx, good, nil, nil, nil)) }},
		{"VerifyHead of unlike rows", "head.v", func() error { return ofOne(l3sim.VerifyHead(ctx, good, row, row, row[1:])) }},
		{"Set", made, func() error { return new(l3sim.Config).Set("node.gpus", "1") }},
		{"WriteTOML", made, func() error { return (*l3sim.Config)(nil).WriteTOML(io.Discard) }},
		{"SHA256", made, func() error { return ofOne(new(l3sim.Config).SHA256()) }},

		{"Node.Run of nil", node0, func() error { return ofOne((*l3sim.Node)(nil).Run(ctx, trace, l3sim.RunOptions{})) }},
		{"Node.Run of zero", node0, func() error { return ofOne(new(l3sim.Node).Run(ctx, trace, l3sim.RunOptions{})) }},
		{"Profile of zero", node0, func() error { return ofOne(new(l3sim.Node).Profile(ctx, trace, 1)) }},
		{"Profile of nil", "trace = nil", func() error { return ofOne(node.Profile(ctx, nil, 1)) }},
		{"Summary of zero", "result: expected", func() error { return ofOne(new(l3sim.Result).Summary(good)) }},
		{"Summary of nil", "result: expected", func() error { return ofOne((*l3sim.Result)(nil).Summary(good)) }},
		{"WriteText", "summary = nil", func() error { return (*l3sim.Summary)(nil).WriteText(io.Discard) }},
		{"WriteJSON", "summary = nil", func() error { return (*l3sim.Summary)(nil).WriteJSON(io.Discard) }},

		{"Arrive", "trace = nil", func() error { return ofOne((*l3sim.Trace)(nil).Arrive(good.Arrivals, 1)) }},
		{"Redraw", "trace = nil", func() error { return ofOne((*l3sim.Trace)(nil).Redraw(1, 1)) }},
		{"Sample", "trace = nil", func() error { return ofOne((*l3sim.Trace)(nil).Sample(1, 1)) }},
		{"Write", "trace = nil", func() error { return (*l3sim.Trace)(nil).Write(io.Discard, "csv") }},
		{"Sample of too many", "requests = 2", func() error { return ofOne(trace.Sample(2, 1)) }},

		{"NewDRAM of nothing", "spec = \"\"", func() error { return ofOne(l3sim.NewDRAM("", 1, 1)) }},
		{"NewDRAM without channels", "channels = 0", func() error { return ofOne(l3sim.NewDRAM("ddr4-3200-8gb-x8", 0, 1)) }},
		{"NewDRAM of too many ranks", "ranks = 1000000", func() error { return ofOne(l3sim.NewDRAM("ddr4-3200-8gb-x8", 1, 1000000)) }},
		{"ReadAccesses", "no such file", func() error { return ofOne(l3sim.ReadAccesses("")) }},
		{"Replay on nil", "controller.Setup = nil", func() error { return ofOne(l3sim.Replay(ctx, nil, nil)) }},
		{"Replay on zero", "policy = nil", func() error { return ofOne(l3sim.Replay(ctx, &l3sim.DRAM{}, nil)) }},
		{"Set of DRAM", "policy = nil", func() error { return new(l3sim.DRAM).Set("page", "open") }},
		{"Mapping of DRAM", "policy = nil", func() error { return ofOne(new(l3sim.DRAM).Mapping()) }},
		{"Replay backwards", "request 1: clock = 4", func() error { return replay(ctx, l3sim.Access{Clock: 5}, l3sim.Access{Clock: 4}) }},
		{"Replay before 0", "request 0: clock = -1", func() error { return replay(ctx, l3sim.Access{Clock: -1}) }},
		{"Replay at the end of time", "request 0: clock", func() error { return replay(ctx, l3sim.Access{Clock: 1<<63 - 1}) }},
		{"Log of nil", "log: expected", func() error { return ofOne(check.Log(nil, part, 1)) }},
		{"CheckCommands", "part = nil", func() error { return pim.CheckCommands(nil) }},
		{"NewExchange", "part = nil", func() error { return ofOne(pim.NewExchange(16, nil)) }},
		{"Rearranges", "part = nil", func() error { return ofOne(pim.Rearranges(16, nil)) }},
		{"NewGeometry", "part = nil", func() error { return ofOne(pim.NewGeometry(nil, head)) }},
		{"NewMachine", "pim.Spec = nil", func() error { return ofOne(machine.NewMachine(nil, part)) }},
		{"NewRunner", "dram.Spec = nil", func() error { return ofOne(machine.NewRunner(&good.PIM, nil, head)) }},
		{"NewRunner of no shape", "head_dim = 0", func() error {
			return ofOne(machine.NewRunner(&good.PIM, part, pim.HeadShape{ElementBits: 16, KVBits: 16, Queries: 1}))
		}},
		{"NewKernelTable", "pim.Spec = nil", func() error { return ofOne(tables.NewKernelTable(nil, part, head)) }},
		{"Verify of nil", "case: expected", func() error { return ofOne(values.Verify(ctx, &good.PIM, part, nil)) }},
		{"Verify of zero", "case: expected", func() error { return ofOne(values.Verify(ctx, &good.PIM, part, &values.VerifyCase{})) }},
		{"Verify without a part", "dram.Spec = nil", func() error { return ofOne(values.Verify(ctx, &good.PIM, nil, &values.VerifyCase{})) }},

		{"WriteCSV", "table = nil", func() error { return (*l3sim.Table)(nil).WriteCSV(io.Discard) }},
		{"WriteParquet", "table = nil", func() error { return (*l3sim.Table)(nil).WriteParquet(io.Discard, nil) }},
		{"WriteMarkdown", "table = nil", func() error { return (*l3sim.Table)(nil).WriteMarkdown(io.Discard) }},
		{"Column", "table = nil", func() error { return ofOne((*l3sim.Table)(nil).Column("", "x")) }},
		{"Choose", "table = nil", func() error { return ofOne((*l3sim.Table)(nil).Choose("", nil)) }},
		{"Where", "table = nil", func() error { return ofOne((*l3sim.Table)(nil).Where("", []string{"a=1"})) }},
		{"Rank", "table = nil", func() error { return ofOne((*l3sim.Table)(nil).Rank("", "a", "")) }},
		{"tables.Compare", "table = nil", func() error { return ofOne(rows.Compare(nil, nil)) }},
		{"Explore", "table = nil", func() error { return ofOne(rows.Explore(nil, nil)) }},
	} {
		err := m.call()
		if err == nil || !strings.Contains(err.Error(), m.want) || !errors.As(err, new(*l3sim.Error)) && !errors.Is(err, os.ErrNotExist) && !strings.HasPrefix(m.name, "Extend") {
			t.Errorf("%s: got %v, want an *Error with %q", m.name, err, m.want)
		}
	}
	if n := new(l3sim.Node); n.Replicas() != 0 || n.FreeGPUMemory() != 0 || n.Hardware(traces.Moments{}).GPUs != 0 || len(new(l3sim.Result).OverTime(n, 0).Rows) != 0 {
		t.Error("a zero node has replicas")
	}
	if _, ok := new(l3sim.Table).Float(3, "x"); ok {
		t.Error("a number of an empty table")
	}
	if err := (&rows.Exploration{}).WriteText(io.Discard); err != nil {
		t.Error(err)
	}
	if err := new(l3sim.Summary).WriteJSON(io.Discard); err != nil {
		t.Error(err)
	}
}

func replay(ctx context.Context, accesses ...l3sim.Access) error {
	d, err := l3sim.NewDRAM("ddr4-3200-8gb-x8", 2, 1)
	if err != nil {
		return err
	}
	return ofOne(l3sim.Replay(ctx, d, accesses))
}

// TestEnded: what takes a context returns the error of one that has ended, also where it has next to nothing to do, and an *Error
// for one that is nil.
func TestEnded(t *testing.T) {
	cfg := small(t)
	node, err := l3sim.NewNode(cfg)
	if err != nil {
		t.Fatal(err)
	}
	trace := &l3sim.Trace{Requests: []l3sim.Request{{Input: 8, Output: 2}}}
	row := make([]float32, cfg.Model.HeadDim)
	folder := t.TempDir() + "/out"
	part, err := dram.LookupSpec("ddr4-3200-8gb-x8")
	if err != nil {
		t.Fatal(err)
	}
	verified, err := values.NewVerifyCase("head", len(row), len(row), row, row, row)
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]func(ctx context.Context) error{
		"Run":             func(ctx context.Context) error { return ofOne(l3sim.Run(ctx, cfg)) },
		"Compare":         func(ctx context.Context) error { return ofOne(l3sim.Compare(ctx, cfg)) },
		"Compare nothing": func(ctx context.Context) error { return ofOne(l3sim.Compare(ctx)) },
		"Node.Run":        func(ctx context.Context) error { return ofOne(node.Run(ctx, trace, l3sim.RunOptions{})) },
		"Node.Profile":    func(ctx context.Context) error { return ofOne(node.Profile(ctx, trace, 1)) },
		"Sweep": func(ctx context.Context) error {
			return ofOne(l3sim.Sweep(ctx, l3sim.Builtin(), "examples/context.toml", l3sim.SweepOptions{Folder: folder}))
		},
		"Replay":        func(ctx context.Context) error { return replay(ctx, l3sim.Access{}) },
		"VerifyHead":    func(ctx context.Context) error { return ofOne(l3sim.VerifyHead(ctx, cfg, row, row, row)) },
		"values.Verify": func(ctx context.Context) error { return ofOne(values.Verify(ctx, &cfg.PIM, part, verified)) },
	} {
		if err := call(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want %v", name, err, context.Canceled)
		}
		if err := call(nil); !errors.As(err, new(*l3sim.Error)) || !strings.Contains(err.Error(), "context = nil") {
			t.Errorf("%s: got %v for a nil context", name, err)
		}
		if name == "Sweep" {
			continue // takes seconds
		}
		if err := call(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
