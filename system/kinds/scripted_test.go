package kinds

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/units"
)

// scripted is a policy whose step and chunk a test sets. It records its calls.
type scripted struct {
	policy.Costs
	step   policy.Step
	prompt policy.Prompt
	asked  [2]int
	last   bool
}

func (s *scripted) Decode([]policy.Request, int) *policy.Step { return &s.step }

func (s *scripted) Prompt(_, chunk, finished int, last bool) *policy.Prompt {
	s.asked, s.last = [2]int{chunk, finished}, last
	return &s.prompt
}

// three are decoding requests of some lengths.
var three = []scheduler.Decoding{{Base: 101, Prompt: 90}, {Base: 41, Prompt: 30}, {Base: 11, Prompt: 10}}

// TestHostTokensByHand: of eight KV heads, three have 180 tokens on the host and four 90. All heads there have (3·180 +
// 4·90)/8 = 112 tokens, and one head on the GPU has its batch.
func TestHostTokensByHand(t *testing.T) {
	e := rigOf(t, "run.system=cpu-offload", "run.model=llama-3-8b").replica(nil).Engine.(*cpuOffload)
	e.Attends.Policy = &scripted{Costs: e.Attends.Policy, step: policy.Step{Attend: []policy.Class{
		{Device: policy.GPU, Heads: 1, Tokens: []int{60, 0, 10}},
		{Device: policy.Home, Heads: 3, Tokens: []int{100, 70, 10}},
		{Device: policy.Home, Heads: 4, Tokens: []int{50, 40, 0}},
	}}}
	tokens, near := e.attended(three, 1)
	if want := []gpu.DecodeBatch{{Requests: 2, Tokens: 70, Longest: 60, KVHeads: 1}}; tokens != 3*180/8+4*90/8 || !slices.Equal(near, want) {
		t.Errorf("%d tokens on the host, by hand 67 and 45; on the GPUs %+v", tokens, near)
	}
}

// TestHostPromptsMoveByHand: prompts of 3,000 and 2,000 tokens go to the host; the link up stays free.
func TestHostPromptsMoveByHand(t *testing.T) {
	e := rigOf(t, "run.system=cpu-offload", "run.model=llama-2-7b").replica(nil).Engine.(*cpuOffload)
	b := &scheduler.Batch{Step: 1, Sub: []scheduler.SubBatch{{Prefill: []scheduler.Chunk{
		{Tokens: 3000, Host: true, Last: true}, {Request: 1, Tokens: 2000, Host: true, Last: true}, {Request: 2, Tokens: 700, Last: true},
	}}}}
	end, err := e.Run(b, units.Second)
	if err != nil || e.Check.Err() != nil {
		t.Fatal(err, e.Check.Err())
	}
	if got := e.Work.Time[flow.OfDown]; got != e.Moved(5000) || e.Work.Time[flow.OfUp] != 0 {
		t.Errorf("prompts go to the host in %v, by hand %v", got, e.Moved(5000))
	}
	if took, up, down := e.Latest(); took != end-units.Second || up != took || down != took-e.Moved(5000) {
		t.Errorf("the iteration takes %v and leaves the links %v and %v; its end is %v", took, up, down, end)
	}
}

// growing is a policy whose steps attend to twice as many tokens at each call.
type growing struct {
	policy.Costs
	tokens int
}

func (g *growing) Decode([]policy.Request, int) *policy.Step {
	g.tokens *= 2
	return &policy.Step{Attend: []policy.Class{{Device: policy.Home, Heads: 8, Tokens: []int{g.tokens}}}}
}

// TestHostLawByHand: the time that a scheduler got must be that of the iteration.
func TestHostLawByHand(t *testing.T) {
	e := rigOf(t, "run.system=cpu-offload", "run.model=llama-3-8b").replica(nil).Engine.(*cpuOffload)
	b := &scheduler.Batch{Sub: []scheduler.SubBatch{{Host: three[:1]}}}
	e.Attends.Policy = &growing{Costs: e.Attends.Policy, tokens: 10_000}
	end, err := e.Run(b, units.Second)
	e.Attends.Policy.(*growing).tokens = 40_000
	told := e.Iteration(b) // of 80,000 tokens, as before; the requests on the GPUs were predicted in between
	want := fmt.Sprintf("the iteration takes %v, the scheduler was told %v", end-units.Second, told)
	if err != nil || told <= end-units.Second || e.Check.Err() == nil || !strings.Contains(e.Check.Err().Error(), want) {
		t.Errorf("%v, want %q; %v", e.Check.Err(), want, err)
	}
}

