package plan

import (
	"fmt"
	"slices"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/traces"
)

// TestFewUsers: the search of knobs goes down to one user. Two replicas of one GPU serve one user each, and no third. A replica of both GPUs
// takes more than half the time for a prompt, and serves only one user in time.
func TestFewUsers(t *testing.T) {
	sets := []string{"run.system=gpu-only", "run.model=llama-3-8b", "model.layers=4", "gpu.preset=h100-sxm", "node.gpus=2", "gpu_only.policy=chunked-prefill", "batching.max_num_batched_tokens=8192",
		"batching.max_num_seqs=64", "memory.admission=current", "memory.history=0"}
	trace := &traces.Trace{Name: "equal", Requests: slices.Repeat([]traces.Request{{Input: 4000, Output: 1}}, 60)}
	for i := range trace.Requests {
		trace.Requests[i].ID = i
	}
	one, err := system.Load(configs.Options{Sets: append(slices.Clone(sets), "model.tensor_parallel=1")})
	if err != nil {
		t.Fatal(err)
	}
	node, err := system.NewNode(one)
	if err != nil {
		t.Fatal(err)
	}
	r, err := node.Run(t.Context(), &traces.Trace{Requests: trace.Requests[:1]}, system.Options{})
	if err != nil {
		t.Fatal(err)
	}
	prompt := r.Requests[0].FirstToken.Seconds()
	for _, asked := range []int{3, 9, 50} {
		o := configs.Options{Sets: append(slices.Clone(sets), "arrivals.kind=closed-loop", fmt.Sprint("arrivals.users=", asked), fmt.Sprintf("slo.ttft=%.6fms", 1.02e3*prompt))}
		cfg, err := AsGiven(o)
		if err != nil {
			t.Fatal(err)
		}
		s := &Search{Precision: 0.02, Tune: true}
		found, err := s.Row(t.Context(), o, cfg, trace)
		if err != nil {
			t.Fatal(err)
		}
		if found.Users != 2 || found.Config.Model.TensorParallel != 1 || found.Asked.Users != asked {
			t.Errorf("%d are asked for: %d users with %v", asked, found.Users, found.Sets)
		}
	}
}

// TestUsersWithoutEnd: if no number of users fails a target, such as gaps between tokens that the batch bounds, the answer is as many users
// as the requests allow, two each, whatever the search of knobs began with.
func TestUsersWithoutEnd(t *testing.T) {
	deep.Heavy(t)
	o := configs.Options{Sets: []string{
		"run.system=gpu-only", "run.model=llama-3-8b", "model.layers=2", "gpu.preset=h100-sxm", "node.gpus=1", "run.requests=500", "run.trace=synthetic", "traces.input_mean=1000", "traces.output_mean=50",
		"arrivals.kind=closed-loop", "arrivals.users=20", "slo.tbt=20ms", "gpu_only.policy=chunked-prefill",
	}}
	if row := rowOf(t, &Search{Precision: 0.02, Tune: true}, o); !row.Asked.Met || row.Highest < 245 || row.Highest > 250 || row.High > 0 {
		t.Errorf("%v users of 500 requests, likely up to %v, %+v", row.Highest, row.High, row.Asked)
	}
	o.Sets = append(o.Sets, "slo.tbt=1us") // never met
	if row := rowOf(t, &Search{Precision: 0.02}, o); row.Asked.Met || slices.ContainsFunc(row.Limit, func(f Failure) bool { return f.Name == tooFew }) {
		t.Errorf("%+v, limit %v", row.Asked, row.Limit)
	}
}
