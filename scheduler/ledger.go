package scheduler

import "math/rand/v2"

// Ledger accounts for the KV memory of one replica in allocation units. A unit is one K
// row and one V row over all banks of a rank (512 tokens of one KV head at head
// dimension 128). The heads of a layer spread evenly over the channels, so that every
// channel holds the same. So the ledger accounts for one rank of each rankset.
//
// A request's layer l lives on rankset (l + offset) mod R (L3, section 5.1), or
// without rotation on rankset offset.
type Ledger struct {
	unitTokens int     // tokens of one KV head in a unit
	heads      int     // KV heads of the model on one channel
	layersOn   []int   // layersOn[k]: layers of a request on rankset (offset + k) mod R
	capacity   int64   // units of one rank
	used       []int64 // units in use on the rank of each rankset
	tokens     []int64 // reserved tokens by offset
	next       int     // offset that round-robin tries first
	spare      []int   // scratch: offsets with room
}

// LedgerSpec is the memory that a Ledger accounts for.
type LedgerSpec struct {
	Ranksets        int
	Layers          int
	HeadsPerChannel int   // KV heads
	UnitTokens      int   // tokens of one KV head in an allocation unit
	Capacity        int64 // units of one rank
	Rotation        bool  // layers go round the ranksets
}

// NewLedger returns an empty memory.
func NewLedger(s LedgerSpec) *Ledger {
	l := &Ledger{
		unitTokens: s.UnitTokens, heads: s.HeadsPerChannel, layersOn: make([]int, s.Ranksets),
		capacity: s.Capacity, used: make([]int64, s.Ranksets), tokens: make([]int64, s.Ranksets),
	}
	if !s.Rotation {
		l.layersOn[0] = s.Layers
		return l
	}
	for layer := range s.Layers {
		l.layersOn[layer%s.Ranksets]++
	}
	return l
}

// Reservation is the memory that a request holds.
type Reservation struct {
	Offset int
	Tokens int
	Host   bool // in the host's memory, where there are two (Offload)
}

// perLayer returns the units that tokens of one layer take on a channel.
func (l *Ledger) perLayer(tokens int) int64 {
	return int64((tokens+l.unitTokens-1)/l.unitTokens) * int64(l.heads)
}

// whole returns tokens rounded up to whole units.
func (l *Ledger) whole(tokens int) int {
	return (tokens + l.unitTokens - 1) / l.unitTokens * l.unitTokens
}

// fits says whether a request at an offset fits every rank with units units a layer and
// keep units left free.
func (l *Ledger) fits(offset int, units, keep int64) bool {
	rank := offset
	for _, layers := range l.layersOn {
		if layers > 0 && l.used[rank]+units*int64(layers) > l.capacity-keep {
			return false
		}
		if rank++; rank == len(l.used) {
			rank = 0
		}
	}
	return true
}

// hasRoom says whether some offset has room for tokens tokens now, with keep units of
// every rank left free.
func (l *Ledger) hasRoom(tokens int, keep int64) bool {
	for offset := range l.used {
		if l.fits(offset, l.perLayer(tokens), keep) {
			return true
		}
	}
	return false
}

// FitsEmpty says whether a request of tokens tokens fits an empty memory. If not, it
// can never run.
func (l *Ledger) FitsEmpty(tokens int) bool {
	for _, layers := range l.layersOn {
		if l.perLayer(tokens)*int64(layers) > l.capacity {
			return false
		}
	}
	return true
}

// layersFrom returns the number of layers that a request at an offset has on a rank.
func (l *Ledger) layersFrom(offset, rank int) float64 {
	at := rank - offset
	if at < 0 {
		at += len(l.used)
	}
	return float64(l.layersOn[at])
}

// Reserve takes memory for tokens tokens of every layer and head. The balance policy
// chooses the offset among those with room now and in the forecast f, with keep units of
// every rank left free. f may be nil. BalanceRandom draws from rng. Where no offset has
// room, Reserve changes nothing and returns false.
func (l *Ledger) Reserve(tokens int, keep int64, f *forecast, balance string, rng *rand.Rand) (Reservation, bool) {
	units := l.perLayer(tokens)
	l.spare = l.spare[:0]
	for offset := range l.used {
		if l.fits(offset, units, keep) && f.fits(l, offset, keep) {
			l.spare = append(l.spare, offset)
		}
	}
	if len(l.spare) == 0 {
		return Reservation{}, false
	}
	r := Reservation{Offset: l.choose(balance, rng), Tokens: tokens}
	l.apply(r.Offset, units)
	l.tokens[r.Offset] += int64(tokens)
	return r, true
}

// choose returns one of the spare offsets.
func (l *Ledger) choose(balance string, rng *rand.Rand) int {
	switch balance {
	case BalanceRandom:
		return l.spare[rng.IntN(len(l.spare))]
	case BalanceRoundRobin:
		best := l.spare[0]
		for _, offset := range l.spare {
			if offset >= l.next {
				best = offset
				break
			}
		}
		l.next = (best + 1) % len(l.used)
		return best
	}
	best := l.spare[0]
	for _, offset := range l.spare {
		if l.tokens[offset] < l.tokens[best] {
			best = offset
		}
	}
	return best
}

// Grow extends a smaller reservation to tokens tokens, in whole units. Where a rank has
// no room, it changes nothing and returns false.
func (l *Ledger) Grow(r *Reservation, tokens int) bool {
	if tokens <= r.Tokens {
		return true
	}
	tokens = l.whole(tokens)
	more := l.perLayer(tokens) - l.perLayer(r.Tokens)
	if more > 0 && !l.fits(r.Offset, more, 0) {
		return false
	}
	l.apply(r.Offset, more)
	l.tokens[r.Offset] += int64(tokens - r.Tokens)
	r.Tokens = tokens
	return true
}

// Release frees the memory that Reserve and Grow took.
func (l *Ledger) Release(r Reservation) {
	l.apply(r.Offset, -l.perLayer(r.Tokens))
	l.tokens[r.Offset] -= int64(r.Tokens)
}

// apply adds units units a layer to the memory in use.
func (l *Ledger) apply(offset int, units int64) {
	rank := offset
	for _, layers := range l.layersOn {
		l.used[rank] += units * int64(layers)
		if rank++; rank == len(l.used) {
			rank = 0
		}
	}
}

// Used returns the number of units in use, summed over the ranks of one channel.
func (l *Ledger) Used() int64 {
	var sum int64
	for _, u := range l.used {
		sum += u
	}
	return sum
}

// Capacity returns the units of all ranks of one channel.
func (l *Ledger) Capacity() int64 { return l.capacity * int64(len(l.used)) }

// fragmentation returns the share of the rows in use that reserved tokens, less unused
// of them, do not fill. It is 0 where no memory is in use.
func (l *Ledger) fragmentation(unused int64) float64 {
	tokens := -unused
	for _, t := range l.tokens {
		tokens += t
	}
	layers := 0
	for _, n := range l.layersOn {
		layers += n
	}
	used := l.Used() * int64(l.unitTokens)
	if used == 0 {
		return 0
	}
	return 1 - float64(tokens*int64(l.heads)*int64(layers))/float64(used)
}
