package offload

import (
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/batching"
	"github.com/l3sim/l3sim/scheduler/memory"
)

// pays says whether it saves GPU time if the host takes a prompt now rather than let it wait for the GPUs' memory; tokens of it fit
// the iteration. Now, the prompt makes the iteration longer, by its transfer too. Later, it would share an iteration with the
// prompts behind it, and its steps would take more of the GPUs' time than on the host.
func (o *Former) pays(w *batching.Waiting, tokens int) bool {
	present := o.s.Batch.Sub[0].Prefill
	o.trial.chunks = append(append(o.trial.chunks[:0], present...), chunkOf(w, tokens, true))
	now := o.adds(len(present))
	spared := float64(o.spared(w) * float64(tokens) / float64(w.Prompt))
	return now <= spared || now <= spared+o.later(w, tokens)
}

// chunkOf returns the first tokens of a prompt.
func chunkOf(w *batching.Waiting, tokens int, host bool) scheduler.Chunk {
	return scheduler.Chunk{Request: w.Request, Tokens: tokens, Last: tokens == w.Prompt, Host: host}
}

// adds returns by how much the last of the trial's chunks prolongs an iteration with only its first few chunks.
func (o *Former) adds(first int) float64 {
	t := &o.trial
	n := len(t.chunks) - 1
	t.chunks[first], t.chunks[n] = t.chunks[n], t.chunks[first]
	longer := o.takes(t.chunks[:first+1]) - o.takes(t.chunks[:first])
	t.chunks[first], t.chunks[n] = t.chunks[n], t.chunks[first]
	return longer
}

// takes returns the time of an iteration with the requests that decode on the GPUs now, and with prompts.
func (o *Former) takes(prompts []scheduler.Chunk) float64 {
	t := &o.trial
	t.set(o.s, o.s.Batch.Sub[0].Decode)
	if t.batch.Sub[0].Prefill = prompts; t.batch.Empty() {
		return 0
	}
	return float64(o.costs.Iteration(&t.batch))
}

// spared returns the GPU time that the decode steps of a prompt's request save on the host. A step saves the mean step time of a request
// on the GPUs, less what a host request adds to batched operations. The request moves up once the GPUs have room, so only a share of its
// steps runs on the host: that of the host's requests among all. If it takes the last seat while the GPUs could hold as many such
// requests as may run in both memories, it saves nothing: the seat would have gone to the GPUs.
func (o *Former) spared(w *batching.Waiting) float64 {
	s, sub, c := o.s, &o.trial.batch.Sub[0], o.costs
	output := s.LikelyOutput(w.Request, o.emitted())
	if seats := s.Batching.MaxNumSeqs; seats > 0 && s.Seats() <= 1 && s.Ledger.FitsEmpty(memory.Prompted(seats*(w.Prompt-w.Emitted+int(output)))) {
		return 0
	}
	o.trial.set(s, s.Decoding)
	s.EachPrefilling(false, func(p *batching.Waiting) {
		sub.Decode = append(sub.Decode, scheduler.Decoding{Request: p.Request, Base: int64(p.Prompt) - s.Batch.Step, Last: never})
	})
	if len(sub.Decode) == 0 {
		return 0
	}
	hosted := 1 + len(s.Host.Decoding)
	s.EachPrefilling(true, func(*batching.Waiting) { hosted++ })
	each, gpus := s.Speculation.Tokens(), len(sub.Decode)
	step, linear := float64(c.Iteration(&o.trial.batch)), c.Linear(gpus*each)
	added := float64(c.Linear((gpus+hosted)*each)-linear) / float64(c.Attention(sub, s.Batch.Step)+linear) / float64(hosted)
	steps := max(0, output-1-float64(w.Emitted)) / s.Speculation.Mean()
	there := float64(hosted) / float64(gpus+hosted)
	return max(0, float64(steps*there*step)*(1/float64(gpus)-added))
}

// later returns the time that a prompt adds to an iteration in which the GPUs run it with as many of the prompts behind it as fit. Its
// cost beside all the others would be too little, since if it ran earlier another prompt would take its place; so a share of the
// difference to the cost of the first prompt is added.
func (o *Former) later(w *batching.Waiting, tokens int) float64 {
	s, t := o.s, &o.trial
	t.chunks = t.chunks[:0]
	room, all, context := s.Batching.MaxBatchTokens-s.Batch.Sub[0].DecodeTokens()-tokens, tokens, w.Prompt
	for i := 1; i < s.Queue.Len() && room > 0 && (s.Batching.MaxNumSeqs == 0 || i < s.Batching.MaxNumSeqs); i++ {
		n := s.Queue.At(i)
		cut := n.Prompt > room
		if context += n.Prompt; cut && s.Policy != scheduler.PolicyChunkedPrefill || !s.Ledger.FitsEmpty(memory.Prompted(context)) {
			break
		}
		part := min(n.Prompt, room)
		t.chunks = append(t.chunks, chunkOf(n, part, false))
		room, all = room-part, all+part
	}
	t.chunks = append(t.chunks, chunkOf(w, tokens, false))
	beside := o.adds(len(t.chunks) - 1)
	return beside + float64((o.adds(0)-beside)*float64(tokens)/float64(all))
}

// emitted returns the number of tokens that all decoding requests have emitted.
func (o *Former) emitted() (tokens int) {
	s := o.s
	for i := range s.Decoding {
		d := &s.Decoding[i]
		tokens += d.Context(s.Batch.Step) - s.Requests[d.Request].Input
	}
	for i := range s.Host.Decoding {
		h := &s.Host.Decoding[i]
		tokens += h.NextContext(s.Batch.Step) - s.Requests[h.Request].Input
	}
	return tokens
}
