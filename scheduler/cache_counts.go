package scheduler

import (
	"fmt"

	"github.com/l3sim/l3sim/traces"
)

// keepPrefix has the cache keep the first tokens of a request.
func (s *Scheduler) keepPrefix(request int32, r *Reservation, tokens int) {
	h := historyOf(&s.requests[request], tokens)
	if s.ledger.keep(r, &h) {
		s.blocked = false // the queue's head may begin alike, and need less memory
	}
}

// Cached returns how many of the first tokens of a prompt are in the cache at one offset.
func (s *Scheduler) Cached(r *traces.Request) int {
	c := s.ledger.cache
	if c == nil {
		return 0
	}
	h := historyOf(r, r.Input-1)
	s.ledger.seek(&h)
	most := 0
	for i := range c.found {
		most = max(most, c.found[i].tokens)
	}
	return most
}

// CacheCounts is what a cache of prefixes has done.
type CacheCounts struct {
	Hit, Miss int64 // tokens of the prompts that have ended: found, and prefilled; not of those that were computed again
	Evicted   int64 // blocks
	Up, Down  int64 // tokens of blocks that came from the host's memory, and that went there
}

// CacheCounts returns the counts so far; zero without a cache.
func (s *Scheduler) CacheCounts() CacheCounts {
	c := s.ledger.cache
	if c == nil {
		return CacheCounts{}
	}
	return CacheCounts{c.hit, c.miss, c.evicted, c.ups, c.outs}
}

// CachedUnits returns the allocation units of all blocks of the cache, in use or not, on one channel.
func (s *Scheduler) CachedUnits() (units int64) {
	if c := s.ledger.cache; c != nil {
		for rank := range c.unused {
			units += c.unused[rank] + c.used[rank]
		}
	}
	return units
}

// ClearCache drops all blocks that no request uses. It returns an error where any memory stays in use.
func (s *Scheduler) ClearCache() error {
	s.ledger.clear()
	if n := s.CachedUnits(); n != 0 {
		return fmt.Errorf("%d units of the cache are in use", n)
	}
	return nil
}

// unused returns the units on a rank of blocks that nobody uses.
func (l *Ledger) unused(rank int) int64 {
	if l.cache == nil {
		return 0
	}
	return l.cache.unused[rank]
}

// inBlocks returns the units on a rank of blocks that requests use.
func (l *Ledger) inBlocks(rank int) int64 {
	if l.cache == nil {
		return 0
	}
	return l.cache.used[rank]
}
