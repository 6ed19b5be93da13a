package system

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
	"pgregory.net/rapid"
)

// elsewhere lets prompts of the indexed model be prefilled elsewhere, over a link of 1 GB/s.
func elsewhere(sets ...string) []string {
	return slices.Concat(indexedModel, []string{"serving.prefill=elsewhere", "serving.prefill_bandwidth=1GB/s", "serving.prefill_latency=20us"}, sets)
}

// TestElsewhereByHand: two prompts finish elsewhere at the same time. The first arrives when the link has carried its bytes, plus the latency;
// the second when the link has carried both. Steps take the same time as if prompts ran here, during the other's transfer.
func TestElsewhereByHand(t *testing.T) {
	const tokens = 3000
	trace := func(n int) *traces.Trace {
		x := &traces.Trace{}
		for i := range n {
			x.Requests = append(x.Requests, traces.Request{ID: i, Input: tokens, Output: 5, Arrival: 7 * units.Microsecond})
		}
		return x
	}
	bytes := float64(12 * tokens * (1152 + 132)) // latents in 16 bits, and index keys
	took := units.FromSeconds(bytes / 1e9)
	for _, system := range []string{"gpu-only", "sparse-offload"} {
		for _, policy := range []string{"prefill-first", "chunked-prefill"} {
			section := strings.ReplaceAll(system, "-", "_")
			keys := []string{"run.system=" + system, section + ".policy=" + policy}
			here := mustRun(t, nodeOf(t, slices.Concat(indexedModel, keys)...), trace(1), false).Requests[0]
			r := mustRun(t, nodeOf(t, elsewhere(keys...)...), trace(2), false)
			a, b := r.Requests[0], r.Requests[1]
			first := 7*units.Microsecond + took + 20*units.Microsecond
			if a.FirstToken != first || a.Start != a.Request.Arrival || b.Start != a.Request.Arrival {
				t.Errorf("%s, %s: the first token after %v, by hand %v; transfers begin at %v and %v", system, policy, a.FirstToken, first, a.Start, b.Start)
			}
			if b.FirstToken != first+took {
				t.Errorf("%s, %s: the second one's after %v, by hand %v", system, policy, b.FirstToken, first+took)
			}
			if steps := a.Finish - a.FirstToken; steps != here.Finish-here.FirstToken || a.Finish > b.FirstToken {
				t.Errorf("%s, %s: four steps take %v, where the prompt runs %v", system, policy, steps, here.Finish-here.FirstToken)
			}
		}
	}
}

// TestElsewhereSeenAtEnds: a prompt that arrives while an iteration runs decodes from the next one
// on.
func TestElsewhereSeenAtEnds(t *testing.T) {
	x := &traces.Trace{Requests: []traces.Request{{Input: 100, Output: 50}, {ID: 1, Input: 100, Output: 2}}}
	r := mustRun(t, nodeOf(t, elsewhere("serving.prefill_bandwidth=100GB/s")...), x, false)
	a, b := r.Requests[0], r.Requests[1]
	here := a.FirstToken + units.FromSeconds(100*12*1284/100e9)
	if step := (a.Finish - a.FirstToken) / 49; b.FirstToken < here || b.FirstToken > here+2*step || b.FirstToken == here {
		t.Errorf("the second prompt is here at %v, its first token comes at %v with steps of %v", here, b.FirstToken, step)
	}
}

// TestElsewhereLaws: for any arrivals all checks hold: each token once, memory within bounds and free at the end. No prompt runs on the GPUs:
// requests of one token keep them idle, and end when the link has carried all prompts up to theirs. A link twice as fast is then never slower.
func TestElsewhereLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := []string{"memory.admission=" + rapid.SampledFrom([]string{"final", "current"}).Draw(t, "admission"), rapid.SampledFrom([]string{"gpu_only.async_scheduling=false", "gpu_only.async_scheduling=true",
			"run.system=sparse-offload", "sparse_offload.schedule=two"}).Draw(t, "system"), fmt.Sprint("batching.max_num_seqs=", rapid.SampledFrom([]int{0, 1, 3}).Draw(t, "seats"))}
		if strings.HasPrefix(keys[1], "sparse") {
			keys = append(keys, "run.system=sparse-offload", "node.memory_capacity=100MiB")
		} else {
			keys = append(keys, fmt.Sprintf("gpu_only.kv_tokens=%d", rapid.IntRange(5000, 20_000).Draw(t, "tokens")))
		}
		if rapid.Bool().Draw(t, "drafts") {
			keys = append(keys, "serving.verified_tokens=3", "serving.acceptance=0.6")
		}
		x := &traces.Trace{}
		short := rapid.Bool().Draw(t, "one token each")
		at := units.Duration(0)
		for i := range rapid.IntRange(1, 30).Draw(t, "requests") {
			at += units.Duration(rapid.IntRange(0, 3).Draw(t, "later")) * units.Millisecond
			q := traces.Request{ID: i, Input: rapid.IntRange(1, 2000).Draw(t, "in"), Output: rapid.IntRange(1, 60).Draw(t, "out"), Arrival: at}
			if short {
				q.Output = 1
			}
			x.Requests = append(x.Requests, q)
		}
		r := mustRun(t, nodeOf(t, elsewhere(keys...)...), x, false)
		if !short {
			return
		}
		if r.busy.GPU != 0 {
			t.Fatalf("the GPUs are busy for %v", r.busy.GPU)
		}
		twice := mustRun(t, nodeOf(t, elsewhere(append(keys, "serving.prefill_bandwidth=2GB/s")...)...), x, false)
		for i := range r.Requests {
			if a, b := &r.Requests[i], &twice.Requests[i]; b.FirstToken > a.FirstToken || a.Finish != a.FirstToken {
				t.Fatalf("request %d: first token at %v, with a link twice as fast %v", i, a.FirstToken, b.FirstToken)
			}
		}
	})
}

