package kinds

import (
	"sort"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/dataflow"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/system/ranks"
	"github.com/l3sim/l3sim/units"
)

// subCost is the cost of a sub-batch's tasks on the GPUs.
type subCost struct {
	active           bool
	entry            units.Duration // embedding, QKV generation of layer 0
	prefillAttention units.Duration // of all prompts, one layer
	window           units.Duration // attention of decoding requests on the GPUs beside the ranksets, one layer
	block            units.Duration // merge of both, projection to the next layer's QKV generation
	chooses          units.Duration // choice of pages, before anything goes to the ranksets
	exit             units.Duration // merge, projection of the last layer to the LM head
	groups           []ranks.GroupCost
	use              flow.Use
}

// iterationCosts is the costs of an iteration's tasks on L3's resources, and the options of these.
type iterationCosts struct {
	latency units.Duration // of a PCIe transfer down, without occupying the link
	// upLatency is the time from the end of attention to the first data of results on the links: the
	// host notices, the rank PU answers, a PCIe transfer begins.
	upLatency units.Duration
	// Times of a rankset that computes around a transfer: leaving attention (PREA, tRP), and
	// activating all banks again.
	vacate, reactivate units.Duration
	clock              dataflow.Clock
	step               int64 // clocks between boundaries within a head
	headsEach          int   // heads of a request on a channel
	rotate             bool  // layer l of a request is on rankset (l + offset) mod R
	concurrent         bool  // ranksets compute while another one receives
	asyncPrefill       bool  // prompts go down during the block, not before it
	buffered           bool  // the memory controllers buffer their writes
	halfDuplex         bool  // PCIe can carry more than the channels, which then serve one direction at a time

	order  []dataflow.Run    // the layers, by kind
	layers []int32           // of each kind
	sub    []subCost         // in a layer of the first kind
	groups []ranks.GroupCost // memory of the groups of all sub-batches, one per rankset and sub-batch
	more   [][]subCost       // in a layer of each further kind
	laid   []laidLayer       // scratch: layers of a sub-batch with operations
	waits  []int32           // scratch: operations that a block waits for
	ups    []int32           // scratch: transfers of prefixes
}

// of returns what all sub-batches cost in a layer of a kind.
func (c *iterationCosts) of(kind int) []subCost {
	if kind == 0 {
		return c.sub
	}
	return c.more[kind-1]
}

// newIterationCosts returns costs of nothing yet, for layers in that order. Kinds are numbered as they first come.
func newIterationCosts(subBatches, ranksets int, order ...dataflow.Run) iterationCosts {
	c := iterationCosts{order: order}
	for _, run := range order {
		if int(run.Kind) < len(c.layers) {
			c.layers[run.Kind] += run.Count
			continue
		}
		c.layers = append(c.layers, run.Count)
		groups, sub := make([]ranks.GroupCost, subBatches*ranksets), make([]subCost, subBatches)
		for s := range sub {
			sub[s].groups = groups[s*ranksets : (s+1)*ranksets]
		}
		if run.Kind == 0 {
			c.sub, c.groups = sub, groups
		} else {
			c.more = append(c.more, sub)
		}
	}
	return c
}

func (e *l3) fill(c *iterationCosts, b *scheduler.Batch) {
	if e.ranks.Apart() {
		e.ranks.Rotate(b)
	}
	for s := range b.Sub {
		sub := &b.Sub[s]
		if c.sub[s].active = sub.Tokens() > 0; !c.sub[s].active {
			continue
		}
		e.ranks.TallyPrefixes(sub)
		e.ask(sub, b.Step)
		for k, run := range e.Attends.Kinds {
			x := e.beside(sub, run, b.Step, e.counts)
			e.ranks.FillGroups(c.of(k)[s].groups, sub, x, run)
			e.ranks.TallyStep(x, e.Attends.LayersLike(run))
		}
		g := e.StageRuns(sub)
		for k := range e.Attends.Kinds {
			e.fillKind(c, s, k, sub)
			l, layers := &g.Layers[k], units.Duration(g.Layers[k].Count)
			c.sub[s].use.Merge += layers * l.Merge
			c.sub[s].use.Chooses += layers * l.Chooses
		}
	}
}

