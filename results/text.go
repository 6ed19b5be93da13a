package results

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// WriteText writes the main results, in at most ten lines, and the notes; WriteFull adds the rest.
func (s *Summary) WriteText(w io.Writer) error { return s.write(w, false) }

// WriteFull writes all of the summary for a person to read.
func (s *Summary) WriteFull(w io.Writer) error { return s.write(w, true) }

func (s *Summary) write(w io.Writer, full bool) error {
	if s == nil {
		return errNoSummary
	}
	var b strings.Builder
	system := s.System
	if s.Variant != "" {
		system += " (" + s.Variant + ")"
	}
	fmt.Fprintf(&b, "%s serving %s on %s, %s requests of %s, seed %d\n",
		system, s.Model, s.GPU, count(s.Trace.Requests), s.Trace.Name, s.Seed)
	for _, f := range facts {
		shown := f.shown == inBoth || full && f.shown != inBrief || !full && (f.shown == inBrief || f.shown == spare && !s.SLO.Any())
		if text := f.text(s); text != "" && shown {
			fmt.Fprintf(&b, "%-16s%s\n", f.name, text)
		}
	}
	notes := s.Notes
	if text := s.draw(); text != "" {
		notes = append([]string{text}, notes...)
	}
	for i, text := range notes {
		fmt.Fprintf(&b, "%-16s%s\n", fmt.Sprintf("note %d", i+1), wrapped(text, 16))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

const lineWidth = 80 // letters, for sentences

// wrapped breaks a text into lines; all begin after a number of letters.
func wrapped(text string, behind int) string {
	var b strings.Builder
	at := behind
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i > 0 && at+1+n > lineWidth:
			b.WriteString("\n" + strings.Repeat(" ", behind))
			at = behind
		case i > 0:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}

// Where a fact appears.
const (
	inFull = iota
	inBoth
	inBrief
	spare // in both, except in the brief text with goodput, which has ten lines without it
)

// facts are the lines of a summary below its title. An empty text has no line.
var facts = []struct {
	shown int
	name  string
	text  func(s *Summary) string
}{
	{inBoth, "GPU time", func(s *Summary) string { return wrapped(s.GPUTime.Text(), 16) }},
	{inFull, "input", func(s *Summary) string {
		return fmt.Sprintf("%s tokens (%s ± %s a request)", count(s.Trace.InputTokens), grouped(s.Trace.InputMean, 1), grouped(s.Trace.InputStd, 1))
	}},
	{inFull, "output", func(s *Summary) string {
		return fmt.Sprintf("%s tokens (%s ± %s a request)", count(s.Trace.OutputTokens), grouped(s.Trace.OutputMean, 1), grouped(s.Trace.OutputStd, 1))
	}},
	{inFull, "arrivals", func(s *Summary) string { return s.Arrivals.text() }},
	{inBoth, "throughput", func(s *Summary) string {
		return fmt.Sprintf("%s output tokens/s, %s simulated", grouped(s.OutputTokensPerS, 1), TimeText(1e3*s.SimulatedS))
	}},
	{inFull, "wall time", func(s *Summary) string { return grouped(s.WallS, 2) + " s" }},
	{inBoth, "goodput", func(s *Summary) string {
		if !s.SLO.Any() {
			return ""
		}
		g := &s.Goodput
		return fmt.Sprintf("%s output tokens/s, %.4g requests/s, attainment %s", grouped(g.TokensPerS, 1), g.RequestsPerS, percent(g.Attainment))
	}},
	{spare, "decode batch", func(s *Summary) string {
		return fmt.Sprintf("%s requests on average, %s at most", grouped(s.DecodeBatch.Mean, 1), count(s.DecodeBatch.Max))
	}},
	{inBrief, "TBT", func(s *Summary) string { return s.TBT.text() }},
	{inBrief, "TTFT", func(s *Summary) string { return s.TTFT.text() + s.queued() }},
	{inFull, "", func(*Summary) string { return fmt.Sprintf("%12s%12s%12s%12s%12s", "mean", "p50", "p90", "p99", "max") }},
	{inFull, "TBT", func(s *Summary) string { return s.TBT.row() }},
	{inFull, "without stalls", func(s *Summary) string { return where(s.Stall.Count > 0, s.TBTDecode.row) }},
	{inFull, "TTFT", func(s *Summary) string { return s.TTFT.row() }},
	{inFull, "", func(s *Summary) string {
		return where(s.queued() != "", func() string { return queueText })
	}},
	{inFull, "end to end", func(s *Summary) string { return s.E2E.row() }},
	{inFull, "queueing", func(s *Summary) string { return where(s.online(), s.Queue.row) }},
	{inFull, "TPOT", func(s *Summary) string { return where(s.online(), s.TPOT.row) }},
	{inFull, "in the system", func(s *Summary) string {
		return where(s.online(), func() string { return grouped(s.RequestsInSystem, 1) + " requests on average" })
	}},
	{inFull, "turned away", func(s *Summary) string {
		return where(s.RefusedRequests+s.ExpiredRequests > 0, func() string {
			return fmt.Sprintf("%s requests refused, %s expired", count(s.RefusedRequests), count(s.ExpiredRequests))
		})
	}},
	{inFull, "mean iteration", func(s *Summary) string {
		i := &s.Iteration
		if i.Mean == 0 {
			return ""
		}
		return fmt.Sprintf("%s: GPUs %s dense, %s attention, %s waiting", TimeText(i.Mean), percent(i.Dense/i.Mean), percent(i.Attention/i.Mean), percent(i.Waiting/i.Mean))
	}},
	{inFull, "iterations", func(s *Summary) string {
		return fmt.Sprintf("%s, %s preemptions, %s requests rejected", count(s.Iterations), count(s.Preemptions), count(s.RejectedRequests))
	}},
	{inFull, "stalls", func(s *Summary) string {
		l := &s.Stall
		if l.Count == 0 {
			return ""
		}
		return fmt.Sprintf("%s gaps: mean %s, p99 %s, max %s", count(l.Count), TimeText(l.Mean), TimeText(l.P99), TimeText(l.Max))
	}},
	{inBoth, "waits", func(s *Summary) string { return s.Waits.GPU.text() }},
	{inFull, "waits of PIM", func(s *Summary) string { return where(s.Waits.PIM != PIMWaits{}, s.Waits.PIM.text) }},
	{inBoth, "utilization", func(s *Summary) string {
		u := &s.Utilization
		return fmt.Sprintf("GPU %s, PIM %s, PCIe %s down %s up, channel %s", percent(u.GPU), percent(u.PIM), percent(u.PCIeDown), percent(u.PCIeUp), percent(u.Channel))
	}},
	{inFull, "GPU energy", func(s *Summary) string {
		e := &s.Energy
		if e.GPU == 0 {
			return ""
		}
		return fmt.Sprintf("%s kJ, %s J a token: prefill %.0f%%, decode %.0f%%, idle %.0f%%", grouped(e.GPU/1e3, 0), grouped(e.Token, 2), 100*e.Prefill/e.GPU, 100*e.Decode/e.GPU, 100*e.Idle/e.GPU)
	}},
	{inBoth, "site energy", func(s *Summary) string {
		e := &s.EnergyReport
		return where(e.Total > 0, func() string {
			return fmt.Sprintf("%s kJ (%s to %s), %s W on average", grouped(e.Total/1e3, 0), grouped(e.Low/1e3, 0), grouped(e.High/1e3, 0), grouped(e.Watts, 0))
		})
	}},
	{inFull, "tokens per kJ", func(s *Summary) string {
		e := &s.EnergyReport
		return where(e.Total > 0, func() string {
			return fmt.Sprintf("%s of output, %s in all; %.0f%% of the energy is assumed", grouped(1e3*e.OutputTokensPerJoule, 1), grouped(1e3*e.TotalTokensPerJoule, 1), 100*e.AssumedShare)
		})
	}},
	{inFull, "power of a DIMM", func(s *Summary) string {
		e := &s.EnergyReport
		return where(e.Total > 0, func() string {
			return fmt.Sprintf("%s W at its busiest, %s at most; %d dies of %s a rank", grouped(e.DIMM, 1), grouped(e.DIMMHigh, 1), e.RankDies, e.Die)
		})
	}},
	{inBoth, "cost", func(s *Summary) string {
		c := &s.Cost
		return where(c.PerMToken > 0, func() string {
			return fmt.Sprintf("%s USD a million output tokens (%s to %s)", grouped(c.PerMToken, 2), grouped(c.PerMTokenLow, 2), grouped(c.PerMTokenHigh, 2))
		})
	}},
	{inFull, "cost per hour", func(s *Summary) string {
		c := &s.Cost
		return where(c.PerMToken > 0, func() string {
			return fmt.Sprintf("%s USD, electricity %s; prices of %s, grade %s", grouped(c.PerHour, 2), percent(c.EnergyPerHour/c.PerHour), c.Date, c.Grade)
		})
	}},
	{inFull, "imbalance", func(s *Summary) string {
		return where(s.RanksetImbalance > 0, func() string { return "busiest rankset over mean " + grouped(s.RanksetImbalance, 3) })
	}},
	{inBoth, "KV memory", func(s *Summary) string {
		k := &s.KVBytes
		return fmt.Sprintf("%s of %s at the peak (%s)", binary(units.Bytes(k.Peak)), binary(units.Bytes(k.Capacity)), percent(float64(k.Peak)/max(float64(k.Capacity), 1)))
	}},
	{inFull, "prefix cache", func(s *Summary) string {
		c := &s.Cache
		return where(c.HitTokens+c.MissTokens > 0, func() string {
			return fmt.Sprintf("%s of %s prompt tokens found (%s), %s at the peak, %s blocks evicted, %s brought to the GPUs", count(c.HitTokens),
				count(c.HitTokens+c.MissTokens), percent(c.HitRate), binary(units.Bytes(c.Peak)), count(c.EvictedBlocks), binary(units.Bytes(c.Transferred)))
		})
	}},
	{inFull, "group reads", func(s *Summary) string {
		return where(s.Cache.Spared > 0, func() string {
			return count(s.Cache.Spared) + " tokens of contexts read for several requests at once and not again"
		})
	}},
	{inFull, "API server", func(s *Summary) string {
		return where(s.APIServer.Utilization > 0, func() string { return percent(s.APIServer.Utilization) + " busy" })
	}},
	{inFull, "fragmentation", func(s *Summary) string { return percent(s.KVFragmentation) + " of the rows in use" }},
	{inFull, "attention", func(s *Summary) string {
		a := &s.Attention
		return where(len(a.ByLayer) > 0, func() string {
			return fmt.Sprintf("%s: a KV head attends to %s of %s tokens on average", a.Policy, grouped(a.Attended, 1), grouped(a.Context, 1))
		})
	}},
}

// where returns the text if there is one, else "".
func where(there bool, text func() string) string {
	if there {
		return text()
	}
	return ""
}

// online says that requests arrive over time.
func (s *Summary) online() bool { return s.Arrivals.Kind != traces.ArrivalsAtOnce }

const queueText = "TTFT is the place in the queue: all requests come at once"

// queued qualifies the time to first token of runs whose requests arrive all at once.
func (s *Summary) queued() string {
	return where(!s.online() && s.Trace.Requests > 1, func() string { return " (place in the queue)" })
}

func (l *Latency) text() string {
	return fmt.Sprintf("mean %s, p50 %s, p99 %s, max %s", TimeText(l.Mean), TimeText(l.P50), TimeText(l.P99), TimeText(l.Max))
}

// row returns the numbers of a latency, aligned with mean, p50, p90, p99 and max.
func (l *Latency) row() (text string) {
	for _, v := range []float64{l.Mean, l.P50, l.P90, l.P99, l.Max} {
		text += fmt.Sprintf("%12s", TimeText(v))
	}
	return text
}

// text returns the GPUs' waits; a link counts in both directions together.
func (g *GPUWaits) text() string {
	return reasons("GPUs", []reason{
		{"PIM", g.PIM}, {"imbalance", g.Imbalance}, {"links", g.LinkDown + g.LinkUp}, {"channels", g.Channel}, {"host", g.Host}, {"no requests", g.NoRequests}})
}

// text returns the waits of PIM ranks.
func (p *PIMWaits) text() string {
	return reasons("PIM", []reason{
		{"GPUs", p.GPU}, {"other ranksets", p.Others}, {"links", p.LinkDown + p.LinkUp}, {"channels", p.Channel}, {"host", p.Host}, {"no requests", p.NoRequests}})
}

// reason is a cause of waits and its share of the time.
type reason struct {
	name  string
	share float64
}

// reasons returns shares in whole percent, largest first: at most four, none below half a percent.
func reasons(who string, parts []reason) string {
	slices.SortStableFunc(parts, func(a, b reason) int { return cmp.Compare(b.share, a.share) })
	all, text := 0.0, []string(nil)
	for _, p := range parts {
		all += p.share
		if p.share >= 0.005 && len(text) < 4 {
			text = append(text, fmt.Sprintf("%s %.0f%%", p.name, 100*p.share))
		}
	}
	if len(text) == 0 {
		return fmt.Sprintf("%s %.0f%%", who, 100*all)
	}
	return fmt.Sprintf("%s %.0f%%: %s", who, 100*all, strings.Join(text, ", "))
}

// TimeText returns a time given in milliseconds, in a unit for people and with three digits: 103 ms, 12.3 s, 44 min.
func TimeText(ms float64) string {
	for _, u := range []struct {
		name      string
		ms, below float64
	}{{"ms", 1, 999.5}, {"s", 1e3, 119_950}, {"min", 60e3, 7_170_000}, {"h", 3600e3, 1e300}} {
		if ms >= u.below {
			continue
		}
		v, decimals := ms/u.ms, 2
		switch {
		case v >= 99.95 || u.ms >= 60e3 && v >= 9.95:
			decimals = 0
		case v >= 9.995 || u.ms >= 60e3:
			decimals = 1
		}
		return grouped(v, decimals) + " " + u.name
	}
	return strconv.FormatFloat(ms, 'g', 3, 64) + " ms"
}

// Warnings returns the assumptions that make a number doubtful.
func (s *Summary) Warnings() []string {
	s = cmp.Or(s, &Summary{})
	var all []string
	if n := s.RejectedRequests - s.TooLongRequests; n > 0 {
		all = append(all, fmt.Sprintf("%s of %s requests fit no empty memory and were rejected", count(n), count(s.Trace.Requests)))
	}
	if s.Saturated {
		all = append(all, "more requests come than are served: latencies depend on how long the run is")
	}
	if n := s.RefusedRequests + s.ExpiredRequests; n > 0 {
		all = append(all, fmt.Sprintf("%d requests were refused, %d expired", s.RefusedRequests, s.ExpiredRequests))
	}
	for _, what := range s.EnergyReport.NotEstimated {
		all = append(all, "the energy lacks "+what)
	}
	return append(all, s.Doubts...)
}

// draw says that a DIMM draws more than its slot supplies, "" if not.
func (s *Summary) draw() string {
	e := &s.EnergyReport
	return where(e.DIMM > e.DIMMLimit, func() string {
		return fmt.Sprintf("a DIMM draws %s W, at most %s W: its slot supplies %s W", grouped(e.DIMM, 1), grouped(e.DIMMHigh, 1), grouped(e.DIMMLimit, 0))
	})
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) + "%" }

// count writes a whole number.
func count[T int | int64 | float64](n T) string { return grouped(float64(n), 0) }

// binary writes a number of bytes with a binary prefix and one decimal.
func binary(n units.Bytes) string {
	if v, unit := BinaryPrefix(float64(n)); unit != "B" {
		return strconv.FormatFloat(v, 'f', 1, 64) + " " + unit
	}
	return strconv.FormatInt(int64(n), 10) + " B"
}

// BinaryPrefix returns a number of bytes in the largest unit in which it is at least one.
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