// TestHostWorkByHand: a layer's work for the CPUs, the links and the GPUs, in a step with known classes of heads. The class with
// most requests at home decides the vectors to send. What leaves has its heads, notes and index.
func TestHostWorkByHand(t *testing.T) {
	step := policy.Step{
		Attend: []policy.Class{
			{Device: policy.Home, Heads: 2, Tokens: []int{100, 0, 300}},
			{Device: policy.Home, Heads: 1, Tokens: []int{7, 0, 0}},
			{Device: policy.GPU, Heads: 5, Tokens: []int{10, 20, 30}},
			{Device: policy.GPU, Heads: 8},
		},
		Passes: []policy.Pass{{Device: policy.Home, Bytes: 3e6, FLOPs: 1e6}, {Device: policy.Home, Bytes: 5e6}, {Device: policy.GPU, Kernels: 1, Bytes: 7e6}},
		Leave: []policy.Leaving{
			{Heads: 8, Tokens: []int{3, 0, 1}, Notes: 6, Index: 40}, {Heads: 4, Tokens: []int{2}, Notes: 4}, {Heads: 8, Tokens: []int{9}, Copies: true},
		},
		Merged: 2,
	}
	const token = 8 * 2 * 128 * 2 // bytes of a token in a layer
	const leaves = 4*token + 8*(6*4+40) + 2*token/2 + 4*4*2
	decodes := func(sets ...string) (*gpuCPU, hostWork) {
		e := gpuCPUOf(t, append([]string{"run.model=llama-3-8b"}, sets...)...)
		e.Attends.Policy, e.Attends.Copies = &scripted{Costs: e.Attends.Policy, step: step}, 3
		var h hostWork
		e.Decoding = make([]gpus.Decoding, len(e.Attends.Runs))
		e.decodes(&h, three, 0, 1)
		return e, h
	}
	e, h := decodes()
	x := &e.Attends.Policy.(*scripted).step
	down, up := e.Attends.Vectors(2)
	if took := e.AttendClass(&x.Attend[0]) + e.AttendClass(&x.Attend[1]) + e.Pass(&x.Passes[0]) + e.Pass(&x.Passes[1]); h != (hostWork{took: took, down: down, up: up, leaves: leaves}) {
		t.Errorf("at home %+v, by hand %v for %d and %d B, %d B leave", h, took, down, up, leaves)
	}
	if want := (400*2 + 7) * int64(e.Attends.Runs[0]); e.Flow.Work.Tokens != want {
		t.Errorf("%d tokens at home, by hand %d", e.Flow.Work.Tokens, want)
	}
	got := e.Decoding[0]
	if want := []gpu.DecodeBatch{{Requests: 3, Tokens: 60, Longest: 30, KVHeads: 5}}; !slices.Equal(got.Batches, want) || got.Beside != e.Passes(x, policy.GPU) || got.Merge != e.ModelCost.Merge(2) {
		t.Errorf("on the GPUs %+v, want batches %+v", got, want)
	}
	// The GPUs load what the CPUs would read, and each request's new key and value leaves. The GPUs run the passes,
	// too.
	e, h = decodes("gpu_cpu.attend=gpus")
	if loads := e.Attends.Copies * units.Bytes(token*(400*2+7)/8); !e.loads || h.load != loads || h.leaves != e.Attends.New(3)+e.Attends.New(3)+leaves || h.took != 0 || h.down != 0 || h.up != 0 {
		t.Errorf("loaded are %+v, by hand %d B", h, loads)
	}
	got = e.Decoding[0]
	want := []gpu.DecodeBatch{{Requests: 2, Tokens: 400, Longest: 300, KVHeads: 2}, {Requests: 1, Tokens: 7, Longest: 7, KVHeads: 1}, {Requests: 3, Tokens: 60, Longest: 30, KVHeads: 5}}
	if !slices.Equal(got.Batches, want) || got.Beside != e.Passes(x, policy.GPU).Plus(e.Passes(x, policy.Home)) {
		t.Errorf("the GPUs attend %+v, by hand %+v", got.Batches, want)
	}
	// Fetched keys and values go up, and all requests send their vectors.
	step.Fetched, step.Ahead = []int{30, 0, 12}, true
	e, h = decodes()
	down, up = e.Attends.Vectors(3)
	if want := up + e.Attends.Copies*42*token; h.up != want || h.down != down || !h.fetch || !h.ahead {
		t.Errorf("fetched %+v, by hand %d B up and %d down", h, want, down)
	}
}

