package offload

import (
	"fmt"

	"github.com/l3sim/l3sim/units"
)

// watch is Check's record of the iterations that decode.
type watch struct {
	ran, turns units.Duration // time of all iterations; time that turns added to them
	waits      map[int32]*wait
}

// wait is the wait of one request that sits out on the host.
type wait struct {
	since      int64          // step of its beginning
	ran, turns units.Duration // values of watch at that time; turns without their later costs
	iterations units.Duration // iterations since then; each may round off a picosecond
	passed     int            // turns of others since then
	before     int            // others that may have waited longer
}

// Check returns an error where a request that sits out on the host waits for longer than it may. It is called once for each
// iteration that has been formed. A request waits for one turn of each request that was on the host before it. While nobody
// has a turn, turns must have taken more than maxDelay of the time that it has waited.
func (o *Former) Check() error {
	b, w := &o.s.Batch, &o.watch
	if b.Decoding() == 0 {
		return nil
	}
	took := o.costs.Iteration(b)
	hasTurn := o.turns.request != nobody
	if hasTurn {
		host := b.Sub[0].Host
		b.Sub[0].Host = host[:len(host)-1]
		w.turns += took - o.costs.Iteration(b)
		b.Sub[0].Host = host
	}
	if w.waits == nil {
		w.waits = map[int32]*wait{}
	}
	for i := range o.s.Host.SwapIns {
		delete(w.waits, o.s.Host.SwapIns[i].Request)
	}
	var err error
	hosts := o.s.Host.Decoding
	for i := range hosts {
		h := &hosts[i]
		if h.Runs || h.Comes {
			delete(w.waits, h.Request)
			continue
		}
		x := w.waits[h.Request]
		if x == nil || x.since != h.Since {
			w.waits[h.Request] = &wait{since: h.Since, ran: w.ran, turns: w.turns + min(o.turns.credit, 0), before: len(hosts) + len(o.s.Host.SwapIns) - 1}
			continue
		}
		x.iterations++
		if hasTurn {
			x.passed++
		}
		earned, spent := o.slack(w.ran-x.ran), w.turns-x.turns
		switch {
		case x.passed > x.before:
			err = fmt.Errorf("request %d sits out on the host, and others had %d turns, of %d that were there", h.Request, x.passed, x.before)
		case !hasTurn && earned > spent+x.iterations && o.roomBeside() > 0:
			err = fmt.Errorf("request %d sits out on the host for %v, and turns took %v of it; it has none", h.Request, w.ran-x.ran, spent)
		}
	}
	w.ran += took
	return err
}
