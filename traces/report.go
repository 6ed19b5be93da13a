package traces

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/l3sim/l3sim/input"
)

// Report has the statistics of a trace that 'trace stats' prints.
type Report struct {
	File          string              `json:"file"`
	Format        string              `json:"format"`
	Requests      int                 `json:"requests"`
	Failed        int                 `json:"failed_requests"`
	Skipped       int                 `json:"skipped_lines"`
	Unordered     int                 `json:"out_of_order_requests"`
	DurationS     float64             `json:"duration_s"`    // from the first arrival to the last
	RatePerS      float64             `json:"rate_per_s"`    // (requests − 1) / duration; 0 if all arrive at once
	Burstiness    float64             `json:"burstiness_cv"` // see gapCV
	Input         Lengths             `json:"input_tokens"`
	Output        Lengths             `json:"output_tokens"`
	Conversations *conversationsStats `json:"conversations,omitempty"` // conversations of at least two requests; nil if there are none
	Prefixes      *prefixStats        `json:"prefixes,omitempty"`
	Reading       Reading             `json:"reading"`
}

// conversationsStats describe the conversations of a trace.
type conversationsStats struct {
	Count     int     `json:"count"`
	TurnsMean float64 `json:"turns_mean"`
	TurnsMax  int     `json:"turns_max"`
}

// prefixStats describe the prefixes that prompts share with earlier prompts: the hits of an unlimited cache that has each prompt from its
// arrival on.
type prefixStats struct {
	Requests        int     `json:"requests"` // requests with hashes
	BlockTokens     int     `json:"block_tokens"`
	Blocks          int64   `json:"blocks"`           // blocks of their prompts
	DistinctBlocks  int64   `json:"distinct_blocks"`  // blocks with different text or different text before them
	SharingRequests int     `json:"sharing_requests"` // requests with a block in SharedTokens
	SharedTokens    int64   `json:"shared_tokens"`    // tokens of leading blocks that an earlier prompt also begins with
	SharedShare     float64 `json:"shared_share"`     // share of the tokens of prompts with hashes
}

// NewReport returns the report of a trace in order of arrival.
func NewReport(t *Trace) *Report {
	s := &Report{
		File: t.Name, Format: t.Format, Requests: len(t.Requests), Failed: t.Failed, Skipped: t.Skipped, Unordered: t.Unordered,
		DurationS: t.span().Seconds(), RatePerS: t.Described().RatePerS, Burstiness: t.gapCV(),
		Input:    lengths(t.Requests, func(r *Request) int { return r.Input }),
		Output:   lengths(t.Requests, func(r *Request) int { return r.Output }),
		Prefixes: t.prefixes(), Reading: t.Reading,
	}
	turns, all, most := map[int]int{}, 0, 0
	for i := range t.Requests {
		if turn := t.Requests[i].Turn; turn != nil {
			all++
			turns[turn.Session]++
			most = max(most, turns[turn.Session])
		}
	}
	if len(turns) > 0 {
		s.Conversations = &conversationsStats{len(turns), float64(all) / float64(len(turns)), most}
	}
	return s
}

// write prints the columns read as times, hashes and conversations, one a line.
func (r *Reading) write(w io.Writer, s *Report) {
	switch {
	case r.Times == "":
		fmt.Fprintln(w, "times: none")
	case r.Guessed:
		fmt.Fprintf(w, "times: %s, %s (a guess)\n", r.Times, r.Unit)
	default:
		fmt.Fprintf(w, "times: %s, %s\n", r.Times, r.Unit)
	}
	if r.Hashes != "" && s.Prefixes != nil {
		fmt.Fprintf(w, "hashes: %s, blocks of %d tokens\n", r.Hashes, s.Prefixes.BlockTokens)
	}
	if r.Session != "" && s.Conversations != nil {
		fmt.Fprintf(w, "conversations: %s\n", r.Session)
	}
	fmt.Fprintln(w)
}

// WriteText writes the statistics as text.
func (s *Report) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%s, %s: %s", s.File, s.Format, input.Plural(s.Requests, "request", "requests"))
	if s.Unordered > 0 {
		fmt.Fprintf(w, ", %d out of order", s.Unordered)
	}
	if s.DurationS == 0 {
		fmt.Fprintf(w, ", all at once\n")
	} else {
		fmt.Fprintf(w, " in %.6g s, %.4g a second, burstiness %.3f\n", s.DurationS, s.RatePerS, s.Burstiness)
	}
	s.Reading.write(w, s)
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
