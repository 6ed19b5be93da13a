package memory

import "fmt"

// pin adds a user to a block.
func (l *Ledger) pin(at int32) {
	c := l.cache
	b := &c.blocks[at]
	if b.users++; b.users > 1 {
		if b.users == 2 {
			l.spread(c.several, int(b.offset), c.units)
		}
		return
	}
	c.unlink(at)
	c.pinned++
	if b.hosted {
		b.hosted = false
		c.host.count--
		c.count++
		l.spread(c.unused, int(b.offset), c.units)
	}
	l.move(b, -1)
}

// move counts the memory of a block as in use (sign -1) or as idle (sign 1).
func (l *Ledger) move(b *block, sign int64) {
	c := l.cache
	l.spread(c.unused, int(b.offset), sign*c.units)
	l.spread(c.used, int(b.offset), -sign*c.units)
	l.apply(int(b.offset), -sign*c.units)
	l.filled -= sign * int64(c.tokens*l.heads)
}

// leave ends a reservation's use of a block and of all blocks in front of it.
func (l *Ledger) leave(last int32) {
	for at := last; at > 0; {
		c := l.cache
		b := &c.blocks[at]
		b.users--
		switch b.users {
		case 1:
			l.spread(c.several, int(b.offset), -c.units)
		case 0:
			c.link(at)
			c.pinned--
			l.move(b, 1)
		}
		at = b.before
	}
}

// list returns the list that holds a block while it is idle.
func (c *cache) list(b *block) *idle {
	if b.hosted {
		return &c.host.idle
	}
	return &c.idle[b.offset]
}

// link adds a block to the newest end of its list of idle blocks.
func (c *cache) link(at int32) {
	b := &c.blocks[at]
	list := c.list(b)
	b.older, b.newer, b.left = list.newest, 0, c.clock
	c.clock++
	if list.newest > 0 {
		c.blocks[list.newest].newer = at
	} else {
		list.oldest = at
	}
	list.newest = at
}

// unlink takes a block from its list of idle blocks.
func (c *cache) unlink(at int32) {
	b := &c.blocks[at]
	list := c.list(b)
	if b.older > 0 {
		c.blocks[b.older].newer = b.newer
	} else {
		list.oldest = b.newer
	}
	if b.newer > 0 {
		c.blocks[b.newer].older = b.older
	} else {
		list.newest = b.older
	}
}

// add adds an idle block.
func (l *Ledger) add(name blockName, offset int32) int32 {
	c := l.cache
	at := int32(len(c.blocks))
	if n := len(c.spare); n > 0 {
		at, c.spare = c.spare[n-1], c.spare[:n-1]
	} else {
		c.blocks = append(c.blocks, block{})
	}
	c.blocks[at] = block{blockName: name, offset: offset}
	c.index[name] = at
	c.count++
	c.link(at)
	l.spread(c.unused, int(offset), c.units)
	return at
}

// anyRank makes evict take the oldest block on any rank.
const anyRank = -1

// evict frees the memory of the least recently used idle block among those with memory on the rank. It returns false if no
// block has memory there.
func (l *Ledger) evict(rank int) bool {
	c := l.cache
	oldest := int32(0)
	for offset := range c.idle {
		at := c.idle[offset].oldest
		if at > 0 && (rank == anyRank || l.layersFrom(offset, rank) > 0) && (oldest == 0 || c.blocks[at].left < c.blocks[oldest].left) {
			oldest = at
		}
	}
	if oldest == 0 {
		return false
	}
	b := &c.blocks[oldest]
	c.unlink(oldest)
	l.spread(c.unused, int(b.offset), -c.units)
	c.count--
	c.did.Evicted++
	if c.host.most == 0 {
		c.drop(oldest)
		return true
	}
	b.hosted = true
	c.link(oldest)
	c.swaps.down += c.tokens
	if c.host.count++; c.host.count > c.host.most {
		c.dropHosted()
	}
	return true
}

// drop removes a block from the cache.
func (c *cache) drop(at int32) {
	b := &c.blocks[at]
	delete(c.index, b.blockName)
	c.spare = append(c.spare, at)
	*b = block{}
}

// dropHosted drops the block that came to the host first.
func (c *cache) dropHosted() {
	at := c.host.idle.oldest
	c.unlink(at)
	c.host.count--
	c.drop(at)
}

// makeWay evicts blocks until no rank exceeds its capacity.
func (l *Ledger) makeWay() {
	if l.cache == nil {
		return
	}
	for rank := range l.used {
		for l.used[rank]+l.cache.unused[rank] > l.capacity && l.evict(rank) {
		}
	}
}

// ClearCache drops all idle blocks; they do not count as evicted. It returns an error if blocks
// stay in use.
func (l *Ledger) ClearCache() error {
	c := l.cache
	if c == nil {
		return nil
	}
	for l.evict(anyRank) {
		c.did.Evicted--
	}
	for c.host.count > 0 {
		c.dropHosted()
	}
	if n := l.CachedUnits(); n != 0 {
		return fmt.Errorf("%d units of the cache are in use", n)
	}
	return nil
}

// Cached returns the largest number of tokens of a history that are cached at one offset.
func (l *Ledger) Cached(h *History) int {
	if l.cache == nil {
		return 0
	}
	l.seek(h)
	most := 0
	for i := range l.cache.found {
		most = max(most, l.cache.found[i].tokens)
	}
	return most
}

// CacheCounts returns the counts of the cache so far; zero without a cache.
func (l *Ledger) CacheCounts() CacheCounts {
	if l.cache == nil {
		return CacheCounts{}
	}
	return l.cache.did
}

// CountPrompt counts a prompt that has ended: found of its all tokens were in the cache.
func (l *Ledger) CountPrompt(found, all int) {
	if c := l.cache; c != nil {
		c.did.Hit += int64(found)
		c.did.Miss += int64(all - found)
	}
}

// CachedUnits returns the allocation units of all blocks of the cache, in use or not, on one channel.
func (l *Ledger) CachedUnits() (units int64) {
	if c := l.cache; c != nil {
		for rank := range c.unused {
			units += c.unused[rank] + c.used[rank]
		}
	}
	return units
}

// unused returns the units on a rank of idle blocks.
func (l *Ledger) unused(rank int) int64 {
	if l.cache == nil {
		return 0
	}
	return l.cache.unused[rank]
}

// severalUse returns the units on a rank of blocks that more than one request uses.
func (l *Ledger) severalUse(rank int) int64 {
	if l.cache == nil {
		return 0
	}
	return l.cache.several[rank]
}

// ownTokens returns how many tokens up to a request's last block only this request uses. Whoever uses a block uses all blocks
// in front of it.
func (l *Ledger) ownTokens(last int32) (tokens int) {
	for at := last; at > 0 && l.cache.blocks[at].users == 1; at = l.cache.blocks[at].before {
		tokens += l.cache.tokens
	}
	return tokens
}