// TestElsewherePreempted: preempted requests are sent again, with their emitted tokens, and emit every token once.
func TestElsewherePreempted(t *testing.T) {
	x := &traces.Trace{}
	for i := range 12 {
		x.Requests = append(x.Requests, traces.Request{ID: i, Input: 400, Output: 900})
	}
	r := mustRun(t, nodeOf(t, elsewhere("memory.admission=current", "memory.history=0", "memory.watermark=0", "gpu_only.kv_tokens=6000")...), x, false)
	if r.preemptions == 0 {
		t.Error("nobody loses memory")
	}
}

// TestElsewhereBytes: the link carries the stored bytes of a prompt in all layers, windows and index keys included, once even if several GPUs
// hold them.
func TestElsewhereBytes(t *testing.T) {
	for _, sets := range [][]string{{"run.model=llama-3-8b"}, {"run.model=llama-3-8b", "node.gpus=16", "model.tensor_parallel=16"}, {"run.model=gpt-oss-120b", "gpu.preset=\"h200-sxm\""}, indexedModel} {
		all := slices.Concat(sets, []string{"run.system=gpu-only", "serving.prefill=elsewhere", "serving.prefill_bandwidth=1GB/s"})
		n := nodeOf(t, all...)
		m := &n.cfg.Model
		for _, tokens := range []int{1, 100, 5000} {
			r := mustRun(t, n, &traces.Trace{Requests: []traces.Request{{Input: tokens, Output: 1}}}, false)
			if got, want := r.Requests[0].FirstToken, units.Bandwidth(1e9).TransferTime(m.KVBytes(tokens)); got != want {
				t.Errorf("%s: %d tokens come in %v, by hand %v", m.Name, tokens, got, want)
			}
		}
	}
}

// TestElsewhereBytesOfAStream: of a prompt only the tokens come that a decode step keeps, sink and window, however wide the prompt's own window was.
func TestElsewhereBytesOfAStream(t *testing.T) {
	n := nodeOf(t, "run.model=llama-3-8b", "run.system=gpu-only", "policy.name=streaming", "policy.streaming.sink=4", "policy.streaming.window=60", "policy.streaming.prefill_window=500",
		"serving.prefill=elsewhere", "serving.prefill_bandwidth=1GB/s")
	for tokens, kept := range map[int]int{50: 50, 64: 64, 5000: 64} {
		r := mustRun(t, n, &traces.Trace{Requests: []traces.Request{{Input: tokens, Output: 1}}}, false)
		if got, want := r.Requests[0].FirstToken, units.Bandwidth(1e9).TransferTime(n.cfg.Model.KVBytes(kept)); got != want {
			t.Errorf("%d tokens come in %v, by hand %v", tokens, got, want)
		}
	}
}

// TestElsewhereRefuses: it refuses systems whose place of keys and values is not modelled for arrivals, a missing link, an unused one, and
// a cache.
func TestElsewhereRefuses(t *testing.T) {
	const link = " serving.prefill_bandwidth=50GB/s"
	for _, c := range []struct{ sets, want string }{
		{"serving.prefill=elsewhere run.system=gpu-only", `serving.prefill_bandwidth = "0B/s": expected 100MB/s to 1000TB/s with serving.prefill = "elsewhere": the link over which keys and values come, as 50GB/s`},
		{"serving.prefill=elsewhere run.system=l3" + link, `serving.prefill = "elsewhere": expected "here" with run.system = l3: what keys and values that come from other servers cost units, CPUs and their memory is not modelled; they come with run.system = gpu-only, sparse-offload`},
		{"serving.prefill=elsewhere run.system=gpu-only cache.prefix=true" + link, `expected "here" with cache.prefix = true`},
		{"serving.prefill=there", "serving.prefill = \"there\": expected one of elsewhere, here"},
		{"serving.prefill_bandwidth=50GB/s", `expected 0B/s with serving.prefill = "here"`},
		{"serving.prefill_latency=1us", `expected 0s with serving.prefill = "here"`},
		{"serving.prefill=elsewhere run.system=gpu-only serving.prefill_latency=2s" + link, "expected 0s to 1s"},
	} {
		_, err := everything().Load(configs.Options{Sets: strings.Fields(c.sets)})
		if got := fmt.Sprint(err); !strings.Contains(got, c.want) {
			t.Errorf("%s\n%s\nwant %q", c.sets, got, c.want)
		}
	}
	if notes := Notes(nodeOf(t, elsewhere()...).cfg); !slices.ContainsFunc(notes, func(s string) bool { return strings.Contains(s, "TTFT is from when a prompt is done there") }) {
		t.Errorf("notes %q", notes)
	}
}
