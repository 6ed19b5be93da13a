package memory

import (
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/traces"
)

// cache holds the blocks of tokens whose keys and values outlive their requests in a Ledger. The blocks of a rankset
// offset form a tree: a block follows the one in front of it. Requests that begin alike use the same blocks. A block
// that no request uses is idle. It stays until requests need its memory, or until the cache is full; then the block
// that has been idle longest is evicted.
//
// A request that uses a block uses all blocks in front of it, and gives them up from the last to the first. No block is
// therefore evicted before those behind it.
//
// A cache may have a second level in the host's memory: evicted blocks go there, and come back when a request uses
// them. When the host's memory is full, the block that came first is dropped.
type cache struct {
	tokens    int   // of a block
	hash      int   // tokens that one hash of a request covers
	units     int64 // of a block, in a layer on a channel
	most      int64 // largest number of blocks in the Ledger's memory
	placement string
	index     map[blockName]int32
	blocks    []block // block 0 is none
	spare     []int32 // indices of dropped blocks, for new ones
	idle      []idle  // by offset
	clock     int64   // counts how often blocks have become idle
	unused    []int64 // units of idle blocks, by rank
	used      []int64 // units of blocks that requests use, by rank; the Ledger's own sums contain them
	several   []int64 // units of blocks that more than one request uses, by rank; used contains them
	count     int64   // blocks in the Ledger's memory, in use or idle
	pinned    int64   // blocks that requests use
	host      hostBlocks
	swaps     swaps
	did       CacheCounts
	found     []found // scratch: what seek has found of a history, by offset
}

// hostBlocks is the second level of a cache, on the host.
type hostBlocks struct {
	most  int64 // blocks; 0: no such memory
	count int64
	idle  idle // all of them
}

// swaps is the tokens of blocks that have changed memory since the latest batch was formed.
type swaps struct {
	up, down int
	earlier  int // tokens that went down before the batch that is being formed; down contains them
}

// CacheCounts are the counts of a prefix cache.
type CacheCounts struct {
	Hit, Miss int64 // tokens of prompts that have ended: found in the cache and computed by other requests (Hit), and all others (Miss); prompts after a preemption do not count
	Evicted   int64 // blocks
	Up, Down  int64 // tokens of blocks that came from the host's memory (Up) or went there (Down)
}

// blockName identifies a block by the block in front of it and by its content.
type blockName struct {
	before int32 // the block in front; for a first block a negative number that differs by offset
	kind   uint8 // kind of content: hashOfText, prefixText, turnOfText or onlyOwn
	what   uint64
}

// Values of blockName.kind.
const (
	hashOfText uint8 = iota // a hash that the trace has
	prefixText              // the number of the prefix that a built-in trace puts in front of the prompt
	turnOfText              // a conversation, and the turn that ends the block
	onlyOwn                 // the index of the only request with these tokens
)

// block is a block of the cache.
type block struct {
	blockName
	offset       int32
	hosted       bool  // in the host's memory
	users        int32 // requests
	older, newer int32 // neighbours in the list of idle blocks
	left         int64 // value of clock when its last user released it
}

// idle is a list of the idle blocks at an offset, or of the blocks in the host's memory, by the time of their last use.
type idle struct{ oldest, newest int32 }

// found is the part of a history that the cache holds at an offset.
type found struct {
	last   int32 // its last block, 0 for none
	tokens int
	inUse  int64 // units of those blocks that other requests use, in a layer on a channel
}

// History identifies the first tokens of a request by their content.
type History struct {
	hashes []uint64
	prefix traces.Prefix // tokens in front of a prompt with hashes; 0 tokens: none
	turn   *traces.Turn
	own    int32 // index of the request, if neither hashes nor a turn identify its text
	tokens int   // number of first tokens that are known
}

// NoRequest is the index of a request that has computed nothing yet.
const NoRequest int32 = -1

// HistoryOf returns the history of a request with this index. Hashes identify its prompt, and Prefix says how long the common beginning is. In a
// conversation the turn identifies the answer, too, since the next turn begins with all that came before. All other requests begin differently: each
// finds only what it computed itself before a preemption.
func HistoryOf(r *traces.Request, request int32, tokens int) History {
	switch {
	case r.Hashes != nil:
		h := History{hashes: r.Hashes, tokens: min(tokens, r.Input)}
		if r.Prefix != nil {
			h.prefix = *r.Prefix
		}
		return h
	case r.Turn != nil:
		return History{turn: r.Turn, tokens: tokens}
	}
	return History{own: request, tokens: tokens}
}

// Own says that no other request begins with the tokens of this history.
func (h *History) Own() bool { return h.hashes == nil && h.turn == nil }

