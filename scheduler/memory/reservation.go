package memory

import "math"

// Reservation is the memory that a request holds.
type Reservation struct {
	Offset int
	Length
	Filling bool // the prompt has not ended
	Host    bool // in the host's memory, where a replica has two
	Near    bool // in the GPUs' spare memory, where the home of keys and values is elsewhere
	Window  int  // tokens on the GPUs beside this memory
	// Shared is how many of the first tokens are in blocks of the cache, which other requests may use, too.
	Shared int
	last   int32 // the last block of the cache that the request uses, 0 for none
}

// HeadClass is heads that hold the same tokens: those of the prompt, those after it or all, beyond Skip, a
// share of them, at most Most.
type HeadClass struct {
	Heads      int
	TokenBytes int64 // of one head
	OfPrompt   bool
	Skip       int     // negative: as many more
	Share      float64 // 0: all
	Most       int     // 0: no limit
	// AfterPrompt is of the tokens that follow the prompt alone.
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

// Length is what the memory of a request depends on.
type Length struct {
	Prompt int // tokens that are prefilled
	Tokens int // with keys and values, the prompt's among them
}

// Prompted is a length that is all prompt.
func Prompted(tokens int) Length { return Length{tokens, tokens} }

// shape is how many units a request of a given length takes, and where.
type shape struct {
	unitTokens int         // tokens of one KV head in a unit
	heads      int         // KV heads of the model on one channel
	unitBytes  int64       // bytes of a unit; only where there are classes
	classes    []HeadClass // nil: all heads hold all tokens
	filling    []HeadClass // nil: a prompt takes no more while it is prefilled than after
	block      int         // tokens of a block of the cache; 0 without one
	// layersOn[k] is the layers of a request on rankset (offset + k) mod R, times heads the KV heads on the channel with
	// most. Where heads do not divide over the channels it is these KV heads, and heads is 1.
	layersOn []int
}

// perLayer returns the units that one layer takes on a channel.
func (l *shape) perLayer(r Length) int64 {
	if l.classes == nil {
		return int64((r.Tokens+l.unitTokens-1)/l.unitTokens) * int64(l.heads)
	}
	return l.units(l.classes, r)
}

// units returns the allocation units of a request: each head's tokens are rounded up alone.
func (l *shape) units(classes []HeadClass, r Length) (units int64) {
	for i := range classes {
		c := &classes[i]
		units += (c.tokens(r)*c.TokenBytes + l.unitBytes - 1) / l.unitBytes * int64(c.Heads)
	}
	return units
}

// whileFilling returns the units of perLayer, and at least what the prompt takes until it ends.
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

// shared returns the units of holds that are in blocks of the cache.
func (l *shape) shared(r *Reservation) int64 {
	if r.Shared == 0 {
		return 0
	}
	return int64(r.Shared/l.block) * l.blockUnits()
}

// blockUnits returns the units of a block of the cache in one layer on a channel: whole units of all heads. What is left of a block of
// narrow classes (index keys) counts with each request that uses it.
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

// content returns what a request fills of its units in one layer: tokens of heads, or bytes
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
