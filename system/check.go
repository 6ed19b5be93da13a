package system

import (
	"fmt"

	"github.com/l3sim/l3sim/sim"
)

// Law is the name of something that holds in every run; docs/laws.md states each.
type Law string

// The laws that Options.Check verifies.
const (
	LawTokens     Law = "tokens"     // every token is emitted once
	LawMemory     Law = "memory"     // no memory holds more than it can, and all is free at the end
	LawCausality  Law = "causality"  // no task starts before its inputs are there
	LawExclusive  Law = "exclusive"  // no resource does two things at once
	LawIdle       Law = "idle"       // no resource idles while a task that is ready waits for it
	LawAdmission  Law = "admission"  // no request that fits is held back
	LawTraffic    Law = "traffic"    // links, channels and ranks move and compute what the requests need
	LawIteration  Law = "iteration"  // an iteration takes its busiest resource's time at least, all tasks in turn at most
	LawThroughput Law = "throughput" // no run beats the bandwidth of PIM or HBM

	// LawBusy is verified in every run.
	LawBusy Law = "busy" // no resource works for less than none or for more than all of the time
)

// Violation is a law that a run broke: an error of the simulator, not of its
// user.
type Violation struct {
	Law    Law
	Time   sim.Time
	Detail string // the tasks involved
}

func (v *Violation) Error() string {
	return fmt.Sprintf("law %q is broken at %v: %s", v.Law, v.Time, v.Detail)
}

// checker verifies the laws of an iteration while the pipeline runs it. It keeps
// the first violation.
type checker struct {
	violation *Violation

	gpuEnd, downEnd, upEnd sim.Time
	ranks                  []rankCheck
	delivered              []delivery      // by group
	groups                 [2][]groupCheck // by sub-batch and offset, in waves
	layers, under          [2]int          // of the sub-batches, in waves: layers run, groups under way
}

// rankCheck follows one rankset.
type rankCheck struct {
	end   sim.Time // of its latest work
	since sim.Time // the running group computes since then
	done  sim.Time // and has computed for so long before
}

// delivery is when a group's vectors of a layer were there.
type delivery struct {
	at    sim.Time
	layer int
}

func newChecker(ranksets int) *checker {
	return &checker{
		ranks: make([]rankCheck, ranksets), delivered: make([]delivery, 2*ranksets),
		groups: [2][]groupCheck{make([]groupCheck, ranksets), make([]groupCheck, ranksets)},
	}
}

// fail keeps the first violation.
func (c *checker) fail(law Law, at sim.Time, format string, args ...any) {
	if c.violation == nil {
		c.violation = &Violation{law, at, fmt.Sprintf(format, args...)}
	}
}

// gpu checks a task that starts on the GPU now.
func (c *checker) gpu(p *pipeline, s int, task gpuTask, end sim.Time) {
	sub := &p.sub[s]
	if p.now < c.gpuEnd {
		c.fail(LawExclusive, p.now, "the GPU starts %s of sub-batch %d, layer %d, before it is free at %v",
			operationNames[task], s, sub.layer, c.gpuEnd)
	}
	if task == taskBlock && (sub.outstanding > 0 || sub.prompts > 0 || !sub.prefillDone || p.now < sub.resultsAt) {
		c.fail(LawCausality, p.now, "the block of sub-batch %d, layer %d, starts without %d groups, %d prompt transfers, prefill attention %v",
			s, sub.layer, sub.outstanding, sub.prompts, sub.prefillDone)
	}
	c.gpuEnd = end
}

// arrived notes that a group's decode vectors are on their rankset.
func (c *checker) arrived(p *pipeline, t *transfer) {
	c.delivered[t.group] = delivery{p.now, int(t.layer)}
}

// attention checks a group that starts on rankset q at at.
func (c *checker) attention(p *pipeline, q int, g int32, at sim.Time) {
	s, offset := p.split(g)
	layer, r := p.sub[s].layer, &c.ranks[q]
	if d := c.delivered[g]; d.layer != layer || at < d.at {
		c.fail(LawCausality, at, "attention of sub-batch %d, layer %d, offset %d, starts before its vectors (layer %d at %v)",
			s, layer, offset, d.layer, d.at)
	}
	if q != p.rankOf(offset, layer) {
		c.fail(LawTraffic, at, "attention of sub-batch %d, layer %d, offset %d, runs on rankset %d", s, layer, offset, q)
	}
	if at < r.end {
		c.fail(LawExclusive, at, "rankset %d starts sub-batch %d, layer %d, offset %d, before it is free at %v", q, s, layer, offset, r.end)
	}
	r.since, r.done = at, 0
}

// interrupt notes that rankset q leaves its group at stop and goes on at resume.
func (c *checker) interrupt(p *pipeline, q int, stop, resume sim.Time) {
	r := &c.ranks[q]
	if stop < p.now {
		c.fail(LawCausality, p.now, "rankset %d is interrupted in the past, at %v", q, stop)
	}
	r.done += max(stop-r.since, 0)
	r.since = resume
}

// results checks a group that ends now and its way up.
func (c *checker) results(p *pipeline, q int, g int32, begin, end sim.Time) {
	r := &c.ranks[q]
	s, offset := p.split(g)
	if computed := r.done + p.now - r.since; computed != p.costs.groups[g].compute {
		c.fail(LawTraffic, p.now, "attention of sub-batch %d, layer %d, offset %d, computed for %v of %v",
			s, p.sub[s].layer, offset, computed, p.costs.groups[g].compute)
	}
	if begin < p.now+p.costs.upLatency {
		c.fail(LawCausality, begin, "results of sub-batch %d, layer %d, offset %d, go up before they are there", s, p.sub[s].layer, offset)
	}
	if begin < c.upEnd {
		c.fail(LawExclusive, begin, "the up link starts sub-batch %d, layer %d, offset %d, before it is free at %v", s, p.sub[s].layer, offset, c.upEnd)
	}
	r.end, c.upEnd = p.now, end
}

