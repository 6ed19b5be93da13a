package kinds

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// gpuCPUOf returns a replica of gpu+cpu for GPT-89B, whose 96 heads each have their own keys and
// values.
func gpuCPUOf(t *testing.T, sets ...string) *gpuCPU {
	t.Helper()
	return rigOf(t, append([]string{"run.system=gpu+cpu", "run.model=gpt-89b"}, sets...)...).replica(nil).Engine.(*gpuCPU)
}

// layerOf runs an iteration and returns the times of CPUs and GPUs that its layers wait for.
func layerOf(t *testing.T, e *gpuCPU, sub scheduler.SubBatch) (cpu, merge units.Duration) {
	t.Helper()
	if _, err := e.Run(&scheduler.Batch{Sub: []scheduler.SubBatch{sub}}, 0); err != nil {
		t.Fatal(err)
	}
	k := e.Iteration.Totals().ByKind
	layers := units.Duration(e.Model.Layers)
	return k[flow.OpHostAttention] / layers, units.Duration(len(e.Attends.Runs)) * e.Staged.Layers[0].Merge
}

// TestHGCALayer: one layer of HGCA by hand. A request of 10,001 tokens keeps between 4,095 − 127
// and 4,095 on the GPUs; a tenth of the others is salient.
func TestHGCALayer(t *testing.T) {
	n := rigOf(t, "run.system=gpu+cpu", "run.model=gpt-89b", "policy.name=hgca", `cpu_offload.overhead="100us"`, "cpu_offload.element_time=0ps")
	e := n.replica(nil).Engine.(*gpuCPU)
	const away = (10000-4096)/128*128 + 128
	salient := math.Ceil(0.1 * away)
	channels, link := 8*25.6e9*0.8, 4*0.79*16*16e9*128/130/8
	vector := 96 * 128 * 2.0
	want := 2*5e-6 + 100e-6 + vector/link + (vector+4*96)/link + salient*96*512/channels
	sub := scheduler.SubBatch{Decode: []scheduler.Decoding{{Base: 10001, Prompt: 9000}}}
	got, merge := layerOf(t, e, sub)
	if math.Abs(got.Seconds()/want-1) > 1e-6 {
		t.Errorf("the CPUs take %v s for a layer, want %v s", got.Seconds(), want)
	}
	// The merge comes after both, and the channels carry what the CPUs read.
	g, layers := e.StageRuns(&sub), units.Duration(e.Model.Layers)
	want = (g.Entry + layers*(max(got, g.Layers[0].Attention)+merge) + (layers-1)*g.Block + g.Exit).Seconds()
	if end, err := e.Run(&scheduler.Batch{Sub: []scheduler.SubBatch{sub}}, 0); err != nil || merge == 0 || math.Abs(end.Seconds()/want-1) > 1e-9 {
		t.Errorf("an iteration takes %v, want %v s, with merges of %v; %v", end, want, merge, err)
	}
	// The GPUs attend over the window, and add its attention weights to averages.
	cost, near := gpu.NewModelCost(&n.cfg.GPU.Spec, &n.cfg.Model), 10001-away
	window := cost.Attention()
	alone := units.FromSeconds(window.Decoding(gpu.DecodeBatch{Requests: 1, Tokens: int64(near), Longest: near, KVHeads: 96, Weights: true}).Seconds) +
		units.FromSeconds(cost.Pass(1, float64(3*4*near*96), 0).Seconds)
	if g.Layers[0].Attention != alone {
		t.Errorf("the GPUs attend for %v, by hand %v", g.Layers[0].Attention, alone)
	}
	read := salient * 96 * 512 / channels * float64(layers)
	if bus := e.Iteration.Totals().Bus.Seconds(); math.Abs(bus/read-1) > 1e-6 {
		t.Errorf("the channels carry data for %v s, want %v s", bus, read)
	}
	// Threads take whole heads: 96 heads on the 64 cores of a replica are two each for some cores.
	e = gpuCPUOf(t, "policy.name=hgca", "cpu_offload.element_time=4ns")
	want = 2*5e-6 + 20e-6 + vector/link + (vector+4*96)/link + 2*salient*256*4e-9
	if got, _ := layerOf(t, e, sub); math.Abs(got.Seconds()/want-1) > 1e-6 {
		t.Errorf("slow cores take %v s for a layer, want %v s", got.Seconds(), want)
	}
	// A request whose tokens all fit the window does not use the host.
	if got, merge := layerOf(t, e, scheduler.SubBatch{Decode: []scheduler.Decoding{{Base: 4096, Prompt: 9}}}); got != 0 || merge != 0 {
		t.Errorf("the CPUs take %v and the merge %v for nothing", got, merge)
	}
}

