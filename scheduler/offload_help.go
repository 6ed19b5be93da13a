package scheduler

import "github.com/l3sim/l3sim/units"

// way is one of the ways in which requests of the host take part in an iteration.
type way int

const (
	// besideAttention puts them into the GPUs' sub-batch, while the attention on the CPUs
	// takes no longer than the attention on the GPUs.
	besideAttention way = iota
	// inPlaceOfWeights puts them there too. The CPUs may take longer, by the time of the
	// batched operations: a second sub-batch would make the GPUs read all weights again.
	inPlaceOfWeights
	// inTurns is NEO's way, with two sub-batches. The CPUs' attention for a sub-batch may
	// take as long as the GPUs' work meanwhile: attention of the same sub-batch, and the
	// batched operations of the other.
	inTurns
	ways
)

// helpBest adds requests of the host to the iteration of the GPUs. It chooses the way
// with the most worth per time, if that beats the GPUs alone and makes no request late.
//
// NEO compares iterations by requests per time. But tokens differ: a request waits on the
// host for memory of the GPUs, and so the host computes its first tokens, with short
// contexts. Here a token of the host is worth the time that it would take in a step on the
// GPUs. That time is a share of the batched operations, by the memory that its request
// holds, and a share of attention, by its context. An iteration whose tokens are worth more
// than the time that it takes longer makes the whole run shorter.
func (o *Offload) helpBest() {
	b := &o.batch
	without := o.Costs.Iteration(b)
	operations, attention := o.gpuStep()
	chosen, most := ways, 1.0
	for w := range ways {
		if !o.pack(w) {
			continue
		}
		worth := float64(without)
		for i := range b.Sub {
			held, contexts := o.load(b.Sub[i].Host)
			worth += float64(operations*held) + float64(attention*contexts)
		}
		with := o.Costs.Iteration(b)
		costly := with > without && o.movable == len(o.hosted) // else some can only run on the host
		if worth > most*float64(with) && !(costly && o.late(with, 1, 1)) {
			chosen, most, o.costly = w, worth/float64(with), costly
		}
	}
	o.unpack()
	if chosen < ways {
		o.pack(chosen)
	}
}

// gpuStep returns the time of a step on the GPUs per token of memory that its requests
// hold (batched operations), and per token of context (attention). The step is of the
// GPUs' requests. Where the GPUs have no requests it is of the host's.
func (o *Offload) gpuStep() (held, context float64) {
	sub := &o.gpus.Sub[0]
	o.gpus.Step, sub.Decode = o.batch.Step, append(sub.Decode[:0], o.decoding...)
	if len(o.decoding) == 0 {
		for i := range o.hosted {
			sub.Decode = append(sub.Decode, o.hosted[i].Decoding)
		}
	}
	took := float64(o.Costs.Iteration(&o.gpus))
	attention, operations := o.Costs.Attention(sub, o.gpus.Step), o.Costs.Linear(len(sub.Decode))
	share := float64(attention) / float64(attention+operations)
	heldAll, contexts := o.load(sub.Decode)
	return took * (1 - share) / heldAll, took * share / contexts
}

// load returns the tokens that requests hold memory for, and the sum of their contexts.
func (o *Offload) load(requests []Decoding) (held, contexts float64) {
	var h, c int64
	for i := range requests {
		d := &requests[i]
		h += int64(o.holds[d.Request].Tokens)
		c += d.Base + o.batch.Step
	}
	return float64(h), float64(c)
}

// pack first removes the host's requests from the iteration. Then it adds them, oldest
// first, while the CPUs' attention fits. With two sub-batches, the next request goes to the
// one with more time left. A request that does not fit is passed over, and so are all with
// longer contexts. pack says whether it has added a request.
func (o *Offload) pack(w way) bool {
	o.unpack()
	b := &o.batch
	var tokens, requests [2]int
	var contexts [2]int64
	var gpu [2]units.Duration
	for i := range b.Sub {
		tokens[i], gpu[i] = b.Sub[i].Tokens(), o.Costs.Attention(&b.Sub[i], b.Step)
	}
	left := func(i int) units.Duration {
		time := gpu[i] - o.Costs.HostAttention(requests[i], contexts[i])
		switch w {
		case besideAttention: // hidden behind attention alone
		case inPlaceOfWeights:
			time += o.Costs.Linear(tokens[i])
		case inTurns:
			time += o.Costs.Linear(tokens[1-i])
		}
		return time
	}
	to := 0
	if w == inTurns {
		to = 1
	}
	add := func(n int, context int64) {
		tokens[to], requests[to], contexts[to] = tokens[to]+n, requests[to]+n, contexts[to]+context
	}
	room, added, shortest := min(o.roomBeside(), o.seats(len(o.decoding))), 0, int64(never)
	for k := 0; k < len(o.hosted) && added < room; k++ {
		h := &o.hosted[k]
		context := h.Base + b.Step
		if h.comes || context >= shortest {
			continue
		}
		add(1, context)
		left0, left1 := left(0), left(1)
		if left0 < 0 || left1 < 0 {
			add(-1, -context)
			shortest = context
			continue
		}
		o.join(h, to)
		added++
		if w == inTurns {
			to = 0
			if left1 > left0 {
				to = 1
			}
		}
	}
	return added > 0
}

// never is longer than any context.
const never = 1 << 62

// join puts a request of the host into a sub-batch.
func (o *Offload) join(h *hosted, sub int) {
	h.chosen = true
	o.batch.Sub[sub].Host = append(o.batch.Sub[sub].Host, h.Decoding)
}

// unpack takes the host's requests out of the iteration.
func (o *Offload) unpack() {
	for i := range o.batch.Sub {
		o.batch.Sub[i].Host = o.batch.Sub[i].Host[:0]
	}
	for i := range o.hosted {
		o.hosted[i].chosen = false
	}
}

// spreadBest has the requests of the host decode in one sub-batch or in two, whichever
// takes less time.
func (o *Offload) spreadBest() {
	o.spread(1)
	one := o.Costs.Iteration(&o.batch)
	o.unpack()
	o.spread(2)
	if one < o.Costs.Iteration(&o.batch) {
		o.unpack()
		o.spread(1)
	}
}

// spread puts the requests of the host into one sub-batch, or into two with about equal
// sums of contexts. At most MaxNumSeqs take part, the oldest first.
func (o *Offload) spread(over int) {
	var tokens [2]int64
	for i := range min(len(o.hosted), o.seats(0)) {
		h := &o.hosted[i]
		to := 0
		if over == 2 && tokens[1] < tokens[0] {
			to = 1
		}
		tokens[to] += h.Base + o.batch.Step
		o.join(h, to)
	}
}

// choose has the chosen requests of the host take part from this step on. The others
// sit out.
func (o *Offload) choose() {
	o.unused.valid = false
	for i := range o.hosted {
		h := &o.hosted[i]
		if h.runs != h.chosen {
			o.batch.Pauses = append(o.batch.Pauses, Pause{Request: h.Request, Ends: h.chosen})
		}
		h.runs, h.chosen = h.chosen, false
	}
}
