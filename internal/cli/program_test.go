package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/input"
)

// program is a program of a few commands; its run ends with fault.
func program(fault error) *Program {
	return &Program{
		Name: "tool", Short: "A tool",
		Moved: map[string]string{"old": "'tool run'", "parts old": "'tool parts list'", "run --past": "--count"},
		Commands: func(a *App, root *cobra.Command) {
			run := &cobra.Command{
				Use: "run FILE...", Short: "Run files", Args: cobra.MinimumNArgs(1), Example: "tool run\ntool run a.csv --count 2\ntool run b.csv",
				RunE: func(cmd *cobra.Command, args []string) error {
					a.Note("files: %d", len(args))
					a.NoteOnce("one\x1b")
					a.NoteOnce("two")
					a.NoteOnce("one\x1b")
					if err := a.Print(args, func(w io.Writer) error { _, err := fmt.Fprintln(w, "text of", args); return err }); err != nil {
						return err
					}
					return fault
				},
				SuggestFor: []string{"exec", "go"}, Annotations: map[string]string{InsteadOf + "exec": "run --count"},
			}
			run.Flags().Int("count", 1, "`number` of runs")
			run.Flags().Uint("seed", 1, "")
			run.Flags().Float64("rate", 1, "")
			run.Flags().Bool("fast", false, "")
			run.Flags().StringArray("config", nil, "a `file`")
			run.Flags().BoolVar(&a.JSON, "json", false, JSONUsage)
			run.Flags().Duration("after", 0, "")
			list := &cobra.Command{Use: "list", Short: "List parts", RunE: func(*cobra.Command, []string) error {
				return a.PrintAligned(nil, 0, func(w io.Writer) { fmt.Fprint(w, "a\tb\nlong\tc\n") })
			}}
			list.Flags().Bool("json", false, JSONUsage)
			AddGroup(root, "Work", run, NewGroup("parts", "About parts", list))
			AddGroup(root, "Other", a.NewVersionCommand())
		},
	}
}

