package lm

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/values"
	"github.com/l3sim/l3sim/units/portable"
)

// homes is decode attention of a policy whose tokens are in DIMMs. The program of a rank attends to the part of a
// head's selection in the DIMMs, the GPUs attend in float32 to theirs, and merge the results by their log-sum-exps.
//
// A head that chooses pages has all tokens in the DIMMs, each at its own place, and the program reads a list. The
// tokens of other heads are contiguous, in the order in which they came to the DIMMs, and the program reads all.
// Heads that stream have all tokens on the GPUs or, with stream_device = "home", in a ring of places, whose order
// does not affect attention.
type homes struct {
	model  *Model
	narrow *narrowing // nil: 16 bits
	dimms  *dimms
	bounds *dimms // rows of pages' bounds, which the ranks score; nil if the GPUs do
	heads  []homeHead
	work   []homeWork
	ring   *policies.Streaming // for heads that stream in the DIMMs; else nil
}

// homeHead is one head of a layer.
type homeHead struct {
	streams bool
	pages   pages // nil: none
	tokens  int   // in the DIMMs
	bounded int   // pages with bounds in the DIMMs
	worker  int   // computes the head
	run     values.DecodeHead
	groups  int // groups of keys with scales in the DIMMs
}

// homeWork is a worker's scratch.
type homeWork struct {
	vectors         [4][]uint16 // key, value, query, query of bounds
	query           [2][1][]uint16
	out             []float32 // [HeadDim]
	part            []float64 // [HeadDim]
	scores, weights []float32 // by token
	err             error     // of a scorer
	largest         float64   // largest error so far, of an element
	relative        float64   // largest error so far, of a head's result in relative L2
}

// pages is a state that chooses pages.
type pages interface {
	pager
	ScoreBy(policies.Scorer)
	Bounds(logical int) []float32
	Bounded() int
	LogicalTokens() int
}

// OnDIMMs says that DIMMs can store a policy's keys and values.
func OnDIMMs(s *policy.Spec) bool { return slices.Contains(s.List().At(policy.InDIMMs), s.Name) }

// newHomes gives the heads of c DIMMs, for a sequence of up to limit tokens.
func newHomes[T real](c *chosen[T], on *Node, s *policy.Spec, limit int) error {
	m := c.model
	if !OnDIMMs(s) {
		return &input.Error{Key: "policy.name", Value: s.Name, Expected: "a policy of which DIMMs can be the home: " + strings.Join(s.List().At(policy.InDIMMs), ", ")}
	}
	by := "gpu"
	if p := s.Pages(); p != nil {
		by = p.SelectDevice
	}
	d, err := newDIMMs(m, on, nil, m.headShape(c.narrow), []int{limit})
	if err != nil {
		return err
	}
	o := &homes{model: m, narrow: c.narrow, dimms: d, heads: make([]homeHead, len(c.heads)), work: make([]homeWork, m.workers)}
	for i := range o.work {
		o.work[i] = homeWork{out: make([]float32, m.HeadDim), part: make([]float64, m.HeadDim), scores: make([]float32, limit), weights: make([]float32, 0, limit)}
	}
	c.homes = o
	if h := s.Heads(); h != nil && h.StreamDevice == "home" {
		o.ring = &policies.Streaming{Sink: h.Sink, Window: h.Window}
	}
	bounds := 0
	for i := range o.heads {
		x := &o.heads[i]
		_, window := c.heads[i].state.PromptMask()
		x.streams = window > 0 // prompts of other heads are not masked
		x.pages, _ = c.heads[i].state.(pages)
		if chunk := d.chunkTokens; x.pages != nil && x.pages.PageTokens()%chunk != 0 {
			return &input.Error{Key: "policy." + s.Name + ".page", Value: fmt.Sprint(x.pages.PageTokens()), Expected: fmt.Sprintf("a multiple of %d, the tokens that the banks score at once", chunk)}
		}
		if x.pages != nil && by != "gpu" {
			bounds = (limit + x.pages.LogicalTokens() - 1) / x.pages.LogicalTokens()
			x.pages.ScoreBy(func(scores []float64, split []float32) { o.score(x.worker, i, scores, split) })
		}
	}
	if bounds > 0 {
		if by == "rank" { // the rank's unit reads bounds over the rank's bus
			c := *on.Config
			c.PIM.ProcessingUnit = pim.RankLevelUnit
			on = &Node{Config: &c, Plant: on.Plant, Exact: on.Exact}
		}
		o.bounds, err = newDIMMs(m, on, nil, pim.HeadShape{HeadDim: 2 * m.HeadDim, Queries: 1, ElementBits: 16}, []int{bounds})
	}
	return err
}

