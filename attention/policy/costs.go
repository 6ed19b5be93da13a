package policy

import (
	"cmp"
	"math"

	"github.com/l3sim/l3sim/llm"
)

// Shape is the attention of a model.
type Shape struct {
	Layers, QueryHeads, KVHeads, Dim int
	ElementBits                      int    // of queries and outputs, and of bounds of keys
	KVBits                           int    // of keys and values; 0 as ElementBits
	KVScaleBytes                     int    // of one token's key in a KV head, as many as of its value
	Value                            int    // elements of a value and of an output; 0 as Dim
	Latent                           bool   // values are the first elements of keys and not stored by themselves
	ValueCopy                        int64  // bytes of a token's latent that are stored again as a value; 0: none
	Model                            string // its name, which a profile must be of
	Apart                            bool   // the requests' home is not the GPUs
	Verified                         int    // tokens of a request that a decode step verifies; 0 as 1
	// Overlap is the share of the pages that one of these tokens chooses that another one has for sure: 1 where all choose alike, 0
	// where they have no more in common than by chance.
	Overlap        float64
	llm.LayerKinds // of the model's layers
}

// InWindows returns the shape with the heads of layers with a window in the place of the others'.
func (s Shape) InWindows() Shape {
	s.KVHeads, s.Dim = cmp.Or(s.WindowKVHeads, s.KVHeads), cmp.Or(s.WindowHeadDim, s.Dim)
	return s
}

// Elements returns the bytes of n elements.
func (s *Shape) Elements(n int) int64 { return (int64(n)*int64(s.ElementBits) + 7) / 8 }

// Token returns the bytes of key and value of one token and KV head, with their scales.
func (s *Shape) Token() int64 {
	vector := func(width int) int64 { return int64((width*cmp.Or(s.KVBits, s.ElementBits)+7)/8 + s.KVScaleBytes) }
	if s.Latent {
		return vector(s.Dim)
	}
	return vector(s.Dim) + vector(cmp.Or(s.Value, s.Dim))
}

// Group returns the query heads of a KV head.
func (s *Shape) Group() int { return s.QueryHeads / s.KVHeads }

// Ahead returns the drafts that a decode step verifies: its tokens beyond the first.
func (s *Shape) Ahead() int { return max(s.Verified-1, 0) }

// Vectors returns those of one token in one layer.
func (s *Shape) Vectors() Vectors {
	return Vectors{
		Queries: s.Elements(s.QueryHeads * s.Dim), New: int64(s.KVHeads) * s.Token(), Results: s.Elements(s.QueryHeads * cmp.Or(s.Value, s.Dim)),
	}
}

// Device is where heads attend.
type Device uint8

// The devices.
const (
	Home Device = iota // that of the request's keys and values: GPUs, units in HBM or DIMMs, the host's CPUs
	GPU                // the GPUs, where they are not the home
)

// Request is a decoding request: Context counts the tokens before a step and the step's
// own, Prompt those that were prefilled, at least one less. Accepted is how many drafts the step will accept, of those that it verifies: the other
// tokens of Context beyond the first of the step's own are then overwritten.
type Request struct{ Prompt, Context, Accepted int }

// Class is KV heads of a layer that attend alike, each over tokens of its own.
type Class struct {
	Device Device
	Heads  int // KV heads of a layer
	// Tokens is how many tokens each request attends to, in the order in which the requests were given, at most its context.
	// What a device reads beyond them (whole pages, columns) belongs to the model of its kernel.
	Tokens []int
	// PerHead is Tokens of each head, request by request, where heads differ; Tokens is then their mean. nil: heads are alike.
	PerHead []int
	Weights bool // the weights of the softmax are needed after the step
	// Windowed says that the heads are of a layer with a window, as the model has it: these may be others than the model's other layers have.
	Windowed bool
	Paged
	OnDIMMs
	OnThreads
}

// Paged is what kernels of the GPUs read of tokens that are selected.
type Paged struct {
	Page         int  // tokens that lie together in memory, of selected ones that lie anywhere; 0 where they are in order
	PerQueryHead bool // each query head of a group attends to tokens of its own
	// Chosen is how many single tokens (Page is 1) the GPUs choose for each token of the step, of requests whose contexts have more; Tokens
	// is their union. Where keys and values are elsewhere, the choice goes there: ListBytes. 0 where pages are chosen, or nothing.
	Chosen int
}

