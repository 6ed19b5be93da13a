package traces

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// Request is one request to the serving system.
type Request struct {
	ID      int            // index in its trace
	Arrival units.Duration // from the trace's first request
	Input   int            // prompt tokens, at least 1
	Output  int            // tokens to generate, at least 1
	// Hashes identify the prompt's blocks of HashBlock tokens, the last of which may be partial: two prompts with the same first n hashes
	// begin with the same n blocks. Nil if the file has none. They must not be changed.
	Hashes []uint64
	// Prefix is the prompt's shared beginning to the exact token, in addition to Hashes; nil if the hashes are exact. It must not be
	// changed.
	Prefix *Prefix
	// Turn is the request's position in a conversation, nil for a single request. It must not be changed.
	Turn *Turn
}

// mostTokens bounds the tokens of requests from a program, so that sums do not overflow. No memory holds as many.
const mostTokens = 1 << 30

// given returns the error for a nil trace.
func (t *Trace) given() error {
	if t == nil {
		return &input.Error{Key: "trace", Value: "nil", Expected: "requests, as of LoadTrace"}
	}
	return nil
}

// Valid returns the first fault of requests that a program has made: an *input.Error that names the request by its index. Readers of files
// refuse such requests themselves.
func (t *Trace) Valid() error {
	if err := t.given(); err != nil {
		return err
	}
	if c := t.Arrivals.Closed; c != nil && (c.Users < 1 || c.ThinkTime < 0) {
		return &input.Error{Key: "Arrivals.Closed", Value: fmt.Sprintf("%d users, who think for %v", c.Users, c.ThinkTime), Expected: "at least 1 user, and a time of at least 0"}
	}
	for i := range t.Requests {
		r := &t.Requests[i]
		fault := func(field string, value any, expected string) error {
			return &input.Error{Key: fmt.Sprintf("request %d: %s", i, field), Value: fmt.Sprint(value), Expected: expected}
		}
		switch {
		case r.Input < 1 || r.Input > mostTokens:
			return fault("Input", r.Input, fmt.Sprintf("1 to %d tokens", mostTokens))
		case r.Output < 1 || r.Output > mostTokens:
			return fault("Output", r.Output, fmt.Sprintf("1 to %d tokens", mostTokens))
		case r.Arrival < 0 || r.Arrival > units.Duration(maxSeconds)*units.Second:
			return fault("Arrival", r.Arrival, "0 or later, from the first request of the trace, and within 106 days")
		case r.Turn != nil && r.Turn.Think < 0:
			return fault("Turn.Think", r.Turn.Think, "a time of at least 0")
		}
	}
	return nil
}

// BlockTokens is the default number of tokens for each hash, as in Mooncake's traces, https://github.com/kvcache-ai/Mooncake.
const BlockTokens = 512

// Prefix is the first tokens of a prompt: prompts with prefixes of the same number begin alike. It is needed since hashes only identify
// whole blocks of BlockTokens, and a server's blocks may be smaller.
type Prefix struct {
	Number uint64
	Tokens int
}

// Turn is the position of a request in a conversation.
type Turn struct {
	Session int // the conversation, numbered from 0 in the order of the trace
	Number  int // from 0
	// Waits makes the request arrive Think after the end of the turn before it. Its Arrival is then the earliest possible time, with all
	// earlier turns taking no time.
	Waits bool
	Think units.Duration
	// After are turns of other conversations that must also end before a turn with Waits arrives. The first turn of a sub-agent waits for
	// the turn that started it, and the agent's next turn waits for the sub-agent's last one.
	After []*Turn
	// Text says which tokens of the conversation's prompts are shared; nil if each prompt repeats all that came before.
	Text *Text
}

// Text is the tokens of a conversation from position From on, which a turn added and later turns repeat. A prompt that is at least as long
// as the previous prompt and answer begins with both. One that is at least as long as the previous prompt begins with that alone. A shorter
// one begins anew.
type Text struct {
	Turn, From int   // number of the turn, and the position
	Before     *Text // the text before From; nil if it came with turn 0, or is empty
}

// TextOf returns the number of the turn that added a token of the prompt or the answer; tokens count from 1.
func (t *Turn) TextOf(token int) int {
	text := t.Text
	for text != nil && token <= text.From {
		text = text.Before
	}
	if text == nil {
		return 0
	}
	return text.Turn
}

// goesOn returns the text of a turn, whose prompt has the given tokens, after a turn with a text, a prompt and an answer.
func goesOn(turn, tokens int, text *Text, prompt, answer int) *Text {
	switch {
	case tokens >= prompt+answer:
		return text
	case tokens < prompt:
		return &Text{Turn: turn}
	}
	for text != nil && text.From >= prompt {
		text = text.Before
	}
	return &Text{Turn: turn, From: prompt, Before: text}
}

