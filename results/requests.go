package results

import (
	"bufio"
	"fmt"
	"io"

	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// Request is the outcome of one request. Times count from the start of the
// run.
type Request struct {
	Request    traces.Request
	Start      units.Duration // of the iteration that has the first tokens of its prompt
	FirstToken units.Duration
	Finish     units.Duration // when the last token came out, or when it was turned away
	Outcome    Outcome
	Attained   bool // it met the targets of latency, where there are any
}

// Outcome is what became of a request.
type Outcome uint8

// Outcomes of requests.
const (
	Served   Outcome = iota
	TooLarge         // it fits no empty memory
	Refused          // too many waited when it came
	Expired          // it waited too long for its prompt to begin
)

// String returns the outcome as requests.csv has it.
func (o Outcome) String() string {
	return [...]string{"served", "too-large", "refused", "expired"}[o]
}

// Rejected says that a request was never served: no token came out.
func (r *Request) Rejected() bool { return r.Outcome != Served }

// MeanTBT returns the mean time between tokens, rounded to a picosecond: the
// gaps fill the time from the first token to the last. It returns false where
// there are fewer than two tokens.
func (r *Request) MeanTBT() (units.Duration, bool) {
	if r.Rejected() || r.Request.Output < 2 {
		return 0, false
	}
	gaps := units.Duration(r.Request.Output - 1)
	return (r.Finish - r.FirstToken + gaps/2) / gaps, true
}

// requestColumns is the header of requests.csv.
const requestColumns = "id,input_tokens,output_tokens,arrival_s,first_token_s,finish_s,mean_tbt_ms,start_s,outcome,attained"

// WriteRequests writes a CSV file with a row for each request: its lengths,
// times in seconds, exact to the picosecond, and the mean time between tokens
// in milliseconds, rounded to a picosecond; when its prompt began, what became of it, and
// whether it met the targets of latency. What a request does not have (the
// times of a rejected one, the gaps of a single token) is an empty cell.
func WriteRequests(w io.Writer, requests []Request) error {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, requestColumns)
	for i := range requests {
		r := &requests[i]
		first, finish, tbt, start := "", "", "", ""
		if !r.Rejected() {
			first = decimal(r.FirstToken, 12)
			finish = decimal(r.Finish, 12)
			start = decimal(r.Start, 12)
		}
		if mean, ok := r.MeanTBT(); ok {
			tbt = decimal(mean, 9)
		}
		fmt.Fprintf(b, "%d,%d,%d,%s,%s,%s,%s,%s,%v,%t\n", r.Request.ID, r.Request.Input, r.Request.Output,
			decimal(r.Request.Arrival, 12), first, finish, tbt, start, r.Outcome, r.Attained)
	}
	return b.Flush()
}

// decimal writes d, in units of 10^digits picoseconds, exactly.
func decimal(d units.Duration, digits int) string { return string(d.AppendDecimal(nil, 12-digits)) }
