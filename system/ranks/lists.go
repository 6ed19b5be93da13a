package ranks

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/units"
)

const listEntry = 2 // bytes of a page number in a list for a rank

// differs says that the heads of a layer do not all attend alike on ranks.
func (d *Devices) differs() bool {
	for run := range d.Attends.Runs {
		classes := 0
		for _, c := range d.Attends.Policy.Decode([]policy.Request{{Prompt: 1, Context: 2}}, run).Attend {
			if c.Device != policy.Home {
				continue
			}
			if classes++; classes > 1 || c.Heads != d.Attends.Heads || c.PerHead != nil {
				return true
			}
		}
	}
	return false
}

// onChannel returns the number of heads on the fullest channel if heads are dealt evenly.
func (d *Devices) onChannel(heads int) int { return (heads + d.channels - 1) / d.channels }

type listOf struct{ page, pages, chosen, group int } // determines the rows and tokens of a list

type pageList struct{ pages, rows int } // number of pages in a list, and of rows that contain them

// list returns the tokens that a head of a class reads for a request with a context, the number of rows
// that contain them, and the number of tokens in the last row.
func (d *Devices) list(c *policy.Class, request, context int) (tokens, rows, last int) {
	row, page := d.Table.RowTokens(), c.Page
	tokens = c.Tokens[request]
	if page == 0 || tokens == context && !c.Quads {
		return tokens, (tokens + row - 1) / row, (tokens-1)%row + 1
	}
	if c.Chosen > 0 {
		return d.singles(tokens, context, context)
	}
	pages := (context + page - 1) / page
	newest := context - (pages-1)*page
	key := listOf{page, pages, (tokens-newest)/page + 1, 1}
	if c.PerQueryHead {
		key.group = d.group()
	}
	l, known := d.lists[key]
	if !known {
		l = key.scatter(row)
		d.lists[key] = l
	}
	if c.Quads {
		return quadTokens(l.pages, newest, row)
	}
	tokens, rows = (l.pages-1)*page+newest, l.rows
	switch {
	case d.recorded != nil:
		if c.PerQueryHead {
			tokens = (d.recorded.Touched(context, key.chosen*page, page)-1)*page + newest
		}
		rows = d.recorded.Touched(context, tokens, row)
	case c.Rows != nil && row == 512:
		if c.PerQueryHead { // whole pages of the measured tokens, including the newest page
			tokens = max(c.Read[request]-newest+page-1, 0)/page*page + newest
		}
		rows = c.Rows[request]
	}
	least, most := (tokens+row-1)/row, (context+row-1)/row
	return tokens, min(max(rows, least), most), (newest-1)%row + 1
}

// singles is list for tokens that are chosen one by one among of tokens: all of a context, or those of a part of it. All banks read the same columns,
// so units read whole chunks, and the rank's unit weighs tokens that were not chosen with 0.
func (d *Devices) singles(chosen, of, context int) (tokens, rows, last int) {
	row, chunk := d.Table.RowTokens(), d.Table.ChunkTokens()
	key := listOf{1, of, chosen, 1}
	l, known := d.lists[key]
	switch {
	case d.recorded != nil:
		l = pageList{pages: d.recordedPart(chosen, of, context, chunk), rows: d.recordedPart(chosen, of, context, row)}
	case !known:
		l = pageList{pages: policy.Touched(of, chosen, chunk), rows: policy.Touched(of, chosen, row)}
		d.lists[key] = l
	}
	chunks := (of + chunk - 1) / chunk
	if tokens = of - (chunks-l.pages)*chunk; tokens == of {
		return tokens, (tokens + row - 1) / row, (tokens-1)%row + 1
	}
	newest := of - (chunks-1)*chunk
	return tokens, min(max(l.rows, (tokens+row-1)/row), (of+row-1)/row), newest
}

// recordedPart returns the number of groups of size tokens that contain a chosen token, in a part with of tokens of a context: the part's share of
// the groups of the recorded step.
func (d *Devices) recordedPart(chosen, of, context, size int) int {
	n := (d.recorded.Touched(context, 0, size)*of + context - 1) / context
	return min(max(n, (chosen+size-1)/size), (of+size-1)/size)
}

