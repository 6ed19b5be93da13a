package memory

import (
	"cmp"
	"github.com/l3sim/l3sim/scheduler"
	"slices"
)

// Groups finds which cached blocks the decoding requests of a sub-batch share. It reuses its memory.
type Groups struct {
	users   []int32 // by block: requests of the sub-batch that use it
	ends    []int32 // by block: 1 + index of the run of blocks that ends with it
	members []int32 // members of all runs
}

// Group sets SubBatch.Shared of all sub-batches. holds is the reservations by request.
func (g *Groups) Group(l *Ledger, subs []scheduler.SubBatch, holds []Reservation) {
	g.members = g.members[:0]
	for i := range subs {
		g.find(l.cache, &subs[i], holds)
	}
}

// find sets SubBatch.Shared of one sub-batch. Requests that use a block use all blocks in front of it, so a run ends where the
// next block has fewer users.
func (g *Groups) find(c *cache, sub *scheduler.SubBatch, holds []Reservation) {
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
	slices.SortStableFunc(sub.Shared, func(a, b scheduler.Shared) int { return cmp.Compare(b.Spared(), a.Spared()) })
}

// stretch returns a Shared with space for a number of requests.
func (g *Groups) stretch(users int32) scheduler.Shared {
	from := len(g.members)
	g.members = append(g.members, make([]int32, users)...)
	return scheduler.Shared{Requests: g.members[from : from : from+int(users)]}
}
