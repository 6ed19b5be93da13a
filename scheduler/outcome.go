package scheduler

import "github.com/l3sim/l3sim/units"

// Rejection is the reason why a request can never run.
type Rejection struct {
	// KVTokens is the length that is too long for an empty memory, which holds at most
	// MostKVTokens. Both are 0 where the length fits.
	KVTokens, MostKVTokens int
	// Bytes is the memory that its prompt takes on the GPUs of a replica, where the length
	// fits. Free is the memory of the GPUs beside weights and, if it is there, the KV cache.
	Bytes, Free units.Bytes
}

// Preemption is a request that gave up its memory.
type Preemption struct {
	Request int32
	Tokens  int // tokens emitted so far
}
