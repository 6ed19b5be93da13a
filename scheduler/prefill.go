package scheduler

import "github.com/l3sim/l3sim/units"

// addPrefill adds prefill requests to sub-batch i until T_GPU passes the PIM
// time of the other sub-batch, and cuts the last one to meet it (L3, section
// 5.3, steps 3 and 4). With a single batch, the PIM time that bounds it is its
// own. It reports false when a memory is full, so that nothing more can be
// added to any sub-batch.
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

// take puts tokens prompt tokens of the queue's head into sub.
func (s *Scheduler) take(sub *SubBatch, w *waiting, tokens int, last bool) {
	sub.Prefill = append(sub.Prefill, Chunk{
		Request: w.request, Offset: int32(w.hold.Offset), Tokens: tokens, Finished: w.finished, Last: last, Host: w.hold.Host,
	})
	if !last && !w.cut {
		w.cut = true
		s.kvOnGPU += w.prompt
	}
	w.finished += tokens
	s.chunked = append(s.chunked, *w)
	s.head++
}

// cut returns how many of the left prompt tokens of w sub-batch i takes: all
// where T_GPU stays within T_PIM of the other side, else the multiple of
// ChunkMultiple that brings the two closest, but at least what the iteration lacks
// of MinPrefillTokens; 0 for none.
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
		// A prompt cannot be cut: it goes in whole where the GPU had time left or
		// the floor is not met.
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

// excess predicts T_GPU of sub-batch i with tokens more prompt tokens of w, less
// T_PIM of the other sub-batch meanwhile, which includes the transfer of the keys
// and values of these prompts (equations 5 and 6). A single batch has no other: its
// own prompts move when its decode attention is over.
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
		return s.predictor.GPU(sub)
	}
	sub.Prefill = append(sub.Prefill, Chunk{Request: w.request, Tokens: tokens, Finished: w.finished, Last: true})
	t := s.predictor.GPU(sub)
	sub.Prefill = sub.Prefill[:len(sub.Prefill)-1]
	return t
}

// roomOnGPU returns the largest number of prompt tokens of w, at most tokens,
// whose activations fit the GPU beside the iteration's others, together with the
// KV of prompts that are not finished. Where only the whole prompt fits, it
// returns that.
func (s *Scheduler) roomOnGPU(w *waiting, tokens, left int) int {
	batched := 0
	for i := range s.batch.Sub {
		batched += s.batch.Sub[i].Tokens()
	}
	fits := func(n int) bool {
		kv := s.kvOnGPU
		if n < left && !w.cut {
			kv += w.prompt
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
		return left // whole, it leaves no KV on the GPU
	}
	return low * multiple
}
