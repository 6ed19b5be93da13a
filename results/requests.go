package results

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// Request is the outcome of one request. Times count from the start of the
// run.
type Request struct {
	Request    traces.Request
	FirstToken units.Duration
	Finish     units.Duration // when the last token came out
	Rejected   bool           // never served: no token came out
}

// MeanTBT returns the mean time between tokens, rounded to a picosecond: the
// gaps fill the time from the first token to the last. It returns false where
// there are fewer than two tokens.
func (r *Request) MeanTBT() (units.Duration, bool) {
	if r.Rejected || r.Request.Output < 2 {
		return 0, false
	}
	gaps := units.Duration(r.Request.Output - 1)
	return (r.Finish - r.FirstToken + gaps/2) / gaps, true
}

// requestColumns is the header of requests.csv.
const requestColumns = "id,input_tokens,output_tokens,arrival_s,first_token_s,finish_s,mean_tbt_ms"

// WriteRequests writes a CSV file with a row for each request: its lengths,
// times in seconds, exact to the picosecond, and the mean time between tokens
// in milliseconds, rounded to a picosecond. What a request does not have (the
// times of a rejected one, the gaps of a single token) is an empty cell.
func WriteRequests(w io.Writer, requests []Request) error {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, requestColumns)
	for i := range requests {
		r := &requests[i]
		first, finish, tbt := "", "", ""
		if !r.Rejected {
			first = decimal(r.FirstToken, 12)
			finish = decimal(r.Finish, 12)
		}
		if mean, ok := r.MeanTBT(); ok {
			tbt = decimal(mean, 9)
		}
		fmt.Fprintf(b, "%d,%d,%d,%s,%s,%s,%s\n", r.Request.ID, r.Request.Input, r.Request.Output,
			decimal(r.Request.Arrival, 12), first, finish, tbt)
	}
	return b.Flush()
}

// decimal writes d, in units of 10^digits picoseconds, exactly.
func decimal(d units.Duration, digits int) string {
	text := strconv.FormatInt(int64(d), 10)
	sign := ""
	if text[0] == '-' {
		sign, text = "-", text[1:]
	}
	if len(text) <= digits {
		text = strings.Repeat("0", digits+1-len(text)) + text
	}
	point := len(text) - digits
	return strings.TrimSuffix(strings.TrimRight(sign+text[:point]+"."+text[point:], "0"), ".")
}
