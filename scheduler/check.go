package scheduler

import (
	"errors"
	"fmt"
	"maps"
)

// CheckMemory returns an error where a rank has more units in use than its capacity,
// or where the activations and prompts' KV exceed what is free on the GPUs.
func (s *Scheduler) CheckMemory() error {
	for rank, used := range s.ledger.used {
		if used < 0 || used+s.ledger.unused(rank) > s.ledger.capacity {
			return fmt.Errorf("rankset %d holds %d units of %d", rank, used, s.ledger.capacity)
		}
	}
	tokens := s.batch.tokens()
	kv, prompts := s.cutPrompts()+s.held(), false
	for i := range s.batch.Sub {
		prompts = prompts || len(s.batch.Sub[i].Prefill) > 0
	}
	// Requests that only decode are never held back for activations.
	if prompts && !s.gpu.fits(tokens, kv) {
		return fmt.Errorf("activations of %d tokens and KV of %d prompt tokens do not fit the %v free on the GPUs",
			tokens, kv, s.gpu.Free)
	}
	return s.checkCache()
}

// checkCache returns an error where a block of a request in memory is gone or lies elsewhere, or blocks are counted as used
// by other requests than those in memory, or a block is gone from before another.
func (s *Scheduler) checkCache() error {
	c := s.ledger.cache
	if c == nil {
		return nil
	}
	users := make([]int32, len(c.blocks))
	for i := range s.decoding {
		if err := s.ledger.follow(&s.holds[s.decoding[i].Request], users); err != nil {
			return fmt.Errorf("request %d decodes: %w", s.decoding[i].Request, err)
		}
	}
	var err error
	s.eachPrefilling(false, func(w *waiting) {
		if bad := s.ledger.follow(&w.hold, users); bad != nil {
			err = fmt.Errorf("request %d prefills: %w", w.request, bad)
		}
	})
	if err != nil {
		return err
	}
	for i := range s.batch.Sub {
		if s.groups != nil {
			err = errors.Join(err, c.checkGroups(&s.batch.Sub[i], s.holds))
		}
	}
	return errors.Join(err, s.ledger.checkBlocks(users))
}

// held returns the tokens whose keys and values stay on the GPUs, computed anew;
// the field windows keeps this sum up to date.
func (s *Scheduler) held() (tokens int) {
	if !s.gpu.windowed() {
		return 0
	}
	for i := range s.decoding {
		tokens += s.holds[s.decoding[i].Request].Window
	}
	s.eachPrefilling(false, func(w *waiting) { tokens += w.hold.Window })
	return tokens
}

// cutPrompts returns the prompt tokens of the requests whose prompts are cut. It
// includes requests whose last chunk is in the latest batch. The sum is computed
// from scratch; kvOnGPU keeps the same sum as it changes.
func (s *Scheduler) cutPrompts() int {
	tokens := 0
	for i := range s.chunked {
		if w := &s.chunked[i]; w.cut {
			tokens += s.keepsOnGPU(w)
		}
	}
	for i := s.head; i < len(s.queue) && s.queue[i].cut; i++ { // they stand at the head
		tokens += s.keepsOnGPU(&s.queue[i])
	}
	return tokens
}

// CheckAdmission returns an error where the head of the queue is refused although
// memory has room for it.
func (s *Scheduler) CheckAdmission() error {
	if !s.blocked || s.head == len(s.queue) {
		return nil
	}
	return s.checkRefusal(s.ledger, &s.queue[s.head], s.keep(s.ledger), s.refusal, s.running(), s.foresee)
}

// follow counts a user of each block that a reservation uses. It returns an error where one is gone, or is not where it
// should be.
func (l *Ledger) follow(r *Reservation, users []int32) error {
	tokens := 0
	for at := r.last; at > 0; at = l.cache.blocks[at].before {
		b := &l.cache.blocks[at]
		if found, ok := l.cache.index[b.blockName]; !ok || found != at || int(b.offset) != r.Offset {
			return fmt.Errorf("block %d, of its prefix of %d tokens at offset %d, is gone", at, r.Shared, r.Offset)
		}
		users[at]++
		tokens += l.cache.tokens
	}
	if tokens != r.Shared {
		return fmt.Errorf("its blocks have %d tokens of a prefix of %d", tokens, r.Shared)
	}
	return nil
}

// checkBlocks returns an error where the users of blocks, their memory or their number are not these.
func (l *Ledger) checkBlocks(users []int32) error {
	c := l.cache
	hosted, pinned := int64(0), int64(0)
	unused, used := make([]int64, len(l.used)), make([]int64, len(l.used))
	for name, at := range c.index {
		b := &c.blocks[at]
		if b.users != users[at] {
			return fmt.Errorf("block %d has %d users, %d requests use it", at, b.users, users[at])
		}
		if name.before > 0 && c.blocks[name.before].blockName == (blockName{}) {
			return fmt.Errorf("block %d lies behind block %d, which is gone", at, name.before)
		}
		if b.hosted {
			hosted++
		}
		switch {
		case b.hosted && b.users > 0 || b.users > 0 && name.before > 0 && c.blocks[name.before].users == 0 || !b.hosted && name.before > 0 && c.blocks[name.before].hosted:
			return fmt.Errorf("block %d, with %d users, is in a slower memory, or behind one that nobody uses or that is", at, b.users)
		case b.hosted:
		case b.users > 0:
			l.spread(used, int(b.offset), c.units)
			pinned++
		default:
			l.spread(unused, int(b.offset), c.units)
		}
	}
	for rank := range used {
		if used[rank] != c.used[rank] || unused[rank] != c.unused[rank] {
			return fmt.Errorf("rankset %d holds %d units of blocks in use and %d of others, counted are %d and %d",
				rank, used[rank], unused[rank], c.used[rank], c.unused[rank])
		}
	}
	if n := int64(len(c.index)) - hosted; n != c.count || n > c.most || pinned != c.pinned {
		return fmt.Errorf("the cache has %d blocks, %d in use, counted are %d, %d in use, of %d", n, pinned, c.count, c.pinned, c.most)
	}
	if hosted != c.hosted || hosted > c.hostMost {
		return fmt.Errorf("the host has %d blocks, counted are %d of %d", hosted, c.hosted, c.hostMost)
	}
	return nil
}

