package hbm

import "github.com/l3sim/l3sim/dram"

// instruction is a command of the program, or a barrier. Commands after a barrier issue only after all commands before it, except commands
// that open and close rows.
type instruction struct {
	command dram.Command // WRGB, the level's read, MVSB, SFM, MVGB
	barrier bool
	stage   stage
	head    int32 // head of the channel
	rank    int8
	group   int8
	bank    int8
	row     int32 // of a read
	column  int32 // of a read; for WRGB and MVGB the number within the bank or group
	block   int32 // block of the stage, for a read; for MVSB, which results of the stage
}

type stage uint8 // the part of attention to which a command belongs

// The stages of a head.
const (
	scoreStage   stage = iota // products of keys and query
	contextStage              // weighted sum of values
)

const valueRow = 8192 // first row of values; keys have the rows below

// Load is the attention of heads of one shape on one channel.
type Load struct {
	Shape
	Context int // tokens of each head
	// Heads is the number of heads of the channel, at least 1, and OfStack that of the stack: AttAcc distributes a stack's heads over 16
	// channels. If not every channel has the second head of a pair, its program spreads the moves differently over the blocks.
	Heads, OfStack int
	apart          int // distance of a way's tokens, in tokens; 0 means 1
}

// StackLoad returns the load of the busiest channel of a stack with heads heads.
func StackLoad(h Shape, context, heads int) Load {
	return Load{Shape: h, Context: context, Heads: ceil(heads, Channels), OfStack: heads}
}

// generator writes the program of a load. Sizes are for one channel.
type generator struct {
	Load
	layout
	// slips means that the second head of a pair computes its context with the first one's values: AttAcc's program uses the wrong index.
	slips   bool
	columns int // columns of a token's key in a unit
	passes  int // passes over the tokens' values
	stride  int // columns of a bank from one head's keys to the next head's, and between values
	tokens  int // tokens of each way
	out     []instruction
}

const blockTokens = 16 // tokens of a way whose scores are moved together

// program returns the instructions of a load. Under AttAcc's rules they are those of its simulator, oddities included.
func (l Load) program(spec Spec) []instruction {
	y := layouts[spec.Level]
	g := generator{Load: l, layout: y, slips: spec.Rules == AttAcc, columns: y.columns(l.Shape), passes: y.passes(l.Shape), tokens: ceil(l.Context, y.ways)}
	g.stride = ceil(4096*max(l.HeadDim, l.ValueWidth()), ways*banks*columnBytes) // room for the values of 4,096 tokens, as in AttAcc
	if !g.slips {
		g.stride = y.rows(l.Shape, l.Context) * rowColumns
	}
	for head := 0; head+1 < l.Heads; head += 2 {
		g.pair(int32(head), head == 0)
	}
	if l.Heads%2 != 0 {
		g.single(int32(l.Heads - 1))
	}
	return g.out
}

func (g *generator) barrier() { g.out = append(g.out, instruction{barrier: true}) }

// single writes one head: query, scores, softmax, context.
func (g *generator) single(head int32) {
	g.query(head, 0, g.queryMoves())
	g.barrier()
	g.score(head, nil)
	g.softmax(head)
	g.weights(head, 0, g.weightMoves())
	g.barrier()
	g.context(head, head, nil)
}

// pair writes two heads with overlapping stages: the scores of the first with the query of the second, and so on.
func (g *generator) pair(a int32, first bool) {
	b := a + 1
	g.query(a, 0, g.queryMoves())
	if first {
		g.mac(a, 0, scoreStage)
	}
	g.barrier()
	blocks := ceil(g.tokens, blockTokens)
	g.score(a, func(j int) { g.share(j, blocks, g.queryMoves(), b, g.query) })
	g.score(b, func(j int) {
		if j == 0 {
			g.softmax(a)
		}
		g.share(j-blocks/2, ceil(blocks, 2), g.weightMoves(), a, g.weights)
	})
	g.context(a, a, func(j int) {
		if j == 0 {
			g.softmax(b)
		}
		g.share(j-g.passes/2, ceil(g.passes, 2), g.weightMoves(), b, g.weights)
	})
	from := b
	if g.slips {
		from = a
	}
	g.context(b, from, nil)
}

