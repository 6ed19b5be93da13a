package lm

import (
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/attention/policy"
)

// recentChoices is the number of successive choices of pages that are compared.
const recentChoices = 8

// pageChoices is the latest choices of pages of a head, and their overlaps.
type pageChoices struct {
	latest [recentChoices][]uint64 // one bit per page, in a ring
	made   int                     // successive steps with a choice
	share  ratio
	shared [recentChoices - 1]ratio // by the number of steps between two choices, minus one
	union  [recentChoices]ratio     // by the number of choices, minus one
}

// ratio is a mean.
type ratio struct {
	sum float64
	n   int
}

func (r *ratio) add(x float64) { r.sum, r.n = r.sum+x, r.n+1 }

func (r *ratio) join(o ratio) { r.sum, r.n = r.sum+o.sum, r.n+o.n }

func (r *ratio) mean() float64 { return r.sum / float64(r.n) }

// add compares a step's choice with those of the steps before. The newest page, which is in every choice, does not count, and a step
// that attends to all tokens has no choice.
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
	p.next(set, newest)
}

// chose compares a choice among of elements with those of the steps before.
func (p *pageChoices) chose(chosen []int32, of int) {
	set := make([]uint64, (of+63)/64)
	for _, n := range chosen {
		set[n/64] |= 1 << (n % 64)
	}
	p.next(set, of)
}

// next compares a set, among a number of elements, with those before, and keeps it.
func (p *pageChoices) next(set []uint64, among int) {
	p.latest[p.made%recentChoices] = set
	p.compare(set, among)
	p.made++
}

// compare adds the overlap of the latest choice with each earlier one, and the union of all from that one on.
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

// commonPages returns the number of pages in both sets; other may be shorter.
func commonPages(set, other []uint64) (n int) {
	for i, w := range other {
		n += bits.OnesCount64(set[i] & w)
	}
	return n
}

// meanChoices returns means over heads: the share of pages in a choice; the share of its pages in an earlier choice, by the steps
// between; and the union of successive choices over one choice. They are 0 and nil if nothing was chosen.
func meanChoices(heads []headSteps, of func(*headSteps) *pageChoices) (share float64, shared, union []float64) {
	var all pageChoices
	for i := range heads {
		c := of(&heads[i])
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

// writeChoices writes the overlaps of successive choices of pages or tokens, and of their lists.
func (a *Attended) writeChoices(w io.Writer) error {
	of := "pages before the newest"
	if slices.ContainsFunc(a.Layers, func(l LayerAttended) bool { return l.ListUnion != nil }) {
		of = "tokens before the recent ones"
	}
	err := a.writeCommon(w, of, func(l *LayerAttended) (float64, []float64, []float64) { return l.PageShare, l.PageOverlap, l.PageUnion })
	if err == nil {
		err = a.writeCommon(w, "lists", func(l *LayerAttended) (float64, []float64, []float64) { return l.ListShare, l.ListOverlap, l.ListUnion })
	}
	return err
}

// writeCommon writes the overlaps of successive choices, as means over the layers that choose, if there are enough choices.
func (a *Attended) writeCommon(w io.Writer, what string, of func(l *LayerAttended) (float64, []float64, []float64)) (err error) {
	var share, beyond float64
	var shared [recentChoices - 1]float64
	var union [recentChoices]float64
	layers := 0.0
	for i := range a.Layers {
		s, overlaps, unions := of(&a.Layers[i])
		if len(unions) < recentChoices {
			continue
		}
		layers++
		share += s
		beyond += (overlaps[0] - s) / (1 - s)
		for lag, x := range overlaps {
			shared[lag] += x
		}
		for k, x := range unions {
			union[k] += x
		}
	}
	if layers > 0 {
		own, _, _ := strings.Cut(what, " ")
		_, err = fmt.Fprintf(w, "A choice has %.3f of the %s. The choices 1, 2, 3 and 7 steps before have %.3f, %.3f, %.3f and %.3f of its %s; "+
			"beyond chance, %.3f one step before.\nThe choices of 2, 3, 4 and 8 steps have %.3f, %.3f, %.3f and %.3f times its %s.\n",
			share/layers, what, shared[0]/layers, shared[1]/layers, shared[2]/layers, shared[6]/layers, own, beyond/layers, union[1]/layers, union[2]/layers, union[3]/layers, union[7]/layers, own)
	}
	return err
}
