package main

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

func (a *app) newTraceCommand() *cobra.Command {
	group := cli.NewGroup("trace", "Describe, convert, sample and draw files of requests")
	group.Long = `Describe, convert, sample and draw files of requests.

FILE has any of the formats of docs/reference/traces.md, which its beginning tells, packed by gzip or
zstd or not; - is standard input.`
	group.AddCommand(a.newTraceStatsCommand(), a.newTraceConvertCommand(), a.newTraceSampleCommand(), a.newTracePlotCommand(), a.newTraceGenerateCommand())
	return group
}

// traceFlags set how the trace commands read a file.
type traceFlags struct {
	skipBad         bool
	columns, window string
}

func (f *traceFlags) register(flags *pflag.FlagSet) {
	flags.BoolVar(&f.skipBad, "skip-bad", false, "leave out malformed lines and say how many they are")
	cli.ListVar(flags, &f.columns, "columns", "", "", "`columns` that the file's names do not tell: input=NAME,output=NAME, arrival=NAME, unit=s|ms|us|ns, session=NAME, block=TOKENS")
	flags.StringVar(&f.window, "window", "", "read arrivals `from:to` alone, such as 600s:1200s behind the file's first")
}

// readTrace reads the trace at path, and notes what it leaves out.
func (a *app) readTrace(cmd *cobra.Command, path string, f *traceFlags) (*traces.Trace, error) {
	if err := cli.NotEmpty(cmd, "columns", "window"); err != nil {
		return nil, err
	}
	o := traces.Options{Most: traces.MaxRequests, SkipBad: f.skipBad}
	var err error
	if f.columns != "" {
		if o.Columns, err = traces.ParseColumns(f.columns); err != nil {
			return nil, cli.FlagName(err, "--columns")
		}
	}
	if f.window != "" {
		w, err := parseWindow("--window", f.window, "600s:1200s")
		if err != nil {
			return nil, err
		}
		o.From, o.To = w.From, w.To
	}
	file, err := input.Open(path)
	if err != nil && slices.Contains(traces.BuiltinNames(), path) {
		return nil, &input.Error{File: path, Expected: fmt.Sprintf("a file of requests; %s is no file: 'l3sim run --trace %s' draws requests of its lengths", path, path)}
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	show := a.ProgressOnTerminal("reading the trace")
	show.Start(0)
	t, err := o.Read(input.Name(path), file)
	show.Done()
	if err != nil {
		return nil, err
	}
	a.noteTrace(t)
	a.noteReading(t)
	return t, nil
}

func parseWindow(flag, text, example string) (*system.Window, error) {
	from, to, err := traces.ParseWindow(text)
	if err != nil {
		return nil, &input.Error{Key: flag, Value: text, Expected: "two times, the later one last, such as " + example, Err: errors.Unwrap(err)}
	}
	return &system.Window{From: from, To: to}, nil
}

// noteTrace notes the requests of a file that are not in its trace.
func (a *app) noteTrace(t *traces.Trace) {
	if t.Failed > 0 {
		a.Note("%s: %s left out", t.Name, input.Plural(t.Failed, "request that failed is", "requests that failed are"))
	}
	if t.Skipped > 0 {
		a.Note("%s: %s skipped; the first: %v", t.Name, input.Plural(t.Skipped, "malformed line is", "malformed lines are"), t.FirstBad)
	}
}

// noteReading notes, once, assumptions about a file and what was missing in it. Summaries of runs repeat
// them.
func (a *app) noteReading(t *traces.Trace) {
	for _, note := range t.Notes {
		a.NoteOnce(t.Name + ": " + note)
	}
}

type traceOutput struct{ to, out string } // where a trace is written

func (o *traceOutput) register(flags *pflag.FlagSet, to string) {
	flags.StringVar(&o.to, "to", "", to+": "+strings.Join(traces.FormatNames(), ", "))
	flags.StringVar(&o.out, "out", "", "`file` to write, packed if its name ends with .gz or .zst; else standard output")
}

// check refuses, before a long read, outputs that cannot be written.
func (o *traceOutput) check(cmd *cobra.Command, in string) error {
	if err := cli.NotEmpty(cmd, "to", "out"); err != nil {
		return err
	}
	if o.to != "" {
		if _, err := (&traces.Trace{}).Lost(o.to); err != nil {
			return cli.FlagName(err, "--to")
		}
	}
	if o.out == "" {
		return nil
	}
	if err := cli.WritableFile("--out", o.out); err != nil || in == "" { // nothing is read
		return err
	}
	return cli.CheckOutputs("--out", []string{o.out}, in)
}

func (a *app) writeTrace(t *traces.Trace, o *traceOutput) error {
	lost, err := t.Lost(o.to)
	if err != nil {
		return cli.FlagName(err, "--to")
	}
	if len(lost) > 0 {
		a.Note("%s does not hold %s: left out", o.to, strings.Join(lost, ", "))
	}
	return a.Output(o.out, func(w io.Writer) error {
		z, err := packer(o.out, w)
		if err != nil {
			return err
		}
		return errors.Join(t.Write(z, o.to), z.Close())
	})
}

// packer returns a writer that compresses by the ending of a file's name: .gz, .zst, or not at all.
func packer(path string, w io.Writer) (io.WriteCloser, error) {
	switch filepath.Ext(path) {
	case ".gz":
		return gzip.NewWriter(w), nil
	case ".zst":
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	}
	return plainWriter{w}, nil
}

type plainWriter struct{ io.Writer } // a writer whose Close does nothing

func (plainWriter) Close() error { return nil }

func (a *app) newTraceConvertCommand() *cobra.Command {
	var f traceFlags
	var o traceOutput
	cmd := &cobra.Command{
		Use:   "convert FILE",
		Short: "Write a file of requests in another format",
		Long: `Write a file of requests in another format.

Requests come out in order of arrival, and their times count from the first. What the
format does not hold is left out, which standard error says.`,
		Example: `  l3sim trace convert mooncake.jsonl --to l3sim --out out/mooncake.csv
  l3sim trace convert own.parquet --columns arrival=t,input=prompt,output=answer,unit=ms --to l3sim --out out/own.csv.gz
  l3sim trace convert BurstGPT.csv --skip-bad --window 0s:3600s --to jsonl | l3sim run --trace -`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.to == "" {
				return &input.Error{Key: "--to", Expected: "one of " + strings.Join(traces.FormatNames(), ", ")}
			}
			if err := o.check(cmd, args[0]); err != nil {
				return err
			}
			t, err := a.readTrace(cmd, args[0], &f)
			if err != nil {
				return err
			}
			return a.writeTrace(t, &o)
		},
	}
	o.register(cmd.Flags(), "`format` to write")
	f.register(cmd.Flags())
	return cmd
}

