package batching

import (
	"fmt"
	"slices"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/units"
)

// nearMemory is the State's data on the GPUs' spare memory, beside GPU.Spare. Requests there are among State.Decoding, and
// their reservations say Near.
type nearMemory struct {
	forecast *memory.Forecast // of the requests there; nil: no forecast
	longest  int              // tokens of the longest prompt that has come
	output   float64          // expected output of every request; 0: the output that admission reserves
}

// placer predicts how long iterations take with a new request on ranks, in the GPUs' spare memory, or waiting.
type placer struct {
	home  []scheduler.Decoding  // scratch: decoding requests that are on ranks
	subs  [2]scheduler.SubBatch // scratch: the requests that run, all at half of their expected output
	whole [1]scheduler.SubBatch // scratch: both sub-batches as a single one
	dealt []int                 // scratch: requests in subs, by rankset offset, behind those in the spare memory
}

// admit reserves memory for the queue's head. It chooses the GPUs' spare memory if that is predicted to make iterations shorter than
// with the request on ranks. If ranks have no room, it must lower the time of an iteration for each decoding request. With SpareWait
// the request waits if it would slow the others from ranks.
func (f *dealer) admit(s *State, w *Waiting) bool {
	admitted := s.Admit(w)
	if s.GPU.Spare == nil || !admitted && s.Seated() {
		return admitted
	}
	hold, ok := s.GPU.Spare.Reserve(s.Reserved(w), nil, s.keepForPrompts(w), s.foreseeNear(w))
	near := ok && f.nearer(s, w, admitted)
	if ok && !near {
		s.GPU.Spare.Release(hold)
	}
	if !near {
		if admitted && s.Memory.Spare == scheduler.SpareWait && f.slows(s, w) {
			s.Release(w.Hold)
			w.Hold, w.held, w.prefix, w.finished = memory.Reservation{}, false, 0, 0
			return s.Refuse(NoGain, false)
		}
		return admitted
	}
	if admitted {
		s.Release(w.Hold)
	}
	hold.Near = true
	w.Hold, w.held, w.prefix, w.finished = hold, true, 0, 0
	s.Queue.Blocked = false
	return true
}

// keepForPrompts returns the units of the spare memory that must stay free when w is admitted there: for activations of
// MaxBatchTokens tokens, or of the present iteration with the first step of w's prompt; for keys and values of the longest
// prompt so far in each sub-batch; and for growth.
func (s *State) keepForPrompts(w *Waiting) int64 {
	step := w.Prompt
	if s.Scheduler.Chunking {
		step = min(step, s.Scheduler.ChunkMultiple)
	}
	prompts := max(s.Usage.cutPrompts, len(s.Batch.Sub)*s.near.longest)
	keep := s.GPU.BesideSpare(max(s.Batching.MaxBatchTokens, s.Batch.Tokens()+step), s.Usage.windows+prompts)
	if s.Grows() && s.GPU.Spare.Used() > 0 {
		keep += s.GPU.Spare.ShareOfRank(s.Memory.Watermark)
	}
	return keep
}

// foreseeNear is Foresee for the GPUs' spare memory.
func (s *State) foreseeNear(w *Waiting) *memory.Forecast {
	f := s.near.forecast
	if f == nil {
		return nil
	}
	f.Clear()
	for i := range s.Decoding {
		d := &s.Decoding[i]
		if h := &s.Holds[d.Request]; h.Near {
			input := s.Requests[d.Request].Input
			f.AddHolder(h, input, d.Context(s.Batch.Step)-input)
		}
	}
	s.EachPrefilling(false, func(w *Waiting) {
		if w.Hold.Near {
			f.AddHolder(&w.Hold, w.Prompt-w.Emitted, w.Emitted)
		}
	})
	f.Add(0, w.Prompt-w.Emitted, w.Emitted)
	f.Foresee(s.GPU.Spare)
	return f
}

// nearer says whether a new request is better in the spare memory. If ranks have room, the spare memory must be better than ranks for this
// request, and also better than all requests on ranks: otherwise one more request could always hide behind the others there, although
// together they take GPU time from prompts. If ranks are full, the spare memory must be better than the queue.
func (f *dealer) nearer(s *State, w *Waiting, home bool) bool {
	prompts, running := f.gather(s, w)
	near := f.with(s, w, true, prompts)
	if home {
		if near >= f.with(s, w, false, prompts) {
			return false
		}
		f.empty(s)
		return near < f.with(s, w, false, prompts)
	}
	without := float64(f.iteration(s, prompts))
	return float64(near*float64(running)) < float64(without*float64(running+1))
}

