package dataflow

// shape is the properties of an iteration and its resources that a lockstep needs.
type shape struct {
	onLanes, link, up, gpu int8 // resources, -1 if not known yet

	spec               *Resource // of the lanes
	longestWait        Time      // longest wait of a transfer for a boundary
	upAll              Time      // time of the results of all lanes of both sub-batches, in the layers with the longest
	latency, resultsAt Time      // of the link; of the results' way up
	total              int       // layers of each sub-batch, without the work before the first
	besides            bool      // some kind of layers has an operation beside its lanes
	costs              [2]subCost
}

// subCost is the kinds of layers of a sub-batch, their order, and its other costs.
type subCost struct {
	active      bool
	entry, exit Time
	kinds       []waveCost
	runs        []waveRun
}

// waveRun is successive layers of one kind.
type waveRun struct {
	kind  int // of subCost.kinds
	until int // the layer after those
}

// waveCost is the cost of the layers of one kind, which have the same operations.
type waveCost struct {
	Range              // of Iteration.Ops
	besides bool       // an operation runs on the block's resource from the layer's start on
	block   Time       // time of the block if another layer follows
	beside  Time       // time of the operation beside the lanes; 0 for none
	lanes   []laneCost // by lane, counted from the layer's first
	first   int        // the first active one
	mean    Time       // mean computing time over all lanes
}

// laneCost is a transfer to a lane, its operation there, and its results.
type laneCost struct {
	active      bool
	sent, close Time // sent: from the lane's stop to the end of the data
	compute, up Time
	parts       []int64
}

// fits reads the shape of an iteration and its costs; it reports false for another shape. Times of zero would end
// operations at the same instant in an order that a lockstep does not keep.
func (l *lockstep) fits(e *Engine, it *Iteration) bool {
	if !l.reads(e, it) {
		return false
	}
	l.upAll = 0
	for s := range it.Sub {
		if l.costs[s].active && !l.price(it, s) {
			return false
		}
	}
	return true
}

// reads reads the shape of an iteration.
func (l *lockstep) reads(e *Engine, it *Iteration) bool {
	l.onLanes, l.link, l.up, l.gpu, l.total, l.besides = -1, -1, -1, -1, 0, false
	if len(it.Ops) == 0 {
		return false
	}
	for s := range it.Sub {
		l.costs[s].active = len(it.Sub[s].Order) > 0
		if l.costs[s].active && !l.readSub(e, it, s) {
			return false
		}
	}
	l.spec = &e.resources[l.onLanes]
	l.longestWait = l.spec.Boundaries.longest()
	l.latency, l.resultsAt = e.servers[l.link].latency, e.servers[l.up].latency
	return l.spec.Latency == 0 && l.spec.Count == len(l.freeAt)
}

// readSub reads the shape of a sub-batch.
func (l *lockstep) readSub(e *Engine, it *Iteration, s int) bool {
	c, sub := &l.costs[s], &it.Sub[s]
	if len(sub.Kinds) < 2 || sub.Kinds[0].Count != 1 || sub.Kinds[0].To != sub.Kinds[0].From+1 {
		return false
	}
	entry := &it.Ops[sub.Kinds[0].From]
	if !l.is(e, &l.gpu, FIFO, entry.Resource) || e.servers[l.gpu].latency > 0 || entry.Flags&NextLayer == 0 {
		return false
	}
	c.kinds, c.runs = c.kinds[:0], c.runs[:0]
	for i := range sub.Kinds[1:] {
		if !l.readKind(e, it, c.add(sub.Kinds[1+i].Range, len(l.freeAt))) {
			return false
		}
	}
	total := 0
	for _, r := range sub.Order[1:] {
		total += int(r.Count)
		c.runs = append(c.runs, waveRun{int(r.Kind) - 1, total})
	}
	if l.total > 0 && l.total != total {
		return false
	}
	l.total = total
	return true
}

// add returns a new kind of layers over a number of lanes.
func (c *subCost) add(ops Range, lanes int) *waveCost {
	n := len(c.kinds)
	if n == cap(c.kinds) {
		c.kinds = append(c.kinds, waveCost{})
	}
	c.kinds = c.kinds[:n+1] // reuses the memory of an earlier iteration's kind
	if c.kinds[n].lanes == nil {
		c.kinds[n].lanes = make([]laneCost, lanes)
	}
	c.kinds[n].Range = ops
	return &c.kinds[n]
}