// TestProgram: what a command line prints on standard output and standard error, and its exit code.
func TestProgram(t *testing.T) {
	for _, c := range []struct {
		line          string
		fault         error
		code          int
		out, complain string
	}{
		{"run a.csv b.csv", nil, OK, "text of [a.csv b.csv]\n", "tool: files: 2\ntool: one\\u001b\ntool: two\n"},
		{"run a.csv -q", nil, OK, "text of [a.csv]\n", ""},
		{"--quiet run a.csv", nil, OK, "text of [a.csv]\n", ""},
		{"run a.csv --json -q", nil, OK, "[\n  \"a.csv\"\n]\n", ""},
		{"parts list", nil, OK, "a     b\nlong  c\n", ""},
		{"run -q a.csv", errors.New("disk\nfull"), Failure, "text of [a.csv]\n", "tool: disk full\n"},
		{"run -q a.csv", &input.Error{Key: "--count", Value: "3", Expected: "2", Details: []string{"first", "second\nline\x1b"}}, WrongInput, "text of [a.csv]\n",
			"tool: --count = 3: expected 2\n  first\n  second line\\u001b\n"},
		{"run -q a.csv", fmt.Errorf("stopped: %w", context.Canceled), Interrupted, "text of [a.csv]\n", "tool: interrupted\n"},
		{"run -q", nil, WrongInput, "", "tool: arguments of 'tool run' = none: expected FILE..., such as 'tool run a.csv --count 2'; see 'tool run --help'\n"},
		{"parts list count", nil, WrongInput, "", "tool: arguments of 'tool parts list' = \"count\": expected none, flags alone; see 'tool parts list --help'\n"},
		{"parts list jso x", nil, WrongInput, "", "tool: arguments of 'tool parts list' = \"jso\" \"x\": expected none, flags alone; see 'tool parts list --help'; did you mean \"--json\"?\n"},
		{"parts list ./json", nil, WrongInput, "", "tool: arguments of 'tool parts list' = \"./json\": expected none, flags alone; see 'tool parts list --help'\n"},
		{"run - x -", nil, WrongInput, "", "tool: -: expected standard input for one file only\n"},
		{"run x - --config -", nil, WrongInput, "", "tool: --config = -: expected standard input for one file only; an argument reads it, too\n"},
		{"run x --config - --config a --config -", nil, WrongInput, "", "tool: -: expected standard input for one file only\n"},
		{"run x --past", nil, WrongInput, "", "tool: --past of 'tool run' is gone: use --count\n"},
		{"parts list --past", nil, WrongInput, "", "tool: --past: expected a flag of 'tool parts list'\n"},
		{"old a --b", nil, WrongInput, "", "tool: 'tool old' is gone: use 'tool run'\n"},
		{"parts old", nil, WrongInput, "", "tool: 'tool parts old' is gone: use 'tool parts list'\n"},
		{"run x --cuont 3", nil, WrongInput, "", "tool: --cuont: expected a flag of 'tool run'; did you mean \"--count\"?\n"},
		{"run x -z", nil, WrongInput, "", "tool: -z: expected a flag of 'tool run', which 'tool run --help' lists\n"},
		{"run x --count", nil, WrongInput, "", "tool: --count: expected a value behind it (number)\n"},
		{"run x --count a", nil, WrongInput, "", "tool: --count = \"a\": expected a whole number\n"},
		{"run x --seed -1", nil, WrongInput, "", "tool: --seed = \"-1\": expected a whole number, at least 0\n"},
		{"run x --rate a", nil, WrongInput, "", "tool: --rate = \"a\": expected a number\n"},
		{"run x --fast=a", nil, WrongInput, "", "tool: --fast = \"a\": expected true or false\n"},
		{"run x --after a", nil, WrongInput, "", "tool: --after = \"a\": expected a value of type duration\n"},
		{"rum", nil, WrongInput, "", "tool: command = \"rum\": expected one of completion, parts, run, version; did you mean \"run\"?\n"},
		{"exec", nil, WrongInput, "", "tool: command = \"exec\": expected one of completion, parts, run, version; did you mean \"run --count\"?\n"},
		{"go", nil, WrongInput, "", "tool: command = \"go\": expected one of completion, parts, run, version; did you mean \"run\"?\n"},
		{"parts lost", nil, WrongInput, "", "tool: parts command = \"lost\": expected one of list; did you mean \"list\"?\n"},
		{"completion x", nil, WrongInput, "", "tool: completion command = \"x\": expected one of bash, fish, powershell, zsh\n"},
		{"help nothing", nil, WrongInput, "", "tool: command = \"nothing\": expected one of completion, parts, run, version\n"},
		{"help parts lost", nil, WrongInput, "", "tool: parts command = \"lost\": expected one of list; did you mean \"list\"?\n"},
	} {
		var out, complain bytes.Buffer
		if code := program(c.fault).Run(t.Context(), strings.Fields(c.line), &out, &complain); code != c.code || out.String() != c.out || complain.String() != c.complain {
			t.Errorf("%s: exit code %d,\nprinted %q\nsaid    %q;\nwant %d, %q\n%q", c.line, code, out.String(), complain.String(), c.code, c.out, c.complain)
		}
	}
}

// TestHelp: a group alone, --help and help print the same; commands are under their group's title in order of use.
func TestHelp(t *testing.T) {
	help := func(line string) string {
		var out bytes.Buffer
		if code := program(nil).Run(t.Context(), strings.Fields(line), &out, &out); code != OK {
			t.Errorf("%s: exit code %d: %s", line, code, out.String())
		}
		return out.String()
	}
	root := help("")
	if help("--help") != root || help("parts") != help("parts --help") || help("parts list -h") != help("help parts list") {
		t.Error("help differs with the way to ask for it")
	}
	at := -1
	for _, part := range []string{"A tool\n\nUsage:\n", "\nWork:\n  run  ", " Run files\n  parts  ", " About parts\n", "\nOther:\n  version  ", "-q, --quiet "} {
		next := strings.Index(root, part)
		if next <= at {
			t.Errorf("%q is not in its place in:\n%s", part, root)
		}
		at = next
	}
	if strings.Contains(root, "old") {
		t.Error("help has a command that is gone")
	}
}

