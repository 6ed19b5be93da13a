package kinds

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/pim/hbm"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/units"
)

// reading is the rate at which the units of a GPU stream contiguous data.
type reading struct {
	rate    float64   // bytes per second if all channels have much to read
	element float64   // bytes of a weight as the units read it
	token   float64   // seconds per token of a KV head on a GPU
	tally   hbm.Tally // of the commands per byte; zero without commands
	link    float64   // bytes per second in one direction between a GPU and its units
	vectors float64   // bytes of a request's queries, keys, values and results on a GPU that cross to units beside it; else 0
	tokens  int       // that one read of weights serves
}

const longContext, fullChannel = 8192, 8 // tokens of a head, heads of a channel: long enough that fixed costs are small

// measureReading returns the rate of the units. They read weights as they read keys and values, in rows, one vector at a time.
// verified is the number of tokens that a step of a request verifies.
func (e *hbmPIM) measureReading(h *HBMPIM, spec *gpu.Spec, verified int) (r reading) {
	m := e.Model
	_, weights := m.ProductBits()
	r.element, r.tokens = m.NetworkMean(float64(max(weights, m.ElementBits/h.ElementsPerRead)))/8, h.QueriesPerRead
	r.link = float64(spec.MemoryBandwidth)
	if h.MemoryBeside > 0 {
		r.link = float64(h.Link)
		r.vectors = float64(verified*(m.QKVWidth()+m.Heads*m.HeadDim)) / float64(m.TensorParallel) * float64(m.ElementBits) / 8
	}
	if e.stack != nil {
		head := float64((m.HeadDim+m.HeadsOf(false).Value)*longContext) * float64(max(m.KVElementBits(), m.ElementBits/h.ElementsPerRead)) / 8
		all := fullChannel * head
		r.rate = float64(e.slots) * all / (e.clock * e.stack.Clocks(fullChannel, longContext))
		r.tally = hbm.Tally{}.Plus(e.stack.Tally(fullChannel, longContext), 1/all)
		return r
	}
	const requests = 1024
	cost := e.units.DecodeBatchCost(gpu.UniformBatch(requests, longContext))
	r.rate = cost.Bytes * e.factor / cost.Memory
	r.token = (cost.Seconds - cost.Overhead) / e.factor / float64(requests*longContext*m.KVHeads/m.TensorParallel)
	return r
}

// help lets the units compute columns of the feed-forward network: they read all weights of these for one token at a time, as in
// AttAcc's second optimisation. The GPUs compute the activation, so four vectors cross: the token's to the units, their columns'
// products back, those after the activation to the units, and the sums back.
func (e *hbmPIM) help(columns int) {
	bytes := float64(e.Model.ElementBits) / 8
	e.Help(gpus.Helper{Columns: columns, Seconds: func(tokens, columns int) float64 {
		if columns == 0 {
			return 0
		}
		crossing := float64(tokens*(2*e.Model.Hidden+e.Model.FFNMatrices()*columns)) * bytes
		return e.weightBytes(tokens, columns)/e.reading.rate + crossing/e.reading.link
	}})
}

// weightBytes returns the bytes of weights that the units of a GPU read in a layer for columns of the network.
func (e *hbmPIM) weightBytes(tokens, columns int) float64 {
	r := &e.reading
	return float64((tokens+r.tokens-1)/r.tokens) * float64(columns*e.Model.FFNMatrices()*e.Model.Hidden) * r.element
}

// helped returns what the units do in all layers for a sub-batch: the weights that they read, as the tokens of a KV head whose keys and
// values have as many bytes, and the work of the commands.
func (e *hbmPIM) helped(tokens int) (read int64, did hbm.Tally) {
	columns, _ := e.Helps(tokens)
	if columns == 0 {
		return 0, did
	}
	all := e.Model.Layers * e.Model.TensorParallel
	_, bits := e.Model.ProductBits()
	e.NotRead += float64(float64(all*columns*e.Model.FFNMatrices()*e.Model.Hidden) * e.Model.NetworkMean(float64(bits)) / 8)
	bytes := e.weightBytes(tokens, columns) * float64(all)
	return int64(bytes * float64(e.Attends.Heads) / float64(e.Attends.KV(1))), hbm.Tally{}.Plus(e.reading.tally, bytes)
}

// crossing returns the time in which queries, keys, values and results of requests cross to units beside the GPUs, in a layer.
func (e *hbmPIM) crossing(requests int) units.Duration {
	return flow.TaskTime(float64(requests) * e.reading.vectors / e.reading.link)
}

// channelLoad is the attention of a channel for a class of heads.
type channelLoad struct {
	requests int
	tokens   int64
	rows     float64 // opened beyond those that the tokens fill
}

// busiest returns the units' time in a layer if all heads of a request are in one channel of each GPU: that of the channel with most to
// read.
func (e *hbmPIM) busiest(x *policy.Step, requests []scheduler.Decoding) units.Duration {
	clear(e.seconds)
	for i := range x.Attend {
		c := &x.Attend[i]
		if c.Device != policy.Home {
			continue
		}
		clear(e.loads)
		for r := range c.Tokens {
			if tokens, rows := e.list(c, r); tokens > 0 {
				l := &e.loads[requests[r].Offset]
				l.requests, l.tokens, l.rows = l.requests+1, l.tokens+int64(tokens), l.rows+rows
			}
		}
		heads := (c.Heads + e.Model.TensorParallel - 1) / e.Model.TensorParallel * e.readsOf(c)
		for channel := range e.loads {
			if l := &e.loads[channel]; l.requests > 0 {
				e.seconds[channel] += float64(e.channelSeconds(l, heads))
			}
		}
	}
	most := 0.0
	for _, s := range e.seconds {
		most = max(most, s)
	}
	return flow.TaskTime(most)
}

// channelSeconds returns the time of one channel for a number of heads of each request.
func (e *hbmPIM) channelSeconds(l *channelLoad, heads int) float64 {
	if e.stack != nil {
		n := l.requests * heads
		return e.clock * (e.stack.Clocks(n, int((l.tokens+int64(l.requests)-1)/int64(l.requests))) + float64(float64(heads)*l.rows*e.stack.Opening()))
	}
	return float64(heads*len(e.loads)) * float64(l.tokens) * e.reading.token
}

// readsOf returns how often a class's keys and values are read.
func (e *hbmPIM) readsOf(c *policy.Class) int {
	if c.PerQueryHead { // two query heads share no read
		return e.own
	}
	return int(e.reads)
}
