package pim

import "github.com/l3sim/l3sim/dram"

// Sequencer is the part of the rank PU that issues an instruction. The
// sequencers share the rank's command bus; each issues its own instructions in
// program order.
type Sequencer uint8

// The sequencers, in order of their priority on the command bus.
const (
	BankSequencer   Sequencer = iota // ACT, ACTA, MACA, RD, WR, PRE, PREA: rows and columns of the banks
	ResultSequencer                  // RDRES: result buffers to rank PU
	BufferSequencer                  // WRBUF: rank PU to shared buffers

	sequencers = iota
)

// String returns the sequencer's name in reports.
func (s Sequencer) String() string { return [...]string{"bank", "result", "buffer"}[s] }

// Op says what an Instruction does, where its Command leaves it open.
type Op uint8

// The operations. Fields of Instruction that an operation does not mention are
// zero.
const (
	// OpActivate opens Row: in Bank of BankGroup (ACT), or in all banks (ACTA).
	OpActivate Op = iota
	// OpPrecharge closes one bank (PRE) or all (PREA).
	OpPrecharge
	// OpAppendKey (WR) stores burst Burst of Token's key at BankGroup, Bank, Row, Column.
	OpAppendKey
	// OpAppendValue (WR) stores burst Burst of Token's value there.
	OpAppendValue
	// OpLoadQuery (WRBUF) loads burst Burst of query head Query's q into the query
	// part of the shared buffers; each chip keeps its part of the burst.
	OpLoadQuery
	// OpScore (MACA) multiplies column Column of Row in every bank with burst
	// Burst of q of the query heads Query to Query+Queries-1 and adds the products of
	// each bank to that query head's partial sum in result slot Slot. Burst 0
	// starts from zero. The bank with ordinal b works on token Token+b.
	OpScore
	// OpReadPartials (RDRES) moves the partial sums of query head Query in result
	// slot Slot to the rank PU, which adds them over the chips. Burst i carries, of each
	// chip, as many successive bank ordinals as fit its share of a burst: those from
	// i·(BurstBytes/Chips/width of a partial) on. Banks whose token is not
	// below the Program's context are dropped. Count and Keep say what the rank PU does
	// with the chunk.
	OpReadPartials
	// OpLoadWeights (WRBUF) broadcasts softmax weights of query head Query to every
	// chip alike, into slot Slot of the shared buffers. Burst i carries
	// WeightsPerBurst successive tokens from Token+i·WeightsPerBurst on. The weight of
	// a token not below the context is zero, and a zero weight gates the
	// multiplier: what the bank holds there does not matter.
	OpLoadWeights
	// OpContext (MACA) reads column Column of Row in every bank. The bank with
	// ordinal b multiplies its elements with the weight of token
	// Token + b/TokenBursts from slot Slot and adds them to its accumulators, one for each element
	// of its share of a burst, of the query heads Query to Query+Queries-1. First
	// starts the accumulators from zero.
	OpContext
	// OpReadContext (RDRES) moves accumulators of query head Query to the rank PU,
	// which adds them over the banks that hold the same burst of a value. With n
	// bytes of accumulators of a bank in a chip and s = BurstBytes/Chips bytes of a
	// chip in a burst, burst i carries bytes i·s to (i+1)·s of the sequence of all
	// banks' accumulators, by bank ordinal.
	OpReadContext
	// OpReadKey and OpReadValue (RD) are the rank-level PU's: burst Burst of
	// Token's key or value goes to the rank PU over the data bus.
	OpReadKey
	OpReadValue
)

// Boundary marks the instructions before which all banks are closed, so that the rank
// can refresh or give way to a transfer.
type Boundary uint8

// The boundaries.
const (
	NoBoundary   Boundary = iota
	RowBoundary           // between two rows of one head
	HeadBoundary          // before a head
)

// Instruction is one command of a Program with what it does.
//
// Executed one after another in program order, each instruction finds its
// operands in place: that is what the value interpreter does. In time,
// instructions of different sequencers overlap; Wait then names the
// instructions that must have come before.
type Instruction struct {
	// Wait[s] is the number of sequencer s's instructions, counted from the start
	// of the Program, that must have issued, and the last of which must have taken
	// effect, before this one issues. What an earlier instruction of the same
	// sequencer waited for is not named again. It wraps around at 32 bits: compare by
	// difference.
	Wait [sequencers]uint32

	Head   int32 // index into the Program's heads
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
	// BankGroup and Bank address one bank; -1 for all-bank commands.
	BankGroup, Bank int8

	Command   dram.Command
	Op        Op
	Sequencer Sequencer
	Boundary  Boundary
	// Yield gives way to another sequencer that wants the same clock: set where
	// that one is on the critical path.
	Yield bool
	First bool // OpContext: accumulators start from zero
	Count bool // OpReadPartials: the chunk enters the running maximum and sum
	Keep  bool // OpReadPartials: the chunk's scores enter the score buffer
}

// Address returns the DRAM address of the instruction in rank 0.
func (in *Instruction) Address() dram.Address {
	return dram.Address{BankGroup: int32(in.BankGroup), Bank: int32(in.Bank), Row: in.Row, Column: in.Column}
}