// TestHostPromptsByHand: for two chunks, the CPUs attend with 10 and 30 queries over 500 tokens of their requests, and the GPUs
// merge 40 tokens. Their keys and values leave.
func TestHostPromptsByHand(t *testing.T) {
	e := gpuCPUOf(t, "run.model=llama-3-8b")
	p := &scripted{Costs: e.Attends.Policy, prompt: policy.Prompt{Away: 500, Leave: []policy.Leaving{{Heads: 8, Tokens: []int{4}}}}}
	e.Attends.Policy = p
	sub := &scheduler.SubBatch{Prefill: []scheduler.Chunk{{Tokens: 10, Finished: 700}, {Tokens: 30, Finished: 600, Last: true}}}
	for _, appends := range []bool{true, false} {
		e.Appends = appends
		h, merge := hostWork{down: 5, up: 6}, gpu.Work{Seconds: 1}
		e.Decoding[0].Merge = merge
		e.prefills(&h, sub, 0)
		want := hostWork{down: 5, up: 6, leaves: 2 * 4 * 4096}
		if appends {
			down, up := e.Attends.Vectors(10)
			more, back := e.Attends.Vectors(30)
			want.took, want.down, want.up = e.AttendNew(10, 500)+e.AttendNew(30, 500), 5+down+more, 6+up+back
			merge = merge.Plus(e.ModelCost.Merge(40))
		}
		if h != want || e.Decoding[0].Merge != merge || p.asked != [2]int{30, 600} || !p.last {
			t.Errorf("appends %t: %+v, by hand %+v; merges %+v, by hand %+v", appends, h, want, e.Decoding[0].Merge, merge)
		}
	}
}