// name returns the name of block i of a history; before is the block in front of it.
func (c *cache) name(h *History, i int, before int32) blockName {
	switch {
	case h.turn != nil:
		return blockName{before, turnOfText, uint64(h.turn.Session)<<32 | uint64(h.turn.TextOf((i+1)*c.tokens))}
	case h.Own():
		return blockName{before, onlyOwn, uint64(h.own)}
	case (i+1)*c.tokens <= h.prefix.Tokens:
		return blockName{before, prefixText, h.prefix.Number}
	}
	what := uint64(0)
	for _, hash := range h.hashes[i*c.tokens/c.hash : ((i+1)*c.tokens-1)/c.hash+1] { // all hashes that overlap the block
		what = what*0x9e3779b97f4a7c15 + hash // a single hash stays as it is
	}
	return blockName{before, hashOfText, what}
}

// known returns how many first tokens of a history have a name: if a prompt has fewer hashes than blocks, only those with a
// hash.
func (c *cache) known(h *History) int {
	if h.hashes == nil {
		return h.tokens
	}
	return min(h.tokens, len(h.hashes)*c.hash)
}

// HashesName sets the number of tokens that a hash of the requests covers, if that is not
// traces.BlockTokens.
func (l *Ledger) HashesName(tokens int) {
	if l.cache != nil {
		l.cache.hash = tokens
	}
}

// KeepPrefixes makes an empty ledger keep at most most blocks of tokens tokens each. tokens is a multiple or a divisor of traces.BlockTokens, and a multiple
// of the tokens of a unit. Heads of all classes must hold all tokens. placement is CacheSpec.Placement.
func (l *Ledger) KeepPrefixes(tokens int, most int64, placement string) {
	l.block = tokens
	l.cache = &cache{
		tokens: tokens, hash: traces.BlockTokens, units: l.blockUnits(), most: most, placement: placement, index: map[blockName]int32{},
		blocks: make([]block, 1), idle: make([]idle, len(l.used)), unused: make([]int64, len(l.used)), used: make([]int64, len(l.used)), several: make([]int64, len(l.used)), found: make([]found, len(l.used)),
	}
}

// KeepOnHost gives a ledger that keeps prefixes host memory for a number of evicted blocks.
func (l *Ledger) KeepOnHost(blocks int64) { l.cache.host.most = blocks }

// BeginBatch records which blocks have gone to the host before a batch is formed.
func (l *Ledger) BeginBatch() {
	if l.cache != nil {
		l.cache.swaps.earlier = l.cache.swaps.down
	}
}

// EndBatch adds to a batch that has been formed the transfers of blocks between GPUs and host.
func (l *Ledger) EndBatch(b *scheduler.Batch) {
	c := l.cache
	if c == nil || c.host.most == 0 || b.Empty() {
		return
	}
	b.Moves = scheduler.Moves{Down: scheduler.Move{Tokens: c.swaps.down}, Up: scheduler.Move{Tokens: c.swaps.up}, Earlier: c.swaps.earlier}
	c.did.Up += int64(c.swaps.up)
	c.did.Down += int64(c.swaps.down)
	c.swaps = swaps{}
}

// seek finds what the cache holds of a history at every offset; nothing without a cache.
func (l *Ledger) seek(h *History) {
	c := l.cache
	if c == nil {
		return
	}
	clear(c.found)
	known := 0
	if h != nil {
		known = c.known(h)
	}
	for offset := range c.found {
		if h == nil {
			return
		}
		f, before, more := &c.found[offset], int32(-1-offset), int64(0)
		for i := 0; (i+1)*c.tokens <= known; i++ {
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

// longestPrefix returns the largest number of tokens that seek found at any of the given offsets.
func (c *cache) longestPrefix(offsets []int) (tokens int) {
	for _, offset := range offsets {
		tokens = max(tokens, c.found[offset].tokens)
	}
	return tokens
}

// use makes a reservation use a block and all blocks in front of it, in place of memory of its own.
func (l *Ledger) use(r *Reservation, f found) {
	r.last, r.Shared = f.last, f.tokens
	for at := f.last; at > 0; at = l.cache.blocks[at].before {
		if l.cache.blocks[at].hosted {
			l.cache.swaps.up += l.cache.tokens
		}
		l.pin(at)
	}
	for c := l.cache; c != nil && c.count > c.most && l.evict(anyRank); { // blocks that come back from the host evict others
	}
}

// Keep makes the cache keep the blocks of a history that a reservation holds. The request continues to use them. If a
// block is cached already, its own copy is dropped.
func (l *Ledger) Keep(r *Reservation, h *History) (changed bool) {
	c := l.cache
	if c == nil {
		return false
	}
	known := c.known(h)
	for i := r.Shared / c.tokens; (i+1)*c.tokens <= known; i++ {
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

// share moves more tokens of a reservation into blocks of the cache.
func (l *Ledger) share(r *Reservation, tokens int) {
	held := l.holds(r)
	l.count(r, -1)
	r.Shared += tokens
	l.count(r, 1)
	l.apply(r.Offset, l.holds(r)-held)
}
