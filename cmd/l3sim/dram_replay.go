package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/check"
	"github.com/l3sim/l3sim/dram/controller"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/results"
)

type replayFlags struct {
	dram, policy, commands string
	ranks, channels        int
	sets                   []string
	strict                 bool
}

func (a *app) newDRAMReplayCommand() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay TRACE",
		Short: "Run a trace of memory requests through a memory system",
		Long: `Run a trace of memory requests through a memory system.

TRACE holds one request a line, plain or gzip: "0xADDRESS READ|WRITE CLOCK" (DRAMsim3)
or "LD|ST ADDRESS" (Ramulator). Requests are 64 B and are offered in order, at most one
a clock. Latency runs from acceptance, or from arrival, to the last data beat.

--set changes any field of the part (tRFC=880, power.IDD0=60) or of the controller's
policy (page=closed, refresh_postpone=8, mapping=rorabgbachco); docs/lab/dram.md lists them.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.replay(cmd.Context(), args[0], &f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.dram, "dram", defaultDRAM, cli.DRAMUsage)
	flags.IntVar(&f.ranks, "ranks", defaultRanks, "ranks of a channel")
	flags.IntVar(&f.channels, "channels", 1, "channels, each with a controller of its own")
	flags.StringVar(&f.policy, "policy", "default", "the controller's policy: "+strings.Join(controller.PolicyNames(), " or "))
	flags.StringArrayVar(&f.sets, "set", nil, "change a field of the part or of the policy, KEY=VALUE (repeatable)")
	flags.StringVar(&f.commands, "commands", "", "write every DRAM command to this file; with several channels one each, FILE.csv becoming FILE.chN.csv")
	flags.BoolVar(&f.strict, "strict-addresses", false, "refuse addresses beyond the capacity instead of wrapping them")
	flags.BoolVar(&a.JSON, "json", false, "print JSON")
	_ = cmd.RegisterFlagCompletionFunc("policy", cobra.FixedCompletions(controller.PolicyNames(), cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

// setup builds the memory system that the flags describe.
func (a *app) setup(f *replayFlags) (*controller.Setup, error) {
	spec, err := a.partOf("--dram", f.dram)
	if err != nil {
		return nil, err
	}
	policy, err := controller.LookupPolicy(f.policy)
	if err != nil {
		return nil, cli.FlagName(err, "--policy")
	}
	s := &controller.Setup{Spec: spec, Policy: policy, Channels: f.channels, Ranks: f.ranks}
	if err := applySets(f.sets, s.Set); err != nil {
		return nil, err
	}
	return s, s.Validate()
}

// replay runs a trace of requests. All outputs are checked before it starts, so that a long replay does not end
// without its log.
func (a *app) replay(ctx context.Context, path string, f *replayFlags) error {
	s, err := a.setup(f)
	if err != nil {
		return err
	}
	file, err := input.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	var names []string
	if f.commands != "" {
		names = logNames(f.commands, s.Channels)
		if err := cli.CheckOutputs("--commands", names, path); err != nil {
			return err
		}
	}
	requests, err := controller.ReadTrace(input.Name(path), file)
	if err != nil {
		return err
	}
	mapping, err := s.Mapping()
	if err != nil {
		return err
	}
	if f.strict {
		for i, r := range requests {
			if r.Address >= mapping.Capacity() {
				return &input.Error{File: path, Key: fmt.Sprintf("request %d", i+1), Value: fmt.Sprintf("%#x", r.Address),
					Expected: fmt.Sprintf("an address below the capacity of %#x bytes", mapping.Capacity())}
			}
		}
	}
	var stats *controller.Stats
	var wall time.Duration
	err = withLogs(names, replayHeader(s), nil, func(logs []*check.LogWriter) error {
		start := time.Now()
		stats, err = s.Replay(ctx, requests, logs)
		wall = time.Since(start)
		return err
	})
	if err != nil {
		return err
	}
	if stats.WrappedAddresses > 0 {
		a.Note("%d addresses lie beyond the capacity of %#x bytes and were wrapped", stats.WrappedAddresses, mapping.Capacity())
	}
	if unknown := s.UnknownCurrents(); len(unknown) > 0 {
		a.Note("no %s of %s: energy there counts as that of standby", strings.Join(unknown, ", "), s.Spec.Name)
	}
	out := controller.NewReport(s, f.policy, stats, wall)
	return a.PrintAligned(out, 0, out.WriteLines)
}

// replayHeader declares what 'l3sim dram check' would not assume by itself: a
// log of the default set-up is plain CSV.
func replayHeader(s *controller.Setup) check.LogHeader {
	var h check.LogHeader
	if assumed, err := dram.LookupSpec(defaultDRAM); err != nil || *assumed != *s.Spec {
		h.Spec = s.Spec
	}
	if s.Ranks != defaultRanks {
		h.Ranks = s.Ranks
	}
	return h
}

// logNames returns the command log's file for each channel.
func logNames(path string, channels int) []string {
	if channels == 1 {
		return []string{path}
	}
	names := make([]string, channels)
	ext := filepath.Ext(path)
	for i := range names {
		names[i] = fmt.Sprintf("%s.ch%d%s", strings.TrimSuffix(path, ext), i, ext)
	}
	return names
}

// withLogs calls run with a log writer for each of names; the files appear only
// if all goes well. Without names run gets nil.
func withLogs(names []string, h check.LogHeader, logs []*check.LogWriter, run func([]*check.LogWriter) error) error {
	if len(names) == 0 {
		return run(logs)
	}
	return results.WriteFileAtomic(names[0], func(w io.Writer) error {
		log := check.NewLogWriter(w, h)
		if err := withLogs(names[1:], h, append(logs, log), run); err != nil {
			return err
		}
		return log.Flush()
	})
}
