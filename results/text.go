package results

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// WriteText writes what a person asks first, in ten lines at most, and the warnings.
func (s *Summary) WriteText(w io.Writer) error { return s.write(w, false) }

// WriteFull writes all of the summary for a person to read.
func (s *Summary) WriteFull(w io.Writer) error { return s.write(w, true) }

func (s *Summary) write(w io.Writer, full bool) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s serving %s on %s, %s requests of %s, seed %d\n",
		s.System, s.Model, s.GPU, grouped(float64(s.Trace.Requests), 0), s.Trace.Name, s.Seed)
	for _, f := range facts {
		text := f.text(s)
		if hidden := f.in == inFull && !full || f.in == inBrief && full || f.in == withoutSLO && !full && s.SLO.Any(); text != "" && !hidden {
			fmt.Fprintf(&b, "%-16s%s\n", f.name, text)
		}
	}
	if full {
		s.writeLatencies(&b)
	}
	for _, text := range s.warnings() {
		fmt.Fprintf(&b, "warning: %s\n", text)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// where says which of the two texts has a fact.
type where int

const (
	inBoth where = iota
	inFull
	inBrief
	withoutSLO // in the brief one where there is no line of goodput
)

// facts are the lines of a summary, below its title; one without a text is left out.
var facts = []struct {
	name string
	in   where
	text func(s *Summary) string
}{
	{"input", inFull, func(s *Summary) string { return lengths(s.Trace.InputTokens, s.Trace.InputMean, s.Trace.InputStd) }},
	{"output", inFull, func(s *Summary) string { return lengths(s.Trace.OutputTokens, s.Trace.OutputMean, s.Trace.OutputStd) }},
	{"arrivals", inFull, func(s *Summary) string { return s.Arrivals.text() }},
	{"simulated time", inFull, func(s *Summary) string {
		return fmt.Sprintf("%s s, in %s s on this machine", grouped(s.SimulatedS, 3), grouped(s.WallS, 2))
	}},
	{"throughput", inBoth, func(s *Summary) string { return grouped(s.OutputTokensPerS, 1) + " output tokens/s" }},
	{"goodput", inBoth, func(s *Summary) string {
		g := &s.Goodput
		return when(s.SLO.Any(), "%s output tokens/s, %s requests/s, attainment %s", grouped(g.TokensPerS, 1), grouped(g.RequestsPerS, 2), percent(g.Attainment))
	}},
	{"in the system", inFull, func(s *Summary) string {
		return when(s.online(), "%s requests on average", grouped(s.RequestsInSystem, 1))
	}},
	{"turned away", inFull, func(s *Summary) string {
		return when(s.RefusedRequests+s.ExpiredRequests > 0, "%s requests refused, %s expired", count(s.RefusedRequests), count(s.ExpiredRequests))
	}},
	{"decode batch", withoutSLO, func(s *Summary) string {
		return fmt.Sprintf("%s requests on average, %s at most; %s simulated", grouped(s.DecodeBatch.Mean, 1), count(int64(s.DecodeBatch.Max)), TimeText(1e3*s.SimulatedS))
	}},
	{"mean iteration", inFull, func(s *Summary) string {
		i := &s.Iteration
		return when(i.Mean > 0, "%s ms: GPUs %s dense, %s attention, %s waiting", grouped(i.Mean, 1), percent(i.Dense/i.Mean), percent(i.Attention/i.Mean), percent(i.Waiting/i.Mean))
	}},
	{"iterations", inFull, func(s *Summary) string {
		return fmt.Sprintf("%s, %s preemptions, %s requests rejected", count(s.Iterations), count(s.Preemptions), count(s.RejectedRequests))
	}},
	{"TBT", inBrief, func(s *Summary) string { return s.TBT.text() }},
	{"TTFT", inBrief, func(s *Summary) string { return s.TTFT.text() }},
	{"stalls", inFull, func(s *Summary) string {
		l := &s.Stall
		return when(l.Count > 0, "%s gaps: mean %s, p99 %s, max %s", count(l.Count), TimeText(l.Mean), TimeText(l.P99), TimeText(l.Max))
	}},
	{"waits", inBoth, func(s *Summary) string { return s.Waits.GPU.text() }},
	{"waits of PIM", inFull, func(s *Summary) string { return when(s.Waits.PIM != PIMWaits{}, "%s", s.Waits.PIM.text()) }},
	{"utilization", inBoth, func(s *Summary) string {
		u := &s.Utilization
		return fmt.Sprintf("GPU %s, PIM %s, PCIe %s down %s up, channel %s", percent(u.GPU), percent(u.PIM), percent(u.PCIeDown), percent(u.PCIeUp), percent(u.Channel))
	}},
	{"GPU energy", inFull, func(s *Summary) string {
		e := &s.Energy
		return when(e.GPU > 0, "%s kJ, %s J a token, %s W on average", grouped(e.GPU/1e3, 1), grouped(e.Token, 2), grouped(e.GPU/s.SimulatedS, 0))
	}},
	{"energy by phase", inFull, func(s *Summary) string {
		e := &s.Energy
		return when(e.GPU > 0, "prefill %s, decode %s, idle %s", percent(e.Prefill/e.GPU), percent(e.Decode/e.GPU), percent(e.Idle/e.GPU))
	}},
	{"energy", inBoth, func(s *Summary) string {
		e := &s.EnergyReport
		return when(e.Total != 0, "%s kJ (%s to %s), %s W on average", grouped(e.Total/1e3, 0), grouped(e.Low/1e3, 0), grouped(e.High/1e3, 0), grouped(e.Watts, 0))
	}},
	{"tokens per kJ", inFull, func(s *Summary) string {
		e := &s.EnergyReport
		return when(e.Total != 0, "%s of output, %s in all; %s of joules assumed", grouped(1e3*e.OutputTokensPerJoule, 1), grouped(1e3*e.TotalTokensPerJoule, 1), percent(e.AssumedShare))
	}},
	{"power of a DIMM", inFull, func(s *Summary) string {
		e := &s.EnergyReport
		return when(e.Total != 0, "%s W at its busiest, %s at most; a slot supplies %s W", grouped(e.DIMM, 1), grouped(e.DIMMHigh, 1), grouped(e.DIMMLimit, 0))
	}},
	{"dies of a rank", inFull, func(s *Summary) string {
		return when(s.EnergyReport.Total != 0, "%d DRAM dies of %s, which all draw standby and refresh", s.EnergyReport.RankDies, s.EnergyReport.Die)
	}},
	{"cost", inBoth, func(s *Summary) string {
		c := &s.Cost
		return when(c.PerMToken != 0, "%s USD a million output tokens (%s to %s)", grouped(c.PerMToken, 2), grouped(c.PerMTokenLow, 2), grouped(c.PerMTokenHigh, 2))
	}},
	{"cost per hour", inFull, func(s *Summary) string {
		c := &s.Cost
		return when(c.PerMToken != 0, "%s USD, electricity %s; prices of %s, grade %s", grouped(c.PerHour, 2), percent(c.EnergyPerHour/c.PerHour), c.Date, c.Grade)
	}},
	{"imbalance", inFull, func(s *Summary) string {
		return when(s.RanksetImbalance > 0, "busiest rankset over mean %s", grouped(s.RanksetImbalance, 3))
	}},
	{"KV memory", inBoth, func(s *Summary) string {
		k := &s.KVBytes
		return fmt.Sprintf("%s of %s at the peak (%s)", binary(k.Peak), binary(k.Capacity), percent(float64(k.Peak)/max(1, float64(k.Capacity))))
	}},
	{"fragmentation", inFull, func(s *Summary) string { return percent(s.KVFragmentation) + " of the rows in use" }},
	{"prefix cache", inFull, func(s *Summary) string {
		c := &s.Cache
		return when(c.HitTokens+c.MissTokens > 0, "%s of %s prompt tokens found (%s), %s at the peak, %s blocks evicted, %s brought to the GPUs", count(c.HitTokens), count(c.HitTokens+c.MissTokens),
			percent(c.HitRate), binary(c.Peak), count(c.EvictedBlocks), binary(c.Transferred))
	}},
	{"group reads", inFull, func(s *Summary) string {
		return when(s.Cache.Spared > 0, "%s tokens of contexts read for several requests at once and not again", count(s.Cache.Spared))
	}},
	{"API server", inFull, func(s *Summary) string {
		return when(s.APIServer.Utilization > 0, "%s busy", percent(s.APIServer.Utilization))
	}},
	{"attention", inFull, func(s *Summary) string {
		a := &s.Attention
		return when(len(a.ByLayer) > 0, "%s: a KV head attends to %s of %s tokens on average", a.Policy, grouped(a.Attended, 1), grouped(a.Context, 1))
	}},
}

// when writes what is said where a condition holds, else nothing.
func when(holds bool, format string, args ...any) string {
	if !holds {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

func lengths(tokens int64, mean, std float64) string {
	return fmt.Sprintf("%s tokens (%s ± %s a request)", count(tokens), grouped(mean, 1), grouped(std, 1))
}

func (s *Summary) online() bool { return s.Arrivals.Kind != traces.ArrivalsAtOnce }

func (l *Latency) text() string {
	return fmt.Sprintf("mean %s, p50 %s, p99 %s, max %s", TimeText(l.Mean), TimeText(l.P50), TimeText(l.P99), TimeText(l.Max))
}

func (s *Summary) writeLatencies(b *bytes.Buffer) {
	fmt.Fprintf(b, "\n%-16s%12s%12s%12s%12s%12s\n", "", "mean", "p50", "p90", "p99", "max")
	for _, l := range []struct {
		name string
		of   *Latency
		is   bool
	}{{"TBT", &s.TBT, true}, {"without stalls", &s.TBTDecode, s.Stall.Count > 0}, {"TTFT", &s.TTFT, true}, {"end to end", &s.E2E, true}, {"queueing", &s.Queue, s.online()}, {"TPOT", &s.TPOT, s.online()}} {
		if !l.is {
			continue
		}
		unit, scale := timeUnit(l.of.Max)
		fmt.Fprintf(b, "%-16s", l.name)
		for _, v := range []float64{l.of.Mean, l.of.P50, l.of.P90, l.of.P99, l.of.Max} {
			fmt.Fprintf(b, "%12s", grouped(v/scale, 2))
		}
		fmt.Fprintf(b, "  %s\n", unit)
	}
}

// timeUnit returns the unit for times of up to most milliseconds, so that columns keep
// apart, and its milliseconds.
func timeUnit(most float64) (unit string, ms float64) {
	switch {
	case most >= 1e9:
		return "h", 3_600_000
	case most >= 10_000:
		return "s", 1000
	}
	return "ms", 1
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) + "%" }

// binary writes a number of bytes with a binary prefix and one decimal.
func binary(n int64) string {
	if v, unit := BinaryPrefix(float64(n)); unit != "B" {
		return strconv.FormatFloat(v, 'f', 1, 64) + " " + unit
	}
	return strconv.FormatInt(n, 10) + " B"
}

// BinaryPrefix returns a number of bytes in the largest unit of which it has one.
func BinaryPrefix(bytes float64) (v float64, unit string) {
	for _, u := range []struct {
		name string
		size units.Bytes
	}{{"TiB", units.TiB}, {"GiB", units.GiB}, {"MiB", units.MiB}, {"KiB", units.KiB}} {
		if v := bytes / float64(u.size); math.Abs(v) >= 1 {
			return v, u.name
		}
	}
	return bytes, "B"
}

// grouped writes v with the given number of decimals and a comma between groups of three digits.
func grouped(v float64, decimals int) string {
	return GroupDigits(strconv.FormatFloat(v, 'f', decimals, 64))
}

func count(n int64) string { return grouped(float64(n), 0) }

// GroupDigits returns a decimal number with a comma between groups of three digits.
func GroupDigits(text string) string {
	number, minus := strings.CutPrefix(text, "-")
	whole, fraction, point := strings.Cut(number, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if point {
		whole += "." + fraction
	}
	if minus {
		return "-" + whole
	}
	return whole
}

func (a *Arrivals) text() string {
	text := strings.ReplaceAll(a.Kind, "-", " ")
	if a.Kind == traces.ArrivalsClosed {
		text = "closed loop"
	}
	if a.RatePerS > 0 {
		text += ", " + strconv.FormatFloat(a.RatePerS, 'g', 4, 64) + " requests/s"
	}
	return text
}
