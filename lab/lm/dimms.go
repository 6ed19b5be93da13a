package lm

import (
	"fmt"
	"slices"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/values"
	"github.com/l3sim/l3sim/units"
)

// Node is the simulated hardware: one replica's share of a configuration's channels, and a planted
// mistake, if any.
type Node struct {
	Config *configs.Config
	Plant  Plant
	// Exact disables a shortcut without effect on results: see decode of values.NewHostRank.
	Exact bool
}

// Plant is a mistake planted on the path of keys, values and results: one of package pim's, or
// StaleRankset.
type Plant string

// StaleRankset makes the ranksets use the descriptor of the layer before: keys and values go to the
// right place, but the program runs at the place of the layer before.
const StaleRankset Plant = "rankset"

// Plants returns all mistakes that can be planted.
func Plants() []string {
	return []string{string(values.MistakeLane), string(values.MistakeBank), string(values.MistakeQuad), string(StaleRankset)}
}

// dimms is attention on the data in the DIMMs' banks. Layer l of a sequence is on rankset (l +
// offset) mod R (L3, section 5.1), with its heads spread over the channels; sequences take the
// offsets in turn.
type dimms struct {
	model *Model
	stale bool
	ranks [][]*values.HostRank // by channel and rankset
	// places is the rows of each head, by sequence, then layer and head.
	places [][]place

	stored, attended   units.Bytes // by prompts; by decode steps over all attended tokens
	vector, descriptor units.Bytes // of a head's vector on the channel; of its descriptor
	chunkTokens        int         // tokens that the banks of a rank score at once

	sent    *host // keys and values as sent, for the error against float64
	scratch []scratch
}

// place is the rank and the rows of one head.
type place struct {
	channel, rankset int
	firstRow         int32
}

// scratch is the data of one worker.
type scratch struct {
	vectors [3][]uint16 // q, k, v
	query   [1][]uint16
	largest float64 // error so far
	err     error
}

// newDIMMs returns DIMMs for sequences of those lengths, in heads of one shape.
func newDIMMs(m *Model, on *Node, sent *host, shape pim.HeadShape, lengths []int) (*dimms, error) {
	c := on.Config
	channels, ranksets := c.Node.Channels/c.Node.GPUs, c.Node.Ranksets
	if channels < 1 || m.Heads%channels != 0 {
		return nil, &input.Error{Key: "node.channels", Value: fmt.Sprint(c.Node.Channels), Expected: fmt.Sprintf(
			"channels for each of node.gpus = %d over which the model's %d heads divide", c.Node.GPUs, m.Heads)}
	}
	geometry, err := pim.NewGeometry(&c.DRAM.Spec, shape)
	if err != nil {
		return nil, err
	}
	d := &dimms{
		model: m, stale: on.Plant == StaleRankset, sent: sent, scratch: make([]scratch, m.workers),
		vector: units.Bytes(geometry.KeyBursts * c.DRAM.BurstBytes()), chunkTokens: geometry.ChunkTokens,
	}
	burst := units.Bytes(c.DRAM.BurstBytes())
	d.descriptor = (c.PIM.Descriptor + burst - 1) / burst * burst
	used := d.placeHeads(lengths, channels, ranksets, c.Comm.Rotation, &geometry)
	capacity := int(c.RankRoom()/c.PIM.UnitBytes(&c.DRAM.Spec)) * 2 // in rows: a unit is a row of keys and one of values
	for channel := range channels {
		d.ranks = append(d.ranks, nil)
		for rankset := range ranksets {
			rows := int(used[channel][rankset])
			if rows > capacity {
				return nil, &input.Error{Key: "node.memory_capacity", Value: c.Node.MemoryCapacity.String(),
					Expected: fmt.Sprintf("room for %d rows on a rank: fewer or shorter sequences, or more", rows)}
			}
			rank, err := values.NewHostRank(&c.PIM, &c.DRAM.Spec, shape, rows, m.workers, !on.Exact)
			if err != nil {
				return nil, err
			}
			rank.Plant(values.Mistake(on.Plant))
			d.ranks[channel] = append(d.ranks[channel], rank)
		}
	}
	return d, nil
}

