package pim

import "github.com/l3sim/l3sim/dram"

// sequencer is the part of the buffer unit that issues an instruction. The sequencers share the rank's command bus; each issues
// its own instructions in program order.
type sequencer uint8

// The sequencers, in order of their priority on the command bus.
const (
	bankSequencer   sequencer = iota // ACT, ACTA, MACA, RD, WR, PRE, PREA: rows and columns of the banks
	resultSequencer                  // RDRES: result buffers to buffer unit
	bufferSequencer                  // WRBUF: buffer unit to shared buffers

	sequencers = iota
)

// operation says what an instruction does, where its command leaves it open.
type operation uint8

// The operations, with the commands that carry them out. Fields of instruction that an operation does not mention are zero.
const (
	// opActivate (ACT, ACTA) opens a row in one bank, or in all.
	opActivate operation = iota
	// opPrecharge (PRE, PREA) closes one bank, or all.
	opPrecharge
	// opAppendKey (WR) stores a burst of the token's key at bankGroup, bank, row and column.
	opAppendKey
	// opAppendValue (WR) stores a burst of the token's value there.
	opAppendValue
	// opLoadQuery (WRBUF) loads a burst of a query head's q into the query part of
	// the shared buffers. Each chip keeps its part of the burst.
	opLoadQuery
	// opScore (MACA) multiplies a column of the row in every bank with a burst of q, for each of the query heads query to
	// query+queries-1. It adds the products of each bank to that query head's partial sum in the result slot, which burst 0
	// starts from zero. The bank with ordinal b works on token+b.
	opScore
	// opReadPartials (RDRES) moves the partial sums of a query head in a result slot to the buffer unit, which adds them over
	// the chips. Burst i carries, of each chip, as many successive bank ordinals as fit its share of a burst: those from
	// i·(burstBytes/Chips/width of a partial) on. Banks whose token is not below the head's context are dropped. count and
	// keep say what the buffer unit does with the chunk.
	opReadPartials
	// opLoadWeights (WRBUF) broadcasts softmax weights of a query head to every chip alike, into a slot of the shared
	// buffers. Burst i carries weightsPerBurst successive tokens from token+i·weightsPerBurst on. The weight of a token not
	// below the context is zero. A zero weight gates the multiplier: what the bank holds there does not matter.
	opLoadWeights
	// opContext (MACA) reads a column of the row in every bank. The bank with ordinal b multiplies its elements with the
	// weight of token + b/TokenBursts from the slot. It adds them to its accumulators of the query heads query to
	// query+queries-1: one for each element of its share of a burst. first starts the accumulators from zero.
	opContext
	// opReadContext (RDRES) moves accumulators of a query head to the buffer unit, which adds them over the banks that hold the
	// same burst of a value. With n bytes of accumulators of a bank in a chip and s = burstBytes/Chips bytes of a chip in a
	// burst, burst i carries bytes i·s to (i+1)·s of the sequence of all banks' accumulators, by bank ordinal.
	opReadContext
	// opReadKey and opReadValue (RD) are the rank-level unit's, and a host's that reads back: a burst of the token's key or
	// value goes over the data bus. The PU uses it for the query heads query to query+queries-1. Tokens come whole, and of a
	// chunk the bank with the highest ordinal is read last: the chunk's scores then enter the softmax, as count and keep
	// say. Values are weighted and added as with opContext, to accumulators of their own for each bank.
	opReadKey
	opReadValue
	// opAppendScale (WR) stores scale and zero of the token's key or value, with the other bytes of the burst masked.
	opAppendScale
	// opReadScale (RD) brings a burst of scales to the buffer unit.
	opReadScale
)

// multiplies says whether multipliers work on what the operation reads.
func (o operation) multiplies() bool {
	return o == opScore || o == opContext || o == opReadKey || o == opReadValue
}

// boundary marks the instructions before which all banks are closed, so that the rank can refresh or give way to a transfer.
type boundaryKind uint8

// The boundaries.
const (
	noBoundary   boundaryKind = iota
	rowBoundary               // between two rows of one head
	headBoundary              // before a head
)

// instruction is one command of a program with what it does.
//
// Executed one after another in program order, each instruction finds its operands in place: that is what the value
// interpreter does. In time, instructions of different sequencers overlap; Wait then names the instructions that must have
// come before.
type instruction struct {
	// wait[s] is the number of sequencer s's instructions, counted from the start of the program, that must have issued, and
	// the last of which must have taken effect, before this one issues. What an earlier instruction of the same sequencer
	// waited for is not named again. It wraps around at 32 bits: compare by difference.
	wait [sequencers]uint32

	head   int32 // index into the program's heads
	row    int32 // row address; -1 for instructions that name no row
	column int32 // burst column; -1 likewise
	token  int32 // first token concerned
	// segment counts the parts of the context that pass through the score buffer
	// one after another; 0 where it holds all scores.
	segment int32
	query   uint8 // first query head of the group concerned
	queries uint8 // query heads that a MACA serves
	burst   uint8
	slot    uint8
	// bankGroup and bank address one bank; -1 for all-bank commands.
	bankGroup, bank int8

	command   dram.Command
	op        operation
	sequencer sequencer
	boundary  boundaryKind
	// yield gives way to another sequencer that wants the same clock: set where that one is on the critical path.
	yield bool
	first bool // opContext, opReadValue: accumulators start from zero
	last  bool // opReadValue: the accumulators of all query heads are complete
	count bool // opReadPartials, opReadKey: the chunk enters the running maximum and sum
	keep  bool // opReadPartials, opReadKey: the chunk's scores enter the score buffer
}

// address returns the DRAM address of the instruction in rank 0.
func (in *instruction) address() dram.Address {
	return dram.Address{BankGroup: int32(in.bankGroup), Bank: int32(in.bank), Row: in.row, Column: in.column}
}
