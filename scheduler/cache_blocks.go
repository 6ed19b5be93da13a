package scheduler

// pin adds a user to a block.
func (l *Ledger) pin(at int32) {
	c := l.cache
	b := &c.blocks[at]
	if b.users++; b.users > 1 {
		return
	}
	c.unlink(at)
	c.pinned++
	if b.hosted {
		b.hosted = false
		c.hosted--
		c.count++
		l.spread(c.unused, int(b.offset), c.units)
	}
	l.move(b, -1)
}

// move counts the memory of a block as used by requests, or with a sign of 1 as free to be evicted.
func (l *Ledger) move(b *block, sign int64) {
	c := l.cache
	l.spread(c.unused, int(b.offset), sign*c.units)
	l.spread(c.used, int(b.offset), -sign*c.units)
	l.apply(int(b.offset), -sign*c.units)
	l.filled -= sign * int64(c.tokens*l.heads)
}

// leave ends the use of a block, and of all in front of it, by a reservation.
func (l *Ledger) leave(last int32) {
	for at := last; at > 0; {
		c := l.cache
		b := &c.blocks[at]
		if b.users--; b.users == 0 {
			c.link(at)
			c.pinned--
			l.move(b, 1)
		}
		at = b.before
	}
}

// list returns the list of a block that nobody uses.
func (c *cache) list(b *block) *idle {
	if b.hosted {
		return &c.host
	}
	return &c.idle[b.offset]
}

// link adds a block to those that nobody uses.
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

// unlink takes a block from those that nobody uses.
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

// add adds a block that nobody uses.
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

// anyRank has evict take the oldest block wherever it is.
const anyRank = -1

// evict frees the memory of the block that was used longest ago, among those with memory on the rank. It returns false if no
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
	c.evicted++
	if c.hostMost == 0 {
		c.drop(oldest)
		return true
	}
	b.hosted = true
	c.link(oldest)
	c.down += c.tokens
	if c.hosted++; c.hosted > c.hostMost {
		c.dropHosted()
	}
	return true
}

// drop forgets a block.
func (c *cache) drop(at int32) {
	b := &c.blocks[at]
	delete(c.index, b.blockName)
	c.spare = append(c.spare, at)
	*b = block{}
}

// dropHosted forgets the block of the host that came there first.
func (c *cache) dropHosted() {
	at := c.host.oldest
	c.unlink(at)
	c.hosted--
	c.drop(at)
}

// makeWay evicts blocks until no rank holds more than it can.
func (l *Ledger) makeWay() {
	if l.cache == nil {
		return
	}
	for rank := range l.used {
		for l.used[rank]+l.cache.unused[rank] > l.capacity && l.evict(rank) {
		}
	}
}

// clear drops all that nobody uses. It does not count as evicted.
func (l *Ledger) clear() {
	c := l.cache
	for c != nil && l.evict(anyRank) {
		c.evicted--
	}
	for c != nil && c.hosted > 0 {
		c.dropHosted()
	}
}
