package machine

import "github.com/l3sim/l3sim/dram"

// Sequencer is the part of the buffer unit that issues an instruction. The sequencers share the rank's command bus; each issues
// its own instructions in program order.
type Sequencer uint8

// The sequencers, in order of their priority on the command bus.
const (
	BankSequencer   Sequencer = iota // ACT, ACTA, MACA, RD, WR, PRE, PREA: rows and columns of the banks
	ResultSequencer                  // RDRES: result buffers to buffer unit
	BufferSequencer                  // WRBUF: buffer unit to shared buffers

	sequencers = iota
)

// Operation says what an instruction does, where its command leaves it open.
type Operation uint8

// The operations, with the commands that carry them out. Fields of instruction that an operation does not mention are zero.
const (
	// OpActivate (ACT, ACTA) opens a row in one bank, or in all.
	OpActivate Operation = iota
	// OpPrecharge (PRE, PREA) closes one bank, or all.
	OpPrecharge
	// OpAppendKey (WR) stores a burst of the token's key at bankGroup, bank, row and column.
	OpAppendKey
	// OpAppendValue (WR) stores a burst of the token's value there.
	OpAppendValue
	// OpLoadQuery (WRBUF) loads a burst of a query head's q into the query part of
	// the shared buffers. Each chip keeps its part of the burst.
	OpLoadQuery
	// OpScore (MACA) multiplies a column of the row in every bank with a burst of q, for each of the query heads query to
	// query+queries-1. It adds the products of each bank to that query head's partial sum in the result slot, which burst 0
	// starts from zero. The bank with ordinal b works on token+b.
	OpScore
	// OpReadPartials (RDRES) moves the partial sums of a query head in a result slot to the buffer unit, which adds them over
	// the chips. Burst i carries, of each chip, as many successive bank ordinals as fit its share of a burst: those from
	// i·(burstBytes/Chips/width of a partial) on. Banks whose token is not below the head's context are dropped. count and
	// keep say what the buffer unit does with the chunk.
	OpReadPartials
	// OpLoadWeights (WRBUF) broadcasts softmax weights of a query head to every chip alike, into a slot of the shared
	// buffers. Burst i carries weightsPerBurst successive tokens from token+i·weightsPerBurst on. The weight of a token not
	// below the context is zero. A zero weight gates the multiplier: what the bank holds there does not matter.
	OpLoadWeights
	// OpContext (MACA) reads a column of the row in every bank. The bank with ordinal b multiplies its elements with the
	// weight of token + b/ValueBursts from the slot. It adds them to its accumulators of the query heads query to
	// query+queries-1: one for each element of its share of a burst. first starts the accumulators from zero. Of values that are parts of
	// keys the bank with ordinal b multiplies a burst of token+b, and has accumulators for each burst.
	OpContext
	// OpReadContext (RDRES) moves accumulators of a query head to the buffer unit, which adds them over the banks that hold the
	// same burst of a value. With n bytes of accumulators of a bank in a chip and s = burstBytes/Chips bytes of a chip in a
	// burst, burst i carries bytes i·s to (i+1)·s of the sequence of all banks' accumulators, by bank ordinal; slot is the value's burst
	// where values are parts of keys.
	OpReadContext
	// OpReadKey and opReadValue (RD) are the rank-level unit's, and a host's that reads back: a burst of the token's key or
	// value goes over the data bus. The PU uses it for the query heads query to query+queries-1. Tokens come whole, and of a
	// chunk the bank with the highest ordinal is read last: the chunk's scores then enter the softmax, as count and keep
	// say. Values are weighted and added as with opContext, to accumulators of their own for each bank.
	OpReadKey
	OpReadValue
	// OpAppendScale (WR) stores scale and zero of the token's key or value, with the other bytes of the burst masked.
	OpAppendScale
	// OpReadScale (RD) brings a burst of scales to the buffer unit.
	OpReadScale
)

// operationNames are what the operations do, in words.
var operationNames = [ops]string{
	OpActivate: "open", OpPrecharge: "close", OpAppendKey: "append key", OpAppendValue: "append value", OpLoadQuery: "query", OpScore: "score",
	OpReadPartials: "partial sums", OpLoadWeights: "weights", OpContext: "context", OpReadContext: "read context", OpReadKey: "score",
	OpReadValue: "context", OpAppendScale: "append scale", OpReadScale: "scale",
}

// String returns what the operation does, in words.
func (o Operation) String() string { return operationNames[o] }

// multiplies says whether multipliers work on what the operation reads.
func (o Operation) multiplies() bool {
	return o == OpScore || o == OpContext || o == OpReadKey || o == OpReadValue
}

// boundary marks the instructions before which all banks are closed, so that the rank can refresh or give way to a transfer.
type boundaryKind uint8

// The boundaries.
const (
	noBoundary   boundaryKind = iota
	rowBoundary               // between two rows of one head
	headBoundary              // before a head
)

// Instruction is one command of a program with what it does.
//
// Executed one after another in program order, each instruction finds its operands in place: that is what the value
// interpreter does. In time, instructions of different sequencers overlap; Wait then names the instructions that must have
// come before.
type Instruction struct {
	// wait[s] is the number of sequencer s's instructions, counted from the start of the program, that must have issued, and
	// the last of which must have taken effect, before this one issues. What an earlier instruction of the same sequencer
	// waited for is not named again. It wraps around at 32 bits: compare by difference.
	wait [sequencers]uint32

	Head   int32 // index into the program's heads
	Row    int32 // row address; -1 for instructions that name no row
	Column int32 // burst column; -1 likewise
	Token  int32 // first token concerned
	// Segment counts the parts of the context that pass through the score buffer
	// one after another; 0 where it holds all scores.
	Segment int32
	Query   uint8 // first query head of the group concerned
	Queries uint8 // query heads that a MACA serves
	Burst   uint8
	Slot    uint8
	// BankGroup and bank address one bank; -1 for all-bank commands.
	BankGroup, Bank int8

	Command   dram.Command
	Op        Operation
	sequencer Sequencer
	boundary  boundaryKind
	// yield gives way to another sequencer that wants the same clock: set where that one is on the critical path.
	yield bool
	First bool // opContext, opReadValue: accumulators start from zero
	Last  bool // opReadValue: the accumulators of all query heads are complete
	Count bool // opReadPartials, opReadKey: the chunk enters the running maximum and sum
	Keep  bool // opReadPartials, opReadKey: the chunk's scores enter the score buffer
}

// Address returns the DRAM address of the instruction in rank 0.
func (in *Instruction) Address() dram.Address {
	return dram.Address{BankGroup: int32(in.BankGroup), Bank: int32(in.Bank), Row: in.Row, Column: in.Column}
}
