package whole

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Compared metrics.
const (
	TPOT       = "tpot_ms"
	OutputRate = "output_tok_s_gpu"
)

// load is the requests of a row, and the compared metric.
type load struct {
	metric   string
	measured float64
	seats    int // of a closed loop; 0 for requests that arrive all at once
	requests int // that arrive all at once, 0 if the table gives no number
	in, out  int
	median   bool // over requests; else the mean
	drafts   drafts
}

// drafts is a server's speculation; the zero value is none.
type drafts struct {
	steps    int     // of the draft model
	verified int     // tokens of a decode step, the known one among them
	accepted float64 // tokens that a decode step emits
}

const (
	// shortOutput is the output length if a table gives none: enough for a rate of decode steps, and short beside most contexts.
	shortOutput = 256
	maxSeats    = 1 << 16
)

var (
	leading  = regexp.MustCompile(`^~?\s*(\d+)\s*(?:seats|users|concurrent|requests)?$`)
	ofMany   = regexp.MustCompile(`(\d+)\s*(?:prompts|requests)`)
	accepted = regexp.MustCompile(`(\d+(?:\.\d+)?)\s*(?:tokens\s*)?accepted`)
	steps    = regexp.MustCompile(`(\d+)-(\d+)-(\d+)`)
)

// loadOf reads the load of a row. reason says why it cannot be compared.
func loadOf(row *Row) (l load, reason string) {
	l = load{in: max(row.Input, 1), out: row.Output, median: row.Statistic == "median" || row.Statistic == "p50"}
	if l.out == 0 {
		l.out = shortOutput
	}
	text := strings.ToLower(row.Concurrency)
	if m := leading.FindStringSubmatch(text); m != nil {
		l.seats, _ = strconv.Atoi(m[1])
	} else if m := ofMany.FindStringSubmatch(text); m != nil {
		l.requests, _ = strconv.Atoi(m[1])
	} else if !strings.Contains(text, "offline") && !strings.Contains(text, "all at once") {
		return l, "concurrency " + quoted(row.Concurrency, "is left out") + " is no number of seats"
	}
	switch {
	case max(l.seats, l.requests) > maxSeats:
		return l, fmt.Sprintf("concurrency %q is above %d", row.Concurrency, maxSeats)
	case row.Input < 0:
		return l, "input is left out"
	case l.seats > 0 && row.TPOT > 0:
		l.metric, l.measured = TPOT, row.TPOT
	case row.OutputRate > 0 && row.Output > 0:
		l.metric, l.measured = OutputRate, row.OutputRate
	case row.OutputRate > 0:
		return l, "output is left out"
	default:
		return l, "neither tpot_ms of a number of seats nor output_tok_s_gpu is there"
	}
	if l.metric == TPOT && l.out < 2 {
		return l, "one token of output has no time between tokens"
	}
	l.drafts, reason = draftsOf(row)
	return l, reason
}

// draftsOf reads the speculation of a row: steps-branches-tokens in SGLang's form, and the accepted length.
func draftsOf(row *Row) (d drafts, reason string) {
	switch strings.ToLower(row.Speculation) {
	case "", "none", "no", "off":
		return d, ""
	}
	length, shape := accepted.FindStringSubmatch(row.Speculation), steps.FindStringSubmatch(row.Speculation)
	if length == nil {
		return d, fmt.Sprintf("speculation %q without an accepted length", row.Speculation)
	}
	if shape == nil || shape[2] != "1" {
		return d, fmt.Sprintf("speculation %q without a chain of drafts (steps-1-tokens)", row.Speculation)
	}
	d.steps, _ = strconv.Atoi(shape[1])
	d.verified, _ = strconv.Atoi(shape[3])
	if d.accepted, _ = strconv.ParseFloat(length[1], 64); d.verified < 2 || d.verified > 64 || d.steps < 1 || d.steps > 64 || d.accepted < 1 || d.accepted >= float64(d.verified) {
		return d, fmt.Sprintf("speculation %q: accepts as many tokens as it verifies, or none", row.Speculation)
	}
	return d, ""
}

// acceptance returns the chance of a draft with which a step emits the accepted length: 1 + p + p² + ... over all
// drafts.
func (d drafts) acceptance() float64 {
	low, high := 0.0, 1.0
	for range 60 {
		p, power, sum := float64((low+high)/2), 1.0, 0.0
		for range d.verified {
			sum += power
			power = float64(power * p)
		}
		if sum < d.accepted {
			low = p
		} else {
			high = p
		}
	}
	return low
}
