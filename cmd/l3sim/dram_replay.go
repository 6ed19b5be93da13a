package main

import (
	"cmp"
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
	"github.com/l3sim/l3sim/results/timeline"
)

type replayFlags struct {
	dram, policy, commands string
	timeline, requestBytes string
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

TRACE holds one request a line, plain or gzip: "0xADDRESS READ|WRITE CLOCK" (DRAMsim3),
"LD|ST ADDRESS" (Ramulator) or "CLOCK: [(BYTES)] read|write ADDRESS" (DRAMSys).

A request without BYTES is the 64 B line that holds its address, or as large as
--request-bytes says. It is split into the bursts of the part that cover it, which are
offered in order, at most one a clock, and ends with the last of them. DRAMsim3 and
Ramulator take each request as one burst: --request-bytes burst. Latency runs from
acceptance, or from arrival, to the last data beat.

--set changes any field of the part (tRFC=880, power.IDD0=60) or of the controller's
policy (page=closed, refresh_postpone=8, mapping=rorabgbachcopc); docs/reference/dram.md lists them.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cmp.Or(cli.NotEmpty(cmd, "timeline", "commands", "request-bytes"), timelineFile(f.timeline, f.commands)); err != nil {
				return err
			}
			return a.replay(cmd.Context(), args[0], &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.dram, "dram", defaultDRAM, cli.DRAMUsage)
	flags.IntVar(&f.ranks, "ranks", defaultRanks, "ranks of a channel")
	flags.IntVar(&f.channels, "channels", 1, "channels, each with a controller of its own")
	flags.StringVar(&f.policy, "policy", "default", "the controller's `policy`: "+strings.Join(controller.PolicyNames(), " or "))
	flags.StringVar(&f.requestBytes, "request-bytes", "", "`size` of a request that has none in the trace, whose address is a multiple of it, or \"burst\": the burst that holds the address (default: the 64 B that hold it)")
	flags.StringArrayVar(&f.sets, "set", nil, "change a field of the part or of the policy, `KEY=VALUE` (repeatable)")
	flags.StringVar(&f.commands, "commands", "", "write every DRAM command to this `file`; with several channels one each, FILE.csv becoming FILE.chN.csv")
	flags.StringVar(&f.timeline, "timeline", "", commandTimelineUsage+", named for several channels as that of --commands")
	flags.BoolVar(&f.strict, "strict-addresses", false, "refuse addresses beyond the capacity instead of wrapping them")
	flags.BoolVar(&a.JSON, "json", false, "print JSON")
	_ = cmd.RegisterFlagCompletionFunc("policy", cobra.FixedCompletions(controller.PolicyNames(), cobra.ShellCompDirectiveNoFileComp)) // the flag exists
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
	if err := s.Validate(); err != nil || f.requestBytes == "" {
		return s, input.Edit(err, func(e *input.Error) {
			if e.Key == "ranks" || e.Key == "channels" { // these are set by flags alone
				e.Key = "--" + e.Key
			}
		})
	}
	return s, cli.FlagName(s.SetRequestBytes(f.requestBytes), "--request-bytes")
}

// replay runs a trace of requests. It checks all outputs first, so that a long replay does not end without its
// log.
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
	logs, timelines := logNames(f.commands, s.Channels), logNames(f.timeline, s.Channels)
	if err := cmp.Or(cli.CheckOutputs("--commands", logs, path), cli.CheckOutputs("--timeline", timelines, path)); err != nil {
		return err
	}
	requests, err := controller.ReadTrace(input.Name(path), file)
	if err == nil && len(requests) == 0 {
		err = &input.Error{File: input.Name(path), Expected: "at least one request"}
	}
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
	err = withLogs(logs, timelines, s, nil, func(observers []dram.Observe) error {
		start := time.Now()
		stats, err = s.Replay(ctx, requests, observers)
		wall = time.Since(start)
		return input.Edit(err, func(e *input.Error) { e.File = input.Name(path) })
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
	if out.Advice, err = s.Advise(ctx, out, requests); err != nil {
		return err
	}
	return a.PrintAligned(out, 0, out.WriteLines)
}

// replayHeader declares what differs from the defaults of 'l3sim dram check': a log of the default
// set-up is plain CSV.
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

// logNames returns the file of each channel's commands, none where path is "".
func logNames(path string, channels int) []string {
	if path == "" {
		return nil
	}
	if channels == 1 {
		return []string{path}
	}
	names := make([]string, channels)
	ext := filepath.Ext(path)
	if ext == ".gz" {
		ext = filepath.Ext(strings.TrimSuffix(path, ext)) + ext
	}
	for i := range names {
		names[i] = fmt.Sprintf("%s.ch%d%s", strings.TrimSuffix(path, ext), i, ext)
	}
	return names
}

// withLogs calls run with an observer of each channel's commands: the writers of its log and of its timeline, nil without
// both. The files appear only on success.
func withLogs(logs, timelines []string, s *controller.Setup, seen []dram.Observe, run func([]dram.Observe) error) error {
	channel := len(seen)
	if channel == s.Channels {
		return run(seen)
	}
	file := func(names []string) string {
		if names == nil {
			return ""
		}
		return names[channel]
	}
	return withTimeline(file(timelines), func(w *timeline.Writer) error {
		return withLog(file(logs), replayHeader(s), func(log dram.Observe) error {
			see := log
			if w != nil {
				c := timeline.NewCommands(w, 0, fmt.Sprintf("channel %d of %s", channel, s.Spec.Name), s.Spec, s.Ranks)
				defer c.Close()
				see = func(step int64, cmd dram.Command, a dram.Address) {
					if log != nil {
						log(step, cmd, a)
					}
					c.Command(step, cmd, a, nil)
				}
			}
			return withLogs(logs, timelines, s, append(seen, see), run)
		})
	})
}

// withLog calls run with the writer of a command log, or with nil if path is "". The file appears only on success.
func withLog(path string, h check.LogHeader, run func(dram.Observe) error) error {
	if path == "" {
		return run(nil)
	}
	return results.WriteFileAtomic(path, func(w io.Writer) error {
		log := check.NewLogWriter(w, h)
		return cmp.Or(run(log.Write), log.Flush())
	})
}
