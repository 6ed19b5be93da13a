package scheduler

import "github.com/l3sim/l3sim/units"

// way is how requests of the host take part in an iteration.
type way int

const (
	// besideAttention puts them into the GPUs' sub-batch, as long as the CPUs' attention
	// takes no longer than the GPUs'.
	besideAttention way = iota
	// inPlaceOfWeights lets it take longer there, by what the batched operations take:
	// with two sub-batches the GPUs would read their weights once more.
	inPlaceOfWeights
	// inTurns is NEO's: two sub-batches, each of whose attention on the CPUs hides behind
	// what the GPUs do meanwhile: its own attention there and the other one's batched
	// operations.
	inTurns
	ways
)

// helpBest adds requests of the host to the iteration of the GPUs, in the way that
// makes most of the time, if that is better than the GPUs alone and no request is
// late for it.
//
// NEO takes the iteration with more requests over time. But its tokens are not equal:
// requests wait for memory on the GPUs, and the host relieves them of the first tokens
// of each, with short contexts. So a token of the host is worth the time that it
// would take on the GPUs: of a step there, its share of the batched operations by the
// memory that its request holds, and of attention by its context. What is worth more
// than the time that the iteration takes longer makes the whole run shorter.
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
		costly := with > without && o.movable == len(o.hosted) // else some have no other place
		if worth > most*float64(with) && !(costly && o.late(with, 1, 1)) {
			chosen, most, o.costly = w, worth/float64(with), costly
		}
	}
	o.unpack()
	if chosen < ways {
		o.pack(chosen)
	}
}

// gpuStep returns what a step on the GPUs takes for a token of memory that requests
// hold, and for a token of context: of the requests there, or where there are none, of
// the host's.
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

// load returns the tokens that requests hold memory for, and their contexts.
func (o *Offload) load(requests []Decoding) (held, contexts float64) {
	var h, c int64
	for i := range requests {
		d := &requests[i]
		h += int64(o.holds[d.Request].Tokens)
		c += d.Base + o.batch.Step
	}
	return float64(h), float64(c)
}

// pack adds requests of the host, oldest first, to sub-batches that have none, as
// long as the CPUs' attention fits. With two, the next request goes where more time is
// left. One that does not fit is passed over, and with it all longer ones. pack says
// whether it has added any.
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

// spreadBest has all requests of the host decode in one sub-batch or in two, whichever
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

// spread puts all requests of the host into one sub-batch, or into two of about equal
// contexts.
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

// choose has the chosen requests of the host take part from this step on, the
// others sit out.
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
