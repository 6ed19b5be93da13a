package memory

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/traces"
)

// naive is a cache by definition: each block is known by the whole text up to its end, and a list holds the order of last
// use.
type naive struct {
	spec   *LedgerSpec
	tokens int
	most   int
	users  map[string]int
	order  []string // unused blocks, least recently used first
	host   []string // blocks in the host's memory, in order of arrival
	hosts  int      // that it holds
	up     int      // blocks that came back
	live   []kept
}

// kept is a reservation, its text and how many of its blocks are in the cache.
type kept struct {
	Reservation
	text   []uint64
	blocks int
}

// path names block i of a text at an offset.
func path(offset int, text []uint64, i int) string { return fmt.Sprint(offset, text[:i+1]) }

func (n *naive) offsetOf(path string) (offset int) {
	fmt.Sscan(path, &offset)
	return offset
}

// found returns how many of the first blocks of a text are there, limited by tokens, and fit at once with all that is in
// use.
func (n *naive) found(offset int, text []uint64, tokens int) (blocks int) {
	inUse := 0
	for _, users := range n.users {
		if users > 0 {
			inUse++
		}
	}
	for (blocks+1)*n.tokens <= tokens && blocks < len(text) {
		users, ok := n.users[path(offset, text, blocks)]
		if users == 0 {
			inUse++
		}
		if !ok || inUse > n.most {
			break
		}
		blocks++
	}
	return blocks
}

// forget removes a block from a list, and says whether it was there.
func forget(list *[]string, p string) bool {
	before := len(*list)
	*list = slices.DeleteFunc(*list, func(o string) bool { return o == p })
	return len(*list) < before
}

// evict evicts the block at a place of the order.
func (n *naive) evict(at int) {
	p := n.order[at]
	n.order = slices.Delete(n.order, at, at+1)
	if n.hosts == 0 {
		delete(n.users, p)
	} else if n.host = append(n.host, p); len(n.host) > n.hosts {
		delete(n.users, n.host[0])
		n.host = n.host[1:]
	}
}

// units counts the units by rank: used by requests, and of unused blocks.
func (n *naive) units() (used, idle []int64) {
	used, idle = make([]int64, n.spec.Ranksets), make([]int64, n.spec.Ranksets)
	add := func(to []int64, offset, tokens int) {
		for layer := range n.spec.Layers {
			rank := offset
			if n.spec.Rotation {
				rank = (offset + layer) % n.spec.Ranksets
			}
			to[rank] += int64((tokens + n.spec.UnitTokens - 1) / n.spec.UnitTokens * n.spec.HeadsPerChannel)
		}
	}
	for i := range n.live {
		add(used, n.live[i].Offset, n.live[i].Tokens-n.live[i].blocks*n.tokens)
	}
	for block, users := range n.users {
		if slices.Contains(n.host, block) {
			continue
		}
		to := idle
		if users > 0 {
			to = used
		}
		add(to, n.offsetOf(block), n.tokens)
	}
	return used, idle
}

// use adds a user to the first blocks of a text, or removes one if sign is -1.
func (n *naive) use(offset int, text []uint64, blocks, sign int) {
	for i := blocks - 1; i >= 0; i-- { // the last block is given up first
		p := path(offset, text, i)
		forget(&n.order, p)
		if forget(&n.host, p) {
			n.up++
		}
		if n.users[p] += sign; n.users[p] == 0 {
			n.order = append(n.order, p)
		}
	}
	for len(n.users)-len(n.host) > n.most && len(n.order) > 0 {
		n.evict(0)
	}
}

// shrink evicts unused blocks while a rank, one after the other, holds too much.
func (n *naive) shrink() {
	on := func(p string, rank int) bool {
		for layer := range n.spec.Layers {
			if at := n.offsetOf(p); n.spec.Rotation && (at+layer)%n.spec.Ranksets == rank || !n.spec.Rotation && at == rank {
				return true
			}
		}
		return false
	}
	for rank := range n.spec.Ranksets {
		for {
			used, idle := n.units()
			at := slices.IndexFunc(n.order, func(p string) bool { return on(p, rank) })
			if at < 0 || used[rank]+idle[rank] <= n.spec.Capacity {
				break
			}
			n.evict(at)
		}
	}
}

// keep adds the blocks of a request's first so many tokens.
func (n *naive) keep(k *kept, tokens int) {
	for (k.blocks+1)*n.tokens <= min(tokens, len(k.text)*n.tokens) {
		p := path(k.Offset, k.text, k.blocks)
		if _, ok := n.users[p]; (!ok || slices.Contains(n.host, p)) && len(n.users)-len(n.host) == n.most {
			if len(n.order) == 0 {
				return
			}
			n.evict(0)
		}
		n.users[p]++
		forget(&n.order, p)
		forget(&n.host, p)
		k.blocks++
	}
}

