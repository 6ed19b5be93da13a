package scheduler

import "github.com/l3sim/l3sim/traces"

// cache is the blocks of a Ledger that outlive their requests: a tree for each rankset offset, in which a block
// follows the one in front of it. Requests that begin alike use the same blocks. Blocks that nobody uses
// lie in the memory that requests leave, until these need it or the cache is full. Then the block goes
// that was used longest ago.
//
// Who uses a block uses all in front of it, and gives them up from the last to the first. So a block never goes
// before those behind it.
//
// With a host's memory behind the Ledger's, a block that makes way goes there, and is gone for good when the host's memory
// is full, the one that came there first. It comes back where a request uses it.
type cache struct {
	tokens    int   // of a block
	units     int64 // of a block, in a layer on a channel
	most      int64 // blocks
	placement string
	index     map[blockName]int32
	blocks    []block // block 0 is none
	spare     []int32 // places of blocks that are gone
	idle      []idle  // by offset: blocks that nobody uses
	clock     int64
	unused    []int64 // units of idle blocks, by rank
	used      []int64 // units of blocks that requests use, by rank; the Ledger's own sum has them, too
	count     int64   // blocks, those of the host not counted
	pinned    int64   // of these, that requests use
	evicted   int64   // from the Ledger's memory
	hostMost  int64   // blocks of the host
	hosted    int64   // blocks there
	host      idle    // these
	up, down  int     // tokens that came from the host and went there since the latest batch was formed
	earlier   int     // of down, since before the present one is formed
	ups, outs int64   // before
	found     []found // scratch: what is there of a history, by offset
	hit, miss int64   // prompt tokens
}

// blockName is a block by what is in front of it and what it holds. before is negative for the first block at an
// offset.
type blockName struct {
	before int32
	turn   bool // what is the conversation and the turn with which its last token came, else a hash
	what   uint64
}

// block is a block of the cache.
type block struct {
	blockName
	offset       int32
	hosted       bool  // in the host's memory
	users        int32 // requests
	older, newer int32 // of the idle blocks at the offset
	left         int64 // the clock when its last user gave it up
}

// idle is the idle blocks at an offset, or in the host's memory, from the one that was used longest ago on.
type idle struct{ oldest, newest int32 }

// found is what the cache has of a history at an offset.
type found struct {
	last   int32 // its last block, 0 for none
	tokens int
	inUse  int64 // units of those blocks that other requests use, in a layer on a channel
}

// history is what is known of the first tokens of a request.
type history struct {
	hashes []uint64
	turn   *traces.Turn
	tokens int
}

// historyOf returns what is known of the first tokens of a request. Hashes tell its prompt. In a conversation the turn
// also tells its answer, since the next turn begins with all that came before.
func historyOf(r *traces.Request, tokens int) history {
	switch {
	case r.Hashes != nil:
		return history{hashes: r.Hashes, tokens: min(tokens, r.Input, len(r.Hashes)*traces.BlockTokens)}
	case r.Turn != nil:
		return history{turn: r.Turn, tokens: tokens}
	}
	return history{}
}

// name returns the name of block i of a history behind another one.
func (c *cache) name(h *history, i int, before int32) blockName {
	if h.turn != nil {
		return blockName{before, true, uint64(h.turn.Session)<<32 | uint64(h.turn.TextOf((i+1)*c.tokens))}
	}
	each := c.tokens / traces.BlockTokens
	what := uint64(0)
	for _, hash := range h.hashes[i*each : (i+1)*each] {
		what = what*0x9e3779b97f4a7c15 + hash // with one hash a block it is that
	}
	return blockName{before, false, what}
}

// KeepPrefixes has the empty ledger keep blocks of tokens, a multiple of traces.BlockTokens and of the tokens of a
// unit. There are at most most of them. Requests are placed as CacheSpec.Placement says.
func (l *Ledger) KeepPrefixes(tokens int, most int64, placement string) {
	l.cache = &cache{
		tokens: tokens, units: int64(tokens/l.unitTokens) * int64(l.heads), most: most, placement: placement, index: map[blockName]int32{},
		blocks: make([]block, 1), idle: make([]idle, len(l.used)), unused: make([]int64, len(l.used)), used: make([]int64, len(l.used)), found: make([]found, len(l.used)),
	}
}

