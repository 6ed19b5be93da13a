package policy

import (
	"cmp"
	"math"

	"github.com/l3sim/l3sim/llm"
)

// Shape is the attention shape of a model.
type Shape struct {
	Layers, QueryHeads, KVHeads, Dim int
	ElementBits                      int    // of queries and outputs, and of keys' bounds
	KVBits                           int    // of keys and values; 0 as ElementBits
	KVScaleBytes                     int    // bytes of scales of one token's key in a KV head; the value has as many
	Value                            int    // elements of a value and of an output; 0 means Dim
	Latent                           bool   // values are the first elements of keys and are not stored separately
	ValueCopy                        int64  // bytes of a token's latent that are stored a second time as a value; 0: none
	Model                            string // name of the model, which a profile must match
	Apart                            bool   // keys and values are not at home on the GPUs
	Verified                         int    // tokens of a request that a decode step verifies; 0 means 1
	// Overlap is the share of one verified token's chosen pages that another is certain to choose, too: 1 if all choose alike, 0 if choices
	// only agree by chance.
	Overlap        float64
	llm.LayerKinds // of the model's layers
}

// InWindows returns the shape for layers with a window, with their heads.
func (s Shape) InWindows() Shape {
	s.KVHeads, s.Dim = cmp.Or(s.WindowKVHeads, s.KVHeads), cmp.Or(s.WindowHeadDim, s.Dim)
	return s
}

// Elements returns the bytes of n elements.
func (s *Shape) Elements(n int) int64 { return (int64(n)*int64(s.ElementBits) + 7) / 8 }

// Token returns the bytes of one token's key and value in a KV head, with their scales.
func (s *Shape) Token() int64 {
	vector := func(width int) int64 { return int64((width*cmp.Or(s.KVBits, s.ElementBits)+7)/8 + s.KVScaleBytes) }
	if s.Latent {
		return vector(s.Dim)
	}
	return vector(s.Dim) + vector(cmp.Or(s.Value, s.Dim))
}

// Group returns the number of query heads of a KV head.
func (s *Shape) Group() int { return s.QueryHeads / s.KVHeads }

// Ahead returns the number of drafts that a decode step verifies: its tokens beyond the first.
func (s *Shape) Ahead() int { return max(s.Verified-1, 0) }

// Vectors returns the vectors of one token in one layer.
func (s *Shape) Vectors() Vectors {
	return Vectors{
		Queries: s.Elements(s.QueryHeads * s.Dim), New: int64(s.KVHeads) * s.Token(), Results: s.Elements(s.QueryHeads * cmp.Or(s.Value, s.Dim)),
	}
}

// Device is the device on which heads attend.
type Device uint8

// The devices.
const (
	Home Device = iota // the device at a request's keys and values: GPUs, units in HBM or DIMMs, the host's CPUs
	GPU                // the GPUs, if they are not the home
)

// Request is a decoding request. Context counts the tokens before a step and the step's own; Prompt counts the prefilled ones, at least one
// less. Accepted is the number of drafts that the step will accept. Later tokens of the step in Context are then overwritten.
type Request struct{ Prompt, Context, Accepted int }

// Class is a set of a layer's KV heads that attend in the same way, each to its own tokens.
type Class struct {
	Device Device
	Heads  int // KV heads of a layer
	// Tokens is the number of tokens that each request attends to, in the order of the requests, at most its context. What a device reads
	// in addition (whole pages, columns) belongs to the model of its kernel.
	Tokens []int
	// PerHead is Tokens of each head, request by request, if heads differ; Tokens is then their mean. nil: heads are alike.
	PerHead []int
	Weights bool // the softmax weights are needed after the step
	// Windowed means that the heads are in a layer with a window, which may have other heads than the model's other layers.
	Windowed bool
	Paged
	OnDIMMs
	OnThreads
}

