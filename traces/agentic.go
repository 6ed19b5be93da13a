package traces

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
	"github.com/l3sim/l3sim/units/portable"
)

// AgentSpec describes the sessions of coding agents to draw.
type AgentSpec struct {
	Requests int     // requests of all sessions; the last session ends early
	RatePerS float64 // sessions started per second, at random times; 0: all start together
	// MaxTokens bounds the prompt and the answer of a request: a session that exceeds it is drawn again. 0: no bound.
	MaxTokens int
	Seed      uint64
}

// quantile is a distribution given by published percentiles. Its logarithm is linear between percentiles. Beyond the second-to-last
// percentile it is adjusted to match the published mean.
type quantile struct {
	shares []float64 // cumulative shares, from 0 to 1
	values []float64
	mean   float64
	bend   float64
}

// The 739 sessions of Claude Code of https://github.com/callanjfox/kv-cache-tester (README.md, "Included Traces"): minimum, quartiles,
// maximum and mean. For answers: the 10th, 50th and 90th percentile and the mean, between 1 and an assumed 16,384 tokens.
var (
	quartiles     = []float64{0, 0.25, 0.5, 0.75, 1}
	agentRequests = bent(quartiles, []float64{3, 19, 48, 101, 1178}, 80)                     // requests of a session
	agentFirst    = bent(quartiles, []float64{6343, 18726, 24775, 105061, 851858}, 92473)    // tokens of the first prompt
	agentLast     = bent(quartiles, []float64{11053, 94686, 137529, 208960, 894371}, 181659) // tokens of the last prompt
	agentThink    = bent(quartiles, []float64{0, 6, 10, 30, 78638}, 199)                     // seconds from an answer to the next request
	agentAnswer   = bent([]float64{0, 0.1, 0.5, 0.9, 1}, []float64{1, 103, 218, 937, mostAnswer}, 446)
)

const (
	mostAnswer      = 16384  // tokens
	leastAgentLimit = 50_000 // tokens; at least one session in ten stays within this limit
)

// bent returns the distribution with these percentiles and this mean. It is computed at the first call, since it takes 15 ms that other
// runs need not spend.
func bent(shares, values []float64, mean float64) func() *quantile {
	return sync.OnceValue(func() *quantile {
		q := &quantile{shares, values, mean, 1}
		low, high := 1.0/64, 64.0
		for range 50 { // the mean falls with the bend
			q.bend = math.Sqrt(low * high)
			if q.average() > mean {
				low = q.bend
			} else {
				high = q.bend
			}
		}
		return q
	})
}

// average returns the mean, by the midpoint rule with 4,096 intervals.
func (q *quantile) average() float64 {
	const n = 4096
	sum := 0.0
	for i := range n {
		sum += float64(q.at((float64(i) + 0.5) / n))
	}
	return sum / n
}

// at returns the quantile of a share.
func (q *quantile) at(share float64) float64 {
	i := 1
	for i < len(q.shares)-1 && share > q.shares[i] {
		i++
	}
	part := (share - q.shares[i-1]) / (q.shares[i] - q.shares[i-1])
	if i == len(q.shares)-1 && part > 0 {
		part = portable.Exp(float64(q.bend * portable.Log(part)))
	}
	from, to := q.values[i-1], q.values[i]
	if from == 0 {
		return to * part
	}
	return from * portable.Exp(float64(part*portable.Log(to/from)))
}

// DrawAgents returns requests of coding-agent sessions, drawn from published percentiles. Each turn waits for the one before, and its
// prompt begins with the whole conversation so far. A session's first and last prompt are at the same quantile of their distributions. Tool
// output fills the difference evenly between turns. A prompt that would exceed the last prompt's length is compacted to the first prompt's
// length.
func DrawAgents(spec AgentSpec) (*Trace, error) {
	switch {
	case spec.Requests < 1 || spec.Requests > MaxRequests:
		return nil, &input.Error{Key: "requests", Value: fmt.Sprint(spec.Requests), Expected: fmt.Sprintf("1 to %d", MaxRequests)}
	case !(spec.RatePerS >= 0 && spec.RatePerS <= maxRate):
		return nil, &input.Error{Key: "rate", Value: fmt.Sprint(spec.RatePerS), Expected: fmt.Sprintf("sessions a second, 0 (all begin together) to %g", float64(maxRate))}
	case spec.MaxTokens != 0 && (spec.MaxTokens < leastAgentLimit || spec.MaxTokens > maxTokens):
		return nil, &input.Error{Key: "max-tokens", Value: fmt.Sprint(spec.MaxTokens), Expected: fmt.Sprintf("%d to %d tokens, in which some sessions fit; 0 for all", leastAgentLimit, maxTokens)}
	}
	random := rand.New(stream(spec.Seed, "agents", "sessions"))
	t := &Trace{Name: "agents", Requests: make([]Request, 0, spec.Requests)}
	start := 0.0
	for session := 0; len(t.Requests) < spec.Requests; session++ {
		if session > 0 && spec.RatePerS > 0 {
			start += exponential(random) / spec.RatePerS
		}
		if err := t.addAgent(random, session, start, &spec); err != nil {
			return nil, err
		}
	}
	t.normalize()
	return t, nil
}

// addAgent adds the turns of a session that begins at start seconds.
func (t *Trace) addAgent(random *rand.Rand, session int, start float64, spec *AgentSpec) error {
	rank := random.Float64()
	for spec.MaxTokens > 0 && float64(agentLast().at(rank))+mostAnswer > float64(spec.MaxTokens) {
		rank = random.Float64()
	}
	turns := int(math.Round(agentRequests().at(random.Float64())))
	first, last := math.Round(agentFirst().at(rank)), math.Round(agentLast().at(rank))
	answers, left := make([]float64, turns), last-first
	for i := range answers {
		answers[i] = max(math.Round(agentAnswer().at(random.Float64())), 1)
		if i < turns-1 {
			left -= answers[i]
		}
	}
	added := max(left, 0) / float64(max(turns-1, 1)) // tokens of tool output between two turns
	prompt, at := first, start
	for i, answer := range answers {
		turn := &Turn{Session: session}
		if i > 0 {
			think := agentThink().at(random.Float64())
			at += float64(think)
			turn.Waits, turn.Think = true, units.FromPicoseconds(math.Round(think*1e3)*1e9) // rounded to 1 ms
			if prompt += answers[i-1] + added; prompt > last+0.5 {
				prompt = first
			}
		}
		if at >= float64(maxSeconds) {
			return &input.Error{Key: "rate", Value: fmt.Sprint(spec.RatePerS), Expected: fmt.Sprintf("a rate at which the sessions of %d requests begin and end within 106 days", spec.Requests)}
		}
		t.Requests = append(t.Requests, Request{Arrival: units.FromPicoseconds(math.Round(at*1e3) * 1e9), Input: int(math.Round(prompt)), Output: int(answer), Turn: turn})
		if len(t.Requests) == spec.Requests {
			return nil
		}
	}
	return nil
}
