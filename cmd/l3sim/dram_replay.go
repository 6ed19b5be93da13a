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
	"github.com/l3sim/l3sim/units"
)

// replayFlags are the flags of dram replay.
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
	if unknown := unknownCurrents(s); len(unknown) > 0 {
		a.Note("no %s of %s: energy there counts as that of standby", strings.Join(unknown, ", "), s.Spec.Name)
	}
	out := newReplayResult(s, f.policy, stats, wall)
	return a.PrintAligned(out, 0, out.writeLines)
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

// replayResult is the JSON of dram replay.
type replayResult struct {
	Spec     string `json:"spec"`
	Policy   string `json:"policy"`
	Channels int    `json:"channels"`
	Ranks    int    `json:"ranks"`
	*controller.Stats
	ACT             int64   `json:"act"`
	PRE             int64   `json:"pre"` // PRE and PREA; auto-precharges are not counted
	RD              int64   `json:"rd"`
	WR              int64   `json:"wr"`
	REF             int64   `json:"ref"`
	REFsb           int64   `json:"refsb"` // of the same bank of every bank group
	REFpb           int64   `json:"refpb"` // of one bank, or a pair
	RFM             int64   `json:"rfm"`   // refresh management of all banks
	RFMsb           int64   `json:"rfmsb"`
	RFMpb           int64   `json:"rfmpb"`
	RowHits         int64   `json:"row_hits"`
	GBPerS          float64 `json:"gb_per_s"`        // of the data of requests, without check bits and what partial writes read
	BusUtilization  float64 `json:"bus_utilization"` // mean over the data buses: one a channel, or a pseudo-channel
	MeanReadLatency float64 `json:"mean_read_latency_clocks"`
	P99ReadLatency  int64   `json:"p99_read_latency_clocks"`
	MaxReadLatency  int64   `json:"max_read_latency_clocks"`
	// From the request's own clock on, with the time before a full queue.
	MeanArrivalLatency float64 `json:"mean_read_latency_from_arrival_clocks"`
	MaxArrivalLatency  int64   `json:"max_read_latency_from_arrival_clocks"`
	MeanWriteLatency   float64 `json:"mean_write_latency_clocks"`
	MaxWriteLatency    int64   `json:"max_write_latency_clocks"`
	// Reads by latency from acceptance: at least low_clocks, below twice that.
	Histogram []controller.Bin `json:"read_latency_histogram"`
	ByRank    []replayRank     `json:"by_rank"`
	ECC       *replayECC       `json:"ecc,omitempty"` // unless it is none
	EnergyMJ  cli.EnergyMJ     `json:"energy_mj"`
	WallS     float64          `json:"wall_s"`
}

// replayRank is one rank's share.
type replayRank struct {
	Channel int `json:"channel"`
	Rank    int `json:"rank"`
	controller.RankStats
	BusShare float64      `json:"bus_utilization"` // of the data bus that the rank is on
	Power    *replayPower `json:"power,omitempty"` // with power_down
	Banks    []replayBank `json:"banks"`
}

// replayBank is one bank's.
type replayBank struct {
	controller.BankStats
	Depth float64 `json:"mean_queue_depth"`
}

// replayECC is what check bits took.
type replayECC struct {
	Mode        string `json:"mode"`
	Devices     int    `json:"chips"`
	RankBytes   int64  `json:"rank_bytes_for_data"`
	CheckReads  int64  `json:"check_reads"` // bursts, which rd and bus_utilization count and gb_per_s does not
	CheckWrites int64  `json:"check_writes"`
	ModifyReads int64  `json:"modify_reads"` // of data, for partial writes
}