// fillKind sets the costs of sub-batch s on the GPUs in layers of a kind.
func (e *l3) fillKind(c *iterationCosts, s, kind int, sub *scheduler.SubBatch) {
	g := &e.Staged
	out, l := &c.of(kind)[s], &g.Layers[kind]
	joins := e.joins(sub)
	out.active, out.entry, out.block, out.exit = true, g.Entry, g.Block+l.Merge+joins, g.Exit+l.Merge+joins
	out.use.Set(&g.Use)
	out.use.Joules.Decode += float64(e.joinWatts * (joins * units.Duration(e.Model.Layers)).Seconds())
	out.prefillAttention, out.window, out.chooses = l.Prompts, l.Attention-l.Prompts, l.Chooses
}

// decodeBeside sets the GPUs' part of decoding a sub-batch, beside the ranks, in all layers.
func (e *l3) decodeBeside(sub *scheduler.SubBatch, step int64) {
	e.ask(sub, step)
	for _, run := range e.Attends.Kinds {
		e.beside(sub, run, step, false)
	}
}

// ask begins with the decoding of a sub-batch.
func (e *l3) ask(sub *scheduler.SubBatch, step int64) {
	e.Batches = e.Batches[:0]
	e.Attends.Ask(sub.Decode, step)
}

// beside sets the GPUs' part of decoding a sub-batch in a layer of a run, beside the ranks. It returns the policy's step of the requests
// on ranks. With count it adds the attended tokens, for the summary.
func (e *l3) beside(sub *scheduler.SubBatch, run int, step int64, count bool) *policy.Step {
	x := e.Attends.Policy.Decode(e.Attends.Requests, run)
	if count {
		e.Attends.Count(x, run)
	}
	from := len(e.Batches)
	for i := range x.Attend {
		if c := &x.Attend[i]; c.Device == policy.GPU {
			e.Batches = append(e.Batches, gpus.DecodeBatch(c))
		}
	}
	e.Decoding[run] = gpus.Decoding{Batches: e.Batches[from:]}
	if e.counts {
		o := &e.Decoding[run]
		o.Beside, o.Merge, o.Chooses = e.Passes(x, policy.GPU), e.ModelCost.Merge(x.Merged), e.Choices(x)
	}
	if e.ranks.Stripe.Parts > 0 {
		e.Decoding[run].Merge = e.ModelCost.MergeParts(e.ranks.Merges(x))
	}
	e.Absorb(run, len(sub.Decode))
	if len(sub.Near) > 0 {
		e.DecodeSpare(sub.Near, from, run, step, count)
	}
	return x
}

// measure sets the times of a sample to those of sub-batch i. Decode attention on the GPUs counts
// with the batched operations, as it grows with the number of requests.
func (e *l3) measure(m *scheduler.Sample, b *scheduler.Batch, i, otherPrefill int) {
	sub, layers := &b.Sub[i], units.Duration(e.Model.Layers)
	e.decodeBeside(sub, b.Step)
	g, chunks := e.StageRuns(sub), e.ModelCost.Attention()
	for j := range m.Chunks { // all layers take the same time
		k := e.PromptAttention(&chunks, &sub.Prefill[j], 0)
		m.Chunks[j].Time = layers * (k.Took(g.Slow) + e.ranks.ScoringOf(&sub.Prefill[j]))
	}
	m.FC = g.Entry + (layers-1)*g.Block + g.Exit + layers*e.joins(sub)
	for run := range g.Layers {
		l := &g.Layers[run]
		m.FC += units.Duration(l.Count) * (l.Attention - l.Prompts + l.Merge + l.Chooses)
	}
	m.PIM = e.ranks.PIM(sub, b.Step, otherPrefill)
}

// joins returns the GPU time lost in a layer of a sub-batch whose block waits for transfers.
func (e *l3) joins(s *scheduler.SubBatch) units.Duration {
	if len(s.Decode) == 0 {
		return 0
	}
	return e.join
}

// GPU implements batching.Predictor with the exact costs (L3, equation 6), including decode
// attention on the GPUs.
func (e *l3) GPU(s *scheduler.SubBatch, iteration int64) units.Duration {
	joins := units.Duration(e.Model.Layers) * e.joins(s)
	if e.alone(s) {
		return e.GPUs.GPU(s, iteration) + e.ranks.Scoring(s) + joins
	}
	e.decodeBeside(s, iteration)
	return e.GPUTime(s) + e.ranks.Scoring(s) + joins
}

