package system

import (
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

// TestRejectedByHand: what a run that serves nothing says of one request and of several, which memory keeps out, which of them is the smallest and
// the largest, and what bounds it.
func TestRejectedByHand(t *testing.T) {
	kv := func(tokens int) scheduler.Rejection { return scheduler.Rejection{KVTokens: tokens, MostKVTokens: 700} }
	prompt := func(gib units.Bytes) scheduler.Rejection {
		return scheduler.Rejection{Bytes: gib * units.GiB, Free: 3 * units.GiB / 2}
	}
	const (
		memory = " a replica's memory for keys and values, 2.500 GiB on its GPUs, holds a request of 700 tokens at most; with memory.admission = \"final\" the largest needs "
		free   = " a replica's GPUs have 1.500 GiB free to prefill in; the largest prompt needs "
		long   = " 1 of them beyond model.context = 900 tokens with serving.beyond_context = \"refuse\""
		budget = "; gpu_only.kv_tokens or kv_memory bounds it"
	)
	for _, c := range []struct {
		why     []scheduler.Rejection
		long    int
		bounded bool
		want    string
	}{
		{[]scheduler.Rejection{kv(900)}, 0, false, "the system cannot serve the request:" + memory + "900"},
		{[]scheduler.Rejection{kv(900), kv(900)}, 0, false, "the system serves none of the 2 requests:" + memory + "900"},
		{[]scheduler.Rejection{kv(850), kv(900), kv(800), kv(870)}, 0, false, "the system serves none of the 4 requests:" + memory + "900, the smallest 800"},
		{[]scheduler.Rejection{kv(900)}, 0, true, "the system cannot serve the request:" + memory + "900" + budget},
		{[]scheduler.Rejection{prompt(3)}, 0, true, "the system cannot serve the request:" + free + "3.000 GiB"},
		{[]scheduler.Rejection{prompt(4), prompt(2), prompt(3)}, 0, false, "the system serves none of the 3 requests:" + free + "4.000 GiB, the smallest 2.000 GiB"},
		{[]scheduler.Rejection{prompt(4), kv(900), kv(950)}, 0, false, "the system serves none of the 3 requests:" + memory + "950, the smallest 900;" + free + "4.000 GiB"},
		{nil, 1, false, "the system cannot serve the request:" + long},
		{[]scheduler.Rejection{kv(900)}, 1, true, "the system serves none of the 2 requests:" + memory + "900" + budget + ";" + long},
		{[]scheduler.Rejection{prompt(4)}, 1, false, "the system serves none of the 2 requests:" + long + ";" + free + "4.000 GiB"},
	} {
		n := nodeOf(t, "run.system=gpu-only", "run.model=llama-3-8b", "model.context=900", "memory.admission=final", "serving.beyond_context=refuse")
		if n.memory.Unit, n.memory.Capacity = units.MiB, 2560; c.bounded {
			n.hw.KVBudget = 1
		}
		e := &RejectedError{node: n, Requests: len(c.why) + c.long, long: c.long}
		for _, why := range c.why {
			e.add(why)
		}
		if got := e.Error(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}