// newReplayResult returns the JSON of a replay.
func newReplayResult(s *controller.Setup, policy string, st *controller.Stats, wall time.Duration) *replayResult {
	r := &replayResult{
		Spec: s.Spec.Name, Policy: policy, Channels: s.Channels, Ranks: s.Ranks, Stats: st,
		ACT: st.Count(dram.ACT), PRE: st.Count(dram.PRE, dram.PREA), RD: st.Count(dram.RD, dram.RDA), WR: st.Count(dram.WR, dram.WRA),
		REF: st.Count(dram.REF), REFsb: st.Count(dram.REFsb), REFpb: st.Count(dram.REFpb),
		RFM: st.Count(dram.RFM), RFMsb: st.Count(dram.RFMsb), RFMpb: st.Count(dram.RFMpb), RowHits: st.RowHits,
		MeanReadLatency: st.Latency.Mean(), P99ReadLatency: st.Latency.Percentile(99), MaxReadLatency: st.Latency.Max(),
		MeanArrivalLatency: st.ArrivalLatency.Mean(), MaxArrivalLatency: st.ArrivalLatency.Max(),
		MeanWriteLatency: st.WriteLatency.Mean(), MaxWriteLatency: st.WriteLatency.Max(),
		Histogram: append([]controller.Bin{}, st.Latency.Histogram()...), EnergyMJ: cli.NewEnergy(s.Spec, &st.Energy), WallS: wall.Seconds(),
	}
	data, end, burst := r.RD+r.WR, max(1, float64(st.EndClock)), float64(s.Spec.BurstClocks())
	for i, rank := range st.Ranks {
		k := replayRank{Channel: i / s.Ranks, Rank: i % s.Ranks, RankStats: rank, BusShare: float64(rank.Reads+rank.Writes) * burst / end}
		for _, b := range st.Banks[i*s.Spec.Banks():][:s.Spec.Banks()] {
			k.Banks = append(k.Banks, replayBank{b, float64(b.QueueClocks) / end})
		}
		if s.Policy.PowerDown != "off" {
			k.Power = newReplayPower(s.Spec, &rank)
		}
		r.ByRank = append(r.ByRank, k)
	}
	if s.Spec.ECC != dram.NoECC {
		r.ECC = &replayECC{s.Spec.ECC, s.Spec.Devices(), int64(s.Spec.RankBytes()), st.CheckReads, st.CheckWrites, st.ModifyReads}
		data -= st.CheckReads + st.CheckWrites + st.ModifyReads
	}
	if st.EndClock > 0 {
		r.GBPerS = float64(data) * float64(s.Spec.BurstBytes()) / (end * s.Spec.TCK.Seconds()) / 1e9
		r.BusUtilization = float64(r.RD+r.WR) * burst / (end * float64(s.Channels*s.Spec.Rules().PseudoChannels))
	}
	return r
}

func (r *replayResult) writeLines(t io.Writer) {
	fmt.Fprintf(t, "%s, %d ranks a channel, channels: %d, policy: %s\n\n", r.Spec, r.Ranks, r.Channels, r.Policy)
	fmt.Fprintf(t, "requests\t%d\tmerged %d reads, %d writes; forwarded %d reads; wrapped %d addresses\n",
		r.Requests, r.MergedReads, r.MergedWrites, r.ForwardedReads, r.WrappedAddresses)
	fmt.Fprintf(t, "end\t%d clocks\n", r.EndClock)
	fmt.Fprintf(t, "commands\tACT %d\tPRE %d, RD %d, WR %d, REF %d", r.ACT, r.PRE, r.RD, r.WR, r.REF)
	for _, c := range []struct {
		name  string
		count int64
	}{{"REFsb", r.REFsb}, {"REFpb", r.REFpb}, {"RFM", r.RFM}, {"RFMsb", r.RFMsb}, {"RFMpb", r.RFMpb}} {
		if c.count > 0 {
			fmt.Fprintf(t, ", %s %d", c.name, c.count)
		}
	}
	fmt.Fprintln(t)
	fmt.Fprintf(t, "row hits\t%d\n", r.RowHits)
	fmt.Fprintf(t, "data\t%.3f GB/s\tbus %.1f%% busy\n", r.GBPerS, 100*r.BusUtilization)
	fmt.Fprintf(t, "read latency\tmean %.2f clocks\tp99 %d, max %d\n", r.MeanReadLatency, r.P99ReadLatency, r.MaxReadLatency)
	fmt.Fprintf(t, "  from arrival\tmean %.2f clocks\tmax %d\n", r.MeanArrivalLatency, r.MaxArrivalLatency)
	fmt.Fprintf(t, "write latency\tmean %.2f clocks\tmax %d\n", r.MeanWriteLatency, r.MaxWriteLatency)
	for _, k := range r.ByRank {
		var hits, conflicts int64
		for _, b := range k.Banks {
			hits, conflicts = hits+b.RowHits, conflicts+b.Conflicts
		}
		fmt.Fprintf(t, "channel %d rank %d\tbus %.1f%%\tRD %d, WR %d, row hits %d, conflicts %d, turnarounds %d, rank switches %d\n",
			k.Channel, k.Rank, 100*k.BusShare, k.Reads, k.Writes, hits, conflicts, k.Turnarounds, k.Switches)
		k.Power.writeLine(t)
	}
	if e := r.ECC; e != nil {
		fmt.Fprintf(t, "ecc\t%s, %d chips\tcheck bits: RD %d, WR %d; RD for partial writes %d; %v a rank for data\n", e.Mode, e.Devices, e.CheckReads, e.CheckWrites, e.ModifyReads, units.Bytes(e.RankBytes))
	}
	r.EnergyMJ.WriteLine(t)
}
