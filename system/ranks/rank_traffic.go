package ranks

import (
	"slices"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// traffic is the transfers of a sub-batch in one layer: vectors of heads of requests, with lists and bounds
// of pages in the same transfers; and keys and values of tokens, counted in single heads on one channel, and
// in bytes with bounds of pages.
type traffic struct {
	requests      int
	heads, tokens int64
	fetched       int64 // tokens of prefixes fetched to the GPUs
	lists, bytes  units.Bytes
}

// TrafficOf returns the transfers of a sub-batch's groups.
func TrafficOf(groups []GroupCost) (t traffic) {
	for i := range groups {
		g := &groups[i]
		if g.Requests > 0 {
			t.heads, t.lists = t.heads+g.Vectors.All, t.lists+g.Vectors.Down
		}
		t.requests += g.Requests
		t.fetched += g.Prefix.Tokens
		t.tokens += g.Prompt.Tokens + g.Leaving.Tokens
		t.bytes += g.Prefix.bytes + g.Prompt.Bytes + g.Leaving.Bytes
	}
	return t
}

type homeOf struct{ request, run int32 } // the layers of a run of one request

// Homes follows what is stored on ranks for each request: tokens of heads in one layer.
type Homes struct {
	Attends  *flow.Attends // attention by a separate policy
	channels int
	have     map[homeOf]int64
	bound    units.Bytes // of the bounds of a page in one KV head
	group    int         // query heads of a KV head
	stripe   stripe
	verified int // tokens that a step of a request verifies
}

// NewHomes returns empty homes. Their policy is separate from that of the ranks.
func NewHomes(own *flow.Attends, d *Devices) *Homes {
	return &Homes{Attends: own, channels: d.channels, have: map[homeOf]int64{}, bound: d.boundBytes, group: d.group(), stripe: d.Stripe, verified: int(d.verified)}
}

// placed returns how many lanes attend over heads of a number of tokens, and the number of parts of heads.
func (h *Homes) placed(heads, tokens int) (lanes int, all int64) {
	switch {
	case h.stripe.Parts == 0:
		return 1, int64(heads)
	case h.stripe.lanes:
		lanes = h.stripe.used(tokens)
		return lanes, int64(lanes * heads)
	}
	return h.stripe.used(tokens), int64(h.stripe.used(tokens) * heads)
}

// onChannel returns how many tokens of single heads a channel gets, of the tokens after the first from of each head.
func (h *Homes) onChannel(heads, from, tokens int) (n int64) {
	if h.stripe.Parts == 0 || h.stripe.lanes {
		return int64((heads + h.channels - 1) / h.channels * tokens)
	}
	by := make([]int64, h.channels)
	for token := from; token < from+tokens; token++ { // head k has a unit on the channel of its number plus k
		unit := token / h.stripe.tokens % h.channels
		for k := range heads {
			by[(unit+k)%h.channels]++
		}
	}
	if h.Attends.Heads%h.channels == 0 {
		return by[0]
	}
	return slices.Max(by)
}

// lists returns the bytes that a step of one request sends from the GPUs besides vectors: lists of pages, two bytes a page, and bounds;
// for single tokens four bytes each.
func (h *Homes) lists(x *policy.Step) (bytes units.Bytes) {
	for i := range x.Attend {
		if c := &x.Attend[i]; c.Device == policy.Home && h.Attends.Requests[0].Context > c.Chosen {
			bytes += units.Bytes(4 * c.Heads * c.Chosen * h.verified)
		}
	}
	for _, c := range x.Choose {
		if c.Device != "" || c.Ranked[0] == 0 {
			continue
		}
		list := units.Bytes(2 * c.Heads * c.Keep * c.Times())
		if bytes += list; c.PerQueryHead {
			bytes += list * units.Bytes(h.group-1)
		}
	}
	if b := x.Bounds; b.Heads > 0 {
		bytes += units.Bytes(b.Heads*b.Down[0]) * h.bound
	}
	return bytes
}

// reuse adds the transfers of a prefix that a chunk of a prompt finds in the cache.
func (h *Homes) reuse(t *traffic, p *scheduler.Chunk) {
	switch {
	case h.Attends.PrefixStays && p.Prefix > 0: // each token attends there
		t.requests += p.Tokens
		t.heads += int64(p.Tokens * h.Attends.Heads)
	case p.Finished == p.Prefix:
		t.fetched += h.onChannel(h.Attends.Heads, 0, p.Prefix)
		t.bytes += h.Attends.KV(p.Prefix)
	}
}

// Follow returns what a sub-batch has to transfer, according to a separate policy, and verifies
// that requests attend on ranks only over what has gone there.
func (h *Homes) Follow(c *flow.Checker, sub *scheduler.SubBatch, step int64, end units.Duration, run int) (t traffic) {
	leaves := func(request homeOf, l *policy.Leaving) {
		heads, tokens := l.Heads, l.Tokens[0]
		if l.Bounds {
			t.bytes += units.Bytes(heads*tokens) * h.bound
			return
		}
		h.have[request] += int64(heads * tokens)
		t.tokens += h.onChannel(heads, l.From[0], tokens)
		t.bytes += units.Bytes(heads) * h.Attends.KV(tokens) / units.Bytes(h.Attends.Heads)
	}
	appends := h.Attends.Policy.Vectors().New > 0
	for i := range sub.Decode {
		request := homeOf{sub.Decode[i].Request, int32(run)}
		x := h.Attends.Decode(sub.Decode[i:i+1], run, step)
		attended, heads, lanes := int64(0), int64(0), 0
		for i := range x.Attend {
			class := &x.Attend[i]
			if class.Device != policy.Home {
				continue
			}
			if appends {
				h.have[request] += int64(class.Heads * h.verified)
			}
			if class.Tokens[0] > 0 {
				attended += int64(class.Heads * class.Tokens[0])
				n, all := h.placed(class.Heads, span(class, h.Attends.Requests, 0))
				lanes = max(lanes, n)
				heads += all
			}
		}
		if attended > 0 {
			t.requests += lanes
			t.heads += heads
			t.lists += h.lists(x)
		}
		if have := h.have[request]; attended > have {
			c.Fail(flow.LawTraffic, end, "request %d attends over %d tokens of heads at home, where %d are", request.request, attended, have)
		}
		for i := range x.Leave {
			leaves(request, &x.Leave[i])
		}
	}
	for i := range sub.Prefill {
		p := &sub.Prefill[i]
		if p.Near {
			continue
		}
		request := homeOf{p.Request, int32(run)}
		if p.Finished == p.Prefix { // the first chunk
			h.have[request] = int64(h.Attends.Heads * p.Prefix)
		}
		h.reuse(&t, p)
		leave := h.Attends.Policy.Prompt(run, p.Tokens, p.Finished, p.Last).Leave
		for i := range leave {
			leaves(request, &leave[i])
		}
	}
	return t
}