// slows says whether a new request on ranks lowers the rate of output tokens of all requests. It can while requests decode in the spare
// memory: a request on ranks that does not hide behind the GPUs' work delays every request on the GPUs. It then waits for the spare memory.
func (f *dealer) slows(s *State, w *Waiting) bool {
	prompts, running := f.gather(s, w)
	if f.dealt[0] == 0 { // nothing decodes on the GPUs
		return false
	}
	with, without := f.with(s, w, false, prompts), float64(f.iteration(s, prompts))
	return float64(with*float64(running)) > float64(without*float64(running+1))
}

// with predicts the time of an iteration of the requests in subs and w, with w in the spare memory or on ranks.
func (f *dealer) with(s *State, w *Waiting, near bool, prompts units.Duration) float64 {
	own := scheduler.Decoding{Request: w.Request, Offset: int32(w.Hold.Offset), Prompt: int32(w.Prompt)}
	own.Base = int64(s.halfway(w.Request, w.Prompt)) - s.Batch.Step
	sub := f.put(&own, near)
	t := f.iteration(s, prompts)
	f.take(&own, sub, near)
	return float64(t)
}

// gather fills subs with all running requests but w. It returns their number, and the GPU time of prompts in an iteration
// that keeps this number running; that time is 0 if no other request waits.
func (f *dealer) gather(s *State, w *Waiting) (prompts units.Duration, running int) {
	s.expect(w)
	for i := range f.subs {
		f.subs[i].Decode, f.subs[i].Near, f.subs[i].Verified = f.subs[i].Decode[:0], f.subs[i].Near[:0], s.Speculation.Verified
	}
	f.whole[0].Verified = s.Speculation.Verified
	f.dealt = append(f.dealt[:0], make([]int, 1+s.Ledger.Ranksets())...)
	tokens, all := 0.0, w.Prompt // prompt tokens: in an iteration, and of all requests
	add := func(request int32, context int, hold *memory.Reservation) {
		d := scheduler.Decoding{Request: request, Offset: int32(hold.Offset), Prompt: int32(s.Requests[request].Input)}
		d.Base = int64(s.halfway(request, context)) - s.Batch.Step
		f.put(&d, hold.Near)
		input := s.Requests[request].Input
		tokens += float64(input) / max(1, s.expected(request)/s.Speculation.Mean())
		all += input
		running++
	}
	for i := range s.Decoding {
		d := &s.Decoding[i]
		add(d.Request, d.Context(s.Batch.Step), &s.Holds[d.Request])
	}
	s.EachPrefilling(false, func(p *Waiting) {
		if p.Request != w.Request {
			add(p.Request, p.Prompt, &p.Hold)
		}
	})
	if s.Queue.Len() <= 1 {
		return 0, running
	}
	chunk := scheduler.Chunk{Request: w.Request, Offset: int32(w.Hold.Offset), Tokens: s.Scheduler.MinPrefillTokens}
	chunk.Finished = max(0, all/(running+1)-chunk.Tokens) / 2
	sub := &f.subs[0]
	took := -f.predictor.GPU(sub, s.Batch.Step)
	sub.Prefill = append(sub.Prefill[:0], chunk)
	took += f.predictor.GPU(sub, s.Batch.Step)
	sub.Prefill = sub.Prefill[:0]
	return units.Duration(float64(took) * tokens / float64(chunk.Tokens)), running
}

// put adds a request to one of the two sub-batches, which it returns: the requests of a memory and
// offset go to them in turn.
func (f *dealer) put(d *scheduler.Decoding, near bool) (sub int) {
	at := &f.dealt[0]
	if !near {
		at = &f.dealt[1+d.Offset]
	}
	sub = *at % 2
	*at++
	if to := &f.subs[sub]; near {
		to.Near = append(to.Near, *d)
	} else {
		to.Decode = append(to.Decode, *d)
	}
	return sub
}

// take removes the request d that put added last.
func (f *dealer) take(d *scheduler.Decoding, sub int, near bool) {
	if from := &f.subs[sub]; near {
		f.dealt[0]--
		from.Near = from.Near[:len(from.Near)-1]
	} else {
		f.dealt[1+d.Offset]--
		from.Decode = from.Decode[:len(from.Decode)-1]
	}
}

// empty moves the requests of the spare memory in subs to ranks, each to the rankset offset with the fewest tokens.
func (f *dealer) empty(s *State) {
	step, tokens := s.Batch.Step, make([]int, s.Ledger.Ranksets())
	for i := range f.subs {
		for k := range f.subs[i].Decode {
			d := &f.subs[i].Decode[k]
			tokens[d.Offset] += d.Context(step)
		}
	}
	for i := range f.subs {
		near := f.subs[i].Near
		f.subs[i].Near = near[:0]
		for _, d := range near {
			least := slices.Index(tokens, slices.Min(tokens))
			d.Offset = int32(least)
			tokens[least] += d.Context(step)
			f.put(&d, false)
		}
	}
}

// halfway returns the context of a request at half of its expected output, or its present one if that
// is longer.
func (s *State) halfway(request int32, context int) int {
	return max(context, s.Requests[request].Input+int(s.expected(request)/2))
}

