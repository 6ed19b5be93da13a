package scheduler

import (
	"sort"

	"github.com/l3sim/l3sim/llm"
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
	return s.rejection(r, s.ledger.most(), s.ledger.FitsEmpty(s.final(r)))
}

// Rejection says why Add rejects a request. Its final length must fit the larger of both
// memories. A prompt in chunks must fit the GPUs' memory until its last chunk.
func (o *Offload) Rejection(request int32) Rejection {
	r := &o.requests[request]
	most := o.Host.most()
	if !o.AllOnHost {
		most = max(most, o.ledger.most())
	}
	prompt, fits := o.longestPrompt(r), o.finalTokens(r) <= most
	if cut := o.ledger.most(); fits && prompt > cut {
		return Rejection{KVTokens: prompt, MostKVTokens: cut}
	}
	return o.rejection(r, most, fits)
}

// rejection says which memory is too small for a request: that of keys and values, or else the GPUs'.
func (s *Scheduler) rejection(r *traces.Request, most int, fits bool) Rejection {
	if !fits {
		return Rejection{KVTokens: s.finalTokens(r), MostKVTokens: most}
	}
	return Rejection{Bytes: s.gpu.least(s.longestPrompt(r), s.spec) + s.gpu.kv(s.window(r)), Free: s.gpu.Free}
}

// final returns the length for which a request has memory at its end, with the longest prompt
// that it may have.
func (s *Scheduler) final(r *traces.Request) Length {
	return Length{s.longestPrompt(r), s.finalTokens(r)}
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
		cut += g.kv(prompt)
	}
	return min(whole, cut)
}

// prompted is a length that is all prompt.
func prompted(tokens int) Length { return Length{tokens, tokens} }

// most returns the longest request that an empty memory holds, in tokens.
func (l *Ledger) most() int {
	const longest = 1 << 40
	return sort.Search(longest, func(tokens int) bool { return !l.FitsEmpty(prompted(tokens + 1)) })
}

// GPUMemory is the memory of a replica's GPUs that the weights leave free.
type GPUMemory struct {
	Model *llm.Model
	Free  units.Bytes // after weights and reserve, over all GPUs of the replica
	// HoldsKV says that all KV is on the GPUs, in separate memory that the Ledger
	// accounts for. Then the prompts of cut requests take nothing from Free.
	HoldsKV bool
	// Window is the most tokens of each request in memory that keep their keys and values on the
	// GPUs. PromptShare adds a share of its prompt to them, Share a share of all its tokens at its
	// end.
	Window             int
	PromptShare, Share float64
	// PrefixStays says that prompts attend over what a cache has of them where it is. It takes no memory of the GPUs.
	PrefixStays bool
}

// fetches says that what a cache has of a prompt comes to the GPUs, which keep it until the prompt ends.
func (g *GPUMemory) fetches() bool { return !g.HoldsKV && !g.PrefixStays }

// windowed says that requests in memory keep some of their keys and values on the GPUs.
func (g *GPUMemory) windowed() bool { return g.Window > 0 || g.PromptShare > 0 || g.Share > 0 }

// kv returns the bytes of the keys and values of that many tokens.
func (g *GPUMemory) kv(tokens int) units.Bytes {
	return units.Bytes(tokens) * g.Model.KVBytesPerToken()
}

// fits says whether activations of tokens tokens and KV of kvTokens tokens of
// unfinished prompts fit.
func (g *GPUMemory) fits(tokens, kvTokens int) bool {
	if g.HoldsKV {
		kvTokens = 0
	}
	return g.Model.ActivationBytes(tokens)+g.kv(kvTokens) <= g.Free
}
