package memory

import (
	"fmt"
	"github.com/l3sim/l3sim/scheduler"
	"math/rand/v2"
	"slices"
	"sort"
)

// Ledger accounts for the KV memory of one replica in allocation units. A unit is one K row and one V row over all
// banks of a rank (512 tokens of one KV head at head dimension 128). The ledger accounts for one rank of each
// rankset, on the fullest channel. If the heads of a layer divide over the channels, all channels hold the same,
// else the same to within a head of each request.
//
// A request's layer l lives on rankset (l + offset) mod R (L3, section 5.1), or
// without rotation on rankset offset.
type Ledger struct {
	shape
	capacity int64   // units of one rank
	used     []int64 // units in use on the rank of each rankset
	tokens   []int64 // reserved tokens by offset
	filled   int64   // reserved content of one layer: tokens of heads, or bytes with classes
	balance  string  // CommSpec.Balance
	rng      *rand.Rand
	next     int    // offset that round-robin tries first
	spare    []int  // scratch: offsets with room
	cache    *cache // nil: nothing outlives a request
}

// LedgerSpec is the memory that a Ledger accounts for.
type LedgerSpec struct {
	Ranksets        int
	Layers          int
	HeadsPerChannel int   // KV heads
	UnitTokens      int   // tokens of one KV head in an allocation unit
	Capacity        int64 // units of one rank
	Rotation        bool  // successive layers are on successive ranksets

	// Heads is the number of KV heads of a layer if they do not divide over Channels. A rankset deals the heads of
	// its layers to the channels in turn, each layer's behind those of the one before. HeadsPerChannel, and the
	// heads of a class, are then 1.
	Heads, Channels int

	// Classes are the heads of a layer on a channel, if they do not all hold all tokens; they replace
	// HeadsPerChannel. Filling is what they hold while a prompt is prefilled, if that is more.
	// UnitBytes is the size of a unit.
	Classes, Filling []HeadClass
	UnitBytes        int64
}

// NewLedger returns an empty memory.
func NewLedger(s LedgerSpec) *Ledger {
	l := &Ledger{
		shape: shape{
			unitTokens: s.UnitTokens, heads: s.HeadsPerChannel, unitBytes: s.UnitBytes,
			classes: s.Classes, filling: s.Filling, layersOn: make([]int, s.Ranksets),
		},
		capacity: s.Capacity, used: make([]int64, s.Ranksets), tokens: make([]int64, s.Ranksets), balance: scheduler.BalanceLeastLoaded,
	}
	if !s.Rotation {
		l.layersOn[0] = s.Layers
	} else {
		for layer := range s.Layers {
			l.layersOn[layer%s.Ranksets]++
		}
	}
	if s.Channels > 0 {
		for k, layers := range l.layersOn {
			l.layersOn[k] = (layers*s.Heads + s.Channels - 1) / s.Channels
		}
	}
	return l
}

// PlaceBy sets the balance policy, which chooses the rankset offsets of requests. BalanceRandom draws
// from rng.
func (l *Ledger) PlaceBy(balance string, rng *rand.Rand) { l.balance, l.rng = balance, rng }

// fits says whether a request at an offset fits every rank with units units a layer, with keep
// units left free.
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

// Room returns the offsets that have room for a request now and in the forecast f, with keep units of every rank left
// free. f and h may be nil. Cached blocks of the history h count as taken if no request uses them yet; all other
// unused blocks count as free. The result is valid until the next call.
func (l *Ledger) Room(r Length, h *History, keep int64, f *Forecast) []int {
	l.seek(h)
	units := l.whileFilling(r)
	l.spare = l.spare[:0]
	for offset := range l.used {
		if l.fits(offset, units-l.found(offset).inUse, keep) && f.fits(l, offset, keep) {
			l.spare = append(l.spare, offset)
		}
	}
	return l.spare
}

// FitsEmpty says whether a request fits an empty memory. If not, it can never run.
func (l *Ledger) FitsEmpty(r Length) bool {
	units := l.whileFilling(r)
	for _, layers := range l.layersOn {
		if units*int64(layers) > l.capacity {
			return false
		}
	}
	return true
}

// Most returns the length in tokens of the longest request that an empty memory holds.
func (l *Ledger) Most() int {
	const longest = 1 << 40
	return sort.Search(longest, func(tokens int) bool { return !l.FitsEmpty(Prompted(tokens + 1)) })
}

// Ranksets returns how many ranksets the memory has.
func (l *Ledger) Ranksets() int { return len(l.used) }

// ShareOfRank returns that share of a rank's units, rounded down.
func (l *Ledger) ShareOfRank(share float64) int64 { return int64(share * float64(l.capacity)) }

// Check returns an error where a rank has more units in use than its capacity.
func (l *Ledger) Check() error {
	for rank, used := range l.used {
		if used < 0 || used+l.unused(rank) > l.capacity {
			return fmt.Errorf("rankset %d holds %d units of %d", rank, used, l.capacity)
		}
	}
	return nil
}