// placeHeads assigns rows to each head of each sequence, for its final length, and returns the rows
// in use by channel and rankset.
func (d *dimms) placeHeads(lengths []int, channels, ranksets int, rotation bool, g *pim.Geometry) (used [][]int32) {
	m := d.model
	used = make([][]int32, channels)
	for i := range used {
		used[i] = make([]int32, ranksets)
	}
	for sequence, n := range lengths {
		places := make([]place, m.Layers*m.Heads)
		for i := range places {
			layer, head := i/m.Heads, i%m.Heads
			p := place{channel: head * channels / m.Heads, rankset: sequence % ranksets}
			if rotation {
				p.rankset = (layer + sequence) % ranksets
			}
			at := &used[p.channel][p.rankset]
			p.firstRow = *at
			*at += int32(g.Rows(n))
			places[i] = p
		}
		d.places = append(d.places, places)
	}
	return used
}

func (d *dimms) rank(p place) *values.HostRank { return d.ranks[p.channel][p.rankset] }

// encode puts a lane's q, k and v of one head into the worker's vectors, in FP16.
func (d *dimms) encode(worker int, l *lane[float32], head int) (q, k, v []uint16) {
	x := &d.scratch[worker].vectors
	for i := range x {
		x[i] = values.EncodeHalf(x[i][:0], headOf(d.model, l.qkv[i], head))
	}
	return x[0], x[1], x[2]
}

// store sends keys and values of a prompt's tokens down.
func (d *dimms) store(layer int, lanes []*lane[float32]) error {
	m := d.model
	if layer == 0 {
		d.stored += units.Bytes(len(lanes))
	}
	m.each(m.Heads, func(worker, head int) {
		for _, l := range lanes {
			p := d.places[l.sequence][layer*m.Heads+head]
			_, k, v := d.encode(worker, l, head)
			d.fail(worker, d.rank(p).Store(p.firstRow, l.position, k, v))
		}
	})
	return d.err()
}

// attend runs the program of each head, which appends the newest key and value and attends over all
// stored ones.
func (d *dimms) attend(layer int, lanes []*lane[float32]) error {
	m := d.model
	if layer == 0 {
		d.attended += units.Bytes(len(lanes))
	}
	d.sent.keep(layer, lanes)
	m.each(len(lanes)*m.Heads, func(worker, n int) {
		d.fail(worker, d.head(worker, layer, lanes[n/m.Heads], n%m.Heads))
	})
	return d.err()
}

func (d *dimms) head(worker, layer int, l *lane[float32], head int) error {
	m, s := d.model, &d.scratch[worker]
	at := layer*m.Heads + head
	p := d.places[l.sequence][at]
	q, k, v := d.encode(worker, l, head)
	s.query[0] = q
	run := values.DecodeHead{FirstRow: p.firstRow, Context: l.position + 1, Query: s.query[:], Key: k, Value: v}
	if d.stale && layer > 0 {
		if err := d.rank(p).Store(p.firstRow, l.position, k, v); err != nil {
			return err
		}
		p = d.places[l.sequence][at-m.Heads]
		run.FirstRow, run.Key, run.Value = p.firstRow, nil, nil
	}
	out, _, err := d.rank(p).Attend(worker, &run)
	if err != nil {
		return err
	}
	got := headOf(m, l.attended, head)
	copy(got, out[0])
	s.largest = max(s.largest, d.sent.deviation(worker, &d.sent.kept[l.sequence][at], l.position+1, headOf(m, l.qkv[0], head), got))
	return nil
}

func (d *dimms) fail(worker int, err error) {
	if s := &d.scratch[worker]; s.err == nil {
		s.err = err
	}
}

func (d *dimms) err() error {
	i := slices.IndexFunc(d.scratch, func(s scratch) bool { return s.err != nil })
	if i < 0 {
		return nil
	}
	return d.scratch[i].err
}

func (d *dimms) maxError() (largest float64) {
	for i := range d.scratch {
		largest = max(largest, d.scratch[i].largest)
	}
	return largest
}

// prefill is attention over a prompt: on the host, while its keys and values go to the DIMMs.
type prefill struct{ *dimms }

// attend computes a prompt's attention on the GPU, then sends keys and values to the ranks.
func (p prefill) attend(layer int, lanes []*lane[float32]) error {
	if err := p.sent.attend(layer, lanes); err != nil {
		return err
	}
	return p.store(layer, lanes)
}