// TestFit: help is wrapped at 80 columns: paragraphs between words, descriptions under their start, examples before a flag.
func TestFit(t *testing.T) {
	a := func(n int) string { return strings.Repeat("a", n) }
	for _, c := range []struct{ text, want string }{
		{"one\ntwo\n", "one two\n"},
		{"a\nb\nc\n\nd\n", "a b c\n\nd\n"},
		{a(80) + "\n", a(80) + "\n"},
		{a(81) + "\n", a(81) + "\n"},
		{a(40) + " " + a(39) + "\n", a(40) + " " + a(39) + "\n"},
		{a(40) + " " + a(40) + "\n", a(40) + "\n" + a(40) + "\n"},
		{a(80) + " " + a(3) + "\n", a(80) + "\n" + a(3) + "\n"},
		{"  --flag  " + a(60) + " " + a(9) + " bb\n", "  --flag  " + a(60) + " " + a(9) + "\n          bb\n"},
		{"  --flag  " + a(60) + " " + a(10) + " bb\n", "  --flag  " + a(60) + "\n          " + a(10) + " bb\n"},
		{"  tool " + a(60) + " x --flag" + a(8) + "\n", "  tool " + a(60) + " x \\\n      --flag" + a(8) + "\n"},
		{"  tool " + a(60) + " x | y" + a(8) + "\n", "  tool " + a(60) + " x \\\n      | y" + a(8) + "\n"},
		{"  tool " + a(60) + " x && y" + a(8) + "\n", "  tool " + a(60) + " x \\\n      && y" + a(8) + "\n"},
		{"  tool x --a " + a(60) + " xxxxxxxxxxxxxxxxxx\n", "  tool x \\\n      --a " + a(60) + " xxxxxxxxxxxxxxxxxx\n"},
		{"  tool " + a(71) + " --b\n", "  tool " + a(71) + " \\\n      --b\n"},
	} {
		if got := fit(c.text); got != c.want {
			t.Errorf("%q is broken to\n%s\nwant\n%s", c.text, got, c.want)
		}
	}
}

// TestErrorsAsJSON: with L3SIM_ERRORS=json an error and its parts are one line.
func TestErrorsAsJSON(t *testing.T) {
	t.Setenv("L3SIM_ERRORS", "json")
	fault := &input.Error{File: "f.toml", Line: 7, Key: "k", Value: "v", Expected: "e", Nearest: "n", Details: []string{"d"}}
	for _, err := range []error{fault, errors.New("plain")} {
		var out, complain bytes.Buffer
		program(err).Run(t.Context(), []string{"run", "-q", "x"}, &out, &complain)
		want := `{"error":"f.toml:7: k = v: expected e; did you mean \"n\"?","file":"f.toml","line":7,"key":"k","value":"v","expected":"e","nearest":"n","details":["d"]}`
		if err != error(fault) {
			want = `{"error":"plain","file":"","line":0,"key":"","value":"","expected":"","nearest":"","details":null}`
		}
		if complain.String() != want+"\n" {
			t.Errorf("got  %s\nwant %s", complain.String(), want)
		}
	}
}

// TestLongError: the message of an error is bounded.
func TestLongError(t *testing.T) {
	var out, complain bytes.Buffer
	program(errors.New(strings.Repeat("é", LongestMessage))).Run(t.Context(), []string{"run", "-q", "x"}, &out, &complain)
	if n := len(strings.TrimSuffix(strings.TrimPrefix(complain.String(), "tool: "), "\n")); n > LongestMessage+30 || n < LongestMessage-10 {
		t.Errorf("a message of %d bytes, want about %d", n, LongestMessage)
	}
}

