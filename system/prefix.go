package system

import (
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// softmaxBytes are those of the maximum and the sum of a query head's softmax, with which outputs are merged.
const softmaxBytes = 4

// fetch is keys and values of prefixes that a cache has on a rankset and the GPUs need, in one layer: the host reads them
// from the banks through the inverse re-layout, for which the rankset stops, and sends them up.
type fetch struct {
	tokens int64       // of single heads on one channel
	bytes  units.Bytes // of all heads
	clocks int64       // of the channels' reads, refresh not counted
	bursts int64       // on one channel
	read   units.Duration
	up     units.Duration
	data   units.Duration // for which the channels carry data
}

// reuse adds the work of the ranks for a chunk whose prompt has a prefix in the cache. Either the chunk's tokens attend over the
// prefix there, one by one; or the first chunk fetches it, and the GPUs keep it for the others.
func (d *devices) reuse(groups []groupCost, c *scheduler.Chunk) {
	g := &groups[c.Offset]
	if !d.prefixStays {
		if c.Finished == c.Prefix {
			d.fetch(&g.prefix, c.Prefix)
			d.fetched += units.Bytes(d.layers) * d.kv(c.Prefix)
		}
		return
	}
	head := d.stored.at(c.Prefix)
	if len(g.heads) == 0 { // no other's drain to hide behind
		g.drain = d.stored.table.Alone(c.Prefix) - head
	}
	g.clocks += d.scoreClocks(c)
	for range c.Tokens {
		g.heads = append(g.heads, head)
	}
	g.requests += c.Tokens
	v := d.asked(c)
	g.vectors.add(&v)
}

// asked returns the vectors of a chunk whose tokens attend over a prefix at home: queries, and outputs to be merged.
func (d *devices) asked(c *scheduler.Chunk) vectors {
	heads, all := int64(c.Tokens*d.perChannel), int64(c.Tokens*d.perChannel*d.channels)
	return vectors{heads: heads, all: all, parts: heads, partsAll: all}
}

// tallyPrefixes counts the heads that attend at home over prefixes of the prompts of a sub-batch.
func (d *devices) tallyPrefixes(sub *scheduler.SubBatch) {
	for i := range sub.Prefill {
		if c := &sub.Prefill[i]; d.scores(c) {
			d.attended.stored.add(d.stored.table, c.Prefix, int64(d.layers)*int64(c.Tokens*d.attends.heads))
		}
	}
}

// scoreClocks returns the clocks in which a rank attends over a prefix for all tokens of a chunk.
func (d *devices) scoreClocks(c *scheduler.Chunk) int64 {
	return int64(c.Tokens*d.perChannel) * d.stored.at(c.Prefix)
}

// scoring returns the time that attention over prefixes at home adds to a sub-batch's prompts. It comes before the rest
// of each layer, as the prompts' attention on the GPUs does.
func (d *devices) scoring(s *scheduler.SubBatch) (t units.Duration) {
	for i := range s.Prefill {
		t += units.Duration(d.layers) * d.scoringOf(&s.Prefill[i])
	}
	return t
}

// scoringOf is scoring of one chunk in a layer.
func (d *devices) scoringOf(c *scheduler.Chunk) units.Duration {
	if !d.scores(c) {
		return 0
	}
	return d.clock.Time(d.scoreClocks(c))
}

// fetch adds the transfer of a prefix of that many tokens.
func (d *devices) fetch(f *fetch, tokens int) {
	heads := int64(d.perChannel)
	f.tokens += heads * int64(tokens)
	f.bytes += d.kv(tokens)
	scales := heads * d.transfers.ScaleBursts(0, tokens)
	f.bursts += 2*heads*int64(tokens*d.transfers.TokenBursts()) + scales
	f.clocks += heads*d.transfers.ReadBack(tokens) + d.transfers.Scales(scales)
}

// packPrefix sets what fetching takes. Where the CPU transposes elements it does so again.
func (d *devices) packPrefix(f *fetch) {
	if f.tokens == 0 {
		return
	}
	again := d.transposition(f.bursts)
	f.read = d.clock.Time(f.clocks) + again
	f.data = units.Duration(f.bursts)*d.burst + again
	f.up = transferTime(d.link, f.bytes)
}

// add adds the prefixes of another group, and not what they cost.
func (f *fetch) add(o *fetch) {
	f.tokens, f.bytes, f.bursts, f.clocks = f.tokens+o.tokens, f.bytes+o.bytes, f.bursts+o.bursts, f.clocks+o.clocks
}
