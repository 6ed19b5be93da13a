package system

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/traces"
)

// shared is a short run of a small model of 28 query heads on 4 KV heads, on 8 GPUs, and its peak memory of keys and values.
func shared(t *testing.T, sets ...string) (*Result, results.KVBytes) {
	trace := &traces.Trace{Name: "shared"}
	for i := range 12 {
		trace.Requests = append(trace.Requests, traces.Request{ID: i, Input: 300 + 170*i, Output: 20 + i})
	}
	n := nodeOf(t, append([]string{
		"run.model=qwen2-7b", "model.layers=4", "model.head_dim=128", "model.tensor_parallel=8", "node.gpus=8",
	}, sets...)...)
	r := mustRun(t, n, trace, false)
	s, err := r.Summary(n.cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r, s.KVBytes
}

// TestReplicatedHeadsArePadded: GPUs with copies of KV heads equal, to the picosecond and the byte, those of a model with
// one KV head per GPU and as many query heads as the GPU with most.
func TestReplicatedHeadsArePadded(t *testing.T) {
	for _, system := range []string{"gpu-only", "hbm-pim"} {
		replicated, memory := shared(t, "run.system="+system)
		padded, as := shared(t, "run.system="+system, "model.heads=32", "model.kv_heads=8")
		fewer, _ := shared(t, "run.system="+system, "model.heads=24")
		if replicated.end != padded.end || !reflect.DeepEqual(replicated.Requests, padded.Requests) || memory != as {
			t.Errorf("%s: %v and %+v, padded %v and %+v", system, replicated.end, memory, padded.end, as)
		}
		if fewer.end >= replicated.end {
			t.Errorf("%s: 3 query heads a GPU take %v, 4 %v", system, fewer.end, replicated.end)
		}
	}
}

// TestReplicasComeUpTwice: keys and values loaded from the host go to each GPU that holds the head, and use the links
// like twice as many heads. The host has them once.
func TestReplicasComeUpTwice(t *testing.T) {
	sets := []string{"run.system=gpu+cpu", "gpu_cpu.attend=gpus"}
	replicated, memory := shared(t, sets...)
	padded, as := shared(t, append(sets, "model.heads=32", "model.kv_heads=8")...)
	if replicated.end != padded.end || 2*memory.Peak != as.Peak || memory.Peak == 0 || memory.Capacity != as.Capacity {
		t.Errorf("%v with %+v, padded %v with %+v", replicated.end, memory, padded.end, as)
	}
}

// TestUnevenUnderChecks: transfers, work and memory of iterations follow from each request's heads if these do not divide
// over the channels, whole and striped, and if a policy has some of them on the GPUs.
func TestUnevenUnderChecks(t *testing.T) {
	for i, sets := range [][]string{
		{"comm.stripe=channels"}, {"comm.stripe=ranksets"}, {"comm.stripe=channels", "policy.name=duo"}, {"policy.name=duo"},
		{"policy.name=quest", "comm.head_rotation=none"}, {"policy.name=hgca"}, {"run.system=rank-pim"},
	} {
		for j, channels := range []string{"node.channels=3", "node.channels=16"} {
			if !deep.Case(i+j, 4) {
				continue
			}
			shared(t, append(sets, channels)...)
		}
	}
}

// TestUnevenHeadsRotate: of four equal requests with 8 heads on 16 channels, two use one half of the channels and two
// the other, so ranks attend half as long as if all used the same half.
func TestUnevenHeadsRotate(t *testing.T) {
	trace := &traces.Trace{Name: "alike"}
	for i := range 4 {
		trace.Requests = append(trace.Requests, traces.Request{ID: i, Input: 900, Output: 400})
	}
	for _, system := range []string{"l3", "rank-pim"}[:deep.Of(1, 2, 2)] {
		pim := func(rotation string) float64 {
			n := nodeOf(t, "run.system="+system, "run.model=llama-3-70b", "model.layers=4", "model.tensor_parallel=8", "node.ranksets=1", "scheduler.sub_batches=1",
				"comm.head_rotation="+rotation)
			r := mustRun(t, n, trace, false)
			return r.busy.PIM * r.end.Seconds()
		}
		if ratio := pim("none") / pim("request"); ratio < 1.95 || ratio > 2.01 {
			t.Errorf("%s: heads on the same channels take %.3f times as long", system, ratio)
		}
	}
}

// TestUnevenHeadsLieBetween: on 8 channels 12 KV heads of 4 query heads take longer than 8 and less than 16, and 4 less than 8.
func TestUnevenHeadsLieBetween(t *testing.T) {
	deep.Heavy(t)
	for _, system := range []string{"l3", "rank-pim"} {
		var ends []int64
		for _, kv := range []int{4, 8, 12, 16} {
			r, _ := shared(t, "run.system="+system, "node.channels=8", fmt.Sprint("model.heads=", 4*kv), fmt.Sprint("model.kv_heads=", kv), "model.tensor_parallel=4", "node.gpus=4")
			ends = append(ends, int64(r.end))
		}
		if !slices.IsSorted(ends) || ends[0] == ends[1] || ends[1] == ends[2] || ends[2] == ends[3] {
			t.Errorf("%s: 4, 8, 12 and 16 heads take %d ps", system, ends)
		}
	}
}

// TestSplitFillsChannels: a rankset takes as long as its busiest channel. The heads of a request of Llama-3-8B are on half of the
// channels, those of the next request on the other half. With equal requests each sub-batch has equally many of both kinds, and each
// rankset equally many requests, except while the first prompts run. If each sub-batch had one kind, the time would double.
func TestSplitFillsChannels(t *testing.T) {
	trace := &traces.Trace{Name: "alike"}
	for i := range 64 {
		trace.Requests = append(trace.Requests, traces.Request{ID: i, Input: 1024, Output: 200})
	}
	r := mustRun(t, nodeOf(t, "run.system=l3", "run.model=llama-3-8b", "model.layers=8", "model.tensor_parallel=1", "node.gpus=1", "node.channels=16", "comm.balance=split"), trace, false)
	if r.imbalance < 1 || r.imbalance > 1.2 {
		t.Errorf("the busiest rankset has %.3f of the mean", r.imbalance)
	}
}
