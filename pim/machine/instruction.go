package machine

import "github.com/l3sim/l3sim/dram"

// Sequencer is the part of the buffer unit that issues an instruction. The sequencers share the rank's command bus; each issues
// its own instructions in program order.
type Sequencer uint8

// The sequencers, from highest to lowest priority on the command bus.
const (
	BankSequencer   Sequencer = iota // ACT, ACTA, MACA, RD, WR, PRE, PREA: rows and columns of the banks
	ResultSequencer                  // RDRES: result buffers to buffer unit
	BufferSequencer                  // WRBUF: buffer unit to shared buffers

	sequencers = iota
)

// Operation is what an instruction does, which its command alone may leave open.
type Operation uint8

// The operations, with their commands. Fields of Instruction that an operation does not mention are zero.
const (
	// OpActivate (ACT, ACTA) opens a row in one bank, or in all banks.
	OpActivate Operation = iota
	// OpPrecharge (PRE, PREA) closes one bank, or all banks.
	OpPrecharge
	// OpAppendKey (WR) stores a burst of the token's key at bankGroup, bank, row and column.
	OpAppendKey
	// OpAppendValue (WR) stores a burst of the token's value there.
	OpAppendValue
	// OpLoadQuery (WRBUF) loads a burst of a query head's q into the query part of the shared buffers. Each chip receives its share of the
	// burst.
	OpLoadQuery
	// OpScore (MACA) multiplies a column of the row in every bank with a burst of q, for the query heads Query to Query+Queries-1. It adds
	// each bank's products to the query head's partial sum in the result slot; burst 0 starts it from zero. The bank with ordinal b works
	// on Token+b.
	OpScore
	// OpReadPartials (RDRES) moves the partial sums of a query head in a result slot to the buffer unit, which adds them over the chips.
	// Burst i has, for each chip, as many successive bank ordinals as fit the chip's share of a burst, from i·(BurstBytes/Chips/width of a
	// partial sum) on. Banks whose token is beyond the head's context are dropped. Count and Keep say what the buffer unit does with the
	// chunk.
	OpReadPartials
	// OpLoadWeights (WRBUF) broadcasts a query head's softmax weights to every chip, into a slot of the shared buffers. Burst i has
	// WeightsPerBurst successive tokens from Token+i·WeightsPerBurst on. Tokens beyond the context have weight zero, which gates the
	// multiplier, so that the contents of the bank do not matter.
	OpLoadWeights
	// OpContext (MACA) reads a column of the row in every bank. The bank with ordinal b multiplies its elements with the slot's weight of
	// token Token + b/ValueBursts. It adds the products to its accumulators for the query heads Query to Query+Queries-1, one for each
	// element of its share of a burst. First starts the accumulators from zero. If values are parts of keys, the bank with ordinal b
	// multiplies a burst of Token+b, and has separate accumulators for each burst.
	OpContext
	// OpReadContext (RDRES) moves a query head's accumulators to the buffer unit, which adds them over banks that hold the same burst of a
	// value. Consider the sequence of all banks' accumulators by bank ordinal, n bytes for each bank of a chip. Burst i has its bytes i·s
	// to (i+1)·s, where s = BurstBytes/Chips is a chip's share of a burst. If values are parts of keys, slot is the value's burst.
	OpReadContext
	// OpReadKey and OpReadValue (RD) move a burst of the token's key or value over the data bus, to a rank-level unit or to a host that
	// reads data back. The unit uses it for the query heads Query to Query+Queries-1. Tokens come whole. In a chunk, the bank with the
	// highest ordinal is read last; then the chunk's scores enter the softmax, depending on Count and Keep. Values are weighted and added
	// as with OpContext, with separate accumulators for each bank.
	OpReadKey
	OpReadValue
	// OpAppendScale (WR) stores scale and zero of the token's key or value; the other bytes of the burst are masked.
	OpAppendScale
	// OpReadScale (RD) reads a burst of scales into the buffer unit.
	OpReadScale
)

// operationNames describe the operations in words.
var operationNames = [ops]string{
	OpActivate: "open", OpPrecharge: "close", OpAppendKey: "append key", OpAppendValue: "append value", OpLoadQuery: "query", OpScore: "score",
	OpReadPartials: "partial sums", OpLoadWeights: "weights", OpContext: "context", OpReadContext: "read context", OpReadKey: "score",
	OpReadValue: "context", OpAppendScale: "append scale", OpReadScale: "scale",
}

// String describes the operation in words.
func (o Operation) String() string { return operationNames[o] }

// multiplies reports whether multipliers use the data that the operation reads.
func (o Operation) multiplies() bool {
	return o == OpScore || o == OpContext || o == OpReadKey || o == OpReadValue
}

// boundaryKind marks instructions before which all banks are closed, so that the rank can refresh or receive a transfer.
type boundaryKind uint8

// The boundaries.
const (
	noBoundary   boundaryKind = iota
	rowBoundary               // between two rows of one head
	headBoundary              // before a head
)

// Instruction is one command of a program and its operation.
//
// Executed one after another in program order, each instruction finds its operands in place: the value interpreter does this. In time,
// instructions of different sequencers overlap; wait then gives the instructions that must have come before.
type Instruction struct {
	// wait[s] is the number of sequencer s's instructions, counted from the start of the program, that must have issued before this one,
	// the last of which must have taken effect. Waits of earlier instructions of the same sequencer are not repeated. The count wraps
	// around at 32 bits: compare by difference.
	wait [sequencers]uint32

	Head   int32 // index into the program's heads
	Row    int32 // row address; -1 for instructions without a row
	Column int32 // burst column; -1 for instructions without one
	Token  int32 // first token
	// Segment numbers the parts of the context that pass through the score buffer one after another; 0 if it holds all scores.
	Segment int32
	Query   uint8 // first query head of the group
	Queries uint8 // number of query heads that a MACA serves
	Burst   uint8
	Slot    uint8
	// BankGroup and bank address one bank; -1 for all-bank commands.
	BankGroup, Bank int8

	Command   dram.Command
	Op        Operation
	sequencer Sequencer
	boundary  boundaryKind
	// yield makes the instruction give way to another sequencer that wants the same clock; it is set if that one is on the critical path.
	yield bool
	First bool // OpContext, OpReadValue: accumulators start from zero
	Last  bool // OpReadValue: the accumulators of all query heads are complete
	Count bool // OpReadPartials, OpReadKey: the chunk enters the running maximum and sum
	Keep  bool // OpReadPartials, OpReadKey: the chunk's scores enter the score buffer
}

// Address returns the DRAM address of the instruction in rank 0.
func (in *Instruction) Address() dram.Address {
	return dram.Address{BankGroup: int32(in.BankGroup), Bank: int32(in.Bank), Row: in.Row, Column: in.Column}
}
