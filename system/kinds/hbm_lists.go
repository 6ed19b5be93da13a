package kinds

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/units"
)

// batch returns a class of heads as the units read it, and the rows that they open beyond those that its tokens fill. Chosen pages count as
// contiguous, since they are larger than a row.
func (e *hbmPIM) batch(c *policy.Class) (b gpu.DecodeBatch, rows float64) {
	gpus.SetBatch(&b, c)
	b.Page, b.PerQueryHead = 0, false
	if c.Chosen == 0 {
		return b, 0
	}
	b.Tokens, b.Longest = 0, 0
	for r := range c.Tokens {
		tokens, more := e.list(c, r)
		b.Tokens, b.Longest, rows = b.Tokens+int64(tokens), max(b.Longest, tokens), rows+more
	}
	return b, rows
}

// list returns the tokens of a request that the units read for each head of a class, and the rows that they open beyond those that these
// tokens fill. For tokens chosen one by one, at random places or as recorded, the units read whole columns across all units, and weigh tokens
// that were not chosen with 0.
func (e *hbmPIM) list(c *policy.Class, request int) (tokens int, rows float64) {
	chosen := c.Tokens[request]
	if c.Chosen == 0 || chosen == e.Attends.Requests[request].Context {
		return chosen, 0
	}
	context := e.Attends.Requests[request].Context
	columns := (context + e.ways - 1) / e.ways
	tokens = context - (columns-e.recorded.Touched(context, chosen, e.ways))*e.ways
	if e.stack == nil || tokens == context {
		return tokens, 0
	}
	keys, values, passes := e.stack.RowTokens()
	further := func(row int) float64 {
		return float64(max(0, e.recorded.Touched(context, chosen, row)-(tokens+row-1)/row))
	}
	return tokens, further(keys) + float64(float64(passes)*further(values))
}

// opening returns the units' time for the rows that a batch opens beyond those that its tokens fill, on the channel with most
// heads.
func (e *hbmPIM) opening(b *gpu.DecodeBatch, rows float64) units.Duration {
	if e.stack == nil {
		return 0
	}
	heads, _ := e.dealt(b, e.reads)
	each := float64((heads + e.slots - 1) / e.slots)
	return flow.TaskTime(e.clock * float64(each*rows/float64(b.Requests)*e.stack.Opening()))
}