// layersFrom returns the number of layers that a request at an offset has on a rank.
func (l *Ledger) layersFrom(offset, rank int) float64 {
	at := rank - offset
	if at < 0 {
		at += len(l.used)
	}
	return float64(l.layersOn[at])
}

// Reserve takes memory for a request whose prompt is to be prefilled. The balance policy chooses
// among the offsets that Room returns for the same arguments. The request uses the cached blocks of
// its history there. If no offset has room, Reserve changes nothing and returns false.
func (l *Ledger) Reserve(length Length, h *History, keep int64, f *Forecast) (Reservation, bool) {
	if len(l.Room(length, h, keep, f)) == 0 {
		return Reservation{}, false
	}
	if c := l.cache; c != nil && c.placement == scheduler.PlaceByPrefix {
		most := c.longestPrefix(l.spare)
		l.spare = slices.DeleteFunc(l.spare, func(offset int) bool { return c.found[offset].tokens < most })
	}
	r := Reservation{Offset: l.choose(), Length: length, Filling: true}
	l.use(&r, l.found(r.Offset))
	l.apply(r.Offset, l.holds(&r))
	l.count(&r, 1)
	l.makeWay()
	return r, true
}

// count adds a reservation to the sums or, with sign -1, subtracts it.
func (l *Ledger) count(r *Reservation, sign int64) {
	l.tokens[r.Offset] += sign * int64(r.Tokens)
	l.filled += sign * (l.content(r.Length) - l.content(Prompted(r.Shared)))
}

// Settle frees what a reservation held only until its prompt ended. It says whether prompts of this
// ledger hold more than what stays.
func (l *Ledger) Settle(r *Reservation) bool {
	before := l.holds(r)
	r.Filling = false
	l.apply(r.Offset, l.holds(r)-before)
	return l.filling != nil
}

// choose returns one of the offsets in spare.
func (l *Ledger) choose() int {
	switch l.balance {
	case scheduler.BalanceRandom:
		return l.spare[l.rng.IntN(len(l.spare))]
	case scheduler.BalanceRoundRobin:
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

// Grow extends a reservation to tokens tokens, in whole units. If a rank has no room, it changes
// nothing and returns false.
func (l *Ledger) Grow(r *Reservation, tokens int) bool { return l.GrowBeside(r, tokens, 0) }

// GrowBeside is Grow that leaves keep units of every rank free.
func (l *Ledger) GrowBeside(r *Reservation, tokens int, keep int64) bool {
	if tokens <= r.Tokens {
		return true
	}
	grown := *r
	grown.Tokens = l.Whole(tokens)
	more := l.holds(&grown) - l.holds(r)
	if l.classes != nil && more > 0 && !l.fits(r.Offset, more, keep) { // units of heads that skip tokens end at other lengths
		grown.Tokens = tokens
		more = l.holds(&grown) - l.holds(r)
	}
	if more > 0 && !l.fits(r.Offset, more, keep) {
		return false
	}
	l.apply(r.Offset, more)
	l.count(r, -1)
	l.count(&grown, 1)
	*r = grown
	l.makeWay()
	return true
}

// Release frees the memory that Reserve and Grow took.
func (l *Ledger) Release(r Reservation) {
	l.apply(r.Offset, -l.holds(&r))
	l.count(&r, -1)
	l.leave(r.last)
}

// apply adds units units a layer to the memory in use.
func (l *Ledger) apply(offset int, units int64) { l.spread(l.used, offset, units) }

// spread adds units units a layer at an offset to sums by rank.
func (l *Ledger) spread(sums []int64, offset int, units int64) {
	rank := offset
	for _, layers := range l.layersOn {
		sums[rank] += units * int64(layers)
		if rank++; rank == len(sums) {
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

// HeldBy returns the units that a reservation has in use, summed over the ranks of one channel.
func (l *Ledger) HeldBy(r *Reservation) (units int64) {
	for _, layers := range l.layersOn {
		units += l.holds(r) * int64(layers)
	}
	return units
}

// Capacity returns the units of all ranks of one channel.
func (l *Ledger) Capacity() int64 { return l.capacity * int64(len(l.used)) }

// UnitsOf returns the units that a request of that many tokens takes in all layers on one channel, if heads hold all tokens.
func (l *Ledger) UnitsOf(tokens int) (units int64) {
	for _, layers := range l.layersOn {
		units += int64(layers) * l.perLayer(Prompted(tokens))
	}
	return units
}

// Unfilled returns how much a reserved length exceeds a context, in the unit of content.
func (l *Ledger) Unfilled(reserved Length, context int) int64 {
	return l.content(reserved) - l.content(Length{reserved.Prompt, context})
}

// Fragmentation returns the share of the rows in use that no token fills. unused is the sum of
// Unfilled over all reservations. It is 0 if no memory is in use.
func (l *Ledger) Fragmentation(unused int64) float64 {
	layers := 0
	for _, n := range l.layersOn {
		layers += n
	}
	unit := int64(l.unitTokens)
	if l.classes != nil {
		unit = l.unitBytes
	}
	used := l.Used() * unit
	if used == 0 {
		return 0
	}
	return 1 - float64((l.filled-unused)*int64(layers))/float64(used)
}