func (a *app) newTraceSampleCommand() *cobra.Command {
	var f traceFlags
	var o traceOutput
	var requests int
	var seed uint64
	var rate float64
	cmd := &cobra.Command{
		Use:   "sample FILE",
		Short: "Draw requests from a file, cut a part of its time out, change its rate",
		Long: `Draw requests from a file, cut a part of its time out, change its rate.

--window comes first, then --requests are drawn without replacement, conversations as
wholes, and then all times are multiplied so that the mean rate, (requests - 1) / time, is
--rate.`,
		Example: `  l3sim trace sample conversations.csv --requests 1000 --seed 7 --out out/thousand.csv
  l3sim trace sample conversations.csv --window 600s:1200s --rate 2.5 --to mooncake --out out/busy.jsonl.gz`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			flags := cmd.Flags()
			if flags.Changed("requests") {
				if err := cli.Between("--requests", requests, 1, traces.MaxRequests); err != nil {
					return err
				}
			}
			if flags.Changed("rate") && !(rate > 0 && rate <= 1e9) {
				return &input.Error{Key: "--rate", Value: fmt.Sprint(rate), Expected: "requests a second, more than 0, at most 1e+09"}
			}
			if err := o.check(cmd, args[0]); err != nil {
				return err
			}
			t, err := a.readTrace(cmd, args[0], &f)
			if err != nil {
				return err
			}
			if requests > 0 {
				if t, err = t.Sample(requests, seed); err != nil {
					return cli.FlagName(err, "--requests")
				}
			}
			if rate > 0 {
				if t.Described().RatePerS == 0 {
					return &input.Error{Key: "--rate", Value: fmt.Sprint(rate), Expected: "times of arrival that are not all the same"}
				}
				if t, err = t.Arrive(traces.ArrivalSpec{Kind: traces.ArrivalsTrace, RatePerS: rate}, 0); err != nil {
					return cli.FlagName(err, "--rate")
				}
			}
			if o.to == "" {
				if o.to = t.Format; !slices.Contains(traces.FormatNames(), o.to) {
					o.to = "l3sim"
				}
			}
			return a.writeTrace(t, &o)
		},
	}
	cmd.Flags().IntVar(&requests, "requests", 0, "draw this many requests; without it all are kept")
	cmd.Flags().Uint64Var(&seed, "seed", 0, "of what is drawn")
	cmd.Flags().Float64Var(&rate, "rate", 0, "mean `rate` in requests a second")
	o.register(cmd.Flags(), "`format` to write; without it FILE's own where it is one of these, else l3sim")
	f.register(cmd.Flags())
	return cmd
}
