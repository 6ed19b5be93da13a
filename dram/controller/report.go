package controller

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/units"
)

// Report is the result of a replay, as dram replay prints it.
type Report struct {
	Spec     string `json:"spec"`
	Policy   string `json:"policy"`
	Channels int    `json:"channels"`
	Ranks    int    `json:"ranks"`
	// RequestBytes is the size of a request without its own, unless that is one burst.
	RequestBytes int64 `json:"request_bytes,omitempty"`
	*Stats
	commandCounts
	RowHits        int64   `json:"row_hits"`
	GBPerS         float64 `json:"gb_per_s"`        // of requests' bursts, without check bits and the reads of partial writes
	BusUtilization float64 `json:"bus_utilization"` // mean over the data buses: one for each channel or pseudo-channel
	// Bounds are the timing rules that keep data buses idle while requests wait, if the buses are busy for less than nine tenths of the
	// time.
	Bounds []boundReport `json:"bound_by,omitempty"`
	Advice *Advice       `json:"avoided_by,omitempty"` // result of Setup.Advise
	latencyReport
	// Reads by latency from acceptance: at least low_clocks, below twice that.
	Histogram []Bin            `json:"read_latency_histogram"`
	ByRank    []rankReport     `json:"by_rank"`
	ECC       *eccReport       `json:"ecc,omitempty"` // unless the ECC is none
	EnergyMJ  dram.Millijoules `json:"energy_millijoules"`
	WallS     float64          `json:"wall_s"`
}

// commandCounts are the numbers of issued commands by kind.
type commandCounts struct {
	ACT   int64 `json:"act"`
	PRE   int64 `json:"pre"` // PRE and PREA; auto-precharges are not counted
	RD    int64 `json:"rd"`
	WR    int64 `json:"wr"`
	REF   int64 `json:"ref"`
	REFsb int64 `json:"refsb"` // same-bank refreshes, each of one bank in every bank group
	REFpb int64 `json:"refpb"` // per-bank refreshes, each of one bank or a pair
	RFM   int64 `json:"rfm"`   // refresh management of all banks
	RFMsb int64 `json:"rfmsb"`
	RFMpb int64 `json:"rfmpb"`
}

// latencyReport is the latencies of reads and writes, in clocks.
type latencyReport struct {
	MeanReadLatency float64 `json:"mean_read_latency_clocks"`
	P99ReadLatency  int64   `json:"p99_read_latency_clocks"`
	MaxReadLatency  int64   `json:"max_read_latency_clocks"`
	// Counted from the request's own clock, including the wait before a full queue.
	MeanArrivalLatency float64 `json:"mean_read_latency_from_arrival_clocks"`
	MaxArrivalLatency  int64   `json:"max_read_latency_from_arrival_clocks"`
	MeanWriteLatency   float64 `json:"mean_write_latency_clocks"`
	MaxWriteLatency    int64   `json:"max_write_latency_clocks"`
}

// rankReport has the counts of one rank.
type rankReport struct {
	Channel int `json:"channel"`
	Rank    int `json:"rank"`
	RankStats
	BusShare float64      `json:"bus_utilization"` // of the data bus that the rank is on
	Power    *powerReport `json:"power,omitempty"` // with power_down
	Banks    []bankReport `json:"banks"`
}

// bankReport has the counts of one bank.
type bankReport struct {
	BankStats
	Depth float64 `json:"mean_queue_depth"`
}

// eccReport is the cost of check bits.
type eccReport struct {
	Mode        string `json:"mode"`
	Devices     int    `json:"chips"`
	RankBytes   int64  `json:"rank_bytes_for_data"`
	CheckReads  int64  `json:"check_reads"` // bursts, included in rd and bus_utilization but not in gb_per_s
	CheckWrites int64  `json:"check_writes"`
	ModifyReads int64  `json:"modify_reads"` // of data, for partial writes
}