// PIM implements batching.Predictor with the exact costs (L3, equation 5).
func (e *l3) PIM(s *scheduler.SubBatch, iteration int64, otherPrefill int) units.Duration {
	return e.ranks.PIM(s, iteration, otherPrefill)
}

// Exceeds implements batching.Exact.
func (e *l3) Exceeds(s *scheduler.SubBatch, c *scheduler.Chunk, t units.Duration) bool {
	if c.Tokens > 0 && e.alone(s) && !c.Near {
		t -= e.LeastAttention(c)
	}
	return t < 0 || e.AtLeast(s.Tokens()+c.Tokens) > t
}

// Beyond implements batching.Exact. The GPUs' time is at least a product of the tokens, and Moves of the next larger bound in e.movesUpTo
// bounds that of all numbers below it.
func (e *l3) Beyond(s *scheduler.SubBatch, c *scheduler.Chunk, t units.Duration, moved int) int {
	rate := 0.0
	if !c.Near && e.alone(s) {
		rate = e.LeastPerToken(c)
	}
	if rate <= 0 {
		return c.Tokens + 1
	}
	least := float64(t + 2*units.Duration(e.Model.Layers)*units.Nanosecond)
	if moved < 0 {
		return surelyAbove(least/rate, c.Tokens)
	}
	bounds := e.movesUpTo(moved + c.Tokens)
	last := c.Tokens
	for k := len(bounds) - 1; k >= 0 && last > 0; k-- {
		if k > 0 && bounds[k-1].tokens-moved >= last {
			continue
		}
		if enough := (least + bounds[k].most) / rate; enough >= float64(last) {
			return last + 1
		} else if k == 0 || enough > float64(bounds[k-1].tokens-moved) {
			return surelyAbove(enough, last)
		}
		last = bounds[k-1].tokens - moved
	}
	return 1
}

// surelyAbove returns the first number of tokens above n, at most last + 1.
func surelyAbove(n float64, last int) int {
	if n >= float64(last) {
		return last + 1
	}
	return int(max(n, 0)) + 1
}

// movesBound is a time in picoseconds that Moves of up to so many tokens never exceeds.
type movesBound struct {
	tokens int
	most   float64
}

// movesUpTo returns bounds for numbers that increase by a quarter, the last of them for at least tokens.
func (e *l3) movesUpTo(tokens int) []movesBound {
	for n := 15; len(e.bounds) == 0 || e.bounds[len(e.bounds)-1].tokens < tokens; {
		if k := len(e.bounds); k > 0 {
			n = e.bounds[k-1].tokens
		}
		n += max(n/4, 1)
		e.bounds = append(e.bounds, movesBound{n, mostMoves * float64(e.Moves(n))})
	}
	k := sort.Search(len(e.bounds), func(k int) bool { return e.bounds[k].tokens >= tokens })
	return e.bounds[:k+1]
}

// mostMoves is more than the factor by which Moves of fewer tokens can exceed that of more: pieces of a transfer are rounded up.
const mostMoves = 1.01

// alone says that the GPUs have no part in the decoding of a sub-batch.
func (e *l3) alone(s *scheduler.SubBatch) bool {
	return !e.counts && e.ranks.Stripe.Parts == 0 && len(s.Near) == 0
}

// Moves implements batching.Exact.
func (e *l3) Moves(tokens int) units.Duration { return e.moves.At(tokens) }

// imbalance adds an iteration's attention to m. Each kind weighs by its layers, and one alone as a single layer: the ratio is the same.
func (c *iterationCosts) imbalance(m *flow.Imbalance) {
	for kind := range c.layers {
		layers := units.Duration(1)
		if len(c.more) > 0 {
			layers = units.Duration(c.layers[kind])
		}
		subs := c.of(kind)
		for s := range subs {
			if c.sub[s].active {
				busiest, all := ranks.Attending(subs[s].groups)
				m.Add(layers*busiest, layers*all)
			}
		}
	}
}