// bound sends bounds of full pages to the ranks that score them.
func (o *homes) bound(worker, at int) error {
	x := &o.heads[at]
	x.worker = worker
	if x.pages == nil || o.bounds == nil {
		return nil
	}
	place, w := o.bounds.places[0][at], &o.work[worker]
	for ; x.bounded < x.pages.Bounded(); x.bounded++ {
		w.vectors[3] = values.EncodeHalf(w.vectors[3][:0], x.pages.Bounds(x.bounded))
		if err := o.bounds.rank(place).Store(place.firstRow, x.bounded, w.vectors[3], nil); err != nil {
			return err
		}
	}
	return nil
}

// score makes a rank score the first pages of a head.
func (o *homes) score(worker, at int, scores []float64, split []float32) {
	if len(scores) == 0 {
		return
	}
	place, w := o.bounds.places[0][at], &o.work[worker]
	w.vectors[3] = values.EncodeHalf(w.vectors[3][:0], split)
	w.query[1][0] = w.vectors[3]
	got, err := o.bounds.rank(place).Score(worker, &values.DecodeHead{FirstRow: place.firstRow, Context: len(scores), Query: w.query[1][:]})
	if err != nil {
		w.err = err
		return
	}
	for i, s := range got[0] {
		scores[i] = float64(s)
	}
}

// attend sets out to a head's result of a step. It returns the weights of the parts in turn; those of a
// rank, which returns none, are NaN.
func (o *homes) attend(worker, at int, h *chosenHead, out []float64) (weights []float32, err error) {
	w := &o.work[worker]
	if w.err != nil {
		return nil, w.err
	}
	clear(out)
	lse := math.Inf(-1)
	w.weights = w.weights[:0]
	for i := range h.selection.Parts {
		p := &h.selection.Parts[i]
		if len(p.Ranges) == 0 {
			continue
		}
		var own float64
		if o.narrow != nil && o.narrow.scales == llm.ChannelScales && !o.heads[at].streams {
			if p, own = o.open(w, h, p); p == nil {
				lse = policy.Merge(out, lse, w.part, own)
				continue
			}
			lse = policy.Merge(out, lse, w.part, own)
		}
		if p.Device == policy.GPU || o.heads[at].streams && o.ring == nil {
			own = w.near(o.model, h, p.Ranges)
		} else if own, err = o.far(worker, at, h, p); err != nil {
			return nil, err
		}
		lse = policy.Merge(out, lse, w.part, own)
	}
	return w.weights, nil
}

// open attends on the GPUs to the tokens of a part that are still in 16 bits. It returns the others, nil if there are none.
func (o *homes) open(w *homeWork, h *chosenHead, p *policy.Part) (rest *policy.Part, lse float64) {
	n, end := h.narrow.tokens(), p.Ranges[0][1]
	lse = w.near(o.model, h, [][2]int{{n, end}})
	if n == 0 {
		return nil, lse
	}
	return &policy.Part{Ranges: [][2]int{{0, n}}}, lse
}

// near sets part to attention to ranges in float32, as on GPUs, and returns its log-sum-exp.
func (w *homeWork) near(m *Model, h *chosenHead, ranges [][2]int) (lse float64) {
	d, scores := m.HeadDim, w.scores[:0]
	rows := func(x []float32, r [2]int) blas32.General {
		return blas32.General{Rows: r[1] - r[0], Cols: d, Stride: d, Data: x[r[0]*d : r[1]*d]}
	}
	vector := func(x []float32) blas32.Vector { return blas32.Vector{N: len(x), Inc: 1, Data: x} }
	for _, r := range ranges {
		n := len(scores)
		scores = scores[:n+r[1]-r[0]]
		blas32.Gemv(blas.NoTrans, float32(m.scale()), rows(h.keys, r), vector(h.query[0]), 0, vector(scores[n:]))
	}
	top, sum := slices.Max(scores), 0.0
	for i, s := range scores {
		scores[i] = float32(portable.Exp(float64(s - top)))
		sum += float64(scores[i])
	}
	for i := range scores {
		scores[i] /= float32(sum)
	}
	clear(w.out)
	w.weights = append(w.weights, scores...)
	for _, r := range ranges {
		n := r[1] - r[0]
		blas32.Gemv(blas.Trans, 1, rows(h.values, r), vector(scores[:n]), 1, vector(w.out))
		scores = scores[n:]
	}
	for i, x := range w.out {
		w.part[i] = float64(x)
	}
	return float64(top) + portable.Log(sum)
}