// Trace is a list of requests in order of arrival.
type Trace struct {
	Name     string // built-in name, or path of the file
	Requests []Request
	Arrivals Arrivals // how requests arrive, once it is set
	Format   string   // of the file, one of FormatNames; "" for a trace of no file
	// Failed counts requests of the file that failed when recorded, and Skipped those that are malformed and were skipped. FirstBad is the
	// error of the first skipped one.
	Failed, Skipped int
	FirstBad        error
	Unordered       int // requests that arrive before their predecessor in the file
	Distinct        int // number of different requests if all are repetitions of these; 0: no repetitions
	// HashTokens is the number of prompt tokens for each hash; 0 means BlockTokens.
	HashTokens int
	Reading    Reading  // the columns that were read
	Notes      []string // remarks for readers of the file, such as guesses
}

// HashBlock returns the number of prompt tokens for each hash.
func (t *Trace) HashBlock() int {
	t = cmp.Or(t, &Trace{})
	return cmp.Or(t.HashTokens, BlockTokens)
}

// normalize sorts the requests by arrival, stably, and renumbers requests, conversations and turns in that order. A conversation of one
// request becomes a single request.
func (t *Trace) normalize() {
	slices.SortStableFunc(t.Requests, func(a, b Request) int { return cmp.Compare(a.Arrival, b.Arrival) })
	turns := map[int]int{}      // number of turns of each conversation
	linked := map[*Turn]*Turn{} // turns that are in After or have one, with their replacements
	for i := range t.Requests {
		r := &t.Requests[i]
		if r.ID = i; r.Turn == nil {
			continue
		}
		turns[r.Turn.Session]++
		for _, before := range r.Turn.After {
			linked[r.Turn], linked[before] = nil, nil
		}
	}
	numbers := map[int]*Request{} // the last turn of each conversation
	for i := range t.Requests {
		r := &t.Requests[i]
		if r.Turn == nil {
			continue
		}
		last, turn, old := numbers[r.Turn.Session], *r.Turn, r.Turn
		_, isLinked := linked[old]
		switch {
		case turns[r.Turn.Session] == 1 && !isLinked:
			r.Turn = nil
			continue
		case last == nil && len(turn.After) > 0:
			turn.Session, turn.Number = len(numbers), 0
		case last == nil: // no turn that it could wait for
			turn = Turn{Session: len(numbers)}
		default:
			turn.Session, turn.Number = last.Turn.Session, last.Turn.Number+1
			turn.Text = goesOn(turn.Number, r.Input, last.Turn.Text, last.Input, last.Output)
		}
		r.Turn, numbers[r.Turn.Session] = &turn, r
		if isLinked {
			linked[old] = &turn
		}
	}
	for _, turn := range linked {
		if turn == nil || len(turn.After) == 0 {
			continue
		}
		after := make([]*Turn, 0, len(turn.After))
		for _, before := range turn.After {
			if linked[before] != nil { // it is in the trace
				after = append(after, linked[before])
			}
		}
		turn.After = after
	}
}

// AtOnce returns the trace with all arrivals at time 0: the queue is full from the start, which measures throughput.
func (t *Trace) AtOnce() *Trace {
	t = cmp.Or(t, &Trace{})
	requests := slices.Clone(t.Requests)
	for i := range requests {
		requests[i].Arrival = 0
	}
	return t.with(requests, t.Arrivals)
}

// Equal returns n requests of equal lengths, all arriving at once.
func Equal(name string, n, input, output int) *Trace {
	t := &Trace{Name: name, Requests: make([]Request, n)}
	for i := range t.Requests {
		t.Requests[i] = Request{ID: i, Input: input, Output: output}
	}
	return t
}

// OutputTokens returns the total number of generated tokens.
func (t *Trace) OutputTokens() int64 {
	t = cmp.Or(t, &Trace{})
	sum := int64(0)
	for _, r := range t.Requests {
		sum += int64(r.Output)
	}
	return sum
}

// Moments are the size of a trace and the moments of its lengths, in tokens. Standard deviations are of the population (division by n).
type Moments struct {
	Requests                  int
	InputTokens, OutputTokens int64 // sums
	InputMean, InputStd       float64
	OutputMean, OutputStd     float64
	InputMax, OutputMax       int
}

// Moments returns the trace's moments; all zero where it is empty.
func (t *Trace) Moments() Moments {
	t = cmp.Or(t, &Trace{})
	m := Moments{Requests: len(t.Requests)}
	if m.Requests == 0 {
		return m
	}
	m.InputTokens, m.InputMax, m.InputMean, m.InputStd = columnMoments(m.Requests, func(i int) int { return t.Requests[i].Input })
	m.OutputTokens, m.OutputMax, m.OutputMean, m.OutputStd = columnMoments(m.Requests, func(i int) int { return t.Requests[i].Output })
	return m
}

// columnMoments returns the moments of the lengths of n requests.
func columnMoments(n int, length func(i int) int) (sum int64, most int, mean, std float64) {
	for i := range n {
		sum, most = sum+int64(length(i)), max(most, length(i))
	}
	mean = float64(sum) / float64(n)
	for i := range n {
		d := float64(length(i)) - mean
		std += float64(d * d)
	}
	return sum, most, mean, math.Sqrt(std / float64(n))
}