// TestHGCAProfile: heads with different shares. The host's memory reads the mean share of a layer;
// slow cores wait for the heads with the largest.
func TestHGCAProfile(t *testing.T) {
	const heads, layers = 8, 2
	spec := policies.New("hgca")
	profile := policy.Profile{
		Model:    policy.ProfileModel{Name: "gpt-89b", Layers: layers, Heads: heads, KVHeads: heads, HeadDim: 128},
		Policy:   spec,
		Measured: policy.ProfileMeasured{Prompt: 10, Last: 20000, Contexts: []int{11, 10000}},
	}
	for i := range heads * layers { // the first layer has 0.1 and one head of 0.5, the second half of it
		share := 0.1 / float64(1+i/heads)
		if i%heads == 0 {
			share *= 5
		}
		profile.Heads = append(profile.Heads, policy.ProfileHead{Share: []float64{0.9, share}, Rows: []float64{1, 1}})
	}
	path := filepath.Join(t.TempDir(), "profile.toml")
	var text strings.Builder
	if err := profile.Write(&text); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	sets := []string{"policy.name=hgca", "policy.profile=" + path, "cpu_offload.overhead=0s", "pcie.latency=0s", "model.layers=2", "model.heads=8", "model.kv_heads=8", "model.head_dim=128"}
	sub := scheduler.SubBatch{Decode: []scheduler.Decoding{{Base: 10001, Prompt: 9000}}}
	const away = (10000-4096)/128*128 + 128
	link := 4 * 0.79 * 16 * 16e9 * 128 / 130 / 8
	moved := 2 * (2*heads*128*2 + 4*heads) / link // both layers
	tokens := func(share float64) float64 {       // of a head
		return math.Floor((math.Round(5*share*away) + (heads-1)*math.Round(share*away)) / heads)
	}
	e := gpuCPUOf(t, append(sets, "cpu_offload.element_time=0ps", "cpu_offload.core_flops=1e15FLOP/s")...)
	got, _ := layerOf(t, e, sub)
	want := moved + (tokens(0.1)+tokens(0.05))*heads*512/(8*25.6e9*0.8)
	if math.Abs(2*got.Seconds()/want-1) > 1e-6 {
		t.Errorf("two layers take %v s, want %v s", 2*got.Seconds(), want)
	}
	e = gpuCPUOf(t, append(sets, "cpu_offload.element_time=40ns")...)
	got, _ = layerOf(t, e, sub)
	want = moved + (math.Round(0.5*away)+math.Round(0.25*away))*256*40e-9
	if math.Abs(2*got.Seconds()/want-1) > 1e-6 {
		t.Errorf("two layers take %v s on slow cores, want %v s", 2*got.Seconds(), want)
	}
	// Shorter contexts have the share of their own.
	if got := e.Attends.Decode([]scheduler.Decoding{{Base: 9000, Prompt: 9}}, 1, 0); got.Attend[1].Tokens[0] != int(math.Ceil(0.9*((9000-1-4096)/128*128+128))) {
		t.Errorf("%+v", got.Attend)
	}
	_, err := Loader().Load(configs.Options{Sets: []string{"run.system=gpu+cpu", "policy.name=hgca", "policy.profile=" + path}})
	if err == nil || !strings.Contains(err.Error(), `policy.profile = "`) || !strings.Contains(err.Error(), `model.name = "gpt-175b", not "gpt-89b"`) {
		t.Errorf("another model's: %v", err)
	}
}