// closedOutput fails from its second write on.
type closedOutput struct{ writes int }

func (c *closedOutput) Write(p []byte) (int, error) {
	c.writes++
	return len(p), fmt.Errorf("write %d: %w", c.writes, os.ErrClosed)
}

// TestLostOutput: a failed write fails the command with its first cause, even if the command or the library ignores it.
func TestLostOutput(t *testing.T) {
	for _, line := range []string{"run -q x", "--help", "--version"} {
		var complain bytes.Buffer
		if code := program(nil).Run(t.Context(), strings.Fields(line), &closedOutput{}, &complain); code != Failure || !strings.HasPrefix(complain.String(), "tool: ") || !strings.HasSuffix(complain.String(), "write 1: file already closed\n") {
			t.Errorf("%s: exit code %d, %q", line, code, complain.String())
		}
	}
}

// TestSignals: SIGTERM and Ctrl-C end a command with different exit codes.
func TestSignals(t *testing.T) {
	for _, c := range []struct {
		cause    error
		code     int
		complain string
	}{{errTerminated, 143, "tool: terminated\n"}, {context.Canceled, 130, "tool: interrupted\n"}} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(c.cause)
		var out, complain bytes.Buffer
		if code := program(ctx.Err()).Run(ctx, []string{"run", "-q", "x"}, &out, &complain); code != c.code || complain.String() != c.complain {
			t.Errorf("%v: exit code %d, %q", c.cause, code, complain.String())
		}
	}
}

