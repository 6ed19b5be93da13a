package scheduler

import (
	"sort"

	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// Rejection is the reason why a request can never run.
type Rejection struct {
	// KVTokens is the length that is too long for an empty memory, which holds at most
	// MostKVTokens. Both are 0 where the length fits.
	KVTokens, MostKVTokens int
	// Bytes is the memory that its prompt takes on the GPUs of a replica, where the length
	// fits. Free is the memory of the GPUs beside weights and, if it is there, the KV cache.
	Bytes, Free units.Bytes
}

// Rejection says why Add rejects a request.
func (s *Scheduler) Rejection(request int32) Rejection {
	r := &s.requests[request]
	return s.rejection(s.finalTokens(r), s.ledger.most(), s.longestPrompt(r))
}

// Rejection says why Add rejects a request. Its final length must fit the larger of both
// memories. A prompt in chunks must fit the GPUs' memory until its last chunk.
func (o *Offload) Rejection(request int32) Rejection {
	r := &o.requests[request]
	most := o.Host.most()
	if !o.AllOnHost {
		most = max(most, o.ledger.most())
	}
	prompt := o.longestPrompt(r)
	if cut := o.ledger.most(); o.finalTokens(r) <= most && prompt > cut {
		return Rejection{KVTokens: prompt, MostKVTokens: cut}
	}
	return o.rejection(o.finalTokens(r), most, prompt)
}

func (s *Scheduler) rejection(tokens, most, prompt int) Rejection {
	if tokens > most {
		return Rejection{KVTokens: tokens, MostKVTokens: most}
	}
	return Rejection{Bytes: s.gpu.least(prompt, s.spec), Free: s.gpu.Free}
}

// finalTokens returns the KV tokens for which a request has memory at its end.
func (s *Scheduler) finalTokens(r *traces.Request) int {
	if s.memory.Admission == AdmitMax {
		return max(s.memory.MaxTokens, KVTokens(r))
	}
	return KVTokens(r)
}

// longestPrompt returns the most tokens that a request may have to prefill. After a
// preemption the tokens that it has emitted are part of its prompt.
func (s *Scheduler) longestPrompt(r *traces.Request) int {
	if s.memory.Admission == AdmitCurrent {
		return KVTokens(r)
	}
	return r.Input
}

// least returns the memory of the GPUs that a prompt takes in the smallest possible steps.
func (g *GPUMemory) least(prompt int, spec *Spec) units.Bytes {
	whole := g.Model.ActivationBytes(prompt)
	if !spec.Chunking {
		return whole
	}
	cut := g.Model.ActivationBytes(min(prompt, spec.ChunkMultiple))
	if !g.HoldsKV {
		cut += units.Bytes(prompt) * g.Model.KVBytesPerToken()
	}
	return min(whole, cut)
}

// most returns the longest request that an empty memory holds, in tokens.
func (l *Ledger) most() int {
	const longest = 1 << 40
	return sort.Search(longest, func(tokens int) bool { return !l.FitsEmpty(tokens + 1) })
}
