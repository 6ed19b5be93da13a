package controller

import (
	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/check"
	"github.com/l3sim/l3sim/input"
)

// Completion is the end of a request.
type Completion struct {
	Request
	Accepted int64 // clock at which the controller took it
	End      int64 // end of its last data beat; one clock after acceptance if no burst moved for it
}

// Memory is a memory system that a caller's model drives: requests go in as they come, and
// each one's end comes back. One goroutine at a time.
type Memory struct {
	mapping  *Mapping
	channels []*controller
	steps    int64 // of a clock
	now      int64 // all earlier clocks are over
}

// Open returns the idle memory system of the set-up at clock 0. Done, which may be nil, is called at the
// end of each request, in the order of the clocks; it may call Enqueue. Logs is nil, or gives the
// command log of each channel.
func (s *Setup) Open(done func(Completion), logs []*check.LogWriter) (*Memory, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	mapping, err := s.Mapping()
	if err != nil {
		return nil, err
	}
	m := &Memory{mapping: mapping, steps: s.Spec.Steps(1)}
	for i := range s.Channels {
		var log *check.LogWriter
		if logs != nil {
			log = logs[i]
		}
		c := newController(s.Spec, s.Policy, mapping, s.Ranks, log)
		c.done = done
		m.channels = append(m.channels, c)
	}
	return m, nil
}

// Enqueue offers a request from r.Clock on. A channel takes its requests in order, so
// clocks neither go backwards nor lie before Now; else the error is an *input.Error.
func (m *Memory) Enqueue(r Request) error {
	channel, _ := m.mapping.decode(r.Address, &dram.Address{})
	c := m.channels[channel]
	if r.Clock < max(m.now, c.arrived) || r.Clock > dram.MaxClock {
		return input.Errorf("request at clock %d: clocks lie in %d to %d", r.Clock, max(m.now, c.arrived), int64(dram.MaxClock))
	}
	if c.next == len(c.requests) {
		c.requests, c.next = c.requests[:0], 0 // nothing waits: the space serves again
	}
	c.requests = append(c.requests, r)
	c.arrived = r.Clock
	c.wake = min(c.wake, r.Clock*c.steps)
	return nil
}

// Now returns the clock up to which Advance has come.
func (m *Memory) Now() int64 { return m.now }

// Next returns the next clock at which anything happens in the memory, at least Now.
func (m *Memory) Next() int64 {
	next := int64(forever)
	for _, c := range m.channels {
		next = min(next, c.wake)
	}
	if next == forever {
		return next
	}
	return max(next/m.steps, m.now)
}

// Advance runs all clocks before until, which may lie in the past.
func (m *Memory) Advance(until int64) {
	for {
		// Channels go on in the order of their clocks, so that what comes of a completion
		// reaches another channel in time.
		first := m.channels[0]
		for _, c := range m.channels[1:] {
			if c.wake < first.wake {
				first = c
			}
		}
		if first.wake/m.steps >= until {
			break
		}
		m.now = max(m.now, first.wake/m.steps)
		first.wake = first.tick(first.wake)
		if first.skipIdle {
			first.wake += first.skipIdlePeriods(first.wake)
		}
	}
	m.now = max(m.now, until)
}

// Idle reports whether no request is waiting or under way.
func (m *Memory) Idle() bool {
	for _, c := range m.channels {
		if !c.finished() || len(c.ends) > 0 {
			return false
		}
	}
	return true
}

// Drain runs until no request is left, with those that completions add, and returns what
// happened since Open. Writes that were held back in the hope of more go out.
func (m *Memory) Drain() (*Stats, error) {
	for _, c := range m.channels {
		c.closing = true
		c.stuck = false
		c.wake = min(c.wake, m.now*c.steps)
	}
	for !m.Idle() {
		next := m.Next()
		if next == forever {
			return nil, errNoProgress
		}
		m.Advance(next + 1)
	}
	total := &Stats{}
	for _, c := range m.channels {
		c.closing = false
		total.add(c.result())
	}
	return total, nil
}

// ending is a request whose last data beat is known.
type ending struct {
	end, accepted int64
	id            int32 // in controller.underway
}

// keep remembers r until it ends, if anyone wants to know, and returns its number.
func (c *controller) keep(r *Request) int32 {
	if c.done == nil {
		return -1
	}
	if n := len(c.freeIDs); n > 0 {
		id := c.freeIDs[n-1]
		c.freeIDs = c.freeIDs[:n-1]
		c.underway[id] = *r
		return id
	}
	c.underway = append(c.underway, *r)
	return int32(len(c.underway) - 1)
}

// end notes the end of a request; they come back in the order of their ends, and of two at one clock the
// earlier noted first.
func (c *controller) end(e ending) {
	if c.done == nil {
		return
	}
	i := len(c.ends)
	c.ends = append(c.ends, e)
	for ; i > 0 && c.ends[i-1].end > e.end; i-- { // few are under way, and most end in order
		c.ends[i] = c.ends[i-1]
	}
	c.ends[i] = e
}

// deliver calls back for what has ended by t.
func (c *controller) deliver(t int64) {
	n := 0
	for ; n < len(c.ends) && c.ends[n].end <= t; n++ {
		e := c.ends[n]
		r := c.underway[e.id]
		c.freeIDs = append(c.freeIDs, e.id)
		c.done(Completion{r, e.accepted / c.steps, c.clocks(e.end)})
	}
	c.ends = c.ends[:copy(c.ends, c.ends[n:])]
}