// TestVersion: as text and as JSON, of a build outside a checkout or of a commit.
func TestVersion(t *testing.T) {
	var text, flag, data, complain bytes.Buffer
	program(nil).Run(t.Context(), []string{"version"}, &text, &complain)
	program(nil).Run(t.Context(), []string{"--version"}, &flag, &complain)
	program(nil).Run(t.Context(), []string{"version", "--json"}, &data, &complain)
	if !strings.HasPrefix(text.String(), "tool "+Version+", ") || !strings.HasSuffix(text.String(), " "+runtime.GOOS+"/"+runtime.GOARCH+"\n") || text.String() != flag.String() {
		t.Errorf("version prints %q, --version %q", text.String(), flag.String())
	}
	var b build
	if err := json.Unmarshal(data.Bytes(), &b); err != nil || b.Schema != "l3sim/version/1" || b.Version != Version || b.Go != runtime.Version() || b.Platform != runtime.GOOS+"/"+runtime.GOARCH {
		t.Errorf("--json: %+v, %v", b, err)
	}
	for _, c := range []struct {
		b    build
		want string
	}{
		{build{Version: "v1", Go: "go2", Platform: "a/b"}, "v1, unknown commit, go2 a/b"},
		{build{Version: "v1", Commit: "c", Go: "go2", Platform: "a/b"}, "v1, commit c, go2 a/b"},
		{build{Version: "v1", Commit: "c", Modified: true, Go: "go2", Platform: "a/b"}, "v1, commit c (modified), go2 a/b"},
	} {
		if got := c.b.String(); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

// TestOutput: --out names a file that appears only on success; without it, the output goes to standard
// output.
func TestOutput(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	a := &App{Stdout: &out, Stderr: io.Discard}
	write := func(text string, err error) func(io.Writer) error {
		return func(w io.Writer) error { _, _ = io.WriteString(w, text); return err }
	}
	path := filepath.Join(dir, "a.txt")
	if err := a.Output("", write("shown", nil)); err != nil || out.String() != "shown" {
		t.Errorf("printed %q, %v", out.String(), err)
	}
	if err := a.Output(path, write("half", io.ErrUnexpectedEOF)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
	if names, _ := os.ReadDir(dir); len(names) != 0 {
		t.Errorf("a failed command leaves %v", names)
	}
	if err := a.Output(path, write("all", nil)); err != nil {
		t.Error(err)
	}
	if data, _ := os.ReadFile(path); string(data) != "all" || out.String() != "shown" {
		t.Errorf("the file has %q, standard output %q", data, out.String())
	}
	if err := a.Output(dir, write("", nil)); err == nil || err.Error() != fmt.Sprintf("--out = %s: expected a file, not a folder", dir) {
		t.Errorf("a folder: %v", err)
	}
	if a.OnTerminal() || (&App{Stdout: &output{w: &out}}).OnTerminal() {
		t.Error("a buffer is a terminal")
	}
}

// TestCompletion: shells complete values of flags and keys, for commands at any depth.
func TestCompletion(t *testing.T) {
	root := &cobra.Command{Use: "tool"}
	group := &cobra.Command{Use: "group"}
	leaf := &cobra.Command{Use: "leaf", RunE: func(*cobra.Command, []string) error { return nil }}
	leaf.Flags().String("kv", "", "")
	leaf.Flags().String("suite", "", "")
	leaf.Flags().String("gpu", "", "")
	leaf.Flags().Int("to", 0, "") // a number, not a name
	new(ConfigFlags).Register(leaf)
	single := &cobra.Command{Use: "one", Run: func(*cobra.Command, []string) {}, ValidArgsFunction: OneArgument(func() []string { return []string{"p", "q"} })}
	single.Flags().String("set", "", "") // without --config: keys of another kind
	group.AddCommand(leaf, single)
	root.AddCommand(group)
	completeFlags(root)
	complete := func(args ...string) string {
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetErr(io.Discard)
		root.SetArgs(append([]string{"__complete", "group"}, args...))
		_ = root.Execute()
		return strings.Join(strings.Fields(out.String()), " ")
	}
	for _, c := range []struct{ want, flag, text string }{
		{"k v :4", "--kv", ""},
		{"v,k :4", "--kv", "v,"},
		{":4", "--kv", "v,k,"},
		{"pytorch server :4", "--suite", ""},
		{":0", "--to", ""},
		{"pim.precision.preset=fp32 pim.precision.preset=paper :4", "--set", "pim.precision.preset="},
		{"scheduler.chunking=true scheduler.chunking=false :4", "--set", "scheduler.chunking="},
		{":4", "--set", "node.gpus="},
		{":4", "--set", "no.key="},
	} {
		if got := complete("leaf", c.flag, c.text); got != c.want {
			t.Errorf("%s %s: completed with %q, want %q", c.flag, c.text, got, c.want)
		}
	}
	if got := complete("leaf", "--set", "run.s"); !strings.HasPrefix(got, "preset= run.system= ") || !strings.HasSuffix(got, " :6") {
		t.Errorf("--set: %q, want keys, behind which their values follow", got)
	}
	if got := complete("leaf", "--gpu", ""); !strings.HasPrefix(got, "a100-paper ") || !strings.HasSuffix(got, " :0") {
		t.Errorf("--gpu: %q, want presets and files", got)
	}
	if got := complete("one", ""); got != "p q :4" {
		t.Errorf("first argument: %q", got)
	}
	if got := complete("one", "p", ""); got != ":4" {
		t.Errorf("second argument: %q", got)
	}
	if got := complete("one", "--set", ""); got != ":0" {
		t.Errorf("a --set of other keys: %q", got)
	}
	one := map[string]string{"preset": "fair", "system": "gpu-only", "model": "llama-3-8b", "gpu": "h100-sxm", "prices": "prices-2026-06", "base": "h200-sxm", "trace": "openr1", "kind": "line", "emit": "slurm",
		"dram": "ddr4-3200-8gb-x8", "policy": "quest", "precision": "fp32", "activation": "simultaneous", "suite": "pytorch", "all-reduce": "nccl", "to": "mooncake", "kv": "v"}
	for name, v := range values {
		all := v.of()
		if files := slices.Contains([]string{"model", "gpu", "prices", "base", "trace", "dram"}, name); len(all) < 2 || slices.Contains(all, "") || !slices.Contains(all, one[name]) || v.files != files {
			t.Errorf("--%s: values %q, files %v", name, all, v.files)
		}
	}
}
