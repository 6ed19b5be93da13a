package policies

import "github.com/l3sim/l3sim/attention/policy"

// csaStep is how often the tokens of a step search, each search one of a KV head or query head. CSAttention's paper has one token a step; its
// definitions say this of several:
//
//   - Centroids are those of the prompt, so that each token searches by itself. The kernel reads a list once in which several of them look, and adds its
//     entries to the sums of each. Attention reads the union of what they find once.
//   - A key is tried against the lists after its step (section 3.3, streaming updates), and then it is known which drafts are accepted: the others
//     leave no trace. Until then the tokens of a step attend to those before them in the step, however few are recent.
//   - Period counts tokens: a list holds for as many as without drafts, whoever verified them. That of a rejected draft is made anew.
//   - A lagged search is of the step before, with the query of its last accepted token, and all tokens of a step attend to what it found: searches of
//     their own would be on the way again. Which token that is is known after the step: the GPUs search then, but the host, which searches beside the
//     step, does so for all of its tokens, and what any of them finds comes up.
type csaStep struct {
	lists   int // searches by whose results the step's tokens attend
	made    int // searches in the step
	fetched int // searches whose results come up from the host
}

// together returns the searches of a step whose last token has the request's context.
func (c *csaCost) together(r *policy.Request) csaStep {
	ahead := c.shape.Ahead()
	last := r.Context - r.Prompt - 1 // tokens after the first one that searches
	first := max(0, last-ahead)
	due := last/c.Period - (first+c.Period-1)/c.Period + 1 // tokens of the step that search: the first after the prompt, and each Period-th from there
	switch {
	case due == 0:
		return csaStep{lists: 1, fetched: 1}
	case c.Search != "lagged":
		lists := due
		if first%c.Period != 0 { // the first tokens have the list of a step before
			lists++
		}
		return csaStep{lists, due, lists}
	case c.host:
		return csaStep{1, 1 + ahead, 1 + ahead}
	}
	return csaStep{1, 1, 1}
}
