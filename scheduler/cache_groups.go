package scheduler

import (
	"cmp"
	"slices"
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