// Paged describes how GPU kernels read selected tokens.
type Paged struct {
	Page         int  // consecutive tokens in memory, for selected tokens at arbitrary positions; 0 for tokens in order
	PerQueryHead bool // each query head of a group attends to its own tokens
	// Chosen is the number of single tokens (Page is 1) that the GPUs choose for each token of the step, for requests with longer contexts;
	// Tokens counts their union. If keys and values are elsewhere, the choice is sent there: see ListBytes. 0 if pages are chosen, or
	// nothing.
	Chosen int
}

// ListBytes returns the bytes of a request's choices, one for each token that a step verifies: the numbers of the chosen tokens, 4 bytes
// each as kernels write them (FlashMLA's indices are int32).
func (p *Paged) ListBytes(context, verified int) int64 {
	if context <= p.Chosen {
		return 0
	}
	return 4 * int64(p.Chosen) * int64(verified)
}

// Touched returns the mean number, rounded up, of groups of size successive tokens that contain a chosen token. It assumes that the newest
// token is chosen and the others are uniformly random; real choices are closer together.
func Touched(context, chosen, size int) int {
	groups := (context + size - 1) / size
	others, chosen := context-1, chosen-1 // besides the newest token, whose group is one of them
	if chosen >= others || groups == 1 || size == 1 {
		return min(chosen+1, groups)
	}
	missed := 1.0 // probability that a group has no chosen token
	for i := range size {
		missed *= float64(max(0, others-chosen-i)) / float64(others-i)
	}
	return 1 + int(math.Ceil(float64(float64(groups-1)*float64(1-float64(missed)))-1e-9))
}

// OnDIMMs is the position of selected tokens in the rows of a rank's banks.
type OnDIMMs struct {
	Quads bool // pages are in quads of banks, and equally many are chosen in each quad
	// Rows is the number of rows of 512 tokens that contain a request's selected tokens, and Read the number of tokens that any query head
	// of a group attends to, both as measured in a profile; nil without a profile.
	Rows, Read []int
}

// OnThreads is the distribution of heads over threads of the host's CPUs.
type OnThreads struct {
	Whole   bool // a thread takes whole heads
	Longest int  // tokens of the largest head, if heads differ
}

// All returns the number of tokens over all heads and requests.
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

// Choice is a selection before attention: it scores bounds of pages and keeps the best of each row of scores.
type Choice struct {
	Device string // what scores and chooses, as Spec.SelectDevice; "" for the GPUs
	Heads  int    // KV heads of a layer
	Scored []int  // bounds of pages that are scored, by request; 0 if an earlier step's list is used
	Ranked []int  // scores in a row, by request; 0 likewise
	Keep   int    // number kept from each row
	// Lists is the largest number of lists that a request makes at once, one for each token of the step that chooses; 0 means 1. Scored,
	// Ranked and Keep are for one list.
	Lists        int
	PerQueryHead bool // a row for each query head; otherwise one for each KV head
	// PerQueryScores means that each query head scores bounds separately, instead of the sum of a group's queries. Softmax means that
	// scores are normalised before a group's are added up.
	PerQueryScores, Softmax bool
}

// Times returns the number of lists made at once.
func (c *Choice) Times() int { return max(1, c.Lists) }

// Bounds is the work, in a step, of updating the bounds of pages for the given number of KV heads, if their home is not the GPUs. With 0
// heads there is none.
type Bounds struct {
	Heads   int
	Down    []int // completed bounds that are sent home with key and value, by request
	Updates bool  // the home computes them: each new key changes the bounds of the open page
}

// Pass is streaming work: kernels on the GPUs, or a loop on the host's CPUs. Bytes and operations are of all requests and heads in one
// layer.
type Pass struct {
	Device  Device
	Kernels int
	Bytes   int64
	FLOPs   int64
	// Elements are handled one at a time by a core of the host: entries of lists, ranked scores. For GPUs they are part of Bytes.
	Elements int64
}