// KeepOnHost gives a ledger that keeps prefixes memory on the host, for that many blocks that make way.
func (l *Ledger) KeepOnHost(blocks int64) { l.cache.hostMost = blocks }

// mark notes what has gone to the host before a batch is formed.
func (l *Ledger) mark() {
	if l.cache != nil {
		l.cache.earlier = l.cache.down
	}
}

// swaps has a batch that has been formed move what came from the host and what goes there.
func (l *Ledger) swaps(b *Batch) {
	c := l.cache
	if c == nil || c.hostMost == 0 || b.Empty() {
		return
	}
	b.Moves = Moves{Down: Move{Tokens: c.down}, Up: Move{Tokens: c.up}, Earlier: c.earlier}
	c.ups, c.outs = c.ups+int64(c.up), c.outs+int64(c.down)
	c.up, c.down = 0, 0
}

// seek finds what is there of a history at every offset; nothing without a cache.
func (l *Ledger) seek(h *history) {
	c := l.cache
	if c == nil {
		return
	}
	clear(c.found)
	for offset := range c.found {
		if h == nil {
			return
		}
		f, before, more := &c.found[offset], int32(-1-offset), int64(0)
		for i := 0; (i+1)*c.tokens <= h.tokens; i++ {
			at, ok := c.index[c.name(h, i, before)]
			if !ok {
				break
			}
			if c.blocks[at].users > 0 {
				f.inUse += c.units
			} else if more++; c.pinned+more > c.most {
				break
			}
			before, f.last, f.tokens = at, at, f.tokens+c.tokens
		}
	}
}

// found returns what seek has found at an offset.
func (l *Ledger) found(offset int) found {
	if l.cache == nil {
		return found{}
	}
	return l.cache.found[offset]
}

// longestPrefix returns the most tokens that seek has found at one of some offsets.
func (c *cache) longestPrefix(offsets []int) (tokens int) {
	for _, offset := range offsets {
		tokens = max(tokens, c.found[offset].tokens)
	}
	return tokens
}

// use has a reservation use a block and all in front of it, in place of memory of its own.
func (l *Ledger) use(r *Reservation, f found) {
	r.last, r.Shared = f.last, f.tokens
	for at := f.last; at > 0; at = l.cache.blocks[at].before {
		if l.cache.blocks[at].hosted {
			l.cache.up += l.cache.tokens
		}
		l.pin(at)
	}
	for c := l.cache; c != nil && c.count > c.most && l.evict(anyRank); { // those that came back take the place of others
	}
}

// keep has the cache keep the blocks of a history that a reservation holds. The request uses them on. Its own copy of a
// block that is there already is dropped.
func (l *Ledger) keep(r *Reservation, h *history) (changed bool) {
	c := l.cache
	if c == nil {
		return false
	}
	for i := r.Shared / c.tokens; (i+1)*c.tokens <= h.tokens; i++ {
		before := r.last
		if i == 0 {
			before = int32(-1 - r.Offset)
		}
		name := c.name(h, i, before)
		at, ok := c.index[name]
		if (!ok || c.blocks[at].hosted) && c.count >= c.most {
			if !l.evict(anyRank) {
				return changed
			}
			at, ok = c.index[name] // the host may have had to drop it
		}
		if !ok {
			at = l.add(name, int32(r.Offset))
		}
		l.pin(at)
		l.share(r, c.tokens)
		r.last, changed = at, true
	}
	return changed
}

// share has more tokens of a reservation be in blocks of the cache.
func (l *Ledger) share(r *Reservation, tokens int) {
	held := l.holds(r)
	l.count(r, -1)
	r.Shared += tokens
	l.count(r, 1)
	l.apply(r.Offset, l.holds(r)-held)
}
