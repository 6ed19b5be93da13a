package scheduler

import "github.com/l3sim/l3sim/units"

// addPrefill adds prefill requests to sub-batch i until T_GPU passes the PIM time of
// the other sub-batch. It cuts the last request so that both are about equal (L3,
// section 5.3, steps 3 and 4). A single batch is bounded by its own PIM time.
// addPrefill returns false when a memory is full, so that no sub-batch can take more.
func (s *Scheduler) addPrefill(i int) bool {
	sub := &s.batch.Sub[i]
	for s.head < len(s.queue) {
		w := &s.queue[s.head]
		if !w.held && !s.place.admit(w) {
			return false
		}
		left := w.prompt - w.finished
		tokens := s.cut(i, w, left)
		room := tokens
		if tokens > 0 {
			room = s.roomOnGPU(w, tokens, left)
		}
		if room > tokens {
			s.wholePrompts++
			s.longestWhole = max(s.longestWhole, room)
		}
		full := room < tokens
		if tokens = room; tokens == 0 {
			return !full
		}
		s.take(sub, w, tokens, tokens == left)
		if tokens < left {
			return !full
		}
	}
	return true
}

// take moves tokens prompt tokens of w, the queue's head, into sub.
func (s *Scheduler) take(sub *SubBatch, w *waiting, tokens int, last bool) {
	sub.Prefill = append(sub.Prefill, Chunk{
		Request: w.request, Offset: int32(w.hold.Offset), Tokens: tokens, Finished: w.finished, Prefix: w.prefix, Last: last, Host: w.hold.Host,
	})
	if s.keepsKV(w, last) && !w.cut {
		w.cut = true
		s.kvOnGPU += s.keepsOnGPU(w)
	}
	w.finished += tokens
	w.begun = true
	s.chunked = append(s.chunked, *w)
	s.head++
}

// keepsKV says whether the GPUs keep keys and values of a prompt while its chunks run: computed ones for later chunks,
// or those of a prefix that the cache has.
func (s *Scheduler) keepsKV(w *waiting, last bool) bool {
	return !last || w.prefix > 0 && s.gpu.fetches()
}

// keepsOnGPU returns the tokens whose keys and values these are.
func (s *Scheduler) keepsOnGPU(w *waiting) int {
	if s.gpu.PrefixStays {
		return w.prompt - w.prefix
	}
	return w.prompt
}

// cut returns how many prompt tokens of w sub-batch i takes, of the left that remain. It
// takes all where T_GPU stays within T_PIM of the other sub-batch. Else it takes the
// multiple of ChunkMultiple that brings the two times closest, but at least the tokens
// that the iteration lacks of MinPrefillTokens.
func (s *Scheduler) cut(i int, w *waiting, left int) int {
	if s.excess(i, w, left) <= 0 {
		return left
	}
	least := s.spec.MinPrefillTokens
	for j := range s.batch.Sub {
		least -= s.batch.Sub[j].PrefillTokens()
	}
	least = max(least, 0)
	if !s.spec.Chunking {
		// A prompt cannot be cut. It is taken whole where the GPU has time left or
		// MinPrefillTokens is not met.
		if least > 0 || s.excess(i, w, 0) < 0 {
			return left
		}
		return 0
	}
	multiple := s.spec.ChunkMultiple
	low, high := 0, (left+multiple-1)/multiple // excess(low) <= 0 < excess(high), in multiples
	if s.excess(i, w, 0) > 0 {
		high = 0
	}
	for high-low > 1 {
		mid := (low + high) / 2
		if s.excess(i, w, mid*multiple) <= 0 {
			low = mid
		} else {
			high = mid
		}
	}
	if high > low && s.excess(i, w, min(left, high*multiple)) < -s.excess(i, w, low*multiple) {
		low = high
	}
	tokens := max(low*multiple, (least+multiple-1)/multiple*multiple)
	return min(tokens, left)
}

// excess predicts T_GPU of sub-batch i with tokens more prompt tokens of w, less T_PIM
// of the other sub-batch (equations 5 and 6). That T_PIM includes the transfer of the
// keys and values of sub-batch i's prompts. A single batch uses its own T_PIM, without
// that transfer: its prompts move after its decode attention.
func (s *Scheduler) excess(i int, w *waiting, tokens int) units.Duration {
	sub := &s.batch.Sub[i]
	moved := 0
	if len(s.batch.Sub) == 2 {
		moved = sub.PrefillTokens() + tokens
	}
	return s.gpuTime(sub, w, tokens) - s.predictor.PIM(&s.batch.Sub[len(s.batch.Sub)-1-i], s.batch.Step, moved)
}

// gpuTime predicts the GPU's time of sub with tokens more prompt tokens of w.
func (s *Scheduler) gpuTime(sub *SubBatch, w *waiting, tokens int) units.Duration {
	if tokens == 0 {
		return s.predictor.GPU(sub, s.batch.Step)
	}
	sub.Prefill = append(sub.Prefill, Chunk{Request: w.request, Offset: int32(w.hold.Offset), Tokens: tokens, Finished: w.finished, Prefix: w.prefix, Last: true})
	t := s.predictor.GPU(sub, s.batch.Step)
	sub.Prefill = sub.Prefill[:len(sub.Prefill)-1]
	return t
}

// roomOnGPU returns the largest number of prompt tokens of w, at most tokens, that fit
// the GPUs. Activations of the whole iteration and the KV of cut prompts must fit. Where
// only the whole prompt fits, because it leaves no KV on the GPUs, roomOnGPU returns left.
func (s *Scheduler) roomOnGPU(w *waiting, tokens, left int) int {
	batched := s.batch.tokens()
	fits := func(n int) bool {
		kv := s.kvOnGPU + s.windows
		if s.keepsKV(w, n == left) && !w.cut {
			kv += s.keepsOnGPU(w)
		}
		return s.gpu.fits(batched+n, kv)
	}
	if fits(tokens) {
		return tokens
	}
	if !s.spec.Chunking {
		return 0
	}
	multiple := s.spec.ChunkMultiple
	low, high := 0, (tokens+multiple-1)/multiple
	for high-low > 1 {
		if mid := (low + high) / 2; fits(mid * multiple) {
			low = mid
		} else {
			high = mid
		}
	}
	if low == 0 && fits(left) {
		return left
	}
	return low * multiple
}
