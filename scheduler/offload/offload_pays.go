package offload

import (
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/forming"
	"github.com/l3sim/l3sim/scheduler/memory"
)

// pays says whether the GPUs have less to do if the host takes a prompt now, of which tokens fit the iteration, than if it waits for
// the GPUs' memory. Now it makes the iteration longer, by its transfer too. Later it would share an iteration with prompts that
// wait behind it, and then its steps would take more of the GPUs' time than on the host.
func (o *Former) pays(w *forming.Waiting, tokens int) bool {
	present := o.s.Batch.Sub[0].Prefill
	o.trial.chunks = append(append(o.trial.chunks[:0], present...), chunkOf(w, tokens, true))
	now := o.adds(len(present))
	spared := float64(o.spared(w) * float64(tokens) / float64(w.Prompt))
	return now <= spared || now <= spared+o.later(w, tokens)
}

// chunkOf returns the first tokens of a prompt.
func chunkOf(w *forming.Waiting, tokens int, host bool) scheduler.Chunk {
	return scheduler.Chunk{Request: w.Request, Tokens: tokens, Last: tokens == w.Prompt, Host: host}
}

// adds returns by how much the last of the trial's chunks makes an iteration longer that has the first few of them.
func (o *Former) adds(first int) float64 {
	t := &o.trial
	n := len(t.chunks) - 1
	t.chunks[first], t.chunks[n] = t.chunks[n], t.chunks[first]
	longer := o.takes(t.chunks[:first+1]) - o.takes(t.chunks[:first])
	t.chunks[first], t.chunks[n] = t.chunks[n], t.chunks[first]
	return longer
}

// takes returns the time of an iteration of the GPUs' requests that decode in the present one, and of prompts.
func (o *Former) takes(prompts []scheduler.Chunk) float64 {
	t := &o.trial
	t.set(o.s, o.s.Batch.Sub[0].Decode)
	if t.batch.Sub[0].Prefill = prompts; t.batch.Empty() {
		return 0
	}
	return float64(o.costs.Iteration(&t.batch))
}

// spared returns what the GPUs are spared of the decode steps of a prompt's request if the host has it: of each step as much as a request
// takes of those that are on the GPUs now, less what one of the host's takes there in batched operations. The request moves up as
// soon as the GPUs have room, so that its share of steps on the host is that of the host's requests in all. Nothing is spared if it
// takes the last seat where the GPUs hold as many requests like it as may run in both memories: another one would have that on the GPUs.
func (o *Former) spared(w *forming.Waiting) float64 {
	s, sub, c := o.s, &o.trial.batch.Sub[0], o.costs
	output := s.LikelyOutput(w.Request, o.emitted())
	if seats := s.Batching.MaxNumSeqs; seats > 0 && s.Seats() <= 1 && s.Ledger.FitsEmpty(memory.Prompted(seats*(w.Prompt-w.Emitted+int(output)))) {
		return 0
	}
	o.trial.set(s, s.Decoding)
	s.EachPrefilling(false, func(p *forming.Waiting) {
		sub.Decode = append(sub.Decode, scheduler.Decoding{Request: p.Request, Base: int64(p.Prompt) - s.Batch.Step, Last: never})
	})
	if len(sub.Decode) == 0 {
		return 0
	}
	hosted := 1 + len(s.Host.Decoding)
	s.EachPrefilling(true, func(*forming.Waiting) { hosted++ })
	each, gpus := s.Speculation.Tokens(), len(sub.Decode)
	step, linear := float64(c.Iteration(&o.trial.batch)), c.Linear(gpus*each)
	added := float64(c.Linear((gpus+hosted)*each)-linear) / float64(c.Attention(sub, s.Batch.Step)+linear) / float64(hosted)
	steps := max(0, output-1-float64(w.Emitted)) / s.Speculation.Mean()
	there := float64(hosted) / float64(gpus+hosted)
	return max(0, float64(steps*there*step)*(1/float64(gpus)-added))
}

// later returns what a prompt adds to an iteration in which the GPUs run it with those that wait behind it, as many as fit. If it ran
// before, another one would take its place there. So to what it adds beside all of these comes its share of what the first one adds more.
func (o *Former) later(w *forming.Waiting, tokens int) float64 {
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

// emitted returns the tokens that all requests which decode have emitted.
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
