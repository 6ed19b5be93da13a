package system

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/traces"
	"pgregory.net/rapid"
)

// TestRejectedRun: a run that serves nothing is an error, which says which memory is
// too small; one request that fits makes it a run.
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

// TestRejectionSaysWhatAddDoes: a request is rejected where it needs more than there
// is, and only there.
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
