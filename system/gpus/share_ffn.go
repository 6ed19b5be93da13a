package gpus

import (
	"sort"

	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// Helper is a device beside the GPUs that computes some inner columns of the feed-forward network, while the GPUs compute the
// others.
type Helper struct {
	Columns int                               // largest number, of each GPU's part of the network
	Seconds func(tokens, columns int) float64 // time of columns of a layer
}

// shares is the granularity of the division: a step is a 64th of the columns.
const shares = 64

// helped is a layer's feed-forward network in two parts that run in parallel.
type helped struct {
	columns             int       // of the device
	projection, network kernelSum // work of the GPUs: before the network, and their part of its products
	seconds             float64   // time of the device
}

// sharedFFN is helped in times of operations; zero without a device.
type sharedFFN struct{ Projection, GPUs, Device units.Duration }

// before is the part of a block that has become operations of its own.
func (s *sharedFFN) before() units.Duration { return s.Projection + s.GPUs }

// Help lets a device compute columns of the feed-forward network: as many as balance the two parts.
func (d *GPUs) Help(h Helper) {
	width, cost := d.ModelCost.FFNWidth(), d.Dense.Cost
	if width == 0 || h.Columns == 0 {
		return
	}
	d.Dense.Cost = func(tokens int) *dense {
		columns := d.divide(&h, tokens, width)
		if columns == 0 {
			return cost(tokens)
		}
		qkv, projection := sumOf(d.ModelCost.QKV(tokens)), sumOf(d.ModelCost.Projection(tokens))
		network, rest := d.ModelCost.NarrowFFN(tokens, width-columns)
		own := sumOf(network)
		ffn := projection.plus(own).plus(sumOf(rest))
		x := dense{entry: sumOf(d.ModelCost.Embedding(tokens)).plus(qkv), Block: ffn.plus(qkv), end: ffn}
		x.all = x.entry.Plus(x.Block.Times(d.Model.Layers - 1)).Plus(x.end.Work)
		x.helped = helped{columns, projection, own, h.Seconds(tokens, columns)}
		return &x
	}
}

// divide returns the device's columns for a number of tokens that minimise the time of the longer part.
func (d *GPUs) divide(h *Helper, tokens, width int) int {
	columns := func(share int) int { return min(width*share/shares, h.Columns) }
	longer := func(share int) (seconds float64, device bool) {
		own, _ := d.ModelCost.NarrowFFN(tokens, width-columns(share))
		seconds = h.Seconds(tokens, columns(share))
		return max(own.Seconds, seconds), seconds >= own.Seconds
	}
	at := sort.Search(shares, func(share int) bool { _, device := longer(share); return device })
	if at > 0 {
		with, _ := longer(at)
		if less, _ := longer(at - 1); less <= with {
			at--
		}
	}
	return columns(at)
}

// Helps returns the columns that a helping device takes for a number of tokens, and its seconds for them in a layer.
func (d *GPUs) Helps(tokens int) (columns int, seconds float64) {
	h := &d.Dense.At(tokens).helped
	return h.columns, h.seconds
}

// took returns the times if the power limit slows the GPUs down by a factor.
func (h *helped) took(slow float64) (s sharedFFN) {
	if h.columns > 0 {
		s = sharedFFN{h.projection.Took(slow), h.network.Took(slow), flow.TaskTime(h.seconds)}
	}
	return s
}
