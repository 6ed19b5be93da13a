package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/results"
)

// given returns a command with the flags of runs and loads, after it has parsed a command line.
func given(t *testing.T, line string, keys ...KeyFlag) (*ConfigFlags, *cobra.Command) {
	root := &cobra.Command{Use: "tool"}
	cmd := &cobra.Command{Use: "run"}
	root.AddCommand(cmd)
	var f ConfigFlags
	f.Register(cmd, append(append(RunKeys[:len(RunKeys):len(RunKeys)], PrecisionFlag), keys...)...)
	if err := cmd.ParseFlags(strings.Fields(line)); err != nil {
		t.Fatal(err)
	}
	return &f, cmd
}

// TestGiven: the keys that the flags of a command line set, in order, or the error.
func TestGiven(t *testing.T) {
	load := LoadKeys
	for _, c := range []struct {
		line string
		keys []KeyFlag
		want string
	}{
		{"", load, ""},
		{"--seed 3 --system l3 --precision fp32", nil, "--system run.system=l3; --seed run.seed=3; --precision pim.precision.preset=fp32"},
		{"--tp 2 --kv-format fp8 --kv-bits 8 --gpu h100-sxm --gpus 4 --dram x --prices p --policy q --preset z --model m --trace t --columns c --arrivals trace", nil,
			"--preset preset=z; --model run.model=m; --tp model.tensor_parallel=2; --kv-format model.kv_format=fp8; --kv-bits model.kv_bits=8; --gpu gpu.preset=h100-sxm; " +
				"--gpus node.gpus=4; --dram dram.preset=x; --prices prices.preset=p; --policy policy.name=q; --trace run.trace=t; --columns run.columns=c; --arrivals arrivals.kind=trace"},
		// Flags that take a list accumulate; of other flags the last wins.
		{"--gpu a --model m,n --gpu b,c --model o --system s --system t --policy p --policy q", nil, "--system run.system=s,t; --model run.model=m,n,o; --gpu gpu.preset=a,b,c; --policy policy.name=p,q"},
		{"--slo ttft=1s --columns input=a --slo tbt=2ms --columns output=b", nil, "--columns run.columns=input=a,output=b; --slo slo.ttft=1s; --slo slo.tbt=2ms"},
		{"--slo ttft=1s --slo ttft=2s", nil, `error --slo = "ttft=1s,ttft=2s": expected each target once, and one percentile of a request's own gaps`},
		{"--seed 1 --gpus 2 --seed 3 --gpus 4 --rate 1 --rate 2 --precision a --precision b", nil, "--gpus node.gpus=4; --seed run.seed=3; --rate arrivals.rate_per_s=2; --precision pim.precision.preset=b"},
		{"--requests 1 --rate .5", nil, "--requests run.requests=1; --rate arrivals.rate_per_s=.5"},
		{"--requests 0", nil, "error --requests = 0: expected at least 1"},
		{"--requests x", nil, "--requests run.requests=x"}, // the key's own type refuses it
		{"--rate 0", nil, "error --rate = 0: expected more than 0; without --rate requests come at the times of the trace, or all at once"},
		{"--rate 0.0", load, "error --rate = 0.0: expected more than 0; without --rate the highest rate is searched"},
		{"--seed 0", nil, "--seed run.seed=0"},
		{"--slo ttft=1s,tbt.p90=2ms --seed 1", nil, "--seed run.seed=1; --slo slo.ttft=1s; --slo slo.tbt_percentile=90; --slo slo.tbt=2ms"},
		{"--slo x", nil, `error --slo = "x": expected NAME=TIME of ttft, tbt, tpot, e2e, each with .p50, .p90, .p95 or .p99, such as ttft=2s,tbt.p90=100ms,tbt.p99.tokens=200ms`},
		{"--isl 4000 --osl 501", load, "--isl run.trace=synthetic; --isl traces.input_mean=4000; --isl traces.input_std=2000; --osl traces.output_mean=501; --osl traces.output_std=250.5"},
		{"--isl 4000 --osl 1 --set traces.input_std=7 --set traces.input=1", load, "--isl run.trace=synthetic; --isl traces.input_mean=4000; --osl traces.output_mean=1; --osl traces.output_std=0.5"},
		{"--isl 4000", load, "error --isl: expected both --isl and --osl, the mean tokens of prompts and answers, such as --isl 4000 --osl 500"},
		{"--osl 4000", load, "error --isl: expected both --isl and --osl, the mean tokens of prompts and answers, such as --isl 4000 --osl 500"},
		{"--isl 40 --osl 5 --trace t", load, "error --isl = 40: expected no --trace, which has the lengths of its requests"},
		{"--isl .9 --osl 5", load, "error --isl = .9: expected tokens, at least 1"},
		{"--isl 9 --osl NaN", load, "error --osl = NaN: expected tokens, at least 1"},
		{"--users 8", load, "--users arrivals.kind=closed-loop; --users arrivals.users=8"},
		{"--users 8 --rate 2", load, "error --users = 8: expected no --rate: users send a request when they have the answer to the last"},
		{"--config= --seed 1", nil, `error --config = "": expected a name`},
		{"--config a --config=", nil, `error --config = "": expected a name`},
	} {
		f, cmd := given(t, c.line, c.keys...)
		o, err := f.Given(cmd)
		var got []string
		for _, k := range o.Flags {
			got = append(got, k.Name+" "+k.Key+"="+k.Value)
		}
		text := strings.Join(got, "; ")
		if err != nil {
			text = "error " + err.Error()
		}
		if text != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.line, text, c.want)
		}
	}
}

