package memory

import (
	"fmt"
	"github.com/l3sim/l3sim/scheduler"
	"maps"
)

// cacheCheck verifies a cache against the requests in memory. Its owner names them with Use, then calls CheckBlocks.
type cacheCheck struct {
	*Ledger
	users []int32 // by block
}

// Caches says that blocks of prefixes outlive their requests.
func (l *Ledger) Caches() bool { return l.cache != nil }

// NewCacheCheck returns a check of a Ledger with a cache.
func (l *Ledger) NewCacheCheck() *cacheCheck {
	return &cacheCheck{l, make([]int32, len(l.cache.blocks))}
}

// Use counts a user of each block that a request's reservation uses. It returns an error if a block is gone or in the wrong
// place.
func (l *cacheCheck) Use(r *Reservation, request int32) error {
	tokens := 0
	for at := r.last; at > 0; at = l.cache.blocks[at].before {
		b := &l.cache.blocks[at]
		if found, ok := l.cache.index[b.blockName]; !ok || found != at || int(b.offset) != r.Offset {
			return fmt.Errorf("request %d: block %d, of its prefix of %d tokens at offset %d, is gone", request, at, r.Shared, r.Offset)
		}
		l.users[at]++
		tokens += l.cache.tokens
	}
	if tokens != r.Shared {
		return fmt.Errorf("request %d: its blocks have %d tokens of a prefix of %d", request, tokens, r.Shared)
	}
	return nil
}

// CheckBlocks returns an error if blocks have other users than those named, are in the wrong memory, or are counted
// wrong.
func (l *cacheCheck) CheckBlocks() error {
	c := l.cache
	hosted, pinned := int64(0), int64(0)
	unused, used, several := make([]int64, len(l.used)), make([]int64, len(l.used)), make([]int64, len(l.used))
	for name, at := range c.index {
		if err := l.checkBlock(name, at); err != nil {
			return err
		}
		switch b := &c.blocks[at]; {
		case b.hosted:
			hosted++
		case b.users > 0:
			l.spread(used, int(b.offset), c.units)
			if b.users > 1 {
				l.spread(several, int(b.offset), c.units)
			}
			pinned++
		default:
			l.spread(unused, int(b.offset), c.units)
		}
	}
	for rank := range used {
		if used[rank] != c.used[rank] || several[rank] != c.several[rank] || unused[rank] != c.unused[rank] {
			return fmt.Errorf("rankset %d holds %d units of blocks in use, %d in use by several and %d of others, counted are %d, %d and %d",
				rank, used[rank], several[rank], unused[rank], c.used[rank], c.several[rank], c.unused[rank])
		}
	}
	if n := int64(len(c.index)) - hosted; n != c.count || n > c.most || pinned != c.pinned {
		return fmt.Errorf("the cache has %d blocks, %d in use, counted are %d, %d in use, of %d", n, pinned, c.count, c.pinned, c.most)
	}
	if hosted != c.host.count || hosted > c.host.most {
		return fmt.Errorf("the host has %d blocks, counted are %d of %d", hosted, c.host.count, c.host.most)
	}
	return nil
}

// checkBlock returns an error if a block has other users than those named, or if it could outlive the block in front of it:
// whoever uses a block uses that one too, and it must be evicted first.
func (l *cacheCheck) checkBlock(name blockName, at int32) error {
	b := &l.cache.blocks[at]
	if b.users != l.users[at] {
		return fmt.Errorf("block %d has %d users, %d requests use it", at, b.users, l.users[at])
	}
	if b.hosted && b.users > 0 {
		return fmt.Errorf("block %d has %d users and is in the host's memory", at, b.users)
	}
	if name.before <= 0 {
		return nil
	}
	switch front := &l.cache.blocks[name.before]; {
	case front.blockName == blockName{}:
		return fmt.Errorf("block %d lies behind block %d, which is gone", at, name.before)
	case b.users > 0 && front.users == 0:
		return fmt.Errorf("block %d has %d users, block %d in front of it has none", at, b.users, name.before)
	case !b.hosted && front.hosted:
		return fmt.Errorf("block %d is behind block %d, which is in the host's memory", at, name.before)
	}
	return nil
}

// CheckShared returns an error if SubBatch.Shared differs from the blocks that several decoding requests share. holds is the
// reservations by request.
func (l *cacheCheck) CheckShared(sub *scheduler.SubBatch, holds []Reservation) error {
	users := map[int32][]int32{} // by block: indices of requests
	for i, d := range sub.Decode {
		for at := holds[d.Request].last; at > 0; at = l.cache.blocks[at].before {
			users[at] = append(users[at], int32(i))
		}
	}
	want, got := map[string]int{}, map[string]int{}
	for _, by := range users {
		if len(by) > 1 {
			want[fmt.Sprint(by)] += l.cache.tokens
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