// far sets part to a rank's result for the part of a selection in the DIMMs, and returns its
// log-sum-exp.
func (o *homes) far(worker, at int, h *chosenHead, p *policy.Part) (lse float64, err error) {
	x, w, d := &o.heads[at], &o.work[worker], o.model.HeadDim
	newest := len(h.keys)/d - 1
	w.vectors[2] = values.EncodeHalf(w.vectors[2][:0], h.query[0])
	w.query[0][0] = w.vectors[2]
	place := o.dimms.places[0][at]
	run := values.DecodeHead{FirstRow: place.firstRow, Query: w.query[0][:], Context: p.Tokens()}
	switch {
	case x.pages != nil:
		run.Ranges = p.Ranges
		err = o.send(worker, at, h, newest)
	case x.streams:
		err = o.turn(worker, at, h, newest)
	default:
		err = o.copies(worker, at, h, p.Ranges, newest)
	}
	if err != nil {
		return 0, err
	}
	if p.Ranges[len(p.Ranges)-1][1] > newest && !x.streams {
		run.Key, run.Value, run.Scales = o.encode(worker, h, newest)
		x.tokens++
	}
	x.run = run
	if o.dimms.stale && at >= o.model.Heads && o.heads[at-o.model.Heads].run.Context > 0 {
		if run.Key != nil {
			if err := o.store(worker, at, h, x.tokens-1, newest); err != nil {
				return 0, err
			}
		}
		at -= o.model.Heads
		place, run = o.dimms.places[0][at], o.heads[at].run
		run.Query, run.Key, run.Value = w.query[0][:], nil, nil
	}
	out, sums, err := o.dimms.rank(place).Attend(worker, &run)
	if err != nil {
		return 0, err
	}
	for i, v := range out[0] {
		w.part[i] = float64(v)
	}
	for range p.Tokens() {
		w.weights = append(w.weights, float32(math.NaN()))
	}
	return float64(float32(sums[0])), nil
}

// compare records the difference of a result from attention in float64 to the same tokens.
func (o *homes) compare(worker int, got, exact []float64) {
	w := &o.work[worker]
	var off, all float64
	for i, x := range exact {
		e := math.Abs(got[i] - x)
		if math.IsNaN(e) {
			e = math.Inf(1)
		}
		w.largest = max(w.largest, e)
		off += float64(e * e)
		all += float64(x * x)
	}
	w.relative = max(w.relative, math.Sqrt(off/all))
}

func (o *homes) errors() (largest, relative float64) {
	for i := range o.work {
		largest, relative = max(largest, o.work[i].largest), max(relative, o.work[i].relative)
	}
	return largest, relative
}

// send stores the tokens up to newest that are not in the DIMMs yet, each at its own place.
func (o *homes) send(worker, at int, h *chosenHead, newest int) error {
	x := &o.heads[at]
	for ; x.tokens < newest; x.tokens++ {
		if err := o.store(worker, at, h, x.tokens, x.tokens); err != nil {
			return err
		}
	}
	return nil
}

// turn stores the tokens of the ring that are not in the DIMMs yet: the sink's at their own places, the others in sequence
// and then over the oldest.
func (o *homes) turn(worker, at int, h *chosenHead, newest int) error {
	x, sink, window := &o.heads[at], o.ring.Sink, o.ring.Window
	for ; x.tokens <= newest; x.tokens++ {
		place := x.tokens
		if place >= sink {
			place = sink + (place-sink)%window
		}
		if err := o.store(worker, at, h, place, x.tokens); err != nil {
			return err
		}
	}
	return nil
}

// copies stores the ranges' tokens that are not in the DIMMs yet, except for the newest, in sequence.
func (o *homes) copies(worker, at int, h *chosenHead, ranges [][2]int, newest int) error {
	x := &o.heads[at]
	skip := x.tokens
	for _, r := range ranges {
		if n := r[1] - r[0]; skip >= n {
			skip -= n
			continue
		}
		for t := r[0] + skip; t < min(r[1], newest); t++ {
			if err := o.store(worker, at, h, x.tokens, t); err != nil {
				return err
			}
			x.tokens++
		}
		skip = 0
	}
	return nil
}

// store writes a token's key and value to a place of a head's rows.
func (o *homes) store(worker, at int, h *chosenHead, place, token int) error {
	p := o.dimms.places[0][at]
	k, v, scales := o.encode(worker, h, token)
	if o.narrow == nil {
		return o.dimms.rank(p).Store(p.firstRow, place, k, v)
	}
	x := &o.heads[at]
	for ; x.groups < len(h.narrow.groups); x.groups++ {
		if err := o.dimms.rank(p).StoreGroup(p.firstRow, x.groups, h.narrow.groups[x.groups]); err != nil {
			return err
		}
	}
	return o.dimms.rank(p).StoreNarrow(p.firstRow, place, k, v, scales)
}

// encode returns key and value of a token in their stored form, valid until the next call.
func (o *homes) encode(worker int, h *chosenHead, token int) (k, v []uint16, scales [2]pim.Scales) {
	d, x := o.model.HeadDim, &o.work[worker].vectors
	from, to := token*d, (token+1)*d
	if n := &h.narrow; o.narrow != nil {
		return n.elements[pim.Key][from:to], n.elements[pim.Value][from:to], [2]pim.Scales{n.scales[pim.Key][token], n.scales[pim.Value][token]}
	}
	x[0], x[1] = values.EncodeHalf(x[0][:0], h.keys[from:to]), values.EncodeHalf(x[1][:0], h.values[from:to])
	return x[0], x[1], scales
}
