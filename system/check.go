package system

import (
	"fmt"
	"strings"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/dataflow"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// Law is the name of something that holds in every run; docs/lab/laws.md states each.
type Law = dataflow.Law

// The laws that Options.Check verifies.
const (
	LawTokens     Law = "tokens"           // every token is emitted once
	LawMemory     Law = "memory"           // no memory holds more than it can, and all is free at the end
	LawCausality      = dataflow.Causality // no operation starts before its inputs are there
	LawExclusive      = dataflow.Exclusive // no resource does two things at once
	LawIdle           = dataflow.Idle      // no resource idles while an operation that is ready waits for it
	LawAdmission  Law = "admission"        // no request that fits is held back
	LawTraffic        = dataflow.Traffic   // links, channels and ranks move and compute what the requests need
	LawIteration      = dataflow.Length    // an iteration takes its busiest resource's time at least, all operations in turn at most
	LawRequests   Law = "requests"         // the scheduler has the requests that came and have not left, a router sees their tokens
	LawProgress   Law = "progress"         // a token is emitted before prompts of more tokens than all requests have are prefilled
	LawThroughput Law = "throughput"       // no run beats the bandwidth of PIM or HBM

	// LawBusy is verified in every run.
	LawBusy Law = "busy" // no resource works for less than none or for more than all of the time
	// LawEnergy is verified in every run, and of every table of attention.
	LawEnergy Law = "energy" // no part of the energy is negative, all add up to the total, and that is within its band
)

// Violation is a law that a run broke: an error of the simulator, not of its
// user.
type Violation struct {
	Law    Law
	Time   units.Duration
	Detail string // the operations involved
}

// Error names the law, the time and the operations.
func (v *Violation) Error() string {
	return fmt.Sprintf("law %q is broken at %v: %s", v.Law, v.Time, v.Detail)
}

// Violations is all laws that one iteration broke, or the end of a run.
type Violations []*Violation

// Error joins all violations into one line.
func (v Violations) Error() string {
	var text []string
	for _, one := range v {
		text = append(text, one.Error())
	}
	return strings.Join(text, "; ")
}

// checker verifies the laws of a replica and keeps what is broken.
type checker struct {
	violations Violations
	homes      homes // of the requests of a replica of L3
	here       int   // requests that have come and have not left
	prefilled  int64 // tokens since a token was emitted
	longest    int64 // prompts and outputs of all requests so far
}

// fail notes a violation.
func (c *checker) fail(law Law, at units.Duration, format string, args ...any) {
	c.violations = append(c.violations, &Violation{law, at, fmt.Sprintf(format, args...)})
}

// err returns what is broken, nil for nothing.
func (c *checker) err() error {
	if len(c.violations) == 0 {
		return nil
	}
	return c.violations
}

// comes notes a request.
func (c *checker) comes(q *traces.Request) {
	c.here++
	c.longest += int64(q.Input + q.Output)
}

// progress verifies that an iteration is not one of endless prompts that emit nothing.
func (c *checker) progress(b *scheduler.Batch, now units.Duration) {
	emitting := 0
	for s := range b.Sub {
		c.prefilled += int64(b.Sub[s].PrefillTokens())
		emitting += b.Sub[s].Emitting()
	}
	if c.prefilled > c.longest {
		c.fail(LawProgress, now, "prompts of %d tokens emit nothing, all requests have %d", c.prefilled, c.longest)
	}
	if emitting > 0 {
		c.prefilled = 0
	}
}

// schedule verifies the iteration that a flow has just run: the schedule by the spans
// that its events leave, and that these end when the run did, which may have been a
// shortcut.
func (c *checker) schedule(f *flow, start, end units.Duration) {
	again, found := f.engine.Check(&f.it, start)
	for _, v := range found {
		c.fail(v.Law, v.Time, "%s", v.Detail)
	}
	if again != end {
		c.fail(LawIteration, end, "the iteration takes %v, and %v event by event", end-start, again-start)
	}
}

// traffic verifies what an iteration of L3 has moved and computed against its batch.
func (c *checker) traffic(b *scheduler.Batch, costs *iterationCosts, end units.Duration, done *work) {
	var pim, channel units.Duration
	for r := range costs.runs() {
		layers, subs := costs.run(r)
		for s := range subs {
			if costs.sub[s].active {
				p, ch := c.layerTraffic(&b.Sub[s], &subs[s], costs, b.Step, end, r, s)
				pim += units.Duration(layers) * p
				channel += units.Duration(layers) * ch
			}
		}
	}
	if done.time[ofPIM] != pim || done.time[ofChannel] != channel {
		c.fail(LawTraffic, end, "attention takes %v and the channels carry data for %v, want %v and %v", done.time[ofPIM], done.time[ofChannel], pim, channel)
	}
}

// layerTraffic verifies what a sub-batch moves in a layer of a run, and returns how long its
// attention takes and the channels carry data.
func (c *checker) layerTraffic(sub *scheduler.SubBatch, costs *subCost, all *iterationCosts, step int64, end units.Duration, run, s int) (pim, channel units.Duration) {
	var moves traffic
	for i := range costs.groups {
		g := &costs.groups[i]
		if moves.requests += g.requests; g.requests > 0 {
			moves.heads, moves.lists = moves.heads+g.vectors.all, moves.lists+g.vectors.down
			pim += g.compute
			channel += g.decode.data + g.upBus
			c.held(all, &g.decode, end, "vectors", i, s)
		}
		if x := &g.prefix; x.tokens > 0 {
			moves.fetched += x.tokens
			moves.bytes += x.bytes
			channel += x.data
		}
		for _, x := range []*cargo{&g.prompt, &g.leaving} {
			moves.tokens += x.tokens
			moves.bytes += x.bytes
			if x.tokens > 0 {
				channel += x.data
				c.held(all, &x.shipment, end, "keys and values", i, s)
			}
		}
	}
	if want := c.homes.follow(c, sub, step, end, run); moves != want {
		c.fail(LawTraffic, end, "sub-batch %d moves %+v, want %+v", s, moves, want)
	}
	return pim, channel
}

// held verifies that a transfer down holds the links for as long as the channels carry it.
func (c *checker) held(costs *iterationCosts, x *shipment, end units.Duration, what string, group, sub int) {
	if !costs.buffered && x.held() < x.data {
		c.fail(LawTraffic, end, "the %s of group %d of sub-batch %d go down in %v, the channels carry them for %v", what, group, sub, x.held(), x.data)
	}
}

// traffic is what a sub-batch moves in one layer: vectors of heads of requests, with lists and bounds of
// pages in the same transfers, and keys and values of tokens, counted in single heads on one channel, and in
// bytes with bounds of pages.
type traffic struct {
	requests      int
	heads, tokens int64
	fetched       int64 // tokens of prefixes that come to the GPUs
	lists, bytes  units.Bytes
}

// homeOf is the layers of a run of one request.
type homeOf struct{ request, run int32 }

// homes follows what is at the home of each request: tokens of heads in one layer.
type homes struct {
	*attends
	channels int
	have     map[homeOf]int64
	bound    units.Bytes // of the bounds of a page in one KV head
	group    int         // query heads of a KV head
	stripe   stripe
	// prefixStays says that prompts attend over what a cache has of them at home.
	prefixStays bool
}

// placed returns how many lanes attend over heads of that many tokens, and how many parts of heads there are.
func (h *homes) placed(heads, tokens int) (lanes int, all int64) {
	switch {
	case h.stripe.parts == 0:
		return 1, int64(heads)
	case h.stripe.lanes:
		lanes = h.stripe.used(tokens)
		return lanes, int64(lanes * heads)
	}
	return h.stripe.used(tokens), int64(h.stripe.used(tokens) * heads)
}

// onChannel returns how many tokens of single heads a channel gets, of the tokens behind the first from of each head.
func (h *homes) onChannel(heads, from, tokens int) (n int64) {
	if h.stripe.parts == 0 || h.stripe.lanes {
		return int64((heads + h.channels - 1) / h.channels * tokens)
	}
	for token := from; token < from+tokens; token++ { // head k has a unit on the channel of its number and k
		unit := token / h.stripe.tokens % h.channels
		n += int64((heads + h.channels - 1 - (h.channels-unit)%h.channels) / h.channels)
	}
	return n
}

// lists returns the bytes that a step of one request sends from the GPUs beside vectors: lists of pages, two bytes a page, and bounds.
func (h *homes) lists(x *policy.Step) (bytes units.Bytes) {
	for _, c := range x.Choose {
		if c.Device != "" || c.Ranked[0] == 0 {
			continue
		}
		bytes += units.Bytes(2 * c.Heads * c.Keep)
		if c.PerQueryHead {
			bytes += units.Bytes(2 * c.Heads * c.Keep * (h.group - 1))
		}
	}
	if b := x.Bounds; b.Heads > 0 {
		bytes += units.Bytes(b.Heads*b.Down[0]) * h.bound
	}
	return bytes
}

// reuse adds the transfers of a prefix that a chunk of a prompt finds in the cache.
func (h *homes) reuse(t *traffic, p *scheduler.Chunk) {
	switch {
	case h.prefixStays && p.Prefix > 0: // each token attends there
		t.requests += p.Tokens
		t.heads += int64(p.Tokens * h.heads)
	case p.Finished == p.Prefix:
		t.fetched += h.onChannel(h.heads, 0, p.Prefix)
		t.bytes += h.kv(p.Prefix)
	}
}

// follow returns what a sub-batch has to move, as a policy of its own says, and verifies that
// requests attend at home over nothing that has not gone there.
func (h *homes) follow(c *checker, sub *scheduler.SubBatch, step int64, end units.Duration, run int) (t traffic) {
	leaves := func(request homeOf, l *policy.Leaving) {
		heads, tokens := l.Heads, l.Tokens[0]
		if l.Bounds {
			t.bytes += units.Bytes(heads*tokens) * h.bound
			return
		}
		h.have[request] += int64(heads * tokens)
		t.tokens += h.onChannel(heads, l.From[0], tokens)
		t.bytes += units.Bytes(heads) * h.kv(tokens) / units.Bytes(h.heads)
	}
	appends := h.policy.Vectors().New > 0
	for i := range sub.Decode {
		request := homeOf{sub.Decode[i].Request, int32(run)}
		x := h.decode(sub.Decode[i:i+1], run, step)
		attended, heads, lanes := int64(0), int64(0), 0
		for _, class := range x.Attend {
			if class.Device != policy.Home {
				continue
			}
			if appends {
				h.have[request] += int64(class.Heads)
			}
			if class.Tokens[0] > 0 {
				attended += int64(class.Heads * class.Tokens[0])
				n, all := h.placed(class.Heads, class.Tokens[0])
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
			c.fail(LawTraffic, end, "request %d attends over %d tokens of heads at home, where %d are", request.request, attended, have)
		}
		for i := range x.Leave {
			leaves(request, &x.Leave[i])
		}
	}
	for i := range sub.Prefill {
		p := &sub.Prefill[i]
		request := homeOf{p.Request, int32(run)}
		if p.Finished == p.Prefix { // the first chunk
			h.have[request] = int64(h.heads * p.Prefix)
		}
		h.reuse(&t, p)
		leave := h.policy.Prompt(run, p.Tokens, p.Finished, p.Last).Leave
		for i := range leave {
			leaves(request, &leave[i])
		}
	}
	return t
}