// readKind reads the shape of the layers of a kind.
func (l *lockstep) readKind(e *Engine, it *Iteration, c *waveCost) bool {
	n := c.To - c.From - 1 // three for each lane, and the layer's last
	if c.besides = n%3 == 1; c.besides {
		n--
		if !l.isBeside(it, c.From+n) {
			return false
		}
		l.besides = true
	}
	waits := n / 3
	if c.besides {
		waits++
	}
	if n < 3 || n%3 != 0 {
		return false
	}
	block := &it.Ops[c.To-1]
	if block.Resource != l.gpu || block.Flags != NextLayer || block.After.To-block.After.From != waits {
		return false
	}
	for i := range c.lanes {
		c.lanes[i].active = false
	}
	before := int16(-1)
	for i := range n / 3 {
		first := c.From + 3*i
		down, work, up := &it.Ops[first], &it.Ops[first+1], &it.Ops[first+2]
		if !l.is(e, &l.link, Link, down.Resource) || !l.is(e, &l.onLanes, Lanes, work.Resource) || !l.is(e, &l.up, FIFO, up.Resource) ||
			l.up == l.gpu || down.Claims != l.onLanes+1 || down.Flags|work.Flags|up.Flags != 0 || down.After.From != down.After.To ||
			!follows(it, work, first) || !follows(it, up, first+1) || it.After[block.After.From+i] != first+2 ||
			down.Lane != work.Lane || work.Lane <= before {
			return false
		}
		if before < 0 {
			c.first = int(work.Lane)
		}
		before = work.Lane
		c.lanes[work.Lane].active = true
		c.lanes[work.Lane].parts = it.Parts[work.Parts.From:work.Parts.To]
	}
	return true
}

// price reads the costs of a sub-batch whose shape is known.
func (l *lockstep) price(it *Iteration, s int) bool {
	c, sub := &l.costs[s], &it.Sub[s]
	c.entry, c.exit = it.Ops[sub.Kinds[0].From].Last, sub.Exit
	if min(c.entry, c.exit) == 0 {
		return false
	}
	most := Time(0)
	for i := range c.kinds {
		up, ok := c.kinds[i].price(it)
		if !ok {
			return false
		}
		most = max(most, up)
	}
	l.upAll += most
	return true
}

// price reads the costs of the layers of a kind, and returns the time of their results.
func (c *waveCost) price(it *Iteration) (results Time, ok bool) {
	end := c.To - 1
	c.block, c.beside = it.Ops[end].Last, 0
	if c.besides {
		end--
		if c.beside = it.Ops[end].Last; c.beside == 0 {
			return 0, false
		}
	}
	c.mean = 0
	for i := c.From; i < end; i += 3 {
		down, work, up := &it.Ops[i], &it.Ops[i+1], &it.Ops[i+2]
		if down.Pieces != 1 || min(work.Last, up.Last) == 0 {
			return 0, false
		}
		x := &c.lanes[work.Lane]
		x.sent, x.close, x.compute, x.up = down.Open+down.Last, down.Close, work.Last, up.Last
		results += up.Last
		c.mean += work.Last
	}
	c.mean /= Time(len(c.lanes))
	return results, c.block > 0
}

// isBeside says whether an operation is the one beside the lanes: it starts with the layer, runs on
// the resource of the layer's last operation, and is the last that this one waits for.
func (l *lockstep) isBeside(it *Iteration, i int32) bool {
	o, block := &it.Ops[i], &it.Ops[i+1]
	return o.Resource == block.Resource && o.Flags == 0 && o.After.From == o.After.To && block.After.From < block.After.To && it.After[block.After.To-1] == i
}

// is says whether a resource is the known one for a role. The first resource for a role becomes the
// known one if it has the right discipline.
func (l *lockstep) is(e *Engine, known *int8, d Discipline, resource int8) bool {
	if *known < 0 {
		if s := &e.servers[resource]; s.discipline != d || s.twin > 0 {
			return false
		}
		*known = resource
	}
	return *known == resource
}

// follows says whether an operation waits for exactly one given operation.
func follows(it *Iteration, o *Op, other int32) bool {
	return o.After.To == o.After.From+1 && it.After[o.After.From] == other
}
