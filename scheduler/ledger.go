package scheduler

// Ledger accounts for the KV memory of one replica in allocation units: one K
// row and one V row over all banks of a rank (512 tokens of one KV head at head
// dimension 128). The heads of a layer spread evenly over the channels and so
// every channel holds the same: the ledger keeps one rank of each rankset.
//
// A request's layer l lives on rankset (l + offset) mod R (L3, section 5.1).
type Ledger struct {
	unitTokens int     // tokens of one KV head in a unit
	heads      int     // KV heads of the model on one channel
	layersOn   []int   // layersOn[k]: layers l with l mod R = k
	capacity   int64   // units of one rank
	used       []int64 // units in use on the rank of each rankset
	tokens     []int64 // reserved tokens by offset
	next       int     // offset that round-robin gives next
}

// NewLedger returns the ledger of ranksets ranks a channel, each with capacity
// units of unitTokens tokens, for a model of layers layers with headsPerChannel
// KV heads on each channel.
func NewLedger(ranksets, layers, headsPerChannel, unitTokens int, capacity int64) *Ledger {
	l := &Ledger{
		unitTokens: unitTokens, heads: headsPerChannel, layersOn: make([]int, ranksets),
		capacity: capacity, used: make([]int64, ranksets), tokens: make([]int64, ranksets),
	}
	for layer := range layers {
		l.layersOn[layer%ranksets]++
	}
	return l
}

// Reservation is the memory that a request holds.
type Reservation struct {
	Offset int
	Tokens int
}

// units returns the units that a reservation takes on rankset r.
func (l *Ledger) units(r, offset, tokens int) int64 {
	ranksets := len(l.used)
	perHead := int64((tokens + l.unitTokens - 1) / l.unitTokens)
	return perHead * int64(l.heads) * int64(l.layersOn[(r-offset+ranksets)%ranksets])
}

// fits says whether every rank has room for the reservation.
func (l *Ledger) fits(offset, tokens int) bool {
	for r := range l.used {
		if l.used[r]+l.units(r, offset, tokens) > l.capacity {
			return false
		}
	}
	return true
}

// FitsEmpty says whether a request of tokens tokens fits an empty memory; one
// that does not can never run.
func (l *Ledger) FitsEmpty(tokens int) bool {
	for r := range l.used {
		if l.units(r, 0, tokens) > l.capacity {
			return false
		}
	}
	return true
}

// Reserve takes room for tokens tokens of every layer and head under a balance
// policy, and reports false, changing nothing, where no allowed offset has it.
func (l *Ledger) Reserve(tokens int, balance string) (Reservation, bool) {
	if balance == BalanceRoundRobin {
		if !l.fits(l.next, tokens) {
			return Reservation{}, false
		}
		r := Reservation{Offset: l.next, Tokens: tokens}
		l.next = (l.next + 1) % len(l.used)
		l.apply(r, 1)
		return r, true
	}
	best := -1
	for offset := range l.used {
		if l.fits(offset, tokens) && (best < 0 || l.tokens[offset] < l.tokens[best]) {
			best = offset
		}
	}
	if best < 0 {
		return Reservation{}, false
	}
	r := Reservation{Offset: best, Tokens: tokens}
	l.apply(r, 1)
	return r, true
}

// Release returns what Reserve took.
func (l *Ledger) Release(r Reservation) { l.apply(r, -1) }

func (l *Ledger) apply(r Reservation, sign int64) {
	for rank := range l.used {
		l.used[rank] += sign * l.units(rank, r.Offset, r.Tokens)
	}
	l.tokens[r.Offset] += sign * int64(r.Tokens)
}

// Used returns the units in use, summed over the ranks of one channel.
func (l *Ledger) Used() int64 {
	var sum int64
	for _, u := range l.used {
		sum += u
	}
	return sum
}

// Capacity returns the units of all ranks of one channel.
func (l *Ledger) Capacity() int64 { return l.capacity * int64(len(l.used)) }
