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

// writeTitle writes what was run.
func (s *Summary) writeTitle(b *bytes.Buffer) {
	fmt.Fprintf(b, "%s serving %s on %s, %s requests of %s, seed %d\n",
		s.System, s.Model, s.GPU, grouped(float64(s.Trace.Requests), 0), s.Trace.Name, s.Seed)
}

// WriteFull writes all of the summary for a person to read.
func (s *Summary) WriteFull(w io.Writer) error {
	var b bytes.Buffer
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-16s%s\n", name, fmt.Sprintf(format, args...))
	}
	s.writeTitle(&b)
	b.WriteByte('\n')
	row("input", "%s tokens (%s ± %s a request)",
		grouped(float64(s.Trace.InputTokens), 0), grouped(s.Trace.InputMean, 1), grouped(s.Trace.InputStd, 1))
	row("output", "%s tokens (%s ± %s a request)",
		grouped(float64(s.Trace.OutputTokens), 0), grouped(s.Trace.OutputMean, 1), grouped(s.Trace.OutputStd, 1))
	row("arrivals", "%s", s.Arrivals.text())
	row("throughput", "%s output tokens/s", grouped(s.OutputTokensPerS, 1))
	row("simulated time", "%s s", grouped(s.SimulatedS, 3))
	row("wall time", "%s s", grouped(s.WallS, 2))
	b.WriteByte('\n')

	s.writeLatencies(row)
	b.WriteByte('\n')

	s.writeLoad(row)
	s.writeWork(row)
	s.EnergyReport.writeText(row)
	s.Cost.writeText(row)
	if s.RanksetImbalance > 0 {
		row("imbalance", "busiest rankset over mean %s", grouped(s.RanksetImbalance, 3))
	}
	s.writeMemory(row)
	s.writeWarnings(&b)
	_, err := w.Write(b.Bytes())
	return err
}

func (s *Summary) writeLatencies(row func(name, format string, args ...any)) {
	row("", "%12s%12s%12s%12s%12s", "mean", "p50", "p90", "p99", "max")
	latency := func(name string, l Latency) {
		unit, scale := timeUnit(l.Max)
		cells := make([]string, 0, 5)
		for _, v := range []float64{l.Mean, l.P50, l.P90, l.P99, l.Max} {
			cells = append(cells, fmt.Sprintf("%12s", grouped(v/scale, 2)))
		}
		row(name, "%s  %s", strings.Join(cells, ""), unit)
	}
	latency("TBT", s.TBT)
	if s.Stall.Count > 0 {
		latency("without stalls", s.TBTDecode)
	}
	latency("TTFT", s.TTFT)
	latency("end to end", s.E2E)
	if online := s.Arrivals.Kind != traces.ArrivalsAtOnce; online {
		latency("queueing", s.Queue)
		latency("TPOT", s.TPOT)
	}
}

// writeWork writes what iterations did: their requests, the share of each device, the GPUs' energy.
func (s *Summary) writeWork(row func(name, format string, args ...any)) {
	row("decode batch", "%s requests on average, %s at most",
		grouped(s.DecodeBatch.Mean, 1), grouped(float64(s.DecodeBatch.Max), 0))
	if i := s.Iteration; i.Mean > 0 {
		row("mean iteration", "%s ms: GPUs %s dense, %s attention, %s waiting", grouped(i.Mean, 1), percent(i.Dense/i.Mean), percent(i.Attention/i.Mean), percent(i.Waiting/i.Mean))
	}
	row("iterations", "%s, %s preemptions, %s requests rejected", grouped(float64(s.Iterations), 0),
		grouped(float64(s.Preemptions), 0), grouped(float64(s.RejectedRequests), 0))
	if l := s.Stall; l.Count > 0 {
		unit, scale := timeUnit(l.Max)
		row("stalls", "%s gaps: mean %s, p99 %s, max %s %s", grouped(float64(l.Count), 0),
			grouped(l.Mean/scale, 2), grouped(l.P99/scale, 2), grouped(l.Max/scale, 2), unit)
	}
	row("waits", "%s", s.Waits.GPU.text())
	if s.Waits.PIM != (PIMWaits{}) {
		row("waits of PIM", "%s", s.Waits.PIM.text())
	}
	row("utilization", "%s", s.utilizationText())
	if e := s.Energy; e.GPU > 0 {
		row("GPU energy", "%s kJ, %s J a token, %s W on average", grouped(e.GPU/1e3, 1), grouped(e.Token, 2), grouped(e.GPU/s.SimulatedS, 0))
		row("energy by phase", "prefill %s, decode %s, idle %s", percent(e.Prefill/e.GPU), percent(e.Decode/e.GPU), percent(e.Idle/e.GPU))
	}
}

