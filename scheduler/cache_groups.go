package scheduler

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/l3sim/l3sim/traces"
)

// Shared is blocks of a cache of prefixes that the same requests of a sub-batch use, several of them that decode: a stretch of the
// tree of blocks. They use all in front of it, too, which may be stretches that more of them share.
type Shared struct {
	Tokens   int
	Requests []int32 // places in SubBatch.Decode, rising
}

// Spared returns how many tokens fewer are read where the stretch is read once.
func (s *Shared) Spared() int { return (len(s.Requests) - 1) * s.Tokens }

// groups finds what requests share.
type groups struct {
	found   bool    // for the batch as it is
	users   []int32 // by block: requests of the sub-batch that use it
	ends    []int32 // by block: the stretch that ends with it, from 1 on
	members []int32 // of all stretches
}

// GroupPrefixes has batches say what their decoding requests share.
func (s *Scheduler) GroupPrefixes() { s.groups = &groups{} }

// group finds what the requests of each sub-batch share, where these are others than before.
func (s *Scheduler) group() {
	g := s.groups
	if g == nil || g.found {
		return
	}
	g.found, g.members = true, g.members[:0]
	s.batch.Grouped++
	for i := range s.batch.Sub {
		g.find(s.ledger.cache, &s.batch.Sub[i], s.holds)
	}
}

// regroup has the next batch say anew what its requests share.
func (s *Scheduler) regroup() {
	if s.groups != nil {
		s.groups.found = false
	}
}

// find sets SubBatch.Shared. Requests that use a block use all in front of it, so that a stretch ends where more requests use a
// block than the one behind it.
func (g *groups) find(c *cache, sub *SubBatch, holds []Reservation) {
	g.users = append(g.users, make([]int32, len(c.blocks)-len(g.users))...)
	g.ends = append(g.ends, make([]int32, len(c.blocks)-len(g.ends))...)
	for _, d := range sub.Decode {
		for at := holds[d.Request].last; at > 0; at = c.blocks[at].before {
			g.users[at]++
		}
	}
	sub.Shared = sub.Shared[:0]
	for i, d := range sub.Decode {
		behind, end := int32(1), int32(0)
		for at := holds[d.Request].last; at > 0; at = c.blocks[at].before {
			if users := g.users[at]; users > behind {
				if end, behind = g.ends[at], users; end == 0 {
					sub.Shared = append(sub.Shared, g.stretch(users))
					end = int32(len(sub.Shared))
					g.ends[at] = end
				}
				x := &sub.Shared[end-1]
				x.Requests = append(x.Requests, int32(i))
			}
			if end > 0 && sub.Shared[end-1].Requests[0] == int32(i) {
				sub.Shared[end-1].Tokens += c.tokens
			}
		}
	}
	for _, d := range sub.Decode {
		for at := holds[d.Request].last; at > 0; at = c.blocks[at].before {
			g.users[at], g.ends[at] = 0, 0
		}
	}
	slices.SortStableFunc(sub.Shared, func(a, b Shared) int { return cmp.Compare(b.Spared(), a.Spared()) })
}

// stretch returns a Shared with room for that many requests.
func (g *groups) stretch(users int32) Shared {
	from := len(g.members)
	g.members = append(g.members, make([]int32, users)...)
	return Shared{Requests: g.members[from : from : from+int(users)]}
}

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
