package scheduler

import (
	"fmt"
	"maps"
)

// follow counts a user of each block that a reservation uses. It returns an error where one is gone, or is not where it
// should be.
func (l *Ledger) follow(r *Reservation, users []int32) error {
	tokens := 0
	for at := r.last; at > 0; at = l.cache.blocks[at].before {
		b := &l.cache.blocks[at]
		if found, ok := l.cache.index[b.blockName]; !ok || found != at || int(b.offset) != r.Offset {
			return fmt.Errorf("block %d, of its prefix of %d tokens at offset %d, is gone", at, r.Shared, r.Offset)
		}
		users[at]++
		tokens += l.cache.tokens
	}
	if tokens != r.Shared {
		return fmt.Errorf("its blocks have %d tokens of a prefix of %d", tokens, r.Shared)
	}
	return nil
}

// checkBlocks returns an error where the users of blocks, their memory or their number are not these.
func (l *Ledger) checkBlocks(users []int32) error {
	c := l.cache
	hosted, pinned := int64(0), int64(0)
	unused, used := make([]int64, len(l.used)), make([]int64, len(l.used))
	for name, at := range c.index {
		b := &c.blocks[at]
		if b.users != users[at] {
			return fmt.Errorf("block %d has %d users, %d requests use it", at, b.users, users[at])
		}
		if name.before > 0 && c.blocks[name.before].blockName == (blockName{}) {
			return fmt.Errorf("block %d lies behind block %d, which is gone", at, name.before)
		}
		if b.hosted {
			hosted++
		}
		switch {
		case b.hosted && b.users > 0 || b.users > 0 && name.before > 0 && c.blocks[name.before].users == 0 || !b.hosted && name.before > 0 && c.blocks[name.before].hosted:
			return fmt.Errorf("block %d, with %d users, is in a slower memory, or behind one that nobody uses or that is", at, b.users)
		case b.hosted:
		case b.users > 0:
			l.spread(used, int(b.offset), c.units)
			pinned++
		default:
			l.spread(unused, int(b.offset), c.units)
		}
	}
	for rank := range used {
		if used[rank] != c.used[rank] || unused[rank] != c.unused[rank] {
			return fmt.Errorf("rankset %d holds %d units of blocks in use and %d of others, counted are %d and %d",
				rank, used[rank], unused[rank], c.used[rank], c.unused[rank])
		}
	}
	if n := int64(len(c.index)) - hosted; n != c.count || n > c.most || pinned != c.pinned {
		return fmt.Errorf("the cache has %d blocks, %d in use, counted are %d, %d in use, of %d", n, pinned, c.count, c.pinned, c.most)
	}
	if hosted != c.hosted || hosted > c.hostMost {
		return fmt.Errorf("the host has %d blocks, counted are %d of %d", hosted, c.hosted, c.hostMost)
	}
	return nil
}

// checkGroups returns an error where stretches are not the blocks that the same decoding requests of a sub-batch use, several of them.
func (c *cache) checkGroups(sub *SubBatch, holds []Reservation) error {
	users := map[int32][]int32{} // by block: places
	for i, d := range sub.Decode {
		for at := holds[d.Request].last; at > 0; at = c.blocks[at].before {
			users[at] = append(users[at], int32(i))
		}
	}
	want, got := map[string]int{}, map[string]int{}
	for _, by := range users {
		if len(by) > 1 {
			want[fmt.Sprint(by)] += c.tokens
		}
	}
	for i := range sub.Shared {
		x := &sub.Shared[i]
		got[fmt.Sprint(x.Requests)] += x.Tokens
		if i > 0 && x.Spared() > sub.Shared[i-1].Spared() {
			return fmt.Errorf("stretch %d of shared blocks spares %d tokens, the one before %d", i, x.Spared(), sub.Shared[i-1].Spared())
		}
	}
	if !maps.Equal(got, want) || len(got) != len(sub.Shared) {
		return fmt.Errorf("decoding requests share tokens %v, their blocks have %v", got, want)
	}
	return nil
}