// checkGroups returns an error where stretches are not the blocks that the same decoding requests of a sub-batch use, several of them.
func (c *cache) checkGroups(sub *SubBatch, holds []Reservation) error {
	users := map[int32][]int32{} // by block: places
	for i, d := range sub.Decode {
		for at := holds[d.Request].last; at > 0; at = c.blocks[at].before {
			users[at] = append(users[at], int32(i))
		}
	}
	want, got := map[string]int{}, map[string]int{}
	for _, by := range users {
		if len(by) > 1 {
			want[fmt.Sprint(by)] += c.tokens
		}
	}
	for i := range sub.Shared {
		x := &sub.Shared[i]
		got[fmt.Sprint(x.Requests)] += x.Tokens
		if i > 0 && x.Spared() > sub.Shared[i-1].Spared() {
			return fmt.Errorf("stretch %d of shared blocks spares %d tokens, the one before %d", i, x.Spared(), sub.Shared[i-1].Spared())
		}
	}
	if !maps.Equal(got, want) || len(got) != len(sub.Shared) {
		return fmt.Errorf("decoding requests share tokens %v, their blocks have %v", got, want)
	}
	return nil
}

// UsedUnits returns the number of allocation units in use on GPUs and host.
func (o *Offload) UsedUnits() int64 { return o.ledger.Used() + o.Host.Used() }

// Fragmentation returns the unfilled share of the rows in use of both memories, 0 to 1
// (Scheduler.Fragmentation).
func (o *Offload) Fragmentation() float64 {
	gpus := o.Scheduler.Fragmentation()
	host := o.Host.Used()
	if host == 0 {
		return gpus
	}
	var unused int64
	if o.memory.Admission == AdmitCurrent {
		unused = o.unusedOnHost()
	}
	used := o.ledger.Used()
	return (float64(gpus*float64(used)) + float64(o.Host.fragmentation(unused*int64(o.Host.heads))*float64(host))) / float64(used+host)
}

// unusedOnHost returns the number of tokens that the host has reserved memory for and that
// do not exist yet.
func (o *Offload) unusedOnHost() (tokens int64) {
	for i := range o.hosted {
		h := &o.hosted[i]
		tokens += int64(o.holds[h.Request].Tokens - h.context(o.batch.Step))
	}
	return tokens
}

// CheckMemory returns an error where a memory has more units in use than its capacity, or
// another number than its requests hold.
func (o *Offload) CheckMemory() error {
	if err := o.Scheduler.CheckMemory(); err != nil {
		return err
	}
	held := [2]int64{} // on GPUs and host
	count := func(r Reservation) {
		to := 0
		if r.Host {
			to = 1
		}
		held[to] += o.units(r.Tokens)
	}
	for i := range o.decoding {
		count(o.holds[o.decoding[i].Request])
	}
	for i := range o.hosted {
		count(o.holds[o.hosted[i].Request])
	}
	for i := range o.moving {
		count(o.holds[o.moving[i].Request])
	}
	prefill := func(w *waiting) {
		if !w.held {
			return
		}
		count(w.hold)
		if w.cut && w.hold.Host {
			count(w.staged)
		}
	}
	for i := o.head; i < len(o.queue) && o.queue[i].held; i++ {
		prefill(&o.queue[i])
	}
	for i := range o.chunked {
		prefill(&o.chunked[i])
	}
	if gpus, host := o.ledger.Used(), o.Host.Used(); gpus != held[0] || host != held[1] || host > o.Host.Capacity() {
		return fmt.Errorf("GPUs and host account for %d and %d units of %d and %d, their requests for %d and %d",
			gpus, host, o.ledger.Capacity(), o.Host.Capacity(), held[0], held[1])
	}
	return nil
}

// units returns the allocation units of a request of tokens tokens.
func (o *Offload) units(tokens int) int64 {
	return o.Host.perLayer(prompted(tokens)) * int64(o.Host.layersOn[0])
}

// CheckAdmission returns an error where the head of the queue is refused although a
// memory that it may use has room for it.
func (o *Offload) CheckAdmission() error {
	if !o.blocked || o.head == len(o.queue) || o.seated(o.running()) {
		return nil
	}
	w := &o.queue[o.head]
	r := &o.requests[w.request]
	if !o.overtakes(w) && o.gpusHold(r) {
		if err := o.Scheduler.CheckAdmission(); err != nil {
			return err
		}
	}
	if o.busy || !o.canRunOnHost(r) {
		return nil
	}
	if err := o.checkRefusal(o.Host, w, o.keepOnHost(r), o.refused, len(o.hosted), o.foreseeOnHost); err != nil {
		return fmt.Errorf("on the host: %w", err)
	}
	return nil
}