// down checks a piece that starts on the down link.
func (c *checker) down(p *pipeline, begin, end sim.Time) {
	t := &p.down.current
	if begin < c.downEnd {
		c.fail(LawExclusive, begin, "the down link starts group %d, layer %d, before it is free at %v", t.group, t.layer, c.downEnd)
	}
	if data := p.shipment(t).data; !p.costs.buffered && end-begin < data {
		c.fail(LawTraffic, begin, "group %d, layer %d, goes down in %v, the channels carry its data for %v", t.group, t.layer, end-begin, data)
	}
	if begin < t.eligible {
		c.fail(LawCausality, begin, "group %d, layer %d, goes down before it is there at %v", t.group, t.layer, t.eligible)
	}
	c.downEnd = end
}

// claimed checks that no rankset computes while it receives.
func (c *checker) claimed(p *pipeline, q int, begin, end sim.Time) {
	r := &p.ranks[q]
	if r.freeAt < end || r.running != none && r.stop == never && p.due[q] > begin {
		c.fail(LawExclusive, begin, "rankset %d receives until %v and computes until %v", q, end, p.due[q])
	}
	c.ranks[q].end = end
}

// idle checks, before time moves on, that nothing that could run now waits.
func (c *checker) idle(p *pipeline) {
	if _, busy := p.gpu.End(); !busy && p.gpu.Waiting() > 0 {
		c.fail(LawIdle, p.now, "the GPU idles while %d tasks wait", p.gpu.Waiting())
	}
	for s := range p.sub {
		if p.due[len(p.ranks)+dueResults+s] <= p.now {
			c.fail(LawIdle, p.now, "the block of sub-batch %d, layer %d, is not requested", s, p.sub[s].layer)
		}
	}
	for q := range p.ranks {
		if r := &p.ranks[q]; r.running == none && r.nWaiting > 0 {
			c.fail(LawIdle, p.now, "rankset %d idles while group %d waits", q, r.waiting[0])
		}
	}
	if d := &p.down; !d.busy && d.next(p.now) <= p.now {
		c.fail(LawIdle, p.now, "the down link idles while a transfer waits")
	}
	if w := &p.writer; !w.busy && !w.queue.empty() {
		c.fail(LawIdle, p.now, "the memory controllers idle while a piece waits")
	}
}

// shift moves the state on as the pipeline's.
func (c *checker) shift(by sim.Time, layers, turn int) {
	c.gpuEnd += by
	c.downEnd += by
	c.upEnd += by
	for q := range c.ranks {
		c.ranks[q].end += by
		c.ranks[q].since += by
	}
	rotate(c.ranks, turn)
	for g := range c.delivered {
		c.delivered[g].at += by
		c.delivered[g].layer += layers
	}
}

// iteration checks a whole iteration: its time against its tasks, and what it
// moved and computed against its batch.
func (c *checker) iteration(p *pipeline, start, end sim.Time, done *work) {
	costs := p.costs
	busiest := max(done.gpu, done.pcieDown, done.pcieUp, done.channel, (done.pim+sim.Time(len(p.ranks))-1)/sim.Time(len(p.ranks)))
	var wait sim.Time // for a boundary: one whole group at most
	var rows sim.Time // before and after the data of a transfer
	var want work
	for s := range costs.sub {
		if !p.sub[s].active {
			continue
		}
		for i := range costs.sub[s].groups {
			g := &costs.sub[s].groups[i]
			want.requestsDown += int64(g.requests)
			want.promptTokens += int64(g.promptTokens)
			if g.requests > 0 {
				want.pim += g.compute
				want.channel += g.decode.data + g.upBus
				wait = max(wait, g.compute)
				rows = max(rows, g.decode.open+g.decode.close)
			}
			if g.promptTokens > 0 {
				want.channel += g.prompt.data
				rows = max(rows, g.prompt.open+g.prompt.close)
			}
		}
	}
	layers := int64(costs.layers)
	if done.requestsDown != layers*want.requestsDown || done.requestsUp != done.requestsDown ||
		done.promptTokens != layers*want.promptTokens || done.pim != sim.Time(layers)*want.pim {
		c.fail(LawTraffic, end, "%d request-layers went down, %d up, %d prompt-token-layers, %v of attention; want %d, %d, %d, %v", done.requestsDown,
			done.requestsUp, done.promptTokens, done.pim, layers*want.requestsDown, layers*want.requestsDown, layers*want.promptTokens, sim.Time(layers)*want.pim)
	}
	if done.channel != sim.Time(layers)*want.channel {
		c.fail(LawTraffic, end, "the channels carry data for %v, want %v", done.channel, sim.Time(layers)*want.channel)
	}
	each := costs.latency + costs.upLatency + costs.vacate + rows + costs.reactivate + wait
	serial := done.gpu + done.pcieDown + done.pcieUp + done.channel + done.pim + sim.Time(done.tasks)*each
	if took := end - start; took < busiest || took > serial {
		c.fail(LawIteration, end, "the iteration takes %v, its busiest resource %v, all tasks in turn %v", took, busiest, serial)
	}
}