// TestCacheByDefinition reserves, keeps, grows and releases at random, with texts that often begin alike. Every request
// gets the longest prefix among the offsets with room. Unused blocks are evicted in the order in which they were given up,
// later blocks of a text first. Memory is as defined.
func TestCacheByDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		const block = traces.BlockTokens
		spec := LedgerSpec{Ranksets: 1 + rng.IntN(3), Layers: 1 + rng.IntN(4), HeadsPerChannel: 1 + rng.IntN(2), UnitTokens: block >> rng.IntN(3),
			Capacity: int64(1 + rng.IntN(120)), Rotation: rng.IntN(2) == 1}
		l, n := NewLedger(spec), &naive{spec: &spec, tokens: block, most: rng.IntN(20), users: map[string]int{}, hosts: rng.IntN(2) * rng.IntN(12)}
		byPrefix := rng.IntN(3) > 0
		l.PlaceBy(scheduler.BalanceRandom, rng)
		l.KeepPrefixes(block, int64(n.most), map[bool]string{true: scheduler.PlaceByPrefix, false: scheduler.PlaceForBalance}[byPrefix])
		l.KeepOnHost(int64(n.hosts))
		for range 80 {
			switch op := rng.IntN(6); {
			case op < 3:
				n.reserve(t, l, rng, byPrefix)
			case len(n.live) == 0:
			case op == 3:
				k := &n.live[rng.IntN(len(n.live))]
				h := History{hashes: k.text, tokens: min(k.Tokens, len(k.text)*block)}
				l.Keep(&k.Reservation, &h)
				n.keep(k, k.Tokens)
				l.Settle(&k.Reservation)
			case op == 4:
				k := &n.live[rng.IntN(len(n.live))]
				l.Grow(&k.Reservation, k.Tokens+rng.IntN(300))
				n.shrink()
			default:
				i := rng.IntN(len(n.live))
				k := n.live[i]
				l.Release(k.Reservation)
				n.live = slices.Delete(n.live, i, i+1)
				n.use(k.Offset, k.text, k.blocks, -1)
			}
			n.compare(t, l)
		}
		for _, k := range n.live {
			l.Release(k.Reservation)
		}
		evicted := l.cache.did.Evicted
		if err := l.ClearCache(); err != nil || l.cache.did.Evicted != evicted || l.Used() != 0 || slices.Max(l.cache.unused) != 0 || len(l.cache.index) != 0 {
			t.Fatalf("%d units are in use, %v by blocks that nobody uses, after all is cleared", l.Used(), l.cache.unused)
		}
	})
}

// reserve reserves memory for a text, and compares the offset and what was found there.
func (n *naive) reserve(t *rapid.T, l *Ledger, rng *rand.Rand, byPrefix bool) {
	text := make([]uint64, rng.IntN(5))
	for i := range text {
		text[i] = uint64(rng.IntN(2))
	}
	length := Prompted(len(text)*n.tokens + 1 + rng.IntN(2*n.tokens))
	most := 0
	var room []int
	for offset := range n.spec.Ranksets {
		blocks := n.found(offset, text, length.Tokens-1)
		trial := *n
		trial.users, trial.order, trial.host, trial.most = map[string]int{}, nil, slices.Clone(n.host), 1000
		for p, users := range n.users {
			trial.users[p] = users
		}
		trial.use(offset, text, blocks, 1)
		trial.live = append(slices.Clone(n.live), kept{Reservation{Offset: offset, Length: length}, text, blocks})
		if used, _ := trial.units(); fitsAll(used, n.spec.Capacity) {
			room, most = append(room, offset), max(most, blocks)
		}
	}
	h := History{hashes: text, tokens: min(length.Tokens-1, len(text)*n.tokens)}
	r, ok := l.Reserve(length, &h, 0, nil)
	if ok != (len(room) > 0) || ok && !slices.Contains(room, r.Offset) {
		t.Fatalf("reserved %v at %d, room is at %v", ok, r.Offset, room)
	}
	if !ok {
		return
	}
	blocks := n.found(r.Offset, text, length.Tokens-1)
	if r.Shared != blocks*n.tokens || byPrefix && blocks != most {
		t.Fatalf("%d tokens are found at offset %d, %d blocks are there and %d at the best of %v", r.Shared, r.Offset, blocks, most, room)
	}
	n.use(r.Offset, text, blocks, 1)
	n.live = append(n.live, kept{r, text, blocks})
	n.shrink()
}

// compare compares a ledger with the definition.
func (n *naive) compare(t *rapid.T, l *Ledger) {
	t.Helper()
	used, idle := n.units()
	if !slices.Equal(l.used, used) || !slices.Equal(l.cache.unused, idle) || len(l.cache.index) != len(n.users) {
		t.Fatalf("%v units are in use, %v by blocks that nobody uses, %d blocks in all; want %v, %v and %d", l.used, l.cache.unused, len(l.cache.index), used, idle, len(n.users))
	}
	for _, at := range l.cache.index {
		offset, text := int(l.cache.blocks[at].offset), []uint64{}
		for ; at > 0; at = l.cache.blocks[at].before {
			text = append([]uint64{l.cache.blocks[at].what}, text...)
		}
		if _, ok := n.users[path(offset, text, len(text)-1)]; !ok {
			t.Fatalf("block %v at offset %d is there, want %v", text, offset, n.users)
		}
	}
	check := l.NewCacheCheck()
	content := int64(0)
	for i := range n.live {
		k := &n.live[i]
		if err := check.Use(&k.Reservation, 0); err != nil || k.Shared != k.blocks*n.tokens {
			t.Fatalf("%v; %d tokens are shared, want %d blocks", err, k.Shared, k.blocks)
		}
		content += int64((k.Tokens - k.Shared) * n.spec.HeadsPerChannel)
	}
	for _, count := range n.users {
		if count > 0 {
			content += int64(n.tokens * n.spec.HeadsPerChannel)
		}
	}
	if err := check.CheckBlocks(); err != nil || l.filled != content || l.cache.swaps.up != n.up*n.tokens {
		t.Fatalf("%v; %d tokens fill units, want %d; %d tokens came back, want %d blocks", err, l.filled, content, l.cache.swaps.up, n.up)
	}
}