// ListBytes returns the bytes of the choice of a request with that context for each of the tokens that a step verifies: the numbers of the
// chosen tokens as the kernels that choose write them, 4 bytes each (FlashMLA's indices are int32).
func (p *Paged) ListBytes(context, verified int) int64 {
	if context <= p.Chosen {
		return 0
	}
	return 4 * int64(p.Chosen) * int64(verified)
}

// Touched returns in how many groups of size successive tokens of a context the chosen ones of these lie, where the newest token is
// chosen and the others are anywhere with equal chance: the mean, rounded up. Real choices lie closer together.
func Touched(context, chosen, size int) int {
	groups := (context + size - 1) / size
	others, chosen := context-1, chosen-1 // beside the newest token, whose group is one of them
	if chosen >= others || groups == 1 || size == 1 {
		return min(chosen+1, groups)
	}
	missed := 1.0 // the chance that no chosen token lies in a group
	for i := range size {
		missed *= float64(max(0, others-chosen-i)) / float64(others-i)
	}
	return 1 + int(math.Ceil(float64(float64(groups-1)*float64(1-float64(missed)))-1e-9))
}

// OnDIMMs is how selected tokens lie in the rows of a rank's banks.
type OnDIMMs struct {
	Quads bool // pages lie in quads of banks, and as many are chosen of each quad
	// Rows is how many rows of 512 tokens the selected ones of each request lie in, and Read how many tokens any
	// query head of a group attends to, both as a profile has measured them; nil without a profile.
	Rows, Read []int
}

// OnThreads is how threads of the host's CPUs share the heads.
type OnThreads struct {
	Whole   bool // a thread takes whole heads
	Longest int  // tokens of the head that has most, where heads differ
}

// All returns the tokens of all heads and requests.
func (c *Class) All() int64 {
	tokens, heads := c.Tokens, c.Heads
	if c.PerHead != nil {
		tokens, heads = c.PerHead, 1
	}
	sum := 0
	for _, n := range tokens {
		sum += n
	}
	return int64(sum) * int64(heads)
}

// Choice is a selection before attention: scores from bounds of pages, and the best of each row of
// scores.
type Choice struct {
	Device string // what scores and chooses, as Spec.SelectDevice; "" for the GPUs
	Heads  int    // KV heads of a layer
	Scored []int  // bounds of pages of each request that are scored; 0 where a list of an earlier step holds
	Ranked []int  // scores of each request from which a row keeps the best; 0 the same
	Keep   int    // that each row keeps
	// Lists is how many lists a request makes at once that makes most, one for each token of the step that chooses; 0 as 1. Scored,
	// Ranked and Keep are of one.
	Lists        int
	PerQueryHead bool // a row for each query head, else one for each KV head
	// PerQueryScores has each query head score bounds by itself, and not the sum of a group's queries; Softmax
	// has its scores normalised before a group's are added up.
	PerQueryScores, Softmax bool
}

// Times returns how many lists are made at once.
func (c *Choice) Times() int { return max(1, c.Lists) }

// Bounds is the work of keeping the bounds of pages at a home that is not the GPUs, in a step, for that many
// KV heads. With 0 heads there is no such work.
type Bounds struct {
	Heads   int
	Down    []int // bounds of each request that are complete and go home with its key and value
	Updates bool  // the home makes them: each key changes those of the open page there
}

// Pass is work that streams: kernels on the GPUs or a loop of the host's CPUs, with the
// bytes and operations of all requests and heads in one layer.
type Pass struct {
	Device  Device
	Kernels int
	Bytes   int64
	FLOPs   int64
	// Elements are those that a core of the host handles one at a time: entries of lists,
	// scores that are ranked. For GPUs they are part of Bytes.
	Elements int64
}

// Step is what attention takes in one layer for decoding requests.
type Step struct {
	// Attend has every KV head of the layer: once, in a class of one of the devices, or once in the classes of either
	// device, whose partial outputs are then merged.
	Attend []Class
	Choose []Choice
	Index  llm.Indexing // by the model's own indexer
	Bounds Bounds
	Passes []Pass
	// Merged is how many requests have partial outputs of two devices, which are merged on
	// the GPUs by their log-sum-exps.
	Merged int
	Leave  []Leaving // what leaves the GPUs for home after the step
	// Fetched is the tokens of each request whose keys and values come up from home, where the
	// GPUs attend over what home has chosen; nil where they do not. Ahead says that home chooses for
	// the next step, so that nothing of this one waits for it.
	Fetched []int
	Ahead   bool
}

