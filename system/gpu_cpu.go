package system

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/forming"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/units"
)

// gpuCPUSystem has keys and values with the host, but for a window.
var gpuCPUSystem = System{
	Name:     "gpu+cpu",
	Hardware: "KV in the host's memory, the newest tokens of each request on the GPUs; the host's CPUs attend, or choose what the GPUs attend over",
	Schedule: "continuous batching, prefill first or chunked; a single batch",
	Source:   "HGCA (Deng et al., 2025), which compares H2O (Zhang et al., NeurIPS 2023); CSAttention",
	Sections: "gpu_cpu, batching, cpu_offload, pcie",
	Host:     true,
	home:     policy.OnHost,
	section:  "gpu_cpu", zero: GPUCPU{}, kv: place{name: "in the host's memory", onHost: true},
	memory: hostMemory, assemble: assembleGPUCPU,
	defaults: `
[gpu_cpu]
policy = "prefill-first" # as gpu-only has it; "chunked-prefill" attends on both sides for prompts, too; TBT, throughput of long prompts
attend = "host"          # HGCA, FastDecode; "gpus" has keys and values come up for each layer, as FlexGen and H2O have them in HGCA's Figure 12; link against CPUs
append = "host"          # HGCA, Algorithm 2: queries that come after tokens have left the GPUs attend over these on the host; "gpus" keeps cut prompts there
`,
}

// GPUCPU is the section [gpu_cpu]. The host is that of [cpu_offload].
type GPUCPU struct {
	Policy string `toml:"policy"` // PrefillFirst or ChunkedPrefill
	// Attend is where requests attend over what is with the host: OnHost or OnGPUs.
	Attend string `toml:"attend"`
	// Append is where the tokens of a later chunk of a prompt attend over what has left HGCA's
	// window: OnHost, which sees anew what is salient, or OnGPUs, where a cut prompt then stays until it ends.
	Append string `toml:"append"`
}

// Values of GPUCPU.Attend and Append.
const (
	OnHost = "host"
	OnGPUs = "gpus" // keys and values come up beside the work
)

// Check has the rules of the section [gpu_cpu].
func (s GPUCPU) Check(c *input.Check) {
	input.OneOf(c, "policy", s.Policy, policies()...)
	input.OneOf(c, "attend", s.Attend, OnHost, OnGPUs)
	input.OneOf(c, "append", s.Append, OnHost, OnGPUs)
}

// gpuCPU is a system whose host has keys and values, and attends or searches in every layer
// beside the GPUs.
type gpuCPU struct {
	gpuSide
	hostCPUs
	flow
	home  []hostWork // of the iteration at hand, by run of layers
	loads bool       // what is with the host comes up, and the GPUs attend over it
	split bool       // the GPUs attend over some of the tokens, beside the CPUs or in their place
}

// hostWork is what home does in one layer, and what the links carry.
type hostWork struct {
	down, up     units.Bytes    // that the layer waits for
	leaves, load units.Bytes    // down and up, that it does not wait for
	took         units.Duration // of the CPUs
	fetch, ahead bool           // as policy.Step has them
}

// assembleGPUCPU puts together a replica with continuous batching of a single batch.
func assembleGPUCPU(n *setup) assembly {
	cfg, spec := n.Config, configs.Section[GPUCPU](n.Config)
	e := &gpuCPU{gpuSide: newGPUSide(n.hardware)}
	e.loads = spec.Attend == OnGPUs
	e.appends = spec.Append == OnHost && !e.loads
	for _, c := range e.policy.Decode([]policy.Request{{Prompt: 1, Context: 2}}, 0).Attend {
		e.split = e.split || c.Device == policy.GPU
	}
	e.hostCPUs = newHostCPUs(n.hardware, e.gpuSide.attends)
	if own, ok := cfg.Policy.Overhead(); ok {
		e.overhead = own
	}
	e.home = make([]hostWork, len(e.runs))
	e.flow = newFlow(n.hardware, besideGPU("CPU"), n.running)
	free := memory.GPU{Model: &cfg.Model, Free: freeGPUMemory(n.hardware)}
	free.Window, free.PromptShare, free.Share = windows(n.hardware, e.policy)
	host := pages(n.hardware, n.memory.capacity)
	host.Filling = nil // prompts are on the GPUs until they end
	memories := forming.Memories{Ledger: memory.NewLedger(host), GPU: free}
	return assembly{n.continuous(continuous{policy: spec.Policy, memories: memories}), e}
}

