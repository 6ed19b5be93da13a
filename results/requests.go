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

// Request is the outcome of one request. Times count from the start of the run.
type Request struct {
	Request    traces.Request
	Start      units.Duration // of the iteration that prefills the first tokens of its prompt
	FirstToken units.Duration
	Finish     units.Duration // when its last token was emitted, or it was turned away
	Outcome    Outcome
	Attained   bool // it met the latency targets, if there are any
	Slow       bool // it missed the target of times between tokens
}

// Outcome is what became of a request.
type Outcome uint8

// Outcomes of requests.
const (
	Served   Outcome = iota
	TooLarge         // it fits no empty memory
	Refused          // too many waited when it arrived
	Expired          // it waited too long for its prompt to begin
	TooLong          // it exceeds the model's context
)

// String returns the outcome as in requests.csv.
func (o Outcome) String() string {
	return [...]string{"served", "too-large", "refused", "expired", "too-long"}[o]
}

// Rejected says that a request was never served: it has no token.
func (r *Request) Rejected() bool { return r.Outcome != Served }

// MeanTBT returns the mean time between tokens, rounded to a picosecond: the time from first token
// to last over the number of gaps. It returns false with fewer than two tokens.
func (r *Request) MeanTBT() (units.Duration, bool) {
	if r.Rejected() || r.Request.Output < 2 {
		return 0, false
	}
	gaps := units.Duration(r.Request.Output - 1)
	return (r.Finish - r.FirstToken + gaps/2) / gaps, true
}

// requestColumns is the header of requests.csv.
const requestColumns = "id,input_tokens,output_tokens,arrival_s,start_s,first_token_s,finish_s,ttft_ms,tpot_ms,e2e_ms,outcome,attained"

// WriteRequests writes a CSV file with a row for each request: its lengths, times and latencies, its outcome, and whether
// it met the latency targets. Times are exact to the picosecond; the mean time between tokens is rounded to it. A cell is
// empty if a request has no such number: times of a rejected one, gaps of a single token.
func WriteRequests(w io.Writer, requests []Request) error {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, requestColumns)
	for i := range requests {
		r := &requests[i]
		times, tpot := ",,,,,", ""
		if mean, ok := r.MeanTBT(); ok {
			tpot = decimal(mean, 9)
		}
		if arrival := r.Request.Arrival; !r.Rejected() {
			times = strings.Join([]string{decimal(r.Start, 12), decimal(r.FirstToken, 12), decimal(r.Finish, 12), decimal(r.FirstToken-arrival, 9), tpot, decimal(r.Finish-arrival, 9)}, ",")
		}
		fmt.Fprintf(b, "%d,%d,%d,%s,%s,%v,%t\n", r.Request.ID, r.Request.Input, r.Request.Output, decimal(r.Request.Arrival, 12), times, r.Outcome, r.Attained)
	}
	return b.Flush()
}

// decimal returns d exactly, in units of 10^digits picoseconds.
func decimal(d units.Duration, digits int) string { return string(d.AppendDecimal(nil, 12-digits)) }

// IterationRecord is one iteration of a replica.
type IterationRecord struct {
	Replica           int
	Start, End        units.Duration
	Decoding          int // decoding requests: each emits a token, and its accepted drafts
	PromptTokens      int // prefilled
	FirstTokens       int // prompts that end, each with a token
	Waiting, InSystem int // requests at its start; InSystem includes those of the iteration
	KV                units.Bytes
	GPU, PIM          units.Duration // busy times; PIM summed over ranksets
	PCIeDown, PCIeUp  units.Duration
	Channel           units.Duration
	PrefixTokens      int         // prompt tokens found in the prefix cache, of prompts that begin
	Cached            units.Bytes // blocks of that cache, in use or not
	Joules            float64     // of the replica with its share of the node, cooling included
}

const iterationColumns = "replica,start_s,end_s,decode_requests,prompt_tokens,first_tokens,waiting_requests,requests_in_system,kv_bytes,gpu_s,pim_s,pcie_down_s,pcie_up_s,channel_s,site_energy_j,prefix_tokens,cached_bytes"

// WriteIterations writes a CSV file with a row for each iteration, replica by replica in order
// of time; times in seconds, exact to the picosecond.
func WriteIterations(w io.Writer, all []IterationRecord) error {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, iterationColumns)
	for i := range all {
		r := &all[i]
		fmt.Fprintf(b, "%d,%s,%s,%d,%d,%d,%d,%d,%d,%s,%s,%s,%s,%s,%s,%d,%d\n", r.Replica, decimal(r.Start, 12), decimal(r.End, 12), r.Decoding, r.PromptTokens, r.FirstTokens,
			r.Waiting, r.InSystem, int64(r.KV), decimal(r.GPU, 12), decimal(r.PIM, 12), decimal(r.PCIeDown, 12), decimal(r.PCIeUp, 12), decimal(r.Channel, 12), strconv.FormatFloat(r.Joules, 'f', -1, 64), r.PrefixTokens, int64(r.Cached))
	}
	return b.Flush()
}
