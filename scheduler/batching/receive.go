package batching

import "github.com/l3sim/l3sim/units"

// A decode server has its prompts prefilled elsewhere. The keys and values of a prompt arrive over a link with the first token, one prompt
// after another, while iterations run. A request gets its memory before its transfer begins, waits at the head of the queue until the
// transfer ends, and decodes from the next iteration on. If it is preempted, its prompt and emitted tokens are prefilled elsewhere again.

// Link delivers prompts that are prefilled elsewhere.
type Link struct {
	Transfer func(tokens int) units.Duration // how long a prompt's keys and values occupy the link
	Latency  units.Duration                  // of the link
}

// coming is the prompts in transfer.
type coming struct {
	Now  units.Duration // the present
	Sent []int32        // requests whose transfers began when the latest batch was formed
	free units.Duration // when the link has carried all that has begun
}

// receive starts the transfers of the prompts for which there is memory.
func (s *State) receive() {
	s.Coming.Sent = s.Coming.Sent[:0]
	for i := len(s.Queue.Held()); i < s.Queue.Len() && !s.Queue.Blocked; i++ {
		w := s.Queue.At(i)
		if !s.Admit(w) {
			return
		}
		c := &s.Coming
		c.free = max(c.free, c.Now) + s.Prefilled.Transfer(w.Prompt)
		w.begun, w.comes = true, c.free+s.Prefilled.Latency
		c.Sent = append(c.Sent, w.Request)
	}
}

// deliver lets the requests decode whose keys and values have arrived.
func (s *State) deliver(emitted func(request int32, tokens int)) {
	for s.Queue.Len() > 0 {
		w := *s.Queue.First()
		if !w.held || w.comes > s.Coming.Now {
			return
		}
		s.Queue.head++
		s.Dealt = -1
		s.startDecoding(&w, emitted)
	}
}

// Comes returns when the next transfer in progress ends; ok is false if there is none.
func (s *State) Comes() (at units.Duration, ok bool) {
	if s.Prefilled == nil || len(s.Queue.Held()) == 0 {
		return 0, false
	}
	return s.Queue.First().comes, true
}