// TestLoad: the configuration of a command line; an error about a key names the flag, --set or the file that set it.
func TestLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.toml")
	if err := os.WriteFile(file, []byte("[run]\nseed = 5\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	f, cmd := given(t, "--requests 7 --set batching.max_num_seqs=3 --config "+file)
	if err := errors.New("x"); f.Locate(err) != err {
		t.Error("an error has a place before anything is loaded")
	}
	cfg, err := f.Load(cmd)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Run.Requests != 7 || cfg.Run.Seed != 5 {
		t.Errorf("requests %d, seed %d; want 7 and 5", cfg.Run.Requests, cfg.Run.Seed)
	}
	for key, want := range map[string]string{"run.requests": "--requests: run.requests: expected x", "run.seed": file + ":2: run.seed: expected x", "batching.max_num_seqs": "--set: batching.max_num_seqs: expected x"} {
		if got := fmt.Sprint(f.Locate(&input.Error{Key: key, Expected: "x"})); got != want {
			t.Errorf("%s: located as %q, want %q", key, got, want)
		}
	}
	f, cmd = given(t, "--requests 0")
	if _, err := f.Load(cmd); err == nil || err.Error() != "--requests = 0: expected at least 1" {
		t.Errorf("got %v", err)
	}
}

// TestCommand: the command line for another command repeats the user's, with new values of some keys, quoted for a shell.
func TestCommand(t *testing.T) {
	f, cmd := given(t, "--seed 3 --model a,b --trace it's.csv --set x.y=1;2 --config a.toml --config b.toml", RunKeys[2])
	want := `tool serve --model c --trace 'it'\''s.csv' --seed 3 --config a.toml --config b.toml --set 'x.y=1;2' --set run.seed=4 --set ''`
	if got := f.Command(cmd, "serve", map[string]string{"run.model": "c", "run.system": "l3"}, []string{"run.seed=4", ""}); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for word, want := range map[string]string{"": "''", "aé9-_./=,:+@%": "aé9-_./=,:+@%", "a b": "'a b'", "a$": "'a$'", "*": "'*'", "'": `''\'''`} {
		if got := quoted(word); got != want {
			t.Errorf("%q is quoted %s, want %s", word, got, want)
		}
	}
}

// TestFlagsOfKeys: a flag of a key has the key's type, default and help.
func TestFlagsOfKeys(t *testing.T) {
	_, cmd := given(t, "", LoadKeys...)
	for flag, want := range map[string]string{"seed": "uint ", "gpus": "int ", "model": "string ", "precision": "string paper", "rate": "float ", "slo": "string ", "preset": "string ", "config": "stringArray []", "set": "stringArray []"} {
		f := cmd.Flags().Lookup(flag)
		if f == nil || f.Value.Type()+" "+f.DefValue != want {
			t.Errorf("--%s: got %+v, want %s", flag, f, want)
		}
	}
	for key, want := range map[string]string{"gpu.memory_capacity": "bytes", "slo.ttft": "duration", "no.key": "string", "scheduler.chunking": "bool"} {
		if got := KindOf(key); got != want {
			t.Errorf("the kind of %s is %s, want %s", key, got, want)
		}
	}
	var undescribed []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Usage == "" {
			undescribed = append(undescribed, f.Name)
		}
	})
	if len(undescribed) != 0 {
		t.Errorf("flags without help: %v", undescribed)
	}
	k := Key("flag", "key", "standard", "usage")
	if k.flag != "flag" || k.key != "key" || k.standard != "standard" || k.usage != "usage" {
		t.Errorf("got %+v", k)
	}
}

