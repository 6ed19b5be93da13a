package pim

import (
	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
)

// KernelTable holds the clocks of one KV head's decode step by context length,
// filled by runs of Machine. It is exact for every length: lengths of up to
// two rows are entered column by column, and each further row, and beyond the score
// buffer each further buffer of tokens, adds the clocks that the first such one added.
type KernelTable struct {
	geometry Geometry
	block    int // tokens after which the run repeats: the score buffer, at least a row
	within   lengths
	beyond   lengths // contexts of block + n tokens
	perBlock int64   // each block after the second

	// What a head with append takes more than its attention, alone and within a
	// sequence, by the newest token's place in its chunk. The append waits for
	// the previous head's read-out and everything else for the append, so that
	// nothing else of a head depends on the one before. Only a row that has just
	// been opened closes late (tRAS): sequence begins with the first lead
	// tokens of a row.
	appended, sequence []int64
	lead               int

	refreshInterval, refreshCycle int64 // tREFI and tRFC
}

// lengths holds clocks by the number of value columns of a context: the first
// row, the second row, and what each row after that adds.
type lengths struct {
	rows   [2][]int64
	perRow int64
}

// NewKernelTable runs the heads that the table needs: about a hundred, with
// repetitions skipped (Spec.Periodic). Specs and shapes that do not fit together are an
// InputError.
func NewKernelTable(spec *Spec, d *dram.Spec, shape HeadShape) (*KernelTable, error) {
	b, err := newTableBuilder(spec, d, shape)
	if err != nil {
		return nil, err
	}
	g := &b.program.Geometry
	t := &KernelTable{
		geometry: *g, block: max(b.program.SegmentTokens, g.RowTokens),
		refreshInterval: int64(d.TREFI), refreshCycle: int64(d.TRFC),
	}
	t.within = b.lengths(0, t.block/g.RowTokens)
	t.beyond = b.lengths(t.block, t.block/g.RowTokens)
	t.perBlock = b.attention(2*t.block+1) - b.attention(t.block+1)
	// tRAS keeps a row open for that many columns.
	columns := (d.TRAS-d.TRCD)/d.TCCDL + 1
	t.lead = max(g.ChunkTokens, columns*g.ColumnTokens)
	t.lead = (t.lead + g.ChunkTokens - 1) / g.ChunkTokens * g.ChunkTokens
	for place := range t.lead + g.ChunkTokens {
		context := place + 1
		alone := b.attention(context)
		head := Head{Context: context, Append: true}
		if place < g.ChunkTokens {
			t.appended = append(t.appended, b.run(head)-alone)
		}
		// The second of three has a head before it and one behind.
		ends := b.ends(head, head, head)
		t.sequence = append(t.sequence, ends[1]-ends[0]-alone)
	}
	return t, nil
}

// Alone returns the clocks of one KV head's decode step on an idle rank, from
// the first command to the last beat of the result: append of the newest token, load of q,
// scores, context and read-out for all query heads of the shape. Context counts the newest
// token; without refresh.
func (t *KernelTable) Alone(context int) int64 {
	if context < 1 {
		return 0
	}
	return t.Attention(context) + t.appended[t.place(context)]
}

// InSequence returns what one more head adds to a long sequence of such heads:
// the read-out of one overlaps the next one's append and activation.
func (t *KernelTable) InSequence(context int) int64 {
	if context < 1 {
		return 0
	}
	entry := (context - 1) % t.geometry.RowTokens
	if entry >= t.lead {
		entry = t.lead + t.place(context)
	}
	return t.Attention(context) + t.sequence[entry]
}

// place returns the newest token's place in its chunk.
func (t *KernelTable) place(context int) int { return (context - 1) % t.geometry.ChunkTokens }

// Append returns the part of Alone that is due to the append of the newest
// token.
func (t *KernelTable) Append(context int) int64 {
	if context < 1 {
		return 0
	}
	return t.appended[t.place(context)]
}

// Attention returns Alone without the append.
func (t *KernelTable) Attention(context int) int64 {
	if context < 1 {
		return 0
	}
	blocks := (context - 1) / t.block
	if blocks == 0 {
		return t.within.clocks(&t.geometry, context)
	}
	return t.beyond.clocks(&t.geometry, context-blocks*t.block) + int64(blocks-1)*t.perBlock
}

