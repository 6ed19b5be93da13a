package system

import (
	"context"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// TestRejectedByHand: the error of a run that serves nothing, for one request and for several: the memory that is too small, the smallest and the
// largest request, and its size.
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

// TestRejectedRun: a run that serves nothing returns an error with the memory that is too small; a
// single request that fits makes it valid.
func TestRejectedRun(t *testing.T) {
	large := []traces.Request{{Input: 3000, Output: 5}, {ID: 1, Input: 200_000, Output: 9}}
	for _, c := range []struct {
		system string
		sets   []string
		want   string
	}{
		{"l3", []string{"node.memory_capacity=4GiB"}, "4.000 GiB in the DIMMs, holds a request of 512 tokens at most; with memory.admission = \"final\" the largest needs 200008, the smallest 3004"},
		{"rank-pim", []string{"node.memory_capacity=4GiB"}, "4.000 GiB in the DIMMs, holds a request of 512 tokens"},
		{"gpu-only", []string{"gpu.memory_capacity=42GiB", "batching.max_num_batched_tokens=64"}, " GiB on its GPUs, holds a request of "},
		{"hbm-pim", []string{"hbm_pim.capacity_share=0.525", "batching.max_num_batched_tokens=64"}, " GiB on its GPUs, holds a request of "},
		{"cpu-offload", []string{"gpu.memory_capacity=42GiB", "batching.max_num_batched_tokens=64", "node.memory_capacity=2GiB"}, " on its GPUs and the host, holds a request of "},
		{"l3", []string{"gpu.memory_capacity=41GiB", "gpu.memory_reserve=300MiB", "memory.admission=max", "memory.max_tokens=300000"}, "a replica's GPUs have "},
	} {
		cfg, err := everything().Load(configs.Options{Sets: append(c.sets, "run.system="+c.system)})
		if err != nil {
			t.Fatal(err)
		}
		node := mustNode(t, cfg)
		_, err = node.Run(context.Background(), &traces.Trace{Requests: large}, Options{})
		if !errors.As(err, new(*RejectedError)) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: %v", c.system, c.sets, err)
		}
		if _, err := node.Run(context.Background(), &traces.Trace{Requests: append(large, traces.Request{ID: 2, Input: 1, Output: 1})}, Options{}); c.want[0] != 'a' && err != nil {
			t.Errorf("%s with a request that fits: %v", c.system, err)
		}
	}
}

// TestLongPromptsAreCut: a prompt whose activations do not fit is served in chunks.
func TestLongPromptsAreCut(t *testing.T) {
	cfg, err := everything().Load(configs.Options{Sets: []string{"run.system=gpu-only", "run.model=gpt-175b", "batching.max_num_batched_tokens=64"}})
	if err != nil {
		t.Fatal(err)
	}
	r := mustRun(t, mustNode(t, cfg), &traces.Trace{Requests: []traces.Request{{Input: 3000, Output: 2}}}, false)
	if r.rejected > 0 || r.iterations < 3000/64 {
		t.Errorf("%d rejected, %d iterations", r.rejected, r.iterations)
	}
}

// TestRejectionSaysWhatAddDoes: a request is rejected if and only if it needs more than there is.
func TestRejectionSaysWhatAddDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawBaseline(t)
		system := rapid.SampledFrom(everyName()).Draw(t, "system")
		b := d.node(t, system).replica(0, d.trace.Requests, Options{}).assembly.Batcher
		for i := range d.trace.Requests {
			ok, why := b.Add(int32(i)), b.Rejection(int32(i))
			if short := why.KVTokens > why.MostKVTokens || why.Bytes > why.Free; ok == short && system != "cpu-offload" || !ok && !short {
				t.Fatalf("%s, %+v: added %v, %+v", system, d.trace.Requests[i], ok, why)
			}
		}
	})
}
