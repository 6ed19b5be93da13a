package scheduler

import (
	"sort"

	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// Rejection is why a request can never run.
type Rejection struct {
	// KVTokens is the length that no empty memory holds, of MostKVTokens at most; 0 where
	// one does.
	KVTokens, MostKVTokens int
	// Else Bytes is what its prompt takes on the GPUs of a replica, which have Free left
	// beside weights and, where it is there, the KV cache.
	Bytes, Free units.Bytes
}

// Rejection says why Add rejects a request.
func (s *Scheduler) Rejection(request int32) Rejection {
	r := &s.requests[request]
	return s.rejection(s.finalTokens(r), s.ledger.most(), s.longestPrompt(r))
}

// Rejection says why Add rejects a request: as the larger of both memories has it, and
// the GPUs' of a prompt that they must hold until its last chunk.
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

// finalTokens returns the KV tokens for which a request takes memory in the end.
func (s *Scheduler) finalTokens(r *traces.Request) int {
	if s.memory.Admission == AdmitMax {
		return max(s.memory.MaxTokens, KVTokens(r))
	}
	return KVTokens(r)
}

// longestPrompt returns the tokens of a request that may have to be prefilled: after a
// preemption those that it has emitted, too.
func (s *Scheduler) longestPrompt(r *traces.Request) int {
	if s.memory.Admission == AdmitCurrent {
		return KVTokens(r)
	}
	return r.Input
}

// least returns the memory that a prompt takes in the smallest steps there are.
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
