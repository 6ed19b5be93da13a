package results

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// WriteRuns writes a line for each run, with as many columns as fit 80 characters, and below them explains the signs and
// numbers after the names.
func WriteRuns(w io.Writer, names []string, runs []*Summary) error {
	lines := make([]strings.Builder, len(runs)+1)
	width, beyond := 0, Limits{}
	notes := numberNotes(runs)
	for i := range lines {
		if i > 0 {
			lines[i].WriteString(names[i-1])
			limits := runs[i-1].Limits()
			lines[i].WriteString(limits.Sign() + notes.behind(i-1))
			beyond = beyond.Or(limits)
		}
		width = max(width, utf8.RuneCountInString(lines[i].String()))
	}
	for i := range lines {
		lines[i].WriteString(strings.Repeat(" ", width-utf8.RuneCountInString(lines[i].String())))
	}
	for n, c := range columns {
		wide, some := len(c.name), false
		for _, s := range runs {
			wide, some = max(wide, len(c.cell(s))), some || c.cell(s) != ""
		}
		if !some {
			continue
		}
		if width += 2 + wide; width > 80 && n > 0 {
			break
		}
		fmt.Fprintf(&lines[0], "  %*s", wide, c.name)
		for i, s := range runs {
			fmt.Fprintf(&lines[i+1], "  %*s", wide, c.cell(s))
		}
	}
	if legend := beyond.Legend(); legend != "" {
		lines = append(lines, strings.Builder{})
		lines[len(lines)-1].WriteString(legend)
	}
	for _, text := range notes.lines() {
		lines = append(lines, strings.Builder{})
		lines[len(lines)-1].WriteString(text)
	}
	for i := range lines {
		if _, err := fmt.Fprintln(w, strings.TrimRight(lines[i].String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

// runNotes are the notes of several runs, each once.
type runNotes struct {
	runs  int
	texts []string
	of    [][]int // runs with each note
	queue bool    // all requests of every run arrive at once
}

// numberNotes numbers the notes of runs in their order, without those that signs of limits replace.
func numberNotes(runs []*Summary) *runNotes {
	n := &runNotes{runs: len(runs), queue: len(runs) > 0}
	for i, s := range runs {
		n.queue = n.queue && s.queued() != ""
		for _, text := range s.Notes {
			if s.BeyondBoards && strings.Contains(text, "DIMMs on a channel") {
				continue // the sign says it
			}
			at := slices.Index(n.texts, text)
			if at < 0 {
				at = len(n.texts)
				n.texts, n.of = append(n.texts, text), append(n.of, nil)
			}
			n.of[at] = append(n.of[at], i)
		}
	}
	return n
}

// behind returns the suffix of a run's name: the numbers of notes that not all runs have.
func (n *runNotes) behind(run int) string {
	var numbers []string
	for i, of := range n.of {
		if len(of) < n.runs && slices.Contains(of, run) {
			numbers = append(numbers, strconv.Itoa(i+1))
		}
	}
	if len(numbers) == 0 {
		return ""
	}
	return " [" + strings.Join(numbers, ",") + "]"
}

// lines returns the notes with their numbers.
func (n *runNotes) lines() (all []string) {
	for i, text := range n.texts {
		whose := ""
		if len(n.of[i]) == n.runs && n.runs > 1 {
			whose = "all: "
		}
		all = append(all, fmt.Sprintf("[%d] %s", i+1, wrapped(whose+text, 4)))
	}
	if n.queue {
		all = append(all, queueText)
	}
	return all
}

// columns are the columns of a run's line, most asked for first. A column of empty cells is left out.
var columns = []struct {
	name string
	cell func(s *Summary) string
}{
	{"tokens/s", func(s *Summary) string { return grouped(s.OutputTokensPerS, 1) }},
	{"attained", func(s *Summary) string {
		return where(s.SLO.Any(), func() string { return percent(s.Goodput.Attainment) })
	}},
	{"TBT mean", func(s *Summary) string { return TimeText(s.TBT.Mean) }},
	{"TBT p99", func(s *Summary) string { return TimeText(s.TBT.P99) }},
	{"TTFT p99", func(s *Summary) string { return TimeText(s.TTFT.P99) }},
	{"USD/Mtoken", func(s *Summary) string {
		return where(s.Cost.PerMToken > 0, func() string { return grouped(s.Cost.PerMToken, 2) })
	}},
	{"tokens/kJ", func(s *Summary) string {
		return where(s.EnergyReport.Total > 0, func() string { return grouped(1e3*s.EnergyReport.OutputTokensPerJoule, 1) })
	}},
	{"GPUs", func(s *Summary) string { return percent(s.Utilization.GPU) }},
	{"PIM", func(s *Summary) string {
		return where(s.Utilization.PIM > 0, func() string { return percent(s.Utilization.PIM) })
	}},
	{"batch", func(s *Summary) string { return grouped(s.DecodeBatch.Mean, 1) }},
}
