package batching

// An asynchronous scheduler forms an iteration while the one before it runs, so that the GPUs never wait for it (vLLM's
// async_scheduling, a queue of two batches). It knows what that iteration will compute, but not what happens during it. The
// next iteration but one is the first to see a request that arrives meanwhile, and the seat and memory of one that ends
// meanwhile.

// ahead is what has happened since the iteration in progress was formed. It stays empty without Config.Ahead.
type ahead struct {
	came  []Waiting // requests that came
	ended []int32   // requests that ended; Holds has their memory
}

// arrive queues a request that comes now.
func (s *State) arrive(w Waiting) {
	if s.Ahead {
		s.during.came = append(s.during.came, w)
		return
	}
	s.Queue.add(w)
}

// free frees the memory and the seat of a request that ended.
func (s *State) free(request int32) {
	if s.Ahead {
		s.during.ended = append(s.during.ended, request)
		return
	}
	s.Release(s.Holds[request])
}

// settle applies to the scheduler's state what happened during an iteration, and says whether
// anything did.
func (s *State) settle() bool {
	d := &s.during
	if len(d.came)+len(d.ended) == 0 {
		return false
	}
	for _, request := range d.ended {
		s.Release(s.Holds[request])
	}
	for _, w := range d.came {
		s.Queue.add(w)
	}
	d.came, d.ended = d.came[:0], d.ended[:0]
	return true
}