// TestFlagRules: rules of commands on their flags.
func TestFlagRules(t *testing.T) {
	cmd := &cobra.Command{}
	cmd.Flags().String("a", "", "")
	cmd.Flags().String("b", "", "")
	cmd.Flags().String("c", "", "")
	if err := cmd.ParseFlags([]string{"--a=x", "--b="}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{Exclusive(cmd, "a", "b"), "--a: expected no --b with it"},
		{Exclusive(cmd, "a", "c"), "<nil>"},
		{Exclusive(cmd, "c", "a"), "<nil>"},
		{NotEmpty(cmd, "a", "b"), `--b = "": expected a name`},
		{NotEmpty(cmd, "a", "c"), "<nil>"},
		{RequireFlag(cmd, "a", "some"), "<nil>"},
		{RequireFlag(cmd, "c", "some"), "--c: expected some"},
		{FlagName(&input.Error{Key: "k", Expected: "e"}, "--f"), "--f: expected e"},
		{Between("--n", 0, 1, 3), "--n = 0: expected 1 to 3"},
		{Between("--n", 1, 1, 3), "<nil>"},
		{Between("--n", 3, 1, 3), "<nil>"},
		{Between("--n", 4, 1, 3), "--n = 4: expected 1 to 3"},
		{OutError("d", nil), "<nil>"},
		{OutError("d", errors.New("full")), "--out d: full"},
		{KnownSuite(""), "<nil>"},
		{KnownSuite("server"), "<nil>"},
		{KnownSuite("pytorch"), "<nil>"},
		{KnownSuite("servr"), `--suite = "servr": expected one of pytorch, server; did you mean "server"?`},
	} {
		if got := fmt.Sprint(c.err); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

// TestGPUFlags: --gpu must be given; --suite replaces the attention kernels of a copy; without a file's own link, the generation's is taken.
func TestGPUFlags(t *testing.T) {
	load := func(line string) (*gpu.Spec, float64, error) {
		var f GPUFlags
		cmd := &cobra.Command{}
		f.Register(&App{}, cmd.Flags())
		if err := cmd.ParseFlags(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
		g, link, err := f.Load(cmd)
		if err != nil {
			return nil, 0, err
		}
		return g, float64(link.Bandwidth()), nil
	}
	for line, want := range map[string]string{
		"":                                  "--gpu: expected a file or one of a100-paper, ",
		"--gpu no-such":                     `--gpu = "no-such": expected`,
		"--gpu a100-sxm-80gb --suite other": `--suite = "other": expected one of pytorch, server`,
	} {
		if _, _, err := load(line); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", line, err, want)
		}
	}
	own, ampere, err := load("--gpu a100-sxm-80gb")
	if err != nil {
		t.Fatal(err)
	}
	torch, hopper, err := load("--gpu h100-sxm --suite pytorch")
	if err != nil {
		t.Fatal(err)
	}
	if again, _, err := load("--gpu h100-sxm"); err != nil || again.Suite != gpu.SuiteServer || torch.Suite != gpu.SuitePyTorch || own.Name == torch.Name {
		t.Errorf("suites: %v %v %v, %v", own.Suite, torch.Suite, again.Suite, err)
	}
	if hopper <= ampere {
		t.Errorf("links of generation 5 and 4: %v and %v B/s", hopper, ampere)
	}
}

// TestOutputsOfAFlag: outputs must not be folders or the input; a folder is created and checked.
func TestOutputsOfAFlag(t *testing.T) {
	dir := t.TempDir()
	file, inner := filepath.Join(dir, "f"), filepath.Join(dir, "d", "e")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	say := func(format string, args ...any) string { return fmt.Sprintf(format, args...) }
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{Present(file, input.Stdin, dir), "<nil>"},
		{Present(file, inner, dir), inner + ": no such file or directory"},
		{CheckOutputs("--out", []string{"", inner}, file), "<nil>"},
		{CheckOutputs("--out", []string{inner, dir}, file), say("--out = %s: expected a file, not a folder", dir)},
		{CheckOutputs("--out", []string{inner, link}, file), say("--out = %s: expected another file than the one that is read", link)},
		{CheckOutputs("--out", []string{file}, input.Stdin), "<nil>"},
		{CheckOutputs("--out", []string{file}, inner), inner + ": no such file or directory"},
		{WritableFile("--to", ""), "<nil>"},
		{WritableFile("--to", file), "<nil>"},
		{WritableFile("--to", os.DevNull), "<nil>"},
		{WritableFile("--to", dir), say("--to = %s: expected a file, not a folder", dir)},
		{WritableFile("--to", inner), say("--to = %s: no such file or directory; expected a folder that can be written to", filepath.Dir(inner))},
		{WritableFile("--to", filepath.Join(file, "x")), say("--to = %s: not a directory; expected a folder that can be written to", file)},
		{WritableFolder("--to", ""), "<nil>"},
		{Creatable(inner), "<nil>"},
		{Creatable(filepath.Join(file, "x")), say("--out = %s: not a directory; expected a folder that can be written to", filepath.Join(file, "x"))},
		{FolderError("--out", "a", &fs.PathError{Op: "open", Path: "a", Err: syscall.ENOSPC}), "--out a: open a: no space left on device"},
		{WriteFiles("--out", inner, []results.File{{Name: "x.csv", Write: func(io.Writer) error { return nil }}}), "<nil>"},
	} {
		if got := fmt.Sprint(c.err); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
	if names, err := os.ReadDir(inner); err != nil || len(names) != 1 {
		t.Errorf("the folder has %v, %v", names, err)
	}
}

// TestWritableFolder: a folder is tested with a file in it, not with one in the folder for temporary files.
func TestWritableFolder(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", filepath.Join(dir, "none"))
	if err := WritableFolder("--to", filepath.Join(dir, "d")); err != nil {
		t.Error(err)
	}
}

// TestProgressOf: the first call starts the display with its total; the current activity follows the counts; some texts are
// shown on terminals only.
func TestProgressOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out lockedBuffer
		p := (&App{Stderr: &out, name: "tool"}).NewProgress("steps")
		p.Of(1, 4)
		p.Now("three")
		time.Sleep(lineInterval)
		synctest.Wait()
		p.Of(2, 9)
		time.Sleep(2 * lineInterval)
		synctest.Wait()
		p.Done()
		if want := "tool: 1/4 steps (25%), 5s, about 15s left; three\ntool: 2/4 steps (50%), 15s, about 15s left; three\n"; out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}
		out.b.Reset()
		q := (&App{Stderr: &out}).ProgressOnTerminal("steps")
		q.Start(3)
		time.Sleep(lineLongest)
		q.Done()
		if out.String() != "" {
			t.Errorf("no terminal, but wrote %q", out.String())
		}
		bar := &Progress{total: 4, start: time.Now()}
		bar.Set(1)
		time.Sleep(10 * time.Second)
		if got := bar.what(decor.Statistics{}); got != " 30s left" {
			t.Errorf("the bar says %q", got)
		}
		bar.Now("x")
		bar.Set(4)
		if got := bar.what(decor.Statistics{}); got != " x" {
			t.Errorf("the bar says %q", got)
		}
	})
}