// Run runs a batch. Transfers of one layer under the work of others keep the links busy beside the GPUs.
func (e *gpuCPU) Run(b *scheduler.Batch, start units.Duration) (units.Duration, error) {
	e.reset()
	sub := &b.Sub[0]
	e.gpus = e.gpus[:0]
	var down, up, ahead, channels units.Duration
	for run, layers := range e.runs {
		h := &e.home[run]
		*h = hostWork{}
		e.decodes(h, sub.Decode, run, b.Step)
		e.prefills(h, sub, run)
		n := units.Duration(layers)
		down += n * (transferTime(e.link, h.down) + transferTime(e.link, h.leaves))
		up += n * (transferTime(e.link, h.up) + transferTime(e.link, h.load))
		if h.ahead { // layers overlap, and links have their own time
			ahead += n * (e.overhead + h.took)
			channels += n * h.took
		}
	}
	e.hide(onDown, down)
	e.hide(onUp, up)
	e.hide(onDevice, ahead)
	g := e.stageRuns(sub)
	for run := range g.layers {
		if h, l := &e.home[run], &g.layers[run]; !h.ahead {
			l.device, l.bus, l.deviceFirst = e.around(h), h.took, h.fetch
		}
	}
	g.lay(&e.flow, 0, opHostAttention)
	e.flow.work.time[ofDown] += down
	e.flow.work.time[ofUp] += up
	e.flow.work.time[ofChannel] += channels
	return e.flow.run(start)
}

// decodes sets what a layer takes for decoding requests, on both sides.
func (e *gpuCPU) decodes(h *hostWork, requests []scheduler.Decoding, run int, step int64) {
	x := e.decode(requests, run, step)
	e.count(x, run)
	from, there := len(e.gpus), 0
	loads := e.loads && x.Fetched == nil
	for i := range x.Attend {
		c := &x.Attend[i]
		if home := c.Device == policy.Home; home && !loads {
			h.took += e.heads(c)
			e.flow.work.tokens += c.All() * int64(e.runs[run])
			there = max(there, decodeBatch(c).Requests)
		} else if len(c.Tokens) > 0 {
			e.gpus = append(e.gpus, decodeBatch(c))
			if home {
				h.load += e.kv(1) * units.Bytes(c.All()) / units.Bytes(e.model.KVHeads)
				h.leaves += units.Bytes(len(c.Tokens)) * units.Bytes(e.policy.Vectors().New)
			}
		}
	}
	e.decoding[run] = decoding{batches: e.gpus[from:], beside: e.choices(x).Plus(e.passes(x, policy.GPU)), merge: e.gpu.Merge(x.Merged)}
	if loads {
		e.decoding[run].beside = e.decoding[run].beside.Plus(e.passes(x, policy.Home))
	} else {
		for i := range x.Passes {
			if p := &x.Passes[i]; p.Device == policy.Home {
				h.took += e.pass(p)
			}
		}
	}
	for _, n := range x.Fetched {
		h.up += e.kv(n)
		there = len(requests)
	}
	down, up := e.vectors(there)
	h.down, h.up, h.leaves = down, h.up+up, h.leaves+e.leaving(x.Leave)
	h.fetch, h.ahead = x.Fetched != nil, x.Ahead
}

// leaving returns the bytes that go home. What is there already costs nothing.
func (e *gpuCPU) leaving(all []policy.Leaving) (bytes units.Bytes) {
	for i := range all {
		l, tokens := &all[i], 0
		for _, n := range l.Tokens {
			tokens += n
		}
		if !l.Copies {
			bytes += e.kv(tokens)*units.Bytes(l.Heads)/units.Bytes(e.model.KVHeads) + units.Bytes(l.Heads)*units.Bytes(l.Notes*int64(tokens)+l.Index)
		}
	}
	return bytes
}

// prefills adds what a layer takes for prompts beside the GPUs' own work: their keys and
// values go home, and queries that come after tokens have left attend over these there.
func (e *gpuCPU) prefills(h *hostWork, sub *scheduler.SubBatch, run int) {
	merged := 0
	for i := range sub.Prefill {
		c := &sub.Prefill[i]
		p := e.policy.Prompt(run, c.Tokens, c.Finished, c.Last)
		h.leaves += e.leaving(p.Leave)
		if p.Away == 0 || !e.appends {
			continue
		}
		down, up := e.vectors(c.Tokens)
		h.took += e.append(c.Tokens, p.Away)
		h.down, h.up, merged = h.down+down, h.up+up, merged+c.Tokens
	}
	if merged > 0 {
		e.decoding[run].merge = e.decoding[run].merge.Plus(e.gpu.Merge(merged))
	}
}

// around returns the time of home's work with the transfers before and after it.
func (e *gpuCPU) around(h *hostWork) units.Duration {
	if h.took == 0 {
		return 0
	}
	return 2*e.latency + transferTime(e.link, h.down) + e.overhead + h.took + transferTime(e.link, h.up)
}

// Peak counts the GPUs' memory where a policy attends over some of the tokens there.
func (e *gpuCPU) Peak() units.Bandwidth {
	if e.split {
		return e.hbmPeak + e.peakRate
	}
	return e.peakRate
}
