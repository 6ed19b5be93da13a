package traces

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/l3sim/l3sim/input"
)

// Report is the statistics of a trace, as trace stats prints them.
type Report struct {
	File          string              `json:"file"`
	Format        string              `json:"format"`
	Requests      int                 `json:"requests"`
	Failed        int                 `json:"failed_requests"`
	Skipped       int                 `json:"skipped_lines"`
	Unordered     int                 `json:"out_of_order_requests"`
	DurationS     float64             `json:"duration_s"`
	RatePerS      float64             `json:"rate_per_s"`
	Burstiness    float64             `json:"burstiness_cv"`
	Input         Lengths             `json:"input_tokens"`
	Output        Lengths             `json:"output_tokens"`
	Conversations *conversationsStats `json:"conversations,omitempty"`
	Prefixes      *prefixStats        `json:"prefixes,omitempty"`
}

// conversationsStats describe the conversations of a trace.
type conversationsStats struct {
	Count     int     `json:"count"`
	TurnsMean float64 `json:"turns_mean"`
	TurnsMax  int     `json:"turns_max"`
}

// prefixStats describe the prefixes that prompts share.
type prefixStats struct {
	Requests        int     `json:"requests"`
	BlockTokens     int     `json:"block_tokens"`
	Blocks          int64   `json:"blocks"`
	DistinctBlocks  int64   `json:"distinct_blocks"`
	SharingRequests int     `json:"sharing_requests"`
	SharedTokens    int64   `json:"shared_tokens"`
	SharedShare     float64 `json:"shared_share"` // of the tokens of prompts with hashes
}

// NewReport returns the report of a trace.
func NewReport(t *Trace) *Report {
	s := t.Stats()
	stats := &Report{
		File: t.Name, Format: t.Format, Requests: s.Requests, Failed: t.Failed, Skipped: t.Skipped, Unordered: t.Unordered,
		DurationS: s.Duration.Seconds(), RatePerS: s.RatePerS, Burstiness: s.GapCV, Input: s.Input, Output: s.Output,
	}
	if s.Conversations > 0 {
		stats.Conversations = &conversationsStats{s.Conversations, s.TurnsMean, s.TurnsMax}
	}
	if p := &s.Prefixes; p.Requests > 0 {
		stats.Prefixes = &prefixStats{p.Requests, BlockTokens, p.Blocks, p.Distinct, p.Sharing, p.SharedTokens, float64(p.SharedTokens) / float64(p.Tokens)}
	}
	return stats
}

// WriteText writes the statistics for people.
func (s *Report) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%s, %s: %s", s.File, s.Format, input.Plural(s.Requests, "request", "requests"))
	if s.Unordered > 0 {
		fmt.Fprintf(w, ", %d out of order", s.Unordered)
	}
	if s.DurationS == 0 {
		fmt.Fprintf(w, ", all at once\n\n")
	} else {
		fmt.Fprintf(w, " in %.6g s, %.4g a second, burstiness %.3f\n\n", s.DurationS, s.RatePerS, s.Burstiness)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "tokens\ttotal\tmean\tstd\tmin\tp25\tmedian\tp75\tp90\tp95\tp99\tmax")
	for _, l := range []struct {
		name string
		of   *Lengths
	}{{"prompt", &s.Input}, {"output", &s.Output}} {
		fmt.Fprintf(table, "%s\t%d\t%.1f\t%.1f\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", l.name, l.of.Tokens, l.of.Mean, l.of.Std,
			l.of.Min, l.of.P25, l.of.Median, l.of.P75, l.of.P90, l.of.P95, l.of.P99, l.of.Max)
	}
	err := table.Flush()
	if c := s.Conversations; c != nil {
		fmt.Fprintf(w, "\n%s: %.2f turns on average, at most %d\n", input.Plural(c.Count, "conversation", "conversations"), c.TurnsMean, c.TurnsMax)
	}
	if p := s.Prefixes; p != nil {
		fmt.Fprintf(w, "\nprefixes: %d of %s share %.1f%% of all prompt tokens; %d of %d blocks of %d tokens are distinct\n",
			p.SharingRequests, input.Plural(p.Requests, "request", "requests"), 100*p.SharedShare, p.DistinctBlocks, p.Blocks, p.BlockTokens)
	}
	return err
}
