package pim

import "math/bits"

// fillScattered measures what a further row adds to a head whose tokens lie in more rows than they
// fill: a switch for its keys and one for its values. Where the rank's bus is the bottleneck, a
// part of a switch hides behind it, by how full rows are: 1 chunk, 2, 4 and so on.
func (t *KernelTable) fillScattered(b *tableBuilder) {
	g := &t.geometry
	for fill := g.ChunkTokens; fill == g.ChunkTokens || fill < g.RowTokens; fill *= 2 {
		added, rows := int64(0), min(8, t.segment/fill)
		if tokens := rows * fill; rows > t.unitsOf(tokens) {
			var list []extent
			for i := range rows {
				list = append(list, extent{i * fill, 2 * i, 0})
			}
			more := int64(rows - t.unitsOf(tokens))
			added = (b.run(headRun{context: tokens, list: list}) - t.Attention(tokens) + more - 1) / more
		}
		if n := len(t.scattered); added == 0 && n > 0 {
			added = t.scattered[n-1]
		}
		t.scattered = append(t.scattered, added)
	}
}

// unitsOf returns the units that tokens fill.
func (t *KernelTable) unitsOf(tokens int) int {
	return (tokens + t.geometry.RowTokens - 1) / t.geometry.RowTokens
}

// Scattered returns the clocks that a head over a list of tokens takes beyond those of as
// many contiguous ones, where they lie in rows rows of keys. It is exact where the banks are the
// bottleneck and the scores fit the score buffer. Beyond the buffer the further rows are taken to be
// spread evenly over the list; where the rank's bus binds (many multiplier sets) rows are taken to be equally full.
func (t *KernelTable) Scattered(tokens, rows int) int64 {
	more := int64(rows - t.unitsOf(tokens))
	if more <= 0 || tokens < 1 {
		return 0
	}
	full := bits.Len(uint(tokens/rows/t.geometry.ChunkTokens)) - 1
	each := t.scattered[min(max(full, 0), len(t.scattered)-1)]
	added := more * each
	if beyond := int64(tokens - t.segment); t.rescore && beyond > 0 { // their keys are scored twice
		added += (more*beyond + int64(tokens) - 1) / int64(tokens) * ((each + 1) / 2)
	}
	return added
}

// ListInSequence is InSequence of a head over a list of tokens in rows rows. The last row holds
// last of them.
func (t *KernelTable) ListInSequence(tokens, rows, last int) int64 {
	switch {
	case tokens < 1:
		return 0
	case !t.appends || rows <= t.unitsOf(tokens) && last == (tokens-1)%t.geometry.RowTokens+1:
		return t.InSequence(tokens) + t.Scattered(tokens, rows)
	}
	return t.Attention(tokens) + t.Scattered(tokens, rows) + t.ending(tokens-1, last-1, false) // a list of one row is one of contiguous tokens
}

// ending returns what a head with an append adds to its attention in a sequence, by its last
// token and that one's place in its row, which may be the head's first.
func (t *KernelTable) ending(token, entry int, first bool) int64 {
	if entry >= t.lead {
		return t.within[entry%t.period()]
	}
	starts := t.starts[1]
	switch {
	case first:
		starts = t.starts[0]
	case t.segment >= t.geometry.RowTokens && token%t.segment < t.lead:
		starts = t.starts[2]
	}
	return starts[entry]
}