// expect records what admission expects now where it does not reserve final lengths, w included.
func (s *State) expect(w *Waiting) {
	s.near.output = 0
	if s.Grows() {
		s.near.output = max(1, s.outputs.Mean(s.emitted(w)))
	}
}

// emitted returns the tokens that w and all requests with memory have emitted.
func (s *State) emitted(w *Waiting) int {
	tokens := w.Emitted
	for i := range s.Decoding {
		d := &s.Decoding[i]
		tokens += d.Context(s.Batch.Step) - s.Requests[d.Request].Input
	}
	s.EachPrefilling(false, func(p *Waiting) {
		if p.Request != w.Request {
			tokens += p.Emitted
		}
	})
	return tokens
}

// expected returns the output length that admission expects of a request.
func (s *State) expected(request int32) float64 {
	if s.near.output > 0 {
		return s.near.output
	}
	r := &s.Requests[request]
	return float64(max(1, s.FinalTokens(r)-s.lookAhead()-r.Input))
}

// iteration predicts the time of an iteration of subs in which the GPUs also prefill for a given time: in two sub-batches, in
// one, or in the faster of both. Prompts of one sub-batch are prefilled during the other's attention.
func (f *dealer) iteration(s *State, prompts units.Duration) units.Duration {
	step, one := s.Batch.Step, &f.whole[0]
	one.Decode = append(append(one.Decode[:0], f.subs[0].Decode...), f.subs[1].Decode...)
	one.Near = append(append(one.Near[:0], f.subs[0].Near...), f.subs[1].Near...)
	_, single := f.turn(one, step, 0)
	single += prompts
	if len(s.Batch.Sub) == 1 {
		return single
	}
	gpu0, alone0 := f.turn(&f.subs[0], step, 0)
	gpu1, alone1 := f.turn(&f.subs[1], step, 0)
	two := max(gpu0+gpu1+prompts, alone0, alone1)
	if s.Scheduler.Adaptive {
		return min(single, two)
	}
	return two
}

// turn predicts the GPUs' time of a sub-batch (gpu), and the sub-batch's time if it never waits (alone): ranks and GPUs
// attend at the same time, all else runs in sequence. moved is the number of the other sub-batch's prompt tokens that go to
// the ranks.
func (f *dealer) turn(sub *scheduler.SubBatch, step int64, moved int) (gpu, alone units.Duration) {
	gpu = f.predictor.GPU(sub, step)
	pim := f.predictor.PIM(sub, step, moved)
	return gpu, gpu + pim - min(pim, f.beside(sub, step, gpu))
}

// beside predicts how much of a sub-batch's GPU time is attention for requests in the spare memory.
func (f *dealer) beside(sub *scheduler.SubBatch, step int64, gpu units.Duration) units.Duration {
	if len(sub.Near) == 0 {
		return 0
	}
	decode, near := len(sub.Decode), sub.Near
	sub.Decode, sub.Near = append(sub.Decode, near...), nil
	dense := f.predictor.GPU(sub, step)
	sub.Decode, sub.Near = sub.Decode[:decode], near
	return max(0, gpu-dense)
}

// dealNear divides the decoding requests of the spare memory over the sub-batches, longest context first to the smaller sum,
// and returns the others.
func (f *dealer) dealNear(s *State) []scheduler.Decoding {
	f.home = f.home[:0]
	var sums [2]int64
	for i := range s.Decoding {
		d := &s.Decoding[i]
		if !s.Holds[d.Request].Near {
			f.home = append(f.home, *d)
			continue
		}
		to := 0
		if len(s.Batch.Sub) == 2 && sums[1] < sums[0] {
			to = 1
		}
		sums[to] += int64(d.Context(s.Batch.Step))
		s.Batch.Sub[to].Near = append(s.Batch.Sub[to].Near, *d)
	}
	return f.home
}

// checkNear returns an error if the spare memory has more units in use than its capacity, another number than its
// requests hold, or more than activations and prompts leave free.
func (s *State) checkNear() error {
	l, held := s.GPU.Spare, int64(0)
	count := func(r *memory.Reservation) {
		if r.Near {
			held += l.HeldBy(r)
		}
	}
	for i := range s.Decoding {
		count(&s.Holds[s.Decoding[i].Request])
	}
	s.EachPrefilling(false, func(w *Waiting) { count(&w.Hold) })
	if used := l.Used(); used != held || used > l.Capacity() || used > 0 && !s.GPU.Fits(s.Batch.Tokens(), s.countCutPrompts()+s.countWindows()) {
		return fmt.Errorf("the GPUs' spare memory accounts for %d units of %d, its requests for %d, beside %d tokens of activations and %d of cut prompts",
			used, l.Capacity(), held, s.Batch.Tokens(), s.countCutPrompts())
	}
	return nil
}
