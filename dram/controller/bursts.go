package controller

import (
	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/controller/mapping"
)

// burstSplitter splits requests into bursts of the part, and finds those of one channel.
type burstSplitter struct {
	mapping  *mapping.Mapping
	burst    uint64 // bytes, a power of two
	bytes    uint64 // of a request without its own size
	channel  int
	channels int
}

// newSplitter returns the splitter of channel 0. bytes is the size of a request without its own.
func newSplitter(spec *dram.Spec, to *mapping.Mapping, channels int, bytes uint64) burstSplitter {
	return burstSplitter{mapping: to, burst: uint64(spec.BurstBytes()), bytes: bytes, channels: channels}
}

// partsOfBurst is the number of parts of a burst that an entry distinguishes: one for each bit of a word.
const partsOfBurst = 32

// allParts is the whole burst.
const allParts = ^uint32(0)

// split returns the first byte of r, its number of bursts, and which parts of each burst it accesses.
func (p *burstSplitter) split(r *Request) (first uint64, bursts int, parts uint32) {
	size := p.bytes
	if r.Bytes != 0 {
		size = uint64(r.Bytes)
	}
	first = r.Address &^ (size - 1)
	if size >= p.burst {
		return first, int(size / p.burst), allParts
	}
	return first, 1, p.parts(first%p.burst, size, r.Write)
}

// parts returns the parts of a burst that a range of bytes covers. A write smaller than a part covers no part, so a later read of that
// part also needs the burst from memory.
func (p *burstSplitter) parts(offset, size uint64, write bool) uint32 {
	part := max(1, p.burst/partsOfBurst)
	if write && size < part {
		return 0
	}
	n := max(1, size/part)
	return (1<<n - 1) << (offset / part)
}

// own returns the number of bursts, from first on, that are in the channel, and the address of the first.
func (p *burstSplitter) own(first uint64, bursts int) (address uint64, n int) {
	var a dram.Address
	for i := range bursts {
		at := first + uint64(i)*p.burst
		if channel, _ := p.mapping.Decode(at, &a); channel == p.channel {
			if n++; n == 1 {
				address = at
			}
		}
	}
	return address, n
}

// next returns the channel's next burst after one that is not the last of its request.
func (p *burstSplitter) next(address uint64) uint64 {
	address += p.burst
	var a dram.Address
	for p.channels > 1 {
		if channel, _ := p.mapping.Decode(address, &a); channel == p.channel {
			break
		}
		address += p.burst
	}
	return address
}

// openRequest is a request of several bursts, from the acceptance of the first to the end of the last. Times are steps.
type openRequest struct {
	accepted, arrived int64
	end               int64 // of the latest data so far, -1 if none has moved
	left              int   // bursts that have not ended
	shared            int32 // see Request
	write, wrapped    bool
}

// burstEnds records the end of the data of an open request's burst; -1 if a later write replaced it. The last burst ends the request.
func (c *controller) burstEnds(request int32, end int64) {
	o := &c.front.open.of[request]
	o.end = max(o.end, end)
	if o.left--; o.left > 0 {
		return
	}
	done := c.front.open.remove(request)
	if done.shared > 0 {
		c.stats.shared = append(c.stats.shared, done)
		return
	}
	c.stats.ends(&done, c.channel.steps)
}

// ends adds the latencies of a request of several bursts.
func (s *Stats) ends(o *openRequest, steps int64) {
	clocks := func(n int64) int64 { return (n + steps - 1) / steps }
	switch {
	case !o.write:
		s.Latency.add(clocks(o.end - o.accepted))
		s.ArrivalLatency.add(clocks(o.end - o.arrived))
	case o.end >= 0:
		s.WriteLatency.add(clocks(o.end - o.accepted))
	}
}

// addShared adds n requests whose bursts several channels served, with the time from the first acceptance to the end of the last burst.
func (s *Stats) addShared(n int, of []*Stats, steps int64) {
	all := make([]openRequest, n)
	for _, channel := range of {
		for _, o := range channel.shared {
			whole := &all[o.shared-1]
			if whole.shared == 0 {
				*whole = o
				continue
			}
			whole.accepted, whole.end = min(whole.accepted, o.accepted), max(whole.end, o.end)
		}
	}
	for i := range all {
		s.Requests++
		if all[i].wrapped {
			s.WrappedAddresses++
		}
		s.ends(&all[i], steps)
	}
}

// deal distributes the requests to their channels. A request with bursts in several channels goes to each of them, with a number; n is the
// last number.
func (p burstSplitter) deal(requests []Request) (parts [][]Request, n int) {
	parts = make([][]Request, p.channels)
	var a dram.Address
	for _, r := range requests {
		first, bursts, _ := p.split(&r)
		home, _ := p.mapping.Decode(first, &a)
		p.channel = home
		if _, own := p.own(first, bursts); own == bursts {
			parts[home] = append(parts[home], r)
			continue
		}
		n++
		r.shared = int32(n)
		for p.channel = range parts {
			if _, own := p.own(first, bursts); own > 0 {
				parts[p.channel] = append(parts[p.channel], r)
			}
		}
	}
	return parts, n
}
