package system

import (
	"math"
	"sync"

	"github.com/l3sim/l3sim/units"
)

// peak finds the maximum over time of a sum over replicas, such as memory in use, while
// they run side by side. Each replica tells its own changes. They are kept until all
// replicas have passed their time. Replicas that are far ahead wait, so that few changes
// are kept; the replica furthest behind never waits.
type peak struct {
	mu       sync.Mutex
	moved    sync.Cond
	told     []told
	sum, top int64
	// Where one loop runs all replicas, changes come in the order of time and are added up at
	// once: no replica is ahead of others.
	together bool
	now      units.Duration
}

// told is what one replica has said and not all others have passed.
type told struct {
	changes []change
	until   units.Duration // of the changes to come
}

// change is by how much a replica's part is more from a time on.
type change struct {
	at units.Duration
	by int64
}

const (
	changesTold = 1 << 12 // at a time
	changesKept = 1 << 16 // of a replica, before it waits
)

func newPeak(replicas int) *peak {
	p := &peak{told: make([]told, replicas)}
	p.moved.L = &p.mu
	return p
}

// level is a replica's part of a peak.
type level struct {
	peak    *peak
	replica int
	value   int64
	changes []change // that the peak has not been told
}

// set changes the value from time now on.
func (l *level) set(now units.Duration, value int64) {
	if value == l.value {
		return
	}
	by := value - l.value
	l.value = value
	if l.peak.together {
		l.peak.add(now, by)
		return
	}
	n := len(l.changes)
	if n > 0 && l.changes[n-1].at == now {
		l.changes[n-1].by += by
		return
	}
	if n == changesTold {
		l.peak.tell(l.replica, l.changes, now)
		l.changes = l.changes[:0]
	}
	l.changes = append(l.changes, change{now, by})
}

// add adds a change at a time that all replicas have reached. What several change at one
// time counts together.
func (p *peak) add(now units.Duration, by int64) {
	if now > p.now {
		p.top, p.now = max(p.top, p.sum), now
	}
	p.sum += by
}

// end says that the value stays. One that is part of no peak is always 0.
func (l *level) end() {
	if l.peak == nil {
		return
	}
	if l.peak.together {
		l.peak.add(math.MaxInt64, 0)
		return
	}
	l.peak.tell(l.replica, l.changes, math.MaxInt64)
}

// tell adds the changes of a replica, all before a time, from which on there may be more.
func (p *peak) tell(replica int, changes []change, until units.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.told[replica]
	s.changes, s.until = append(s.changes, changes...), until
	p.pass()
	for len(s.changes) > changesKept && until < math.MaxInt64 {
		p.moved.Wait()
	}
}

// pass adds up the changes at times that all replicas have passed.
func (p *peak) pass() {
	passed := units.Duration(math.MaxInt64)
	for i := range p.told {
		passed = min(passed, p.told[i].until)
	}
	next := make([]int, len(p.told))
	for {
		now := passed
		for i := range p.told {
			if c := p.told[i].changes; next[i] < len(c) {
				now = min(now, c[next[i]].at)
			}
		}
		if now == passed {
			break
		}
		for i := range p.told {
			if c := p.told[i].changes; next[i] < len(c) && c[next[i]].at == now {
				p.sum += c[next[i]].by
				next[i]++
			}
		}
		p.top = max(p.top, p.sum)
	}
	for i := range p.told {
		c := p.told[i].changes
		p.told[i].changes = c[:copy(c, c[next[i]:])]
	}
	p.moved.Broadcast()
}
