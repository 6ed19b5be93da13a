package results

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// all returns the share of the time in which GPUs wait.
func (g *GPUWaits) all() float64 {
	return g.PIM + g.Imbalance + g.LinkDown + g.LinkUp + g.Channel + g.Host + g.NoRequests
}

// text says what the GPUs wait for; links are both directions together.
func (g *GPUWaits) text() string {
	return reasons("GPUs", []reason{
		{"PIM", g.PIM}, {"imbalance", g.Imbalance}, {"links", g.LinkDown + g.LinkUp}, {"channels", g.Channel}, {"host", g.Host}, {"no requests", g.NoRequests}})
}

// text says what ranks of PIM wait for.
func (p *PIMWaits) text() string {
	return reasons("PIM", []reason{
		{"GPUs", p.GPU}, {"other ranksets", p.Others}, {"links", p.LinkDown + p.LinkUp}, {"channels", p.Channel}, {"host", p.Host}, {"no requests", p.NoRequests}})
}

// reason is what is waited for, and for which share of the time.
type reason struct {
	name  string
	share float64
}

// reasons writes shares, the largest first, in whole percents: four at most, none below half a percent.
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

// warnings are sentences on what a reader of the numbers must know.
func (s *Summary) warnings() []string {
	var all []string
	if s.Saturated {
		all = append(all, "more requests come than are served: latencies depend on how long the run is")
	}
	if n := s.RefusedRequests + s.ExpiredRequests; n > 0 {
		all = append(all, fmt.Sprintf("%d requests were refused, %d expired", s.RefusedRequests, s.ExpiredRequests))
	}
	for _, what := range s.EnergyReport.NotEstimated {
		all = append(all, "the energy lacks "+what)
	}
	if e := &s.EnergyReport; e.DIMM > e.DIMMLimit {
		all = append(all, fmt.Sprintf("a DIMM draws %s W at its busiest, %s W at most: more than the %s W that its slot supplies", grouped(e.DIMM, 1), grouped(e.DIMMHigh, 1), grouped(e.DIMMLimit, 0)))
	}
	return append(all, s.Notes...)
}

// TimeText writes a time, in milliseconds, in the unit that people read it in, with three digits: 103 ms, 12.3 s, 44 min.
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

// WriteAcross writes runs beside each other, a column each: as many as fit 80 characters, then the next ones below.
func WriteAcross(w io.Writer, names []string, runs []*Summary) error {
	width := 10
	for _, name := range names {
		width = max(width, len(name))
	}
	const label = 23
	var b bytes.Buffer
	for fit := max(1, (80-label)/(width+2)); len(runs) > 0; {
		n := min(fit, len(runs))
		row := func(name string, cell func(i int) string) {
			line := fmt.Sprintf("%-*s", label, name)
			for i := range n {
				line += fmt.Sprintf("  %*s", width, cell(i))
			}
			fmt.Fprintln(&b, strings.TrimRight(line, " "))
		}
		row("", func(i int) string { return names[i] })
		for _, c := range across {
			row(c.name, func(i int) string { return c.cell(runs[i]) })
		}
		if names, runs = names[n:], runs[n:]; len(runs) > 0 {
			b.WriteByte('\n')
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// across are the rows of runs beside each other.
var across = []struct {
	name string
	cell func(s *Summary) string
}{
	{"output tokens/s", func(s *Summary) string { return grouped(s.OutputTokensPerS, 1) }},
	{"requests decoding", func(s *Summary) string { return grouped(s.DecodeBatch.Mean, 1) }},
	{"TBT mean", func(s *Summary) string { return TimeText(s.TBT.Mean) }},
	{"TBT p99", func(s *Summary) string { return TimeText(s.TBT.P99) }},
	{"TTFT mean", func(s *Summary) string { return TimeText(s.TTFT.Mean) }},
	{"TTFT p99", func(s *Summary) string { return TimeText(s.TTFT.P99) }},
	{"GPUs work", func(s *Summary) string { return percent(s.Utilization.GPU) }},
	{"GPUs wait", func(s *Summary) string { return percent(s.Waits.GPU.all()) }},
	{"PIM works", func(s *Summary) string { return percent(s.Utilization.PIM) }},
	{"mean power, W", func(s *Summary) string { return grouped(s.EnergyReport.Watts, 0) }},
	{"output tokens per kJ", func(s *Summary) string { return grouped(1e3*s.EnergyReport.OutputTokensPerJoule, 1) }},
	{"USD per million tokens", func(s *Summary) string { return grouped(s.Cost.PerMToken, 2) }},
	{"KV memory, peak", func(s *Summary) string { return binary(s.KVBytes.Peak) }},
}
