package scheduler

import "github.com/l3sim/l3sim/units"

// Rejection is the reason why a request can never run.
type Rejection struct {
	// KVTokens is a length that exceeds an empty memory, which holds at most MostKVTokens. Both are 0
	// if the length fits.
	KVTokens, MostKVTokens int
	// Bytes is the GPU memory of a replica that the request's prompt takes, if the length fits. Free
	// is the GPU memory beside weights and, if it is there, the KV cache.
	Bytes, Free units.Bytes
}

// Preemption is a request that lost its memory.
type Preemption struct {
	Request int32
	Tokens  int // tokens emitted so far
}
