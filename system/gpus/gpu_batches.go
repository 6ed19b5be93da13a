package gpus

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/scheduler"
)

func addBatches(to []gpu.DecodeBatch, classes []policy.Class) []gpu.DecodeBatch {
	for i := range classes {
		to = addBatch(to, &classes[i])
	}
	return to
}

func addBatch(to []gpu.DecodeBatch, c *policy.Class) []gpu.DecodeBatch {
	if len(c.Tokens) > 0 {
		to = append(to, gpu.DecodeBatch{})
		SetBatch(&to[len(to)-1], c)
	}
	return to
}

// DecodeBatch returns the batch of a kernel for a class of heads.
func DecodeBatch(c *policy.Class) (b gpu.DecodeBatch) {
	SetBatch(&b, c)
	return b
}

// SetBatch fills the batch of a kernel from a class of heads.
func SetBatch(b *gpu.DecodeBatch, c *policy.Class) {
	setRequests(b, c.Tokens, c.Heads)
	b.Page, b.PerQueryHead, b.Weights, b.Windowed = c.Page, c.PerQueryHead, c.Weights, c.Windowed
}

func batchOf(tokens []int, heads int) (b gpu.DecodeBatch) {
	setRequests(&b, tokens, heads)
	return b
}

// setRequests fills a batch from the tokens that each request attends over; a request with 0 tokens
// is not in it.
func setRequests(b *gpu.DecodeBatch, tokens []int, heads int) {
	var sum, longest, requests int
	for _, n := range tokens {
		sum += n
		longest = max(longest, n)
		if n > 0 {
			requests++
		}
	}
	b.Requests, b.Tokens, b.Longest, b.KVHeads = requests, int64(sum), longest, heads
}

// Beside returns the batches of heads that attend on the GPUs in a step whose other heads attend elsewhere. They are valid
// until the next call.
func (a *GPUs) Beside(x *policy.Step) []gpu.DecodeBatch {
	a.Batches = a.Batches[:0]
	for i := range x.Attend {
		if c := &x.Attend[i]; c.Device == policy.GPU {
			a.Batches = addBatch(a.Batches, c)
		}
	}
	return a.Batches
}

// DecodeHere adds the batches of requests that the GPUs decode to gpus, one for each class of
// heads.
func (a *GPUs) DecodeHere(gpus []gpu.DecodeBatch, requests []scheduler.Decoding, step int64) []gpu.DecodeBatch {
	gpus = addBatches(gpus, a.Attends.Decode(requests, 0, step).Attend)
	a.Batches = gpus
	return gpus
}
