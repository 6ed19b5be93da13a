package l3sim_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim"
	"github.com/l3sim/l3sim/system"
)

// load returns a small configuration with some keys set.
func load(t *testing.T, ld *l3sim.Loader, sets ...string) *l3sim.Config {
	t.Helper()
	cfg, err := ld.Load(l3sim.Options{Sets: append([]string{"run.system=gpu-only", "run.model=llama-3-8b", "run.trace=longbench", "run.requests=3"}, sets...)})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// written writes a file and returns its path.
func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// extended returns a loader that knows gpu-only by a second name, vllm, too.
func extended(t *testing.T) *l3sim.Loader {
	t.Helper()
	again := *system.Systems(l3sim.Builtin())[1]
	again.Name, again.Others, again.Section, again.Zero, again.Defaults = "vllm", nil, "", nil, ""
	ld, err := l3sim.Extend(l3sim.Extension{Systems: []l3sim.System{again}})
	if err != nil {
		t.Fatal(err)
	}
	return ld
}

// TestBadInput: what is wrong with an argument is an Error that names it.
func TestBadInput(t *testing.T) {
	ctx, cfg := t.Context(), load(t, l3sim.Builtin())
	none := load(t, l3sim.Builtin())
	none.Run.Trace = "nowhere.csv"
	head := make([]float32, cfg.Model.HeadDim)
	rows := make([]float32, 3*len(head))
	verify := func(q, k, v []float32) func() error {
		return func() error { _, err := l3sim.VerifyHead(ctx, cfg, q, k, v); return err }
	}
	for want, call := range map[string]func() error{
		`--set: run.system = "l2": expected one of`: func() error { _, err := l3sim.Load(l3sim.Options{Sets: []string{"run.system=l2"}}); return err },
		`run.trace = "nowhere.csv"`:                 func() error { _, err := l3sim.LoadTrace(none); return err },
		`run.trace = "nowhere.csv": `:               func() error { _, err := l3sim.Run(ctx, none); return err },
		`run.trace = "nowhere.csv": no such`:        func() error { _, err := l3sim.Compare(ctx, cfg, none); return err },
		"configuration: expected":                   func() error { _, err := l3sim.NewNode(&l3sim.Config{}); return err },
		`missing.toml: `: func() error {
			_, err := l3sim.Sweep(ctx, l3sim.Builtin(), "missing.toml", l3sim.SweepOptions{})
			return err
		},
		`ddr9`:                   func() error { _, err := l3sim.NewDRAM("ddr9", 1, 1); return err },
		`channels = 0: expected`: func() error { _, err := l3sim.NewDRAM("ddr4-3200-8gb-x8", 0, 1); return err },
		`missing.trace: `:        func() error { _, err := l3sim.ReadAccesses("missing.trace"); return err },
		`head.q = 0 elements: expected rows of 128`: verify(nil, rows, rows),
		`head.q = 127 elements`:                     verify(head[1:], rows, rows),
		`head.k = 0 elements`:                       verify(head, nil, nil),
		`head.k = 383 elements`:                     verify(head, rows[1:], rows),
		`head.v = 256 elements: expected rows of 128 elements, as many in v as in k`: verify(head, rows, rows[128:]),
		`head.v = 512 elements`:         verify(head, rows, append(slices.Clone(rows), head...)),
		`head.v = NaN: expected finite`: verify(head, rows, append([]float32{float32(math.NaN())}, rows[1:]...)),
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, new(*l3sim.Error)) {
			t.Errorf("got %T: %v, want %s", err, err, want)
		}
	}
}