// TestUnitsByHand: the units read each class of heads as often as its query heads need, on each GPU that has a copy. A class on
// the GPUs is a batch there.
func TestUnitsByHand(t *testing.T) {
	e := rigOf(t, "run.system=hbm-pim", "run.model=llama-3-8b", "hbm_pim.queries_per_read=2").hbm() // four query heads a KV head: two readings
	e.chooses, e.Attends.Copies = true, 3
	p := &scripted{Costs: e.Attends.Policy, step: policy.Step{
		Attend: []policy.Class{
			{Device: policy.Home, Heads: 4, Tokens: []int{100, 0, 300}}, {Device: policy.Home, Heads: 3, Tokens: []int{10, 20, 30}, Paged: policy.Paged{PerQueryHead: true}},
			{Device: policy.GPU, Heads: 1, Tokens: []int{1, 2, 3}}, {Device: policy.GPU, Heads: 8},
		},
		Passes: []policy.Pass{{Device: policy.GPU, Kernels: 1, Bytes: 7e6}, {Device: policy.Home, Kernels: 1, Bytes: 3e6}},
	}}
	e.Attends.Policy = p
	e.attend(three, 1, false)
	part := func(requests, tokens, longest, heads int, reads float64) units.Duration {
		return e.took(gpu.DecodeBatch{Requests: requests, Tokens: int64(tokens), Longest: longest, KVHeads: heads}, reads)
	}
	device := part(2, 400, 300, 4, 2) + part(3, 60, 30, 3, 4)
	if read := int64(e.Attends.Copies) * (4*400*2 + 3*60*4); e.reads != 2 || e.own != 4 || e.device[0] != device || e.read[0] != read {
		t.Errorf("the units take %v and read %d tokens, by hand %v and %d", e.device[0], e.read[0], device, read)
	}
	got := e.Decoding[0]
	if want := []gpu.DecodeBatch{{Requests: 3, Tokens: 6, Longest: 3, KVHeads: 1}}; !slices.Equal(got.Batches, want) || got.Beside != e.Passes(&p.step, policy.GPU).Plus(e.Passes(&p.step, policy.Home)) {
		t.Errorf("on the GPUs %+v", got)
	}
	// The prediction is of all layers, and of the network.
	sub := &scheduler.SubBatch{Decode: three}
	if got, want := e.PIM(sub, 1, 0), units.Duration(e.Model.Layers)*device; got != want {
		t.Errorf("the units are predicted to take %v, by hand %v", got, want)
	}
	e.Decoding[0] = gpus.Decoding{}
	got2, want := e.GPU(sub, 1), e.GPUTime(sub)
	if e.Decoding[0].Beside.Seconds == 0 || got2 != want {
		t.Errorf("the GPUs are predicted to take %v, by hand %v with what is beside the units", got2, want)
	}
	if e.Flow.Work.Tokens != 0 {
		t.Error("predictions count")
	}
	help := rigOf(t, "run.system=hbm-pim", "run.model=gpt-89b", "hbm_pim.feed_forward=1").hbm()
	one := decoding(6, 900)
	_, seconds := help.Helps(6)
	help.attend(one.Decode, 0, false)
	layers := units.Duration(help.Model.Layers)
	if got, want := help.PIM(one, 0, 0), layers*help.device[0]+layers*flow.TaskTime(seconds); got != want || seconds == 0 {
		t.Errorf("with columns of the network the units are predicted to take %v, by hand %v", got, want)
	}
	if got, want := help.PIM(&scheduler.SubBatch{}, 0, 0), units.Duration(0); got != want {
		t.Errorf("nothing is predicted to take %v", got)
	}
}

// TestBusiestChannelByHand: all heads of a request lie in one channel of each GPU. Two requests share channel 5 and one is in channel 2.
// A channel with two classes reads one after the other. Classes on GPUs are not counted.
func TestBusiestChannelByHand(t *testing.T) {
	e := rigOf(t, "run.system=hbm-pim", "run.model=llama-3-8b", "model.tensor_parallel=2", "hbm_pim.placement=channel", "hbm_pim.queries_per_read=4").hbm()
	requests := slices.Clone(three)
	requests[0].Offset, requests[1].Offset, requests[2].Offset = 5, 2, 5
	x := &policy.Step{Attend: []policy.Class{
		{Device: policy.Home, Heads: 5, Tokens: []int{1000, 1500, 400}},
		{Device: policy.GPU, Heads: 1, Tokens: []int{0, 900_000, 0}},
		{Device: policy.Home, Heads: 2, Tokens: []int{300, 0, 200}, Paged: policy.Paged{PerQueryHead: true}},
	}}
	busiest := 3*1400*e.reading.token + 1*4*500*e.reading.token // heads of five and of two over two GPUs, the latter for each query head
	if got, want := e.busiest(x, requests), busiest*float64(len(e.loads)); math.Abs(got.Seconds()/want-1) > 1e-6 || want == 0 {
		t.Errorf("the busiest channel takes %v, by hand %g s", got, want)
	}
}

// TestStackByHand: a read of the units has 32 bytes. With four elements of 16-bit models a read they would take four bits, which no commands
// read.
func TestStackByHand(t *testing.T) {
	for sets, want := range map[string]string{
		"": "", "hbm_pim.elements_per_read=4": "", "hbm_pim.elements_per_read=2 model.kv_bits=4": "", "hbm_pim.elements_per_read=4 model.kv_bits=8": "",
		"hbm_pim.elements_per_read=4 model.kv_bits=4": "units that multiply elements of 8 or 16 bits",
	} {
		cfg, err := Loader().Load(configs.Options{Sets: strings.Fields(sets + " hbm_pim.model=commands run.system=hbm-pim run.model=llama-3-8b")})
		if err != nil {
			t.Fatal(err)
		}
		_, err = newStack(cfg)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(fmt.Sprint(err), want)) {
			t.Errorf("%s: %v, want %q", sets, err, want)
		}
	}
}
