package lm

import "github.com/l3sim/l3sim/pim"

// send stores the tokens that are not home yet, up to one, each at its own place.
func (o *homes) send(worker, at int, h *chosenHead, newest int) error {
	x := &o.heads[at]
	for ; x.tokens < newest; x.tokens++ {
		if err := o.store(worker, at, h, x.tokens, x.tokens); err != nil {
			return err
		}
	}
	return nil
}

// turn stores the tokens of the ring that are not home yet: the sink's at their own places, the others one behind another and
// then over the oldest.
func (o *homes) turn(worker, at int, h *chosenHead, newest int) error {
	x, sink, window := &o.heads[at], o.ring.Sink, o.ring.Window
	for ; x.tokens <= newest; x.tokens++ {
		place := x.tokens
		if place >= sink {
			place = sink + (place-sink)%window
		}
		if err := o.store(worker, at, h, place, x.tokens); err != nil {
			return err
		}
	}
	return nil
}

// copies stores those of the ranges' tokens that are not home yet, but for the newest, one behind another.
func (o *homes) copies(worker, at int, h *chosenHead, ranges [][2]int, newest int) error {
	x := &o.heads[at]
	skip := x.tokens
	for _, r := range ranges {
		if n := r[1] - r[0]; skip >= n {
			skip -= n
			continue
		}
		for t := r[0] + skip; t < min(r[1], newest); t++ {
			if err := o.store(worker, at, h, x.tokens, t); err != nil {
				return err
			}
			x.tokens++
		}
		skip = 0
	}
	return nil
}

// store puts a token's key and value into a place of a head's rows.
func (o *homes) store(worker, at int, h *chosenHead, place, token int) error {
	p := o.dimms.places[0][at]
	k, v, scales := o.encode(worker, h, token)
	if o.narrow == nil {
		return o.dimms.rank(p).Store(p.firstRow, place, k, v)
	}
	x := &o.heads[at]
	for ; x.groups < len(h.narrow.groups); x.groups++ {
		o.dimms.rank(p).StoreGroup(p.firstRow, x.groups, h.narrow.groups[x.groups])
	}
	return o.dimms.rank(p).StoreNarrow(p.firstRow, place, k, v, scales)
}

// encode returns key and value of a token as they are stored, valid until the next call.
func (o *homes) encode(worker int, h *chosenHead, token int) (k, v []uint16, scales [2]pim.Scales) {
	d, x := o.model.HeadDim, &o.work[worker].vectors
	from, to := token*d, (token+1)*d
	if n := &h.narrow; o.narrow != nil {
		return n.elements[pim.Key][from:to], n.elements[pim.Value][from:to], [2]pim.Scales{n.scales[pim.Key][token], n.scales[pim.Value][token]}
	}
	x[0], x[1] = pim.EncodeHalf(x[0][:0], h.keys[from:to]), pim.EncodeHalf(x[1][:0], h.values[from:to])
	return x[0], x[1], scales
}
