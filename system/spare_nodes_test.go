package system

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// spareOf gives the GPUs of a configuration a number of bytes beside weights in which to decode.
func spareOf(cfg *configs.Config, free units.Bytes) {
	m := &cfg.Model
	cfg.Memory.Spare, cfg.Predictor.Kind = scheduler.SpareDecode, scheduler.PredictExact
	cfg.GPU.MemoryCapacity = cfg.GPU.MemoryReserve + (m.WeightBytes()+free)/units.Bytes(m.TensorParallel) + 1
}

// TestSpareNodes runs random small nodes whose GPUs decode some requests in little spare memory, under all checks and layer by
// layer, with policies that both sides run.
func TestSpareNodes(t *testing.T) {
	both := 0
	property := func(t *rapid.T) {
		number := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }
		cfg, trace := drawNode(t)
		m := &cfg.Model
		spareOf(cfg, m.ActivationBytes(number("activations", 200, 3000))+units.Bytes(number("tokens", 0, 6000))*m.KVBytesPerToken())
		cfg.Batching.MaxBatchTokens = number("most tokens", 1, 500)
		if rapid.Bool().Draw(t, "selects") {
			cfg.Policy = drawPages(t, 40, false)
			pages := func(s *policy.PagesSpec) { s.SelectDevice, s.SummaryDevice = "gpu", "gpu" }
			switch cfg.Policy.Name {
			case "quest":
				policy.Edit(&cfg.Policy, func(s *policies.QuestSpec) { pages(&s.PagesSpec) })
			case "lserve":
				policy.Edit(&cfg.Policy, func(s *policies.LServeSpec) { pages(&s.PagesSpec) })
			}
		}
		r := runBothWays(t, cfg, trace)
		checkStalls(t, cfg.Run.System, r)
		checkSeats(t, cfg, r)
		if decoded := r.tokens - int64(len(trace.Requests)) + r.rejected; r.spareTokens > decoded {
			t.Fatalf("%d tokens of %d are decoded in the spare memory", r.spareTokens, decoded)
		} else if r.spareTokens > 0 && r.spareTokens < decoded {
			both++
		}
	}
	if deep.On() {
		deep.Until(t, func() bool { return both > 0 }, property)
	} else {
		fewCases(t, property)
	}
}

// TestNoSpareMemory: GPUs without room beside activations and prompts change no request of a run.
func TestNoSpareMemory(t *testing.T) {
	deep.Heavy(t)
	run := func(sets ...string) (string, *Result) {
		sets = append(sets, "model.layers=6", "batching.max_num_batched_tokens=1000000", "memory.admission=current")
		n := nodeOf(t, sets...)
		trace, err := traces.Synthetic("openr1", 4, 3, n.cfg.Traces)
		if err != nil {
			t.Fatal(err)
		}
		r := mustRun(t, n, trace, false)
		var b bytes.Buffer
		if err := results.WriteRequests(&b, r.Requests); err != nil {
			t.Fatal(err)
		}
		return b.String(), r
	}
	off, _ := run()
	on, r := run("memory.spare=decode", `gpu.memory_capacity="8GiB"`)
	if on != off || r.spareTokens != 0 {
		t.Errorf("%d tokens in the spare memory;\n%s\nwithout it\n%s", r.spareTokens, on, off)
	}
	if some, _ := run("memory.spare=decode"); some == off {
		t.Error("memory to spare changes nothing")
	}
}

