package scheduler

import "slices"

// enqueue puts a request at the end of the queue. Places of requests that have left it are
// used again once they are most of it, but for some that stay for those that come back.
func (s *Scheduler) enqueue(w waiting) {
	const back = 256
	if s.head > 4*back && s.head > len(s.queue)/2 {
		s.queue = append(s.queue[:back], s.queue[s.head:]...)
		s.head = back
	}
	s.queue = append(s.queue, w)
}

// pushFront returns a request to the head of the queue.
func (s *Scheduler) pushFront(w waiting) {
	if s.head == 0 {
		s.queue, s.head = slices.Insert(s.queue, 0, waiting{}), 1
	}
	s.head--
	s.queue[s.head] = w
	s.blocked = false
}

// Waiting returns the requests that still have prompt tokens to prefill.
func (s *Scheduler) Waiting() int { return len(s.queue) - s.head }
