package traces

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/l3sim/l3sim/input"
)

// Sample returns n requests of the trace, drawn without replacement and in their order.
// Conversations are drawn as wholes, and the last that is drawn ends early where it has too
// many turns. The same trace, n and seed give the same requests. An n that the trace does
// not have is an *input.Error.
func (t *Trace) Sample(n int, seed uint64) (*Trace, error) {
	if n < 1 || n > len(t.Requests) {
		return nil, &input.Error{Key: "requests", Value: fmt.Sprint(n), Expected: fmt.Sprintf("1 to %d, the number of requests of %s", len(t.Requests), t.Name)}
	}
	var groups [][]int // places of the requests of a conversation, or of one request
	of := map[int]int{}
	for i := range t.Requests {
		turn := t.Requests[i].Turn
		if turn != nil && turn.Number > 0 {
			g := of[turn.Session]
			groups[g] = append(groups[g], i)
			continue
		}
		if turn != nil {
			of[turn.Session] = len(groups)
		}
		groups = append(groups, []int{i})
	}
	random := rand.New(stream(seed, "sample", "requests"))
	random.Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
	var chosen []int
	for _, g := range groups {
		chosen = append(chosen, g[:min(len(g), n-len(chosen))]...)
		if len(chosen) == n {
			break
		}
	}
	slices.Sort(chosen)
	sample := *t
	sample.Requests = make([]Request, n)
	for i, from := range chosen {
		sample.Requests[i] = t.Requests[from]
		sample.Requests[i].Arrival -= t.Requests[chosen[0]].Arrival
	}
	sample.normalize()
	return &sample, nil
}
