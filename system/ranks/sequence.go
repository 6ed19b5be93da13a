package ranks

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/pim/machine"
	"github.com/l3sim/l3sim/pim/tables"
)

// sequence is a table's clocks of a head in sequence, by context length. Shorter contexts are
// copied from the table, since every decoding request looks them up in every iteration.
type sequence struct {
	Table  *tables.KernelTable
	clocks []int64
}

// readOut is the context length up to which clocks are copied: 512 KiB, about the lengths for which
// models are trained.
const readOut = 1 << 16

// newSequence copies the clocks of short contexts, which most look-ups need.
func newSequence(t *tables.KernelTable) sequence {
	s := sequence{t, make([]int64, readOut)}
	for context := range s.clocks {
		s.clocks[context] = t.InSequence(context)
	}
	return s
}

// At returns the clocks of a head of that context in a sequence of heads.
func (s *sequence) At(context int) int64 {
	if context < len(s.clocks) {
		return s.clocks[context]
	}
	return s.Table.InSequence(context)
}

// headCounts counts heads that attend on ranks by context length. Their activity is looked up once for each length,
// on demand, which is rarer than iterations.
type headCounts struct {
	heads   []int64 // by context
	lengths []int   // contexts with heads
	done    machine.Activity
}

// mostCounted is the context length from which heads are looked up instead of counted: 1 MiB of
// counts.
const mostCounted = 1 << 17

func (h *headCounts) add(t *tables.KernelTable, context int, heads int64) {
	switch {
	case context == 0:
		return
	case context >= mostCounted:
		h.done = h.done.Plus(t.Activity(context), float64(heads))
		return
	case h.heads == nil:
		h.heads = make([]int64, mostCounted)
	}
	if h.heads[context] == 0 {
		h.lengths = append(h.lengths, context)
	}
	h.heads[context] += heads
}

// settle moves the activity of the heads to sum.
func (h *headCounts) settle(t *tables.KernelTable, sum *machine.Activity) {
	*sum = sum.Plus(h.done, 1)
	h.done = machine.Activity{}
	for _, context := range h.lengths {
		*sum = sum.Plus(t.Activity(context), float64(h.heads[context]))
		h.heads[context] = 0
	}
	h.lengths = h.lengths[:0]
}

// tallies are those of a replica's heads, and the other activity of its ranks.
type tallies struct {
	newest, stored headCounts // of heads with and without an append
	chosen         machine.Activity
}

// SettleHeads adds to sum the ranks' activity since the last call.
func (d *Devices) SettleHeads(sum *machine.Activity) {
	d.attended.newest.settle(d.Table, sum)
	d.attended.stored.settle(d.Stored.Table, sum)
	*sum = sum.Plus(d.attended.chosen, 1)
	d.attended.chosen = machine.Activity{}
}

// TallyStep counts the ranks' activity of a step in each of a number of layers: heads, and bounds of pages that are
// scored there.
func (d *Devices) TallyStep(x *policy.Step, layers int) {
	for i := range x.Attend {
		if c := &x.Attend[i]; c.Device != policy.Home {
			continue
		} else if d.Stripe.Parts > 0 {
			d.tallyParts(c, layers)
		} else {
			d.tallyHeads(c, layers)
		}
	}
	for i := range x.Choose {
		c := &x.Choose[i]
		for _, pages := range c.Scored {
			if c.Device != "" && pages > 0 {
				d.attended.chosen = d.attended.chosen.Plus(d.bounds.Activity(pages), float64(c.Heads*layers*c.Times()))
			}
		}
	}
}

func (d *Devices) tallyHeads(c *policy.Class, layers int) {
	tokens, heads := c.Tokens, int64(c.Heads*layers)
	if c.Page > 0 { // as headClocks times it: whole pages or chunks, in the rows that contain them
		for i := range tokens {
			read, rows, _ := d.list(c, i, d.Attends.Requests[i].Context)
			d.tallyList(d.Table, read, rows, heads)
		}
		return
	}
	if c.PerHead != nil {
		tokens, heads = c.PerHead, int64(layers)
	}
	h := &d.attended.newest
	for _, n := range tokens {
		if n < len(h.heads) && h.heads[n] > 0 { // the usual case after a while
			h.heads[n] += heads
			continue
		}
		h.add(d.Table, n, heads)
	}
}

// tallyParts is tallyHeads for striped heads. The part with the newest token stores it.
func (d *Devices) tallyParts(c *policy.Class, layers int) {
	heads := int64(c.Heads * layers)
	for i, tokens := range c.Tokens {
		if context := span(c, d.Attends.Requests, i); tokens < context {
			d.tallyPartsOfList(tokens, context, heads)
			continue
		}
		for part := range d.Stripe.Parts {
			n := d.Stripe.part(tokens, part)
			if d.stores && (tokens-1)/d.Stripe.tokens%d.Stripe.Parts == part {
				d.attended.newest.add(d.Table, n, heads)
			} else {
				d.attended.stored.add(d.Stored.Table, n, heads)
			}
		}
	}
}

// tallyPartsOfList is tallyParts for a request that attends to chosen tokens of its context.
func (d *Devices) tallyPartsOfList(chosen, context int, heads int64) {
	for part := range d.Stripe.Parts {
		table := d.Stored.Table
		if d.stores && (context-1)/d.Stripe.tokens%d.Stripe.Parts == part {
			table = d.Table
		}
		if n := d.Stripe.part(context, part); n > 0 {
			read, rows, _ := d.singles((chosen*n+context-1)/context, n, context)
			d.tallyList(table, read, rows, heads)
		}
	}
}

// tallyList counts heads over tokens in a number of rows.
func (d *Devices) tallyList(table *tables.KernelTable, tokens, rows int, heads int64) {
	d.attended.chosen = d.attended.chosen.Plus(table.ListActivity(tokens, rows), float64(heads))
}
