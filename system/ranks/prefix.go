package ranks

import (
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// softmaxBytes is the size of the maximum and the sum of a query head's softmax, needed to merge outputs.
const softmaxBytes = 4

// fetch is the transfer of cached prefixes on a rankset that the GPUs need, in one layer: the host reads keys and values
// from the banks through the inverse re-layout, for which the rankset stops, and sends them up.
type fetch struct {
	Tokens int64       // of single heads on one channel
	bytes  units.Bytes // of all heads
	clocks int64       // of the channels' reads, without refresh
	bursts int64       // on one channel
	Read   units.Duration
	Up     units.Duration
	Data   units.Duration // time that the channels carry data
}

// Reuse adds the work of the ranks for a chunk whose prompt has a prefix in the cache. Either the chunk's tokens attend over the
// prefix on the ranks, one by one; or the first chunk fetches it, and the GPUs keep it for the others.
func (d *Devices) Reuse(groups []GroupCost, c *scheduler.Chunk) {
	g := &groups[c.Offset]
	if !d.Attends.PrefixStays {
		if c.Finished == c.Prefix {
			d.fetch(&g.Prefix, c.Prefix)
			d.Attends.Fetched += units.Bytes(d.Attends.Layers) * d.Attends.KV(c.Prefix) * d.Attends.Copies
		}
		return
	}
	head := d.Stored.At(c.Prefix)
	if len(g.Heads) == 0 { // no other drain to hide behind
		g.Drain = d.Stored.Table.Drain(c.Prefix)
	}
	g.Clocks += d.scoreClocks(c)
	for range c.Tokens * d.perChannel / d.HeadsEach() {
		g.Heads = append(g.Heads, head)
	}
	g.Requests += c.Tokens
	v := d.asked(c)
	g.Vectors.add(&v)
}

// asked returns the vectors of a chunk whose tokens attend over a prefix on ranks: queries, and outputs to be
// merged.
func (d *Devices) asked(c *scheduler.Chunk) vectors {
	heads, all := int64(c.Tokens*d.perChannel), int64(c.Tokens*d.Attends.Heads)
	return vectors{heads: heads, All: all, parts: heads, partsAll: all}
}

// TallyPrefixes counts the heads that attend on ranks over prefixes of the prompts of a sub-batch.
func (d *Devices) TallyPrefixes(sub *scheduler.SubBatch) {
	for i := range sub.Prefill {
		if c := &sub.Prefill[i]; d.Attends.Scores(c) {
			d.attended.stored.add(d.Stored.Table, c.Prefix, int64(d.Attends.Layers)*int64(c.Tokens*d.Attends.Heads))
		}
	}
}

// scoreClocks returns the clocks in which a rank attends over a prefix for all tokens of a chunk.
func (d *Devices) scoreClocks(c *scheduler.Chunk) int64 {
	return int64(c.Tokens*d.perChannel) * d.Stored.At(c.Prefix)
}

// Scoring returns the time that attention over prefixes on ranks adds to a sub-batch's prompts. It precedes the rest of
// each layer, like the prompts' attention on the GPUs.
func (d *Devices) Scoring(s *scheduler.SubBatch) (t units.Duration) {
	for i := range s.Prefill {
		t += units.Duration(d.Attends.Layers) * d.ScoringOf(&s.Prefill[i])
	}
	return t
}

// ScoringOf is Scoring of one chunk in a layer.
func (d *Devices) ScoringOf(c *scheduler.Chunk) units.Duration {
	if !d.Attends.Scores(c) {
		return 0
	}
	return d.Clock.Time(d.scoreClocks(c))
}

// fetch adds the transfer of a prefix of a number of tokens.
func (d *Devices) fetch(f *fetch, tokens int) {
	heads := int64(d.perChannel)
	f.Tokens += heads * int64(tokens)
	f.bytes += d.Attends.KV(tokens)
	scales := heads * d.transfers.ScaleBursts(0, tokens)
	f.bursts += heads*int64(tokens*d.transfers.KVBursts()) + scales
	f.clocks += heads*d.transfers.ReadBack(tokens) + d.transfers.Scales(scales)
}

// packPrefix sets the cost of a fetch. If the CPU transposes elements on stores, it also does so here. The host reads
// once, and sends a head to each GPU that holds it.
func (d *Devices) packPrefix(f *fetch) {
	if f.Tokens == 0 {
		return
	}
	again := d.transposition(f.bursts)
	f.Read = d.Clock.Time(f.clocks) + again
	f.Data = units.Duration(f.bursts)*d.burst + again
	f.Up = flow.TransferTime(d.link, d.Attends.Copies*f.bytes)
}

// add adds the prefixes of another group, but not their cost.
func (f *fetch) add(o *fetch) {
	f.Tokens, f.bytes, f.bursts, f.clocks = f.Tokens+o.Tokens, f.bytes+o.bytes, f.bursts+o.bursts, f.clocks+o.clocks
}