// quadTokens is list for pages in quads. All quads but the last ones have equally many pages, and a row has a page of each.
// Where only the newest one is left for the last row, its quad scores as many tokens at once as it has banks.
func quadTokens(pages, newest, row int) (tokens, rows, last int) {
	rows, last = (pages+pim.Quads-1)/pim.Quads, row
	if pages%pim.Quads == 1 {
		last = min(row, pim.Quads*newest)
	}
	return (rows-1)*row + last, rows, last
}

// scatter returns a list of chosen pages: the newest, and others at random places. With several heads it is the union of
// their independent choices. With several pages in a row it also counts the rows that contain them. Both are means,
// rounded up. Real choices are closer together, so this is pessimistic.
func (l listOf) scatter(row int) pageList {
	others, chosen := float64(l.pages-1), float64(l.chosen-1)
	if others == 0 {
		return pageList{pages: 1}
	}
	missed := 1.0
	for range l.group {
		missed *= 1 - chosen/others
	}
	all := ceil(float64(others * (1 - float64(missed))))
	x := pageList{pages: 1 + all}
	if l.page >= row {
		return x // whole rows
	}
	each := row / l.page // pages of a row
	missed = 1
	for i := range each {
		missed *= max(0, others-float64(all)-float64(i)) / max(1, others-float64(i))
	}
	x.rows = 1 + ceil(float64(float64(others/float64(each))*float64(1-float64(missed))))
	return x
}

// ceil rounds up, but not for the rounding error of sums.
func ceil(x float64) int {
	n := int(x)
	if x-float64(n) > 1e-9 {
		n++
	}
	return n
}

// headClocks returns the clocks of one head of a class for a request, within a sequence of heads.
func (d *Devices) headClocks(c *policy.Class, request int) int64 {
	tokens := c.Tokens[request]
	if c.Page == 0 {
		return d.Sequence.At(tokens)
	}
	tokens, rows, last := d.list(c, request, d.Attends.Requests[request].Context)
	return d.Table.ListInSequence(tokens, rows, last)
}

// drain returns the additional clocks of the first head of a sequence, whose drain hides behind no other head.
func (d *Devices) drain(c *policy.Class, request int) int64 {
	tokens := c.Tokens[request]
	if c.Page == 0 {
		return d.Table.Drain(tokens)
	}
	tokens, rows, _ := d.list(c, request, d.Attends.Requests[request].Context)
	return d.Table.ListAlone(tokens, rows) - d.headClocks(c, request)
}

// chooses adds the work of choosing pages for a request, besides attention: the clocks of each head that chooses on
// its rank or stores bounds there, and the transfers down for all heads.
func (d *Devices) chooses(x *policy.Step, request int) (clocks int64, v vectors) {
	for i := range x.Choose {
		c := &x.Choose[i]
		if c.Ranked[request] == 0 {
			continue
		}
		rows, each := c.Times(), int64(d.onChannel(c.Heads))
		if c.PerQueryHead {
			rows *= d.group()
		}
		if c.Device == "" {
			list := units.Bytes(min(c.Keep, c.Ranked[request]-1) * rows * listEntry) // the newest page is known
			v.Down += units.Bytes(c.Heads) * list
			v.bursts += each * d.bursts(list)
			continue
		}
		list := d.bounds.Select(c.Scored[request])
		if c.Softmax { // a score of each query head per clock, before their sums are ranked
			list += int64(d.group() * c.Ranked[request])
		}
		clocks += int64(c.Times()) * list // one after another
	}
	if b := &x.Bounds; b.Heads > 0 {
		if b.Updates {
			clocks += d.verified * d.bounds.Update
		}
		down := units.Bytes(b.Down[request]) * d.boundBytes
		clocks += int64(b.Down[request]) * d.bounds.Store
		v.Down += units.Bytes(b.Heads) * down
		v.bursts += int64(d.onChannel(b.Heads)) * d.bursts(down)
	}
	return clocks, v
}