// NewReport returns the report of a replay, which took wall time on this machine.
func NewReport(s *Setup, policy string, st *Stats, wall time.Duration) *Report {
	r := &Report{
		Spec: s.Spec.Name, Policy: policy, Channels: s.Channels, Ranks: s.Ranks, Stats: st,
		commandCounts: commandCounts{
			ACT: st.Count(dram.ACT), PRE: st.Count(dram.PRE, dram.PREA), RD: st.Count(dram.RD, dram.RDA), WR: st.Count(dram.WR, dram.WRA),
			REF: st.Count(dram.REF), REFsb: st.Count(dram.REFsb), REFpb: st.Count(dram.REFpb),
			RFM: st.Count(dram.RFM), RFMsb: st.Count(dram.RFMsb), RFMpb: st.Count(dram.RFMpb),
		},
		latencyReport: latencyReport{
			MeanReadLatency: st.Latency.Mean(), P99ReadLatency: st.Latency.Percentile(99), MaxReadLatency: st.Latency.Max(),
			MeanArrivalLatency: st.ArrivalLatency.Mean(), MaxArrivalLatency: st.ArrivalLatency.Max(),
			MeanWriteLatency: st.WriteLatency.Mean(), MaxWriteLatency: st.WriteLatency.Max(),
		},
		RowHits:   st.RowHits,
		Histogram: append([]Bin{}, st.Latency.Histogram()...), EnergyMJ: dram.NewMillijoules(s.Spec, &st.Energy), WallS: wall.Seconds(),
	}
	if n := s.requestBytes(); n != uint64(s.Spec.BurstBytes()) {
		r.RequestBytes = int64(n)
	}
	data, end, burst := r.RD+r.WR, max(1, float64(st.EndClock)), float64(s.Spec.BurstClocks())
	for i, rank := range st.Ranks {
		k := rankReport{Channel: i / s.Ranks, Rank: i % s.Ranks, RankStats: rank, BusShare: float64(rank.Reads+rank.Writes) * burst / end}
		for _, b := range st.Banks[i*s.Spec.Banks():][:s.Spec.Banks()] {
			k.Banks = append(k.Banks, bankReport{b, float64(b.QueueClocks) / end})
		}
		if s.Policy.PowerDown != "off" {
			k.Power = newPowerReport(s.Spec, &rank)
		}
		r.ByRank = append(r.ByRank, k)
	}
	if s.Spec.ECC != dram.NoECC {
		r.ECC = &eccReport{s.Spec.ECC, s.Spec.Devices(), int64(s.Spec.RankBytes()), st.CheckReads, st.CheckWrites, st.ModifyReads}
		data -= st.CheckReads + st.CheckWrites + st.ModifyReads
	}
	if st.EndClock > 0 {
		r.GBPerS = float64(data) * float64(s.Spec.BurstBytes()) / (end * s.Spec.TCK.Seconds()) / 1e9
		time := end * float64(s.Channels*s.Spec.Rules().PseudoChannels)
		r.BusUtilization = float64(r.RD+r.WR) * burst / time
		r.Bounds = bounds(st.Waits, r.RD+r.WR, time, r.BusUtilization)
	}
	return r
}

// WriteLines writes lines with tabs between cells.
func (r *Report) WriteLines(t io.Writer) {
	fmt.Fprintf(t, "%s, %d ranks a channel, channels: %d, policy: %s\n\n", r.Spec, r.Ranks, r.Channels, r.Policy)
	size := ""
	if r.RequestBytes > 0 {
		size = fmt.Sprintf("of %d B; bursts: ", r.RequestBytes)
	}
	fmt.Fprintf(t, "requests\t%d\t%smerged %d reads, %d writes; forwarded %d reads; wrapped %d addresses\n",
		r.Requests, size, r.MergedReads, r.MergedWrites, r.ForwardedReads, r.WrappedAddresses)
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
	r.writeBounds(t)
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

// powerReport is how one rank spent its time: clocks in each state, entries to power-down and self-refresh, and the energy of the states
// without commands and REFs.
type powerReport struct {
	Active        standbyReport `json:"active_standby"`
	Precharged    standbyReport `json:"precharged_standby"`
	ActiveDown    standbyReport `json:"active_power_down"`
	Down          standbyReport `json:"precharged_power_down"`
	SelfRefresh   standbyReport `json:"self_refresh"`
	PowerDowns    int64         `json:"power_downs"`
	SelfRefreshes int64         `json:"self_refreshes"`
	// NotEstimated is the reason why the states' energy is unknown and 0; else "".
	NotEstimated string `json:"not_estimated,omitempty"`
}

// standbyReport is one of the states.
type standbyReport struct {
	Clocks   int64   `json:"clocks"`
	EnergyMJ float64 `json:"energy_millijoules"`
}

func newPowerReport(spec *dram.Spec, r *RankStats) *powerReport {
	of := func(state dram.Standby) standbyReport {
		return standbyReport{r.Standby[state], spec.StandbyJoules(state, spec.BusSteps(int(r.Standby[state])), spec.BusSteps(int(r.OpenBanks))) * 1e3}
	}
	return &powerReport{of(dram.ActiveStandby), of(dram.PrechargedStandby), of(dram.ActivePowerDown), of(dram.PrechargedPowerDown), of(dram.SelfRefresh),
		r.PowerDowns, r.SelfRefreshes, spec.NotKnown()}
}

// writeLine writes the states as a line of cells, or nothing if there are none.
func (p *powerReport) writeLine(w io.Writer) {
	if p == nil {
		return
	}
	all := float64(max(1, p.Active.Clocks+p.Precharged.Clocks+p.ActiveDown.Clocks+p.Down.Clocks+p.SelfRefresh.Clocks))
	share := func(s standbyReport) float64 { return 100 * float64(s.Clocks) / all }
	fmt.Fprintf(w, "  standby\tactive %.1f%%, precharged %.1f%%\tpower-down active %.1f%%, precharged %.1f%% (%d times), self-refresh %.1f%% (%d times)\n",
		share(p.Active), share(p.Precharged), share(p.ActiveDown), share(p.Down), p.PowerDowns, share(p.SelfRefresh), p.SelfRefreshes)
}

// UnknownCurrents names the currents missing for the energy of power-down and self-refresh.
func (s *Setup) UnknownCurrents() (names []string) {
	if s.made() != nil || s.Policy.PowerDown == "off" {
		return nil
	}
	for state, name := range map[dram.Standby]string{dram.ActivePowerDown: "IDD3P", dram.PrechargedPowerDown: "IDD2P", dram.SelfRefresh: "IDD6"} {
		if _, known := s.Spec.Power.Current(state); !known {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
