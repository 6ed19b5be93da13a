package lm

import (
	"fmt"
	"io"
	"math/bits"

	"github.com/l3sim/l3sim/attention/policy"
)

// recentChoices is how many successive choices of pages are compared.
const recentChoices = 8

// pageChoices is the latest choices of pages of a head, and what they have in common.
type pageChoices struct {
	latest [recentChoices][]uint64 // a bit a page, in a ring
	made   int                     // choices of successive steps
	share  ratio
	shared [recentChoices - 1]ratio // by the steps between two choices, less one
	union  [recentChoices]ratio     // by the number of choices, less one
}

// ratio is a mean.
type ratio struct {
	sum float64
	n   int
}

func (r *ratio) add(x float64) { r.sum, r.n = r.sum+x, r.n+1 }

func (r *ratio) join(o ratio) { r.sum, r.n = r.sum+o.sum, r.n+o.n }

func (r *ratio) mean() float64 { return r.sum / float64(r.n) }

// add compares a step's choice with those of the steps before. The newest page, which every step has, does not count, and a step that
// attends to everything chooses nothing.
func (p *pageChoices) add(parts []policy.Part, size, context int) {
	tokens := 0
	for i := range parts {
		tokens += parts[i].Tokens()
	}
	if tokens >= context*len(parts) {
		p.made = 0
		return
	}
	pages := (context + size - 1) / size
	set := make([]uint64, (pages+63)/64)
	for i := range parts {
		for _, r := range parts[i].Ranges {
			for b := r[0] / size; b <= (r[1]-1)/size; b++ {
				set[b/64] |= 1 << (b % 64)
			}
		}
	}
	newest := pages - 1
	set[newest/64] &^= 1 << (newest % 64)
	p.latest[p.made%recentChoices] = set
	p.compare(set, newest)
	p.made++
}

// compare adds what the latest choice among so many pages has in common with each before, and how many pages it has together with all up
// to that one.
func (p *pageChoices) compare(set []uint64, among int) {
	own := float64(commonPages(set, set))
	if own == 0 {
		return
	}
	p.share.add(own / float64(among))
	p.union[0].add(1)
	all := make([]uint64, len(set))
	copy(all, set)
	for lag := 1; lag < recentChoices && lag <= p.made; lag++ {
		other := p.latest[(p.made-lag)%recentChoices]
		p.shared[lag-1].add(float64(commonPages(set, other)) / own)
		for i, w := range other {
			all[i] |= w
		}
		p.union[lag].add(float64(commonPages(all, all)) / own)
	}
}

// commonPages returns how many pages are in a set and in a second one, which may be shorter.
func commonPages(set, other []uint64) (n int) {
	for i, w := range other {
		n += bits.OnesCount64(set[i] & w)
	}
	return n
}

// meanChoices returns the means over heads: the share of pages that a choice has, of its pages the share that an earlier one has, too, by
// the steps between them, and the pages of so many successive choices over those of one. They are 0 and nil where nobody chose.
func meanChoices(heads []headSteps) (share float64, shared, union []float64) {
	var all pageChoices
	for i := range heads {
		c := &heads[i].choices
		all.share.join(c.share)
		for lag := range c.shared {
			all.shared[lag].join(c.shared[lag])
		}
		for k := range c.union {
			all.union[k].join(c.union[k])
		}
	}
	if all.share.n > 0 {
		share = all.share.mean()
	}
	for lag := 0; lag < len(all.shared) && all.shared[lag].n > 0; lag++ {
		shared = append(shared, all.shared[lag].mean())
	}
	for k := 0; k < len(all.union) && all.union[k].n > 0; k++ {
		union = append(union, all.union[k].mean())
	}
	return share, shared, union
}

// writeChoices writes what successive choices of pages have in common, means over the layers that choose, if there are as many choices
// as are compared.
func (a *Attended) writeChoices(w io.Writer) (err error) {
	var share, beyond float64
	var shared [recentChoices - 1]float64
	var union [recentChoices]float64
	layers := 0.0
	for i := range a.Layers {
		l := &a.Layers[i]
		if len(l.PageUnion) < recentChoices {
			continue
		}
		layers++
		share += l.PageShare
		beyond += (l.PageOverlap[0] - l.PageShare) / (1 - l.PageShare)
		for lag, x := range l.PageOverlap {
			shared[lag] += x
		}
		for k, x := range l.PageUnion {
			union[k] += x
		}
	}
	if layers > 0 {
		_, err = fmt.Fprintf(w, "A choice has %.3f of the pages before the newest. The choices 1, 2, 3 and 7 steps before have %.3f, %.3f, %.3f and %.3f of its pages; "+
			"beyond chance, %.3f one step before.\nThe choices of 2, 3, 4 and 8 steps have %.3f, %.3f, %.3f and %.3f times its pages.\n",
			share/layers, shared[0]/layers, shared[1]/layers, shared[2]/layers, shared[6]/layers, beyond/layers, union[1]/layers, union[2]/layers, union[3]/layers, union[7]/layers)
	}
	return err
}