// clocks returns the entry of a context of 1 to block tokens.
func (l *lengths) clocks(g *Geometry, context int) int64 {
	row := (context - 1) / g.RowTokens
	column := (context - 1 - row*g.RowTokens) / g.ColumnTokens
	if row == 0 {
		return l.rows[0][column]
	}
	return l.rows[1][column] + int64(row-1)*l.perRow
}

// WithRefresh returns what clocks of computing take in the long run with
// refresh: a REF every tREFI, in which the rank stands still for tRFC. The manager
// issues REFs where all banks are closed anyway, so that they cost nothing else.
func (t *KernelTable) WithRefresh(clocks int64) int64 {
	computing := t.refreshInterval - t.refreshCycle
	return clocks + (clocks*t.refreshCycle+computing-1)/computing
}

// RowTokens returns the tokens of one allocation unit.
func (t *KernelTable) RowTokens() int { return t.geometry.RowTokens }

// tableBuilder runs heads of one shape.
type tableBuilder struct {
	program *Program
	machine *Machine
	heads   []Head
}

func newTableBuilder(spec *Spec, d *dram.Spec, shape HeadShape) (*tableBuilder, error) {
	if errs := spec.Validate(); len(errs) > 0 {
		return nil, errs[0]
	}
	if errs := d.Validate(); len(errs) > 0 {
		return nil, errs[0]
	}
	p, err := NewProgram(spec, d, shape, nil)
	if err != nil {
		return nil, err
	}
	m, err := NewMachine(spec, d)
	if err != nil {
		return nil, err
	}
	if int64(d.TREFI) <= int64(d.TRFC) {
		return nil, &input.InputError{Key: "tREFI", Expected: "more than tRFC"}
	}
	m.SkipRepetitions(spec.Periodic)
	return &tableBuilder{program: p, machine: m}, nil
}

// ends returns the clocks at which each of a sequence of heads is done.
func (b *tableBuilder) ends(heads ...Head) []int64 {
	b.heads = append(b.heads[:0], heads...)
	b.program.Restart(b.heads)
	b.machine.Run(b.program)
	return b.machine.Ends()
}

// run returns the clocks of one head.
func (b *tableBuilder) run(h Head) int64 { return b.ends(h)[0] }

// attention returns the clocks of one head without append.
func (b *tableBuilder) attention(context int) int64 { return b.run(Head{Context: context}) }

// lengths fills the entries of contexts of base plus one token to base plus
// rows rows.
func (b *tableBuilder) lengths(base, rows int) lengths {
	l := lengths{}
	rowTokens := b.program.Geometry.RowTokens
	l.rows[0] = b.row(base)
	if rows > 1 {
		l.rows[1] = b.row(base + rowTokens)
	}
	if rows > 2 {
		l.perRow = b.attention(base+2*rowTokens+1) - b.attention(base+rowTokens+1)
	}
	return l
}

// leadIn is the number of chunks of a row that are run one by one before the
// clocks are expected to grow evenly.
const leadIn = 4

// row returns the clocks of contexts of base tokens plus 1 to all columns of a
// row. Contexts that end at the same place in their chunk are even in the
// number of chunks after leadIn: where the run of a full row confirms that, the ones
// between are not run.
func (b *tableBuilder) row(base int) []int64 {
	g := &b.program.Geometry
	entries := make([]int64, g.RowBursts)
	fill := func(column int) int64 {
		entries[column] = b.attention(base + (column+1)*g.ColumnTokens)
		return entries[column]
	}
	step := max(1, g.ChunkTokens/g.ColumnTokens) // columns of a chunk
	chunks := g.RowBursts / step
	from := 0
	if b.program.rankPU { // reads whole chunks
		from = step - 1
	}
	for first := from; first < step; first++ {
		at := func(chunk int) int { return chunk*step + first }
		lead := min(leadIn, chunks)
		for c := range lead {
			fill(at(c))
		}
		if lead == chunks {
			continue
		}
		last := fill(at(chunks - 1))
		slope := entries[at(lead-1)] - entries[at(lead-2)]
		even := entries[at(lead-1)]+int64(chunks-lead)*slope == last
		for c := lead; c < chunks-1; c++ {
			if even {
				entries[at(c)] = entries[at(c-1)] + slope
			} else {
				fill(at(c))
			}
		}
	}
	for i := range entries {
		if from > 0 {
			entries[i] = entries[i/step*step+from]
		}
	}
	return entries
}
