package forming

import "github.com/l3sim/l3sim/units"

// A decode server has its prompts prefilled elsewhere. Keys and values of a prompt come over a link with the first token, one prompt after
// another, beside the iterations. A request has its memory before its transfer begins, waits at the head of the queue until all has come, and
// decodes from the next iteration on. One that loses its memory has its prompt, and what it has emitted, prefilled elsewhere again.

// Link is how prompts come that are prefilled elsewhere.
type Link struct {
	Transfer func(tokens int) units.Duration // for which a prompt's keys and values take the link
	Latency  units.Duration                  // of the link
}

// coming is the prompts on their way.
type coming struct {
	Now  units.Duration // the present
	Sent []int32        // requests whose transfers began when the latest batch was formed
	free units.Duration // the link has carried all that has begun
}

// receive has the prompts come that find memory.
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

// deliver has the requests decode whose keys and values have come.
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

// Comes returns when the next prompt on its way has come; there may be none.
func (s *State) Comes() (at units.Duration, ok bool) {
	if s.Prefilled == nil || len(s.Queue.Held()) == 0 {
		return 0, false
	}
	return s.Queue.First().comes, true
}
