package policy

// headsCost is the cost of policies whose heads differ: some stream, the others choose pages
// (LServe) or attend to everything (DuoAttention).
type headsCost struct {
	common
	streaming streamingCost
	pages     *paged // nil: everything
	streams   []int  // streaming KV heads of each run
}

func newHeadsCost(s *Spec, shape Shape, heads [][]bool) *headsCost {
	c := &headsCost{common: newCommon(s.Name, shape), streaming: *newStreamingCost(s, shape)}
	if s.Name == "lserve" {
		p := newPaged(s)
		c.pages = &p
	}
	count := func(layer int) (n int) {
		for _, streams := range heads[layer] {
			if streams {
				n++
			}
		}
		return n
	}
	c.runs = successive(shape.Layers, count)
	layer := 0
	for _, n := range c.runs {
		c.streams = append(c.streams, count(layer))
		layer += n
	}
	return c
}

// Decode returns a class of streaming heads and one of the others.
func (c *headsCost) Decode(requests []Request, run int) *Step {
	c.reset(len(requests), 1+numbersEach)
	streams := c.streams[run]
	others := c.shape.KVHeads - streams
	switch {
	case others > 0 && c.pages != nil:
		c.pages.decode(&c.common, others, requests)
	case others > 0:
		c.attend(Class{Device: Home, Heads: others, Tokens: c.contexts(requests)})
	}
	if streams > 0 {
		c.attend(Class{Device: Home, Heads: streams, Tokens: c.streaming.decode.each(&c.common, requests)})
	}
	return &c.step
}

// Prompt returns causal attention of the other heads, and that of streaming heads under their mask.
func (c *headsCost) Prompt(run, chunk, finished int, _ bool) *Prompt {
	streams := c.streams[run]
	others := c.shape.KVHeads - streams
	c.prompt.Pieces, c.prompt.Passes = c.prompt.Pieces[:0], c.prompt.Passes[:0]
	if others > 0 {
		c.prompt.Pieces = append(c.prompt.Pieces, Piece{others, 1, chunk, finished})
		if c.pages != nil {
			c.pages.prompt(&c.common, others, chunk)
		}
	}
	if streams > 0 {
		c.prompt.Pieces = c.streaming.prefill.pieces(c.prompt.Pieces, streams, chunk, finished)
	}
	return &c.prompt
}

// Memory returns keys and values of either, and bounds.
func (c *headsCost) Memory(run int) (decoding, filling []Held) {
	streams := c.streams[run]
	others := c.shape.KVHeads - streams
	kv := Held{Device: Home, Heads: others, Bytes: c.shape.token()}
	c.held, c.filling = append(c.held[:0], kv), append(c.filling[:0], kv)
	if c.pages != nil {
		bounds := c.pages.bounds(&c.shape, others)
		c.held, c.filling = append(c.held, bounds), append(c.filling, bounds)
	}
	return append(c.held, c.streaming.decode.held(&c.shape, streams)), append(c.filling, c.streaming.prefill.held(&c.shape, streams))
}