// TestRunIsTheNodesRun: Run and Compare give the summary of the node's own run of the same requests.
func TestRunIsTheNodesRun(t *testing.T) {
	ld := extended(t)
	cfgs := []*l3sim.Config{load(t, ld), load(t, ld, "run.system=vllm"), load(t, ld, "run.seed=2")}
	all, err := l3sim.Compare(t.Context(), cfgs...)
	if err != nil {
		t.Fatal(err)
	}
	for i, cfg := range cfgs {
		trace, err := l3sim.LoadTrace(cfg)
		if err != nil {
			t.Fatal(err)
		}
		node, err := l3sim.NewNode(cfg)
		if err != nil {
			t.Fatal(err)
		}
		r, err := node.Run(t.Context(), trace, l3sim.RunOptions{Check: true})
		if err != nil {
			t.Fatal(err)
		}
		want, err := r.Summary(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if one, err := l3sim.Run(t.Context(), cfg); err != nil || one.OutputTokensPerS != want.OutputTokensPerS || all[i].OutputTokensPerS != want.OutputTokensPerS || all[i].System != cfg.Run.System {
			t.Errorf("%v, %+v and %+v, want %+v", err, one, all[i], want)
		}
	}
	if all[0].OutputTokensPerS != all[1].OutputTokensPerS || all[0].OutputTokensPerS == all[2].OutputTokensPerS {
		t.Errorf("got %v, %v, %v tokens/s", all[0].OutputTokensPerS, all[1].OutputTokensPerS, all[2].OutputTokensPerS)
	}
}

// TestSweepFolder: a sweep over a system that a caller added, in memory and in a folder, which a second sweep reads; a
// point that cannot run is a row; the loader of what ships does not know the system.
func TestSweepFolder(t *testing.T) {
	file := written(t, "s.toml", "[set]\nrun.model = \"llama-3-8b\"\nrun.trace = \"longbench\"\nrun.requests = 3\n[grid]\nrun.system = [\"gpu-only\", \"vllm\", \"cpu-offload\"]\npolicy.name = [\"dense\", \"streaming\"]\n")
	ld, folder := extended(t), filepath.Join(t.TempDir(), "out")
	var tables []*l3sim.Table
	for _, o := range []l3sim.SweepOptions{{Workers: 1}, {Folder: folder}, {Folder: folder}} {
		points := int64(0)
		o.Progress = func(_, of int64) { points = of }
		table, err := l3sim.Sweep(t.Context(), ld, file, o)
		if err != nil || points != 6 {
			t.Fatalf("%d points: %v", points, err)
		}
		tables = append(tables, table)
	}
	rate, _ := tables[0].Column("", "output_tokens_per_s")
	status, _ := tables[0].Column("", "status")
	wall, _ := tables[0].Column("", "wall_s")
	for row, want := range []string{"done", "done", "done", "done", "done", "failed"} {
		if got := tables[0].Rows[row]; got[status].String() != want || got[rate].Empty() != (want == "failed") || row < 4 && got[rate] != tables[0].Rows[row%2][rate] {
			t.Errorf("row %d: %v", row, got)
		}
		if !slices.Equal(tables[1].Rows[row], tables[2].Rows[row]) { // with the wall time of the journal
			t.Errorf("%v again %v", tables[1].Rows[row], tables[2].Rows[row])
		}
		if a, b := slices.Clone(tables[0].Rows[row]), slices.Clone(tables[1].Rows[row]); !slices.Equal(slices.Delete(a, wall, wall+1), slices.Delete(b, wall, wall+1)) {
			t.Errorf("%v in a folder %v", a, b)
		}
	}
	if _, err := os.Stat(filepath.Join(folder, "results.csv")); err != nil {
		t.Error(err)
	}
	if _, err := l3sim.Sweep(t.Context(), l3sim.Builtin(), file, l3sim.SweepOptions{}); err == nil || !strings.Contains(err.Error(), `run.system = "vllm": expected one of`) {
		t.Errorf("got %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l3sim.Sweep(ended, ld, file, l3sim.SweepOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestVerifyHeadOfAGroup: the query heads of a group attend to one head of keys and values, each with a result of its own.
func TestVerifyHeadOfAGroup(t *testing.T) {
	cfg := load(t, l3sim.Builtin())
	d := cfg.Model.HeadDim
	keys, vals := make([]float32, 40*d), make([]float32, 40*d)
	for i := range keys {
		keys[i], vals[i] = float32(math.Sin(float64(i))), float32(math.Cos(float64(3*i)))
	}
	r, err := l3sim.VerifyHead(t.Context(), cfg, keys[5*d:9*d], keys, vals)
	if err != nil || !r.Pass || r.Heads != 4 || r.KVHeads != 1 || r.Keys != 40 || r.RelativeL2 > 2e-3 || r.LSEMaxAbs > 1e-2 {
		t.Errorf("got %+v, %v", r, err)
	}
}

// TestReadAccesses reads a file, and a write in it is one.
func TestReadAccesses(t *testing.T) {
	accesses, err := l3sim.ReadAccesses(written(t, "a.trace", "LD 0x1f40\nST 64\n"))
	if err != nil || len(accesses) != 2 || accesses[0].Address != 0x1f40 || accesses[0].Write || !accesses[1].Write {
		t.Errorf("got %+v, %v", accesses, err)
	}
}
