package ranks

import (
	"math/bits"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// Shipment is the cost of a transfer down: pieces of equal size and a last one. Without a buffer in
// the memory controller there is one piece; it takes the time of the PCIe links, or of the
// channels' commands if that is longer. With a buffer, pieces have the buffer's size.
type Shipment struct {
	Pieces      int
	Link, Last  units.Duration // time on the PCIe links, of a piece and of the last one
	Bus, End    units.Duration // time on the channels, from the first data to the last
	Open, Close units.Duration // for each piece: from the first command to the first data; from the last data until the rank can compute
	Data        units.Duration // time that the channels carry data, over all pieces
}

// Held returns how long the links are held by all pieces.
func (s *Shipment) Held() units.Duration { return units.Duration(s.Pieces-1)*s.Link + s.Last }

// Took returns the time of the transfer on idle links and ranks.
func (s *Shipment) Took() units.Duration { return s.Open + s.Held() + s.Close }

// decodeTraffic is the transfers of a group, by its number of requests.
type decodeTraffic struct {
	Down      Shipment
	Up, UpBus units.Duration
}

// cut divides a transfer of n bytes down into pieces, and returns its cost. On a channel it has
// bursts bursts and takes span from the first data to the last. The pieces share the span by their
// bytes.
func (d *Devices) cut(n units.Bytes, bursts int64, span units.Duration) Shipment {
	piece, pieces := n, 1
	if d.Buffer > 0 && n > d.Buffer {
		piece, pieces = d.Buffer, int((n+d.Buffer-1)/d.Buffer)
	}
	s := Shipment{Pieces: pieces, Data: units.Duration(bursts) * d.burst}
	part := func(b units.Bytes) (link, bus, again units.Duration) {
		again = d.transposition(share(bursts, b, n))
		bus = units.Duration(share(int64(span), b, n)) + again
		return max(flow.TransferTime(d.link, b)+again, bus), bus, again
	}
	var again, lastAgain units.Duration
	s.Link, s.Bus, again = part(piece)
	s.Last, s.End, lastAgain = part(n - units.Bytes(pieces-1)*piece)
	s.Data += units.Duration(pieces-1)*again + lastAgain
	return s
}

// share returns x · part/whole, rounded up.
func share(x int64, part, whole units.Bytes) int64 {
	if part == whole {
		return x
	}
	high, low := bits.Mul64(uint64(x), uint64(part))
	quotient, rest := bits.Div64(high, low, uint64(whole))
	if rest > 0 {
		quotient++
	}
	return int64(quotient)
}

// transposition returns the time that the CPU holds rankset and channels to read bursts again and
// write them transposed; 0 if the DIMM exchanges elements in flight or has none to exchange.
func (d *Devices) transposition(bursts int64) units.Duration {
	if d.transposed == nil {
		return 0
	}
	clocks := pim.CPUTranspositionClocks(d.transposed, bursts)
	return min(units.FromPicoseconds(float64(clocks)*float64(d.transposed.TCK)), flow.LongestTask)
}

// send adds the tokens that one request's heads send to ranks to the cargoes of its groups.
func (d *Devices) send(groups []GroupCost, cargoOf func(*GroupCost) *Cargo, request, offset int32, l *policy.Leaving, i int) {
	switch {
	case l.Tokens[i] == 0:
	case d.Stripe.Parts > 0:
		d.loadStriped(groups, cargoOf, request, offset, l, l.From[i], l.Tokens[i])
	default:
		d.load(cargoOf(&groups[offset]), l, i)
	}
}

func promptOf(g *GroupCost) *Cargo  { return &g.Prompt }
func leavingOf(g *GroupCost) *Cargo { return &g.Leaving }

// load adds the tokens that one request's heads send to ranks to a cargo.
func (d *Devices) load(c *Cargo, l *policy.Leaving, request int) {
	d.loadHeads(c, l, d.onChannel(l.Heads), l.From[request], l.Tokens[request])
}

// loadHeads adds tokens that each of heads on a channel gets, after the first from. A channel
// writes head by head.
func (d *Devices) loadHeads(c *Cargo, l *policy.Leaving, heads, from, tokens int) {
	table, bytes, each := d.transfers, d.tokenBytes, int64(heads)
	if l.Bounds {
		table, bytes = d.written, d.boundBytes
	} else {
		c.Tokens += each * int64(tokens)
	}
	c.Bytes += units.Bytes(l.Heads*tokens) * bytes
	scales := each * table.ScaleBursts(from, tokens)
	c.bursts += each*int64(tokens*table.KVBursts()) + scales
	c.clocks += each*table.Write(from, tokens) + table.Scales(scales)
}

// loadPrompt adds what a chunk of a prompt sends to the ranks in a layer of a run.
func (d *Devices) loadPrompt(c *Cargo, run, tokens, finished int, last bool) {
	leave := d.Attends.Policy.Prompt(run, tokens, finished, last).Leave
	for i := range leave {
		if leave[i].Tokens[0] > 0 {
			d.load(c, &leave[i], 0)
		}
	}
}

// pack sets the cost of sending a cargo, with rows opened and closed.
func (d *Devices) pack(c *Cargo) {
	if c.Tokens == 0 {
		return
	}
	span := max(d.Clock.Time(c.clocks)-d.openRow-d.closeRow, 0)
	c.Shipment = d.cut(c.Bytes, c.bursts, span)
	c.Open, c.Close = d.openRow, d.closeRow
}

func (d *Devices) bursts(n units.Bytes) int64 { return (int64(n) + d.burstBytes - 1) / d.burstBytes }

// vectors is the transfers of decoding requests in a layer.
type vectors struct {
	heads, All      int64       // KV heads: on a channel; on all of them
	fresh, freshAll int64       // of these, heads that get the step's own keys and values, if any go to ranks
	Down            units.Bytes // lists and bounds of pages, besides queries, keys and values
	bursts          int64       // bursts of these on a channel
	parts, partsAll int64       // of heads and All: those of prompts' tokens, whose outputs are merged with others
}

// take adds heads: heads on the busiest channel, all in the replica.
func (v *vectors) take(heads, all int) {
	v.add(&vectors{heads: int64(heads), All: int64(all), fresh: int64(heads), freshAll: int64(all)})
}

// add adds the transfers of another class of heads.
func (v *vectors) add(o *vectors) {
	v.heads, v.All, v.Down, v.bursts = v.heads+o.heads, v.All+o.All, v.Down+o.Down, v.bursts+o.bursts
	v.fresh, v.freshAll = v.fresh+o.fresh, v.freshAll+o.freshAll
	v.parts, v.partsAll = v.parts+o.parts, v.partsAll+o.partsAll
}

// Moves returns the transfers of a group of requests. It is valid until the next call.
func (d *Devices) Moves(requests int, v *vectors) *decodeTraffic {
	all := v.heads == int64(requests*d.perChannel) && (!d.uneven || v.All == int64(requests*d.Attends.Heads))
	if all && v.Down == 0 && v.parts == 0 && d.Stripe.Parts == 0 {
		return d.Traffic(requests)
	}
	d.moved = d.transfersOf(requests, v)
	return &d.moved
}

// Traffic is Moves of n requests with all heads on ranks.
func (d *Devices) Traffic(n int) *decodeTraffic {
	for len(d.decodes) <= n {
		requests := len(d.decodes)
		v := vectors{}
		v.take(requests*d.perChannel, requests*d.Attends.Heads)
		d.decodes = append(d.decodes, d.transfersOf(requests, &v))
	}
	return &d.decodes[n]
}

// transfersOf returns the transfers of a group of requests. Vectors go to the rank PU, which stores k
// and v, if any, as part of the head's attention; results come from there, so no row is opened for
// them. If outputs are merged, maximum and sum of the softmax of all query heads come in bursts of
// their own. A descriptor for each head follows the vectors, and a poll comes before the results (L3,
// section 4.3).
func (d *Devices) transfersOf(requests int, v *vectors) (t decodeTraffic) {
	bursts := v.heads*int64(d.queries*d.transfers.QueryBursts()) + v.bursts
	if d.stores {
		bursts += v.fresh * d.verified * (int64(d.transfers.KVBursts()) + d.scales)
	}
	down, up := d.Attends.VectorsOf(v.All, v.freshAll)
	if d.Stripe.Parts > 0 && !d.merged {
		up += units.Bytes(v.All * d.sums)
	}
	sums := int64(softmaxBytes * d.queries) // of each of these parts
	up += units.Bytes(v.partsAll * sums)
	t.Down = d.cut(down+v.Down, bursts, d.Clock.Time(d.transfers.Stage(bursts)))
	t.Down.Open = d.stageLatency
	descriptors := v.heads * d.descriptor
	tail := d.Clock.Time(d.transfers.Stage(descriptors))
	t.Down.Last += tail
	t.Down.End += tail
	t.Down.Data += units.Duration(descriptors) * d.burst

	results := v.heads*int64(d.queries)*d.resultBursts + d.bursts(units.Bytes(v.heads*d.sums+v.parts*sums))
	t.Up = max(flow.TransferTime(d.link, up), d.Clock.Time(d.transfers.Take(results)))
	t.UpBus = units.Duration(results) * d.burst
	if requests > 0 && d.HostAccess > 0 {
		t.UpBus += d.burst
	}
	return t
}