// TestLoads: keys and values that go up take the longer of the link's time and the GPUs', and the
// GPUs attend as if they held them.
func TestLoads(t *testing.T) {
	sub := scheduler.SubBatch{Decode: []scheduler.Decoding{{Base: 20001, Prompt: 9}}}
	link := 4 * 0.79 * 16 * 16e9 * 128 / 130 / 8
	for set, want := range map[string]float64{"pcie.efficiency=0.79": 48 * 20001 * 96 * 512 / link, "pcie.efficiency=1.0,pcie.generation=6,pcie.lanes=16,policy.name=h2o": 0} {
		n := rigOf(t, append(strings.Split(set, ","), "run.system=gpu+cpu", "run.model=gpt-89b", "gpu_cpu.attend=gpus")...)
		e := n.replica(nil).Engine.(*gpuCPU)
		end, err := e.Run(&scheduler.Batch{Sub: []scheduler.SubBatch{sub}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		alone := &gpuOnly{GPUs: gpus.New(n.Hardware)}
		alone.DecodeRuns(sub.Decode, 0)
		g := alone.StageRuns(&sub)
		layers := units.Duration(e.Model.Layers)
		whole := g.Entry + layers*g.Layers[0].Attention + (layers-1)*g.Block + g.Exit
		if want > 0 && math.Abs(end.Seconds()/want-1) > 1e-6 || want == 0 && end != whole || e.Work.Time[flow.OfPIM] > 0 || e.Iteration.Totals().ByKind[flow.OpHostAttention] > 0 {
			t.Errorf("%s: an iteration takes %v, want %v s, or %v on the GPUs", set, end, want, whole)
		}
	}
}

// TestPromptsGoDown: an iteration that prefills takes at least the links' time for its keys and
// values.
func TestPromptsGoDown(t *testing.T) {
	e := gpuCPUOf(t, "pcie.efficiency=0.001")
	end, err := e.Run(&scheduler.Batch{Sub: []scheduler.SubBatch{{Prefill: []scheduler.Chunk{{Tokens: 1000, Last: true}}}}}, 0)
	want := 48 * 1000 * 96 * 512 / (4 * 0.001 * 16 * 16e9 * 128 / 130 / 8)
	if err != nil || math.Abs(end.Seconds()/want-1) > 1e-6 {
		t.Errorf("1,000 tokens take %v, their way down %v s; %v", end, want, err)
	}
}

// TestAppend: a prompt in two pieces, like a second turn after a first. The second attends on the
// host over the tokens that have left the window. Keys and values are read once, and each of its
// tokens takes four operations for each of their elements.
func TestAppend(t *testing.T) {
	const first, second = 6000, 500
	const away = (first-4096)/128*128 + 128
	piece := scheduler.SubBatch{Prefill: []scheduler.Chunk{{Tokens: second, Finished: first, Last: true}}}
	host := gpuCPUOf(t, "policy.name=hgca")
	got, merge := layerOf(t, host, piece)
	vector, link := 96*128*2.0, 4*0.79*16*16e9*128/130/8
	want := 2*5e-6 + 20e-6 + second*(2*vector+4*96)/link + 4.0*second*away*96*128/(72e9*0.5*64)
	if math.Abs(got.Seconds()/want-1) > 1e-6 || merge == 0 {
		t.Errorf("the CPUs take %v s for a layer, want %v s; the merge %v", got.Seconds(), want, merge)
	}
	behind := func(e *gpuCPU) units.Duration { return e.Staged.Layers[0].Attention }
	onGPUs := gpuCPUOf(t, "policy.name=hgca", "gpu_cpu.append=gpus")
	if got, merge := layerOf(t, onGPUs, piece); got != 0 || merge != 0 {
		t.Errorf("on the GPUs the CPUs take %v and the merge %v", got, merge)
	}
	if behind(host) >= behind(onGPUs) {
		t.Errorf("the GPUs attend for %v beside the host, alone for %v", behind(host), behind(onGPUs))
	}
	// A whole run: the same request in one piece has no append.
	run := func(most string) (emitted units.Duration) {
		r := rigOf(t, "run.system=gpu+cpu", "run.model=gpt-89b", "policy.name=hgca", "batching.max_num_batched_tokens="+most).replica([]traces.Request{{Input: first + second, Output: 2}})
		if _, err := r.run(func(b *scheduler.Batch, _, end units.Duration) {
			if b.Decoding() == 0 {
				emitted = end
			}
		}); err != nil {
			t.Fatal(err)
		}
		return emitted
	}
	pieces, one := run(fmt.Sprint(first)), run(fmt.Sprint(first+second))
	layers := 48.0
	if more := (pieces - one).Seconds(); more < 0.9*layers*(want-100e-6) {
		t.Errorf("in two pieces the first token comes %v s later; the append alone takes %v s", more, layers*want)
	}
}