// Leaving is keys and values that go from the GPUs to their home.
type Leaving struct {
	Heads int // KV heads of a layer
	// From is how many tokens of each request these heads have at home before, Tokens how
	// many follow.
	From, Tokens []int
	Copies       bool // another Leaving has the same keys and values
	Bounds       bool // bounds of pages in place of tokens' keys and values
	// Notes are the bytes of a token and head that go beside its key and value, Index those of a
	// head that go beside all of them.
	Notes, Index int64
}

// Vectors is the bytes that a decoding request moves in one layer between GPUs and its
// home, where these differ.
type Vectors struct {
	Queries int64
	New     int64 // the step's own key and value, 0 where they stay on the GPUs at first
	Results int64
	Sums    int64 // of softmax, a number a query head; 0 where no outputs are merged
}

// Piece is attention of some heads for a part of a chunk: Count pieces of Tokens tokens each,
// that attend causally over themselves and all over Behind tokens before.
type Piece struct{ Heads, Count, Tokens, Behind int }

// Prompt is what attention takes on the GPUs in one layer for a chunk of a prompt.
type Prompt struct {
	Pieces []Piece
	// Windowed says that the heads of pieces are of a layer with a window: see Class.Windowed.
	Windowed bool
	Passes   []Pass
	Index    llm.Indexing
	Chosen   llm.Chosen // beside the pieces
	Leave    []Leaving  // what goes home with the chunk, where that is not the GPUs
	// Away is how many of the tokens before the chunk it may attend over at home, which sees
	// anew what is salient.
	Away int
}

// Held is memory of one layer that grows with a request: Bytes a token and head, of Heads heads.
type Held struct {
	Device Device
	Heads  int
	Bytes  int64 // of a token and head
	Index  bool  // not keys and values themselves

	// Which tokens count: the prompt's, those that follow it, or with neither all, of which a step's own is one.
	OfPrompt, AfterPrompt bool
	Skip                  int     // how many of the tokens that count, the first ones, are not held here; negative: so many more are held (the step's own)
	Share                 float64 // share that is held of the tokens beyond Skip, rounded up; 0 for all of them
	Most                  int     // tokens of a head that are held at most; 0 for no limit
	Longest               float64 // Share of the head that holds most, where heads differ and Share is their mean; else 0
}

// Tokens returns how many tokens of a head are held of a request that has so many, of which prompt are its prompt's.
func (h *Held) Tokens(prompt, tokens int) int {
	n := tokens
	switch {
	case h.OfPrompt:
		n = prompt
	case h.AfterPrompt:
		n = tokens - prompt
	}
	if n = max(0, n-h.Skip); h.Share > 0 {
		n = ShareOf(h.Share, n)
	}
	if h.Most > 0 {
		n = min(n, h.Most)
	}
	return n
}

// ShareOf returns a share of that many tokens, rounded up.
func ShareOf(share float64, of int) int { return int(math.Ceil(float64(share * float64(of)))) }

// Alike is what Costs may have besides: it says which runs of layers are alike in all that Costs return, so that each kind is asked for once.
type Alike interface {
	// Alike returns the first run that a run is like, itself where none before it is.
	Alike(run int) int
}

// Costs is what attention of a model takes under a policy, in counts. Its methods are pure but for the memory of
// their results, which are valid until the next call and may share memory with requests.
type Costs interface {
	// Runs returns the layers of the model in successive runs of layers that attend alike.
	Runs() []int
	// Decode returns a decode step in a layer of a run.
	Decode(requests []Request, run int) *Step
	// Prompt returns attention of a chunk of a prompt in a layer of a run, after finished
	// tokens. The last chunk ends the prompt.
	Prompt(run, chunk, finished int, last bool) *Prompt
	// Memory returns what a layer of a run holds while requests decode, and while a
	// prompt is prefilled.
	Memory(run int) (decoding, filling []Held)
	// KV returns the bytes of the keys and values of that many tokens in one layer, all heads.
	KV(tokens int) int64
	// Vectors returns what a decoding request moves that attends at home, or has home choose.
	Vectors() Vectors
}
