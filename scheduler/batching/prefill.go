package batching

import (
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// addPrefill adds prompts to sub-batch i until T_GPU passes the PIM time of the other sub-batch. It
// cuts the last prompt so that the two are about equal (L3, section 5.3, steps 3 and 4). A single
// batch is bounded by its own PIM time. addPrefill returns false if a memory is full, so that no
// sub-batch can take more.
func (f *dealer) addPrefill(s *State, i int) bool {
	for s.Queue.Len() > 0 {
		w := s.Queue.First()
		if !w.held && !f.admit(s, w) {
			return false
		}
		left := w.Prompt - w.finished
		tokens := f.cut(s, i, w, left)
		room := tokens
		if tokens > 0 {
			room = s.roomOnGPU(w, tokens, left)
		}
		if room > tokens {
			s.WholePrompts++
			s.LongestWhole = max(s.LongestWhole, room)
		}
		if room > 0 {
			s.take(i, w, room)
		}
		if room < left {
			return room >= tokens
		}
	}
	return true
}

// cut returns how many prompt tokens of w sub-batch i takes; left is how many remain. It takes all
// of them if T_GPU stays within T_PIM of the other sub-batch. Otherwise it takes the multiple of
// ChunkMultiple that brings the two times closest, but at least what the iteration lacks of
// MinPrefillTokens.
func (f *dealer) cut(s *State, i int, w *Waiting, left int) int {
	least := s.Scheduler.MinPrefillTokens
	for j := range s.Batch.Sub {
		least -= s.Batch.Sub[j].PrefillTokens()
	}
	least = max(least, 0)
	multiple := s.Scheduler.ChunkMultiple
	chunks := (least + multiple - 1) / multiple // the least number of chunks to take
	if left <= chunks*multiple {
		return left
	}
	x := f.excessOf(s, i, w, left)
	switch {
	case s.Scheduler.Chunking && x.beyond <= chunks*multiple: // even the least number of chunks is too many
	case x.none(left):
		return left
	case !s.Scheduler.Chunking:
		// A prompt cannot be cut. It is taken whole where the GPU has time left or
		// MinPrefillTokens is not met.
		if least > 0 || x.of(0) < 0 {
			return left
		}
		return 0
	case x.none(0):
		most := mostThat(chunks, (left+multiple-1)/multiple, func(n int) bool { return x.none(n * multiple) })
		if most >= chunks && x.within(min(left, (most+1)*multiple), -x.of(most*multiple)-1) {
			most++
		}
		chunks = max(chunks, most)
	}
	return min(left, multiple*chunks)
}

// mostThat returns the largest n ≤ bound that fits, if that is at least least; otherwise some value below least, and the caller takes least. fits
// must hold for all smaller n, and for 0.
func mostThat(least, bound int, fits func(n int) bool) int {
	low, high := 0, bound
	for high-low > 1 && high > least {
		if mid := (low + high) / 2; fits(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// excess is T_GPU of sub-batch i with tokens more prompt tokens of w, less T_PIM
// of the other sub-batch (equations 5 and 6). That T_PIM includes the transfer of the
// keys and values of sub-batch i's prompts. A single batch uses its own T_PIM, without
// that transfer: its prompts move after its decode attention.
type excess struct {
	f          *dealer
	step       int64
	sub, other *scheduler.SubBatch
	w          *Waiting
	moves      bool           // the tokens go to the ranks
	moved      int            // tokens that go there without w's
	pim        units.Duration // T_PIM without tokens that go to the ranks, where f.exact is known
	beyond     int            // tokens from which on there surely is an excess
	last       [2]predicted   // the latest without excess, and with
}

// predicted is the result for a number of tokens.
type predicted struct {
	tokens int
	excess units.Duration
	known  bool
}

// excessOf prepares predictions for up to left tokens of w.
func (f *dealer) excessOf(s *State, i int, w *Waiting, left int) (x excess) {
	x = excess{f: f, step: s.Batch.Step, sub: &s.Batch.Sub[i], other: &s.Batch.Sub[len(s.Batch.Sub)-1-i], w: w, beyond: left + 1}
	if len(s.Batch.Sub) == 2 {
		x.moved, x.moves = x.sub.MovedTokens(), !w.Hold.Near
	}
	if f.exact != nil {
		x.pim = f.predictor.PIM(x.other, x.step, 0)
		moved, c := -1, w.chunk(left, true)
		if x.moves {
			moved = x.moved
		}
		x.beyond = f.exact.Beyond(x.sub, &c, x.otherPIM(0), moved)
	}
	return x
}

// of predicts the excess with some tokens of w.
func (x *excess) of(tokens int) units.Duration {
	for _, p := range x.last {
		if p.known && p.tokens == tokens {
			return p.excess
		}
	}
	return x.predict(tokens, x.otherPIM(tokens))
}

// none says that there is no excess with some tokens of w.
func (x *excess) none(tokens int) bool { return tokens < x.beyond && x.within(tokens, 0) }

// within says that the excess with some tokens of w is at most limit. It predicts the GPUs' time only where a bound does not decide.
func (x *excess) within(tokens int, limit units.Duration) bool {
	for _, p := range x.last {
		if p.known && p.tokens == tokens {
			return p.excess <= limit
		}
	}
	pim := x.otherPIM(tokens)
	if x.f.exact != nil {
		if c := x.w.chunk(tokens, true); x.f.exact.Exceeds(x.sub, &c, pim+limit) {
			return false
		}
	}
	return x.predict(tokens, pim) <= limit
}

// predict predicts the excess over a T_PIM.
func (x *excess) predict(tokens int, pim units.Duration) units.Duration {
	p := predicted{tokens, x.f.gpuTime(x.sub, x.step, x.w, tokens) - pim, true}
	if p.excess <= 0 {
		x.last[0] = p
	} else {
		x.last[1] = p
	}
	return p.excess
}

// otherPIM predicts T_PIM of the other sub-batch.
func (x *excess) otherPIM(tokens int) units.Duration {
	moved := x.moved
	if x.moves {
		moved += tokens
	}
	if x.f.exact == nil {
		return x.f.predictor.PIM(x.other, x.step, moved)
	}
	if moved == 0 {
		return x.pim
	}
	return x.pim + x.f.exact.Moves(moved)
}

// gpuTime predicts the GPU's time of sub if tokens more prompt tokens of w are added.
func (f *dealer) gpuTime(sub *scheduler.SubBatch, step int64, w *Waiting, tokens int) units.Duration {
	if tokens == 0 {
		return f.predictor.GPU(sub, step)
	}
	sub.Prefill = append(sub.Prefill, w.chunk(tokens, true))
	t := f.predictor.GPU(sub, step)
	sub.Prefill = sub.Prefill[:len(sub.Prefill)-1]
	return t
}

// chunk returns the next tokens of the prompt.
func (w *Waiting) chunk(tokens int, last bool) scheduler.Chunk {
	return scheduler.Chunk{
		Request: w.Request, Offset: int32(w.Hold.Offset), Tokens: tokens, Finished: w.finished, Prefix: w.prefix, Last: last, Host: w.Hold.Host, Near: w.Hold.Near,
	}
}

// take moves the next tokens prompt tokens of w, the queue's head, into sub-batch i.
func (s *State) take(i int, w *Waiting, tokens int) {
	last := tokens == w.Prompt-w.finished
	s.Batch.Sub[i].Prefill = append(s.Batch.Sub[i].Prefill, w.chunk(tokens, last))
	if s.keepsKV(w, last) && !w.Cut {
		w.Cut = true
		s.Usage.cutPrompts += s.keepsOnGPU(w)
	}
	w.finished += tokens
	w.begun = true
	s.chunked = append(s.chunked, *w)
	s.Queue.head++
}

// keepsKV says whether the GPUs keep keys and values of a prompt while its chunks run: those computed for later
// chunks, or those of a cached prefix.
func (s *State) keepsKV(w *Waiting, last bool) bool {
	return !last || w.prefix > 0 && s.GPU.Fetches()
}

// keepsOnGPU returns the number of tokens of w whose keys and values the GPUs keep without a
// reservation.
func (s *State) keepsOnGPU(w *Waiting) int {
	if w.Hold.Near {
		return 0
	}
	if s.GPU.PrefixStays {
		return w.Prompt - w.prefix
	}
	return w.Prompt
}

// roomOnGPU returns the largest number of prompt tokens of w, at most tokens, that fit
// the GPUs. Activations of the whole iteration and the KV of cut prompts must fit. Where
// only the whole prompt fits, because it leaves no KV on the GPUs, roomOnGPU returns left.
func (s *State) roomOnGPU(w *Waiting, tokens, left int) int {
	batched := s.Batch.Tokens()
	fits := func(n int) bool {
		kv := s.Usage.kv()
		if s.keepsKV(w, n == left) && !w.Cut {
			kv += s.keepsOnGPU(w)
		}
		return s.GPU.Fits(batched+n, kv)
	}
	if fits(tokens) {
		return tokens
	}
	if !s.Scheduler.Chunking {
		return 0
	}
	multiple := s.Scheduler.ChunkMultiple
	chunks := mostThat(0, (tokens+multiple-1)/multiple, func(n int) bool { return fits(n * multiple) })
	if chunks == 0 && fits(left) {
		return left
	}
	return chunks * multiple
}