// share writes the moves of part j out of parts for a head. AttAcc divides the moves of all channels evenly, rounded down.
func (g *generator) share(j, parts, moves int, head int32, write func(head int32, from, to int)) {
	if j < 0 {
		return
	}
	if !g.slips {
		write(head, j*moves/parts, (j+1)*moves/parts)
		return
	}
	n := min(Channels, g.OfStack-Channels*int(head)) // channels that have this head
	each := moves * n / parts
	write(head, min(moves, ceil(j*each, n)), min(moves, ceil((j+1)*each, n)))
}

// queryMoves returns the number of WRGBs of a head: its query for each unit; for units at the banks, a quarter of it for each bank.
func (g *generator) queryMoves() int { return g.split * g.columns }

// query writes the moves from number from up to, excluding, to, out of those that bring a query to the banks.
func (g *generator) query(head int32, from, to int) {
	for i := from; i < to; i++ {
		g.out = append(g.out, instruction{command: dram.WRGB, head: head, bank: int8(i / g.columns), column: int32(i % g.columns)})
	}
}

// mac writes the i-th read of a stage of a head.
func (g *generator) mac(head int32, i int, s stage) {
	at := i
	switch {
	case g.apart == 0:
	case s == scoreStage:
		at += i / g.columns * (g.apart - 1) * g.columns
	default:
		at *= g.apart
	}
	rank, group, bank, column := g.place(at)
	column += int(head) * g.stride
	row := int32(column / rowColumns)
	if s == contextStage {
		row += valueRow
	}
	g.out = append(g.out, instruction{command: g.layout.mac, stage: s, head: head, rank: rank, group: group, bank: bank, row: row, column: int32(column % rowColumns), block: int32(i)})
}

// score writes the scores of a head, block by block; the results of one block are moved during the next. amid, if not nil, writes other
// instructions within a block.
func (g *generator) score(head int32, amid func(block int)) {
	blocks, each := ceil(g.tokens, blockTokens), blockTokens*g.columns
	for j := 0; j <= blocks; j++ {
		for i := j * each; i < min((j+1)*each, g.tokens*g.columns); i++ {
			g.mac(head, i, scoreStage)
		}
		if j > 0 {
			for i := range g.ways / pseudoChannels {
				g.out = append(g.out, instruction{command: dram.MVSB, head: head, group: int8(i / ranks), rank: int8(i % ranks), block: int32(j - 1)})
			}
		}
		if j < blocks {
			if amid != nil {
				amid(j)
			}
			g.barrier()
		}
	}
}

// softmax starts the softmax of a head in the buffer die.
func (g *generator) softmax(head int32) {
	g.out = append(g.out, instruction{command: dram.SFM, head: head})
}

// weightMoves returns the number of MVGBs of a head: the probabilities of a way's tokens go to its unit, or to those of its banks.
func (g *generator) weightMoves() int {
	return g.ways / pseudoChannels * ceil(g.Context, g.ways*g.multipliers())
}

// weights writes the moves from number from up to, excluding, to, out of those that bring probabilities to the units of their tokens.
func (g *generator) weights(head int32, from, to int) {
	each := ceil(g.Context, g.ways*g.multipliers())
	for i := from; i < to; i++ {
		way := i / each
		g.out = append(g.out, instruction{command: dram.MVGB, head: head, rank: int8(way / groups), group: int8(way % groups), column: int32(i % each)})
	}
}

// context writes the weighted sum of a head's values, in passes of 16 dimensions a unit. The values are those of the head from.
func (g *generator) context(head, from int32, amid func(pass int)) {
	for j := 0; j <= g.passes; j++ {
		if j < g.passes {
			for i := j * g.tokens; i < (j+1)*g.tokens; i++ {
				g.mac(from, i, contextStage)
				g.out[len(g.out)-1].head = head
			}
		}
		if j > 0 {
			for i := range g.split * g.stacks {
				g.out = append(g.out, instruction{command: dram.MVSB, stage: contextStage, head: head, bank: int8(i / g.stacks), rank: int8(i % g.stacks), block: int32(j - 1)})
			}
		}
		if j < g.passes {
			if amid != nil {
				amid(j)
			}
			g.barrier()
		}
	}
}
