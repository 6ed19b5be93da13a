package policies

import "github.com/l3sim/l3sim/attention/policy"

// csaStep is the number of searches of a step's tokens, each for one KV head or query head. CSAttention's paper has one token a step. For
// several tokens, its definitions imply:
//
//   - Centroids are those of the prompt, so each token searches by itself. The kernel reads a list once even if several searches use it,
//     and adds its entries to the sums of each. Attention reads the union of the found tokens once.
//   - A key is compared with the lists after its step (section 3.3, streaming updates), when it is known which drafts are accepted: the
//     others are never added. Until then, a step's tokens attend to the tokens before them in the step, even if few count as recent.
//   - Period counts tokens: a list is used for as many as without drafts, whichever step verified them. The list of a rejected draft is
//     made again.
//   - A lagged search uses the previous step's query, of its last accepted token, and all tokens of a step attend to the result: separate
//     searches would delay the step. The last accepted token is only known after the step. The GPUs search then. The host searches during
//     the step, so it searches for all of the step's tokens, and everything that any of them finds is sent up.
type csaStep struct {
	lists   int // searches whose results the step's tokens attend to
	made    int // searches done in the step
	fetched int // searches whose results are sent up from the host
}

// together returns the searches of a step; the request's context is that of its last token.
func (c *csaCost) together(r *policy.Request) csaStep {
	ahead := c.shape.Ahead()
	last := r.Context - r.Prompt - 1 // tokens after the first one that searches
	first := max(0, last-ahead)
	due := last/c.Period - (first+c.Period-1)/c.Period + 1 // tokens of the step that search: the first after the prompt, and every Period-th from there
	switch {
	case due == 0:
		return csaStep{lists: 1, fetched: 1}
	case c.Search != "lagged":
		lists := due
		if first%c.Period != 0 { // the first tokens use an earlier step's list
			lists++
		}
		return csaStep{lists, due, lists}
	case c.host:
		return csaStep{1, 1 + ahead, 1 + ahead}
	}
	return csaStep{1, 1, 1}
}
