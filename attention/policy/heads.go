package policy

// headsCost is the cost of policies whose heads differ: some stream, the others choose pages
// (LServe) or attend to everything (DuoAttention).
type headsCost struct {
	common
	streaming streamingCost
	pages     *paged // nil: everything
	streams   []int  // streaming KV heads of each run
	on        Device // where these attend
}

// newHeadsCost returns the costs of a policy whose heads differ; paged makes those of heads that choose pages, which it is told,
// and is nil where these attend to everything. Successive layers with as many streaming heads are one run.
func newHeadsCost(u *Use, own *HeadsSpec, paged func(pages func(layer, head int) bool) paged) Costs {
	heads, shape := u.Streaming(), u.Shape
	c := &headsCost{common: newCommon(shape), streaming: *newStreamingCost(&own.StreamSpec, shape)}
	if shape.Apart && own.StreamDevice == "gpu" {
		c.on = GPU
	}
	if paged != nil {
		p := paged(func(layer, head int) bool { return !heads[layer][head] })
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
		c.attend(Class{Device: c.on, Heads: streams, Tokens: c.streaming.decode.each(&c.common, requests)})
	}
	return &c.step
}

// Prompt returns causal attention of the other heads, and that of streaming heads under their mask. What
// these hold goes home at the prompt's end, the others' keys and values with each chunk.
func (c *headsCost) Prompt(run, chunk, finished int, last bool) *Prompt {
	streams := c.streams[run]
	others := c.shape.KVHeads - streams
	c.prompt.Pieces, c.prompt.Passes, c.prompt.Leave = c.prompt.Pieces[:0], c.prompt.Passes[:0], c.prompt.Leave[:0]
	if others > 0 {
		c.send(others, finished, finished+chunk)
		c.prompt.Pieces = append(c.prompt.Pieces, Piece{others, 1, chunk, finished})
		if c.pages != nil {
			c.pages.prompt(&c.common, others, chunk, finished)
		}
	}
	if streams > 0 {
		c.prompt.Pieces = c.streaming.prefill.pieces(c.prompt.Pieces, streams, chunk, finished)
		if last && c.on == Home {
			c.send(streams, 0, c.streaming.decode.Tokens(finished+chunk))
		}
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
		c.held, c.filling = c.pages.bounds(c.held, &c.shape, others), c.pages.bounds(c.filling, &c.shape, others)
	}
	c.held, c.filling = append(c.held, c.streaming.decode.held(&c.shape, streams)), append(c.filling, c.streaming.prefill.held(&c.shape, streams))
	if last := len(c.held) - 1; c.on == GPU { // where all of an unfinished prompt is
		c.held[last].Device, c.filling[last].Device = GPU, GPU
	}
	return c.held, c.filling
}

// successive returns runs of layers that are alike.
func successive[T comparable](layers int, of func(layer int) T) (runs []int) {
	for layer := range layers {
		if layer > 0 && of(layer) == of(layer-1) {
			runs[len(runs)-1]++
			continue
		}
		runs = append(runs, 1)
	}
	return runs
}