// TestNoArguments: an empty command line does not take the process's own arguments.
func TestNoArguments(t *testing.T) {
	var out, complain bytes.Buffer
	if code := program(nil).Run(context.Background(), nil, &out, &complain); code != OK || !strings.HasPrefix(out.String(), "A tool\n") {
		t.Errorf("exit code %d, printed %q, %q", code, out.String(), complain.String())
	}
}

// TestListsInParts: a flag that takes a list takes it at once or in parts, and has a default.
func TestListsInParts(t *testing.T) {
	for line, want := range map[string]string{"": "a,b", "--names x": "x", "--names x,y --names z": "x,y,z", "-n x -n ": "x,", "--names x -n y --names z": "x,y,z"} {
		var names string
		flags := pflag.NewFlagSet("tool", pflag.ContinueOnError)
		ListVar(flags, &names, "names", "n", "a,b", "`names` of things")
		if f := flags.Lookup("names"); names != "a,b" || f.DefValue != "a,b" || f.Value.Type() != "string" || f.Shorthand != "n" || f.Usage != "`names` of things" {
			t.Fatalf("%+v, names %q", f, names)
		}
		if err := flags.Parse(strings.Split(line, " ")); err != nil || names != want || flags.Lookup("names").Value.String() != want {
			t.Errorf("%q: %q, want %q; %v", line, names, want, err)
		}
	}
}