// Step is the attention of decoding requests in one layer.
type Step struct {
	// Attend covers every KV head of the layer: once, in a class of one device, or once in classes of each of both devices, whose partial
	// outputs are then merged.
	Attend []Class
	Choose []Choice
	Index  llm.Indexing // of the model's own indexer
	Bounds Bounds
	Passes []Pass
	// Merged is the number of requests with partial outputs of two devices, which the GPUs merge by log-sum-exps.
	Merged int
	Leave  []Leaving // data sent home from the GPUs after the step
	// Fetched is the number of tokens, by request, whose keys and values the GPUs fetch from home, if home chooses what the GPUs attend to;
	// nil otherwise. Ahead means that home chooses for the next step, so this step does not wait for the choice.
	Fetched []int
	Ahead   bool
}

// Leaving is keys and values sent from the GPUs to their home.
type Leaving struct {
	Heads int // KV heads of a layer
	// From is the number of tokens that these heads already have at home, by request, and Tokens the number that follow.
	From, Tokens []int
	Copies       bool // another Leaving has the same keys and values
	Bounds       bool // bounds of pages instead of tokens' keys and values
	// Notes are additional bytes for each token and head, and Index additional bytes for each head.
	Notes, Index int64
}

// Vectors are the bytes that a decoding request moves in one layer between the GPUs and its home, if these differ.
type Vectors struct {
	Queries int64
	New     int64 // the step's own key and value, 0 if they first stay on the GPUs
	Results int64
	Sums    int64 // softmax sums, a number for each query head; 0 if no outputs are merged
}

// Piece is attention of some heads for a part of a chunk: Count pieces of Tokens tokens each, which attend causally to themselves and to
// all of Behind tokens before.
type Piece struct{ Heads, Count, Tokens, Behind int }

// Prompt is the attention of a chunk of a prompt in one layer on the GPUs.
type Prompt struct {
	Pieces []Piece
	// Windowed means that the pieces' heads are in a layer with a window: see Class.Windowed.
	Windowed bool
	Passes   []Pass
	Index    llm.Indexing
	Chosen   llm.Chosen // in addition to the pieces
	Leave    []Leaving  // data sent home with the chunk, if home is not the GPUs
	// Away is the number of tokens before the chunk that may be attended to at home, which re-evaluates which tokens are salient.
	Away int
}

// Held is memory in one layer that grows with a request: Bytes for each token and head, for Heads heads.
type Held struct {
	Device Device
	Heads  int
	Bytes  int64 // for each token and head
	Index  bool  // an index instead of keys and values

	// Which tokens count: those of the prompt, those after it, or (with neither) all, including the step's own.
	OfPrompt, AfterPrompt bool
	Skip                  int     // first counted tokens that are not held here; negative: further tokens held (the step's own)
	Share                 float64 // share of the tokens beyond Skip that is held, rounded up; 0 means all
	Most                  int     // maximum number of tokens of a head that are held; 0 for no limit
	Longest               float64 // Share of the head that holds the most, if heads differ and Share is their mean; else 0
}

// Tokens returns the number of tokens of a head that are held for a request with the given tokens, of which prompt are its prompt's.
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

// ShareOf returns a share of a number of tokens, rounded up.
func ShareOf(share float64, of int) int { return int(math.Ceil(float64(share * float64(of)))) }

// Alike is an optional interface of Costs. It identifies runs of layers for which Costs return the same, so that each is computed once.
type Alike interface {
	// Alike returns the first run that equals a run, which may be the run itself.
	Alike(run int) int
}

// Costs are the counts of a model's attention under a policy. Its methods are pure, but reuse memory: their results are valid until the
// next call, and may share memory with requests.
type Costs interface {
	// Runs returns the numbers of successive layers that attend in the same way.
	Runs() []int
	// Decode returns a decode step in a layer of a run.
	Decode(requests []Request, run int) *Step
	// Prompt returns attention of a chunk of a prompt, after finished tokens, in a layer of a run. last marks the last chunk of the prompt.
	Prompt(run, chunk, finished int, last bool) *Prompt
	// Memory returns the memory of a layer of a run for decoding requests, and for a prompt being prefilled.
	Memory(run int) (decoding, filling []Held)
	// KV returns the bytes of keys and values of the given tokens in one layer, all heads.
	KV(tokens int) int64
	// Vectors returns the vectors that a decoding request moves if it attends at home, or if home chooses.
	Vectors() Vectors
}