// TestSpareOnAllPolicies runs L3 with spare memory under each policy of both sides, each width of keys and values, and
// stripes, under all checks. Both sides decode, and keys and values on the GPUs have the model's width.
func TestSpareOnAllPolicies(t *testing.T) {
	deep.Heavy(t)
	for i, sets := range [][]string{
		{}, {"model.kv_bits=8"}, {"model.kv_bits=4"}, {"model.kv_format=fp8"}, {"comm.stripe=ranksets"}, {"scheduler.sub_batches=1"},
		{"policy.name=quest"}, {"policy.name=lserve"}, {"policy.name=duo"}, {"policy.name=duo", "policy.duo.stream_device=home"},
		{"policy.name=quest", "model.kv_bits=8"}, {"memory.admission=current"}, {"memory.admission=max", "memory.max_tokens=8000"}, {"run.model=llama-3-70b"},
	} {
		t.Run(fmt.Sprint(sets), func(t *testing.T) {
			t.Parallel()
			if !deep.Case(i, 4) {
				deep.Only(t)
			}
			sets = append(sets, "memory.spare=decode", "model.layers=4", "scheduler.adaptive=true")
			n := nodeOf(t, sets...)
			token := n.cfg.Model.KVBytesPerToken()
			var trace traces.Trace
			for i := range 24 * n.Replicas() { // long contexts: the ranks are slow
				trace.Requests = append(trace.Requests, traces.Request{ID: i, Input: 5000 + 500*(i%5), Output: 300 + i%24})
			}
			spareOf(n.cfg, n.cfg.Model.ActivationBytes(8_300)+units.Bytes(26_000)*token)
			n = mustNode(t, n.cfg)
			if page := gpus.PageBytes(n.hw) * units.Bytes(n.cfg.Model.Layers*n.cfg.Model.KVHeads); math.Abs(float64(page)/float64(token)-float64(n.cfg.Batching.PageTokens)) > 0.01 {
				t.Errorf("a page of all heads has %v, a token %v", page, token)
			}
			r, exact := mustRun(t, n, &trace, false), mustRun(t, n, &trace, true)
			if got, want := text(t, n.cfg, r), text(t, n.cfg, exact); got != want {
				t.Errorf("every layer:\n%s\nrepeats skipped:\n%s", want, got)
			}
			if decoded := r.tokens - int64(len(trace.Requests)); r.spareTokens == 0 || r.spareTokens >= decoded {
				t.Errorf("%d tokens of %d are decoded in the spare memory", r.spareTokens, decoded)
			}
			sum, steps := 0.0, 0.0
			for i := range r.Requests {
				q := &r.Requests[i].Request
				sum, steps = sum+contexts(q.Input, q.Output), steps+float64(q.Output-1)
			}
			if got := r.attention.Context; r.preemptions == 0 && math.Abs(got-sum/steps) > 1e-6 {
				t.Errorf("steps have contexts of %v, want %v", got, sum/steps)
			}
		})
	}
}

// TestSpareTokensOfReplicas: if each replica gets the requests of a single one, all together decode that many times the tokens in the spare
// memory. Requests of one token, on the others, decode none.
func TestSpareTokensOfReplicas(t *testing.T) {
	n := nodeOf(t, "memory.spare=decode", "model.layers=2", "serving.router=round-robin", "run.model=llama-2-7b", "model.tensor_parallel=2", "node.gpus=6", "node.channels=24")
	spareOf(n.cfg, n.cfg.Model.ActivationBytes(8_300)+units.Bytes(26_000)*n.cfg.Model.KVBytesPerToken())
	n = mustNode(t, n.cfg)
	of := func(busy func(replica int) bool) int64 {
		var trace traces.Trace
		for i := range 12 * n.Replicas() {
			q := traces.Request{ID: i, Input: 16, Output: 1}
			if busy(i % n.Replicas()) {
				q.Input, q.Output = 5000+500*(i/n.Replicas()%5), 100
			}
			trace.Requests = append(trace.Requests, q)
		}
		return mustRun(t, n, &trace, false).spareTokens
	}
	last := n.Replicas() - 1
	first, all := of(func(r int) bool { return r == 0 }), of(func(int) bool { return true })
	if got := of(func(r int) bool { return r == last }); last == 0 || first == 0 || got != first || all != int64(n.Replicas())*first {
		t.Errorf("%d replicas: %d tokens of the first alone, %d of the last, %d of all", n.Replicas(), first, got, all)
	}
}
