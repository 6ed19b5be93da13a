package memory

import "math"

// Reservation is the memory that a request holds.
type Reservation struct {
	Offset int
	Length
	Filling bool // the prompt has not ended
	Host    bool // in the host's memory, where a replica has two
	Near    bool // in the GPUs' spare memory, with all other keys and values elsewhere
	Window  int  // tokens on the GPUs, in addition to this memory
	// Shared is the number of first tokens that are in blocks of the cache, which other requests may use,
	// too.
	Shared int
	last   int32 // the last block of the cache that the request uses, 0 for none
}

// HeadClass is heads that hold the same tokens. They hold the prompt's tokens, those after it or all; of
// these they leave out the first Skip, take a share, and keep at most Most.
type HeadClass struct {
	Heads      int
	TokenBytes int64 // of one head
	OfPrompt   bool
	Skip       int     // negative: as many tokens in addition
	Share      float64 // 0: all
	Most       int     // 0: no limit
	// AfterPrompt says that only tokens after the prompt are held.
	AfterPrompt bool
}

// tokens returns how many tokens a head holds.
func (c *HeadClass) tokens(r Length) int64 {
	n := r.Tokens
	if c.OfPrompt {
		n = r.Prompt
	}
	if c.AfterPrompt {
		n = r.Tokens - r.Prompt
	}
	n = max(n-c.Skip, 0)
	if c.Share > 0 {
		n = int(math.Ceil(float64(c.Share * float64(n))))
	}
	if c.Most > 0 {
		n = min(n, c.Most)
	}
	return int64(n)
}

// Length determines the memory of a request.
type Length struct {
	Prompt int // tokens that are prefilled
	Tokens int // tokens with keys and values, the prompt's included
}

// Prompted returns a length that is all prompt.
func Prompted(tokens int) Length { return Length{tokens, tokens} }

// shape says how many units a request of a given length takes, and where.
type shape struct {
	unitTokens int         // tokens of one KV head in a unit
	heads      int         // KV heads of the model on one channel
	unitBytes  int64       // bytes of a unit; only where there are classes
	classes    []HeadClass // nil: all heads hold all tokens
	filling    []HeadClass // nil: a prompt takes no more memory while it is prefilled than after
	block      int         // tokens of a block of the cache; 0 without one
	// layersOn[k] is the number of a request's layers on rankset (offset + k) mod R. Times heads, it is the number of KV
	// heads on the fullest channel. If heads do not divide over the channels, it is this number itself, and heads is 1.
	layersOn []int
}

// perLayer returns the units that one layer takes on a channel.
func (l *shape) perLayer(r Length) int64 {
	if l.classes == nil {
		return int64((r.Tokens+l.unitTokens-1)/l.unitTokens) * int64(l.heads)
	}
	return l.units(l.classes, r)
}

// units returns the allocation units of a request in one layer on a channel; the tokens of each
// head are rounded up separately.
func (l *shape) units(classes []HeadClass, r Length) (units int64) {
	for i := range classes {
		c := &classes[i]
		units += (c.tokens(r)*c.TokenBytes + l.unitBytes - 1) / l.unitBytes * int64(c.Heads)
	}
	return units
}

// whileFilling returns the larger of perLayer and what the prompt takes until it ends.
func (l *shape) whileFilling(r Length) int64 {
	units := l.perLayer(r)
	if l.filling != nil {
		units = max(units, l.units(l.filling, Length{r.Prompt, r.Prompt}))
	}
	return units
}

// holds returns the units of a reservation in one layer on a channel.
func (l *shape) holds(r *Reservation) int64 {
	if r.Filling {
		return l.whileFilling(r.Length) - l.shared(r)
	}
	return l.perLayer(r.Length) - l.shared(r)
}

// shared returns how many units of a reservation are in blocks of the cache, in one layer on a
// channel.
func (l *shape) shared(r *Reservation) int64 {
	if r.Shared == 0 {
		return 0
	}
	return int64(r.Shared/l.block) * l.blockUnits()
}

// blockUnits returns the whole units of a cached block in one layer on a channel, over all heads. The remainder of a block of narrow
// classes (index keys) counts with each request that uses it.
func (l *shape) blockUnits() int64 {
	if l.classes == nil {
		return int64(l.block/l.unitTokens) * int64(l.heads)
	}
	units := int64(0)
	for i := range l.classes {
		c := &l.classes[i]
		units += int64(l.block) * c.TokenBytes / l.unitBytes * int64(c.Heads)
	}
	return units
}

// content returns how much of its units a request fills in one layer: tokens of heads, or bytes
// with classes.
func (l *shape) content(r Length) (n int64) {
	if l.classes == nil {
		return int64(r.Tokens) * int64(l.heads)
	}
	for i := range l.classes {
		c := &l.classes[i]
		n += c.tokens(r) * c.TokenBytes * int64(c.Heads)
	}
	return n
}

// Whole returns tokens rounded up to whole units.
func (l *shape) Whole(tokens int) int {
	return (tokens + l.unitTokens - 1) / l.unitTokens * l.unitTokens
}