func (s *Summary) utilizationText() string {
	u := &s.Utilization
	return fmt.Sprintf("GPU %s, PIM %s, PCIe %s down %s up, channel %s", percent(u.GPU), percent(u.PIM), percent(u.PCIeDown), percent(u.PCIeUp), percent(u.Channel))
}

func (s *Summary) memoryText() string {
	used := 0.0
	if s.KVBytes.Capacity > 0 {
		used = float64(s.KVBytes.Peak) / float64(s.KVBytes.Capacity)
	}
	return fmt.Sprintf("%s of %s at the peak (%s)", binary(s.KVBytes.Peak), binary(s.KVBytes.Capacity), percent(used))
}

// writeMemory writes the memory of keys and values: how full it was, what was found in it, and what attention read.
func (s *Summary) writeMemory(row func(name, format string, args ...any)) {
	row("KV memory", "%s", s.memoryText())
	if c := &s.Cache; c.HitTokens+c.MissTokens > 0 {
		row("prefix cache", "%s of %s prompt tokens found (%s), %s at the peak, %s blocks evicted, %s brought to the GPUs", grouped(float64(c.HitTokens), 0),
			grouped(float64(c.HitTokens+c.MissTokens), 0), percent(c.HitRate), binary(units.Bytes(c.Peak)), grouped(float64(c.EvictedBlocks), 0), binary(units.Bytes(c.Transferred)))
	}
	if n := s.Cache.Spared; n > 0 {
		row("group reads", "%s tokens of contexts read for several requests at once and not again", grouped(float64(n), 0))
	}
	if s.APIServer.Utilization > 0 {
		row("API server", "%s busy", percent(s.APIServer.Utilization))
	}
	row("fragmentation", "%s of the rows in use", percent(s.KVFragmentation))
	if a := &s.Attention; len(a.ByLayer) > 0 {
		row("attention", "%s: a KV head attends to %s of %s tokens on average", a.Policy, grouped(a.Attended, 1), grouped(a.Context, 1))
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
func binary(n units.Bytes) string {
	if v, unit := BinaryPrefix(float64(n)); unit != "B" {
		return strconv.FormatFloat(v, 'f', 1, 64) + " " + unit
	}
	return strconv.FormatInt(int64(n), 10) + " B"
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

// writeLoad writes how a node copes with requests that come over time: the load, goodput, and requests turned away.
func (s *Summary) writeLoad(row func(name, format string, args ...any)) {
	online := s.Arrivals.Kind != traces.ArrivalsAtOnce
	if online {
		row("in the system", "%s requests on average", grouped(s.RequestsInSystem, 1))
	}
	if n := s.RefusedRequests + s.ExpiredRequests; n > 0 {
		row("turned away", "%s requests refused, %s expired", grouped(float64(s.RefusedRequests), 0), grouped(float64(s.ExpiredRequests), 0))
	}
	if s.SLO.Any() {
		row("goodput", "%s", s.Goodput.text())
	}
}

func (g *Goodput) text() string {
	return fmt.Sprintf("%s output tokens/s, %s requests/s, attainment %s", grouped(g.TokensPerS, 1), grouped(g.RequestsPerS, 2), percent(g.Attainment))
}
