package gpu

// Group is a group of an iteration's kernels.
type Group int

// The groups, in the order in which an iteration first runs them. Small kernels are norms, activations and copies into the cache; the
// feed-forward includes a mixture of experts with its router.
const (
	Embedding Group = iota
	SmallKernels
	QKVProduct
	PrefillAttention
	DecodeAttention
	ProjectionProduct
	FeedForward
	AllReduce
	LMHead
	Groups // their number
)

// groupNames are the names in reports.
var groupNames = [Groups]string{
	"embedding", "small_kernels", "qkv", "prefill_attention", "decode_attention", "projection", "feed_forward", "all_reduce", "lm_head",
}

// String returns the group's name.
func (g Group) String() string { return groupNames[g] }

// Parts is work by groups of kernels.
type Parts [Groups]Work

// Total returns the sum of all groups.
func (p Parts) Total() (w Work) {
	for i := range p {
		w = w.Plus(p[i])
	}
	return w
}

func (p Parts) plus(q Parts) Parts {
	for i := range p {
		p[i] = p[i].Plus(q[i])
	}
	return p
}

func (p Parts) times(n int) Parts {
	for i := range p {
		p[i] = p[i].Times(n)
	}
	return p
}

// SustainedParts returns the seconds of each group in sustained operation, see Sustained; their sum is Sustained's seconds of the total.
func (s *Spec) SustainedParts(p Parts) (seconds [Groups]float64) {
	stretch := s.stretch(p.Total())
	for i, w := range p {
		seconds[i] = w.Seconds + float64((stretch-1)*w.Clocked)
	}
	return seconds
}

// TaskParts returns the work of a batch of tokens without attention, by groups: before the first layer's attention, between those of two
// layers, and after the last, where emitting requests get a token.
func (c *ModelCost) TaskParts(tokens, emitting int) (entry, block, exit Parts) {
	qkv, rest := c.qkvParts(tokens), c.projection(tokens).plus(c.ffnParts(tokens))
	return c.embedding(tokens).plus(qkv), rest.plus(qkv), rest.plus(c.head(emitting))
}
