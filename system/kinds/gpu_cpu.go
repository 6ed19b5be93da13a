package kinds

import (
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/batching"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/system/hosts"
	"github.com/l3sim/l3sim/units"
)

// gpuCPUSystem stores keys and values with the host, but for a window on the GPUs.
var gpuCPUSystem = System{
	Name:     "gpu+cpu",
	Others:   []string{"hgca", "csattention", "h2o"},
	Hardware: "KV in the host's memory, the newest tokens of each request on the GPUs; the host's CPUs compute attention, or choose the tokens that the GPUs attend to",
	Schedule: "continuous batching, prefill first or chunked; a single batch",
	Source:   "HGCA (Deng et al., 2025), which compares H2O (Zhang et al., NeurIPS 2023); CSAttention",
	Sections: "gpu_cpu, batching, cpu_offload, pcie",
	Host:     true,
	Home:     policy.OnHost,
	Section:  "gpu_cpu", Zero: GPUCPU{}, KV: flow.Place{Name: "in the host's memory", OnHost: true}, drafts: true,
	more: checkGPUCPU, Memory: hosts.Memory, Assemble: assembleGPUCPU,
	Planning: Planning{Prefill: "gpu_cpu.policy", Resources: []Resource{dimmMemory, cpuBandwidth, cpuCompute, link}},
	Defaults: `
[gpu_cpu]
policy = "prefill-first" # as gpu-only has it; "chunked-prefill" attends on both sides for prompts, too; TBT, throughput of long prompts
attend = "host"          # HGCA, FastDecode; "gpus" has keys and values come up for each layer, as FlexGen and H2O have them in HGCA's Figure 12; link against CPUs
append = "host"          # HGCA, Algorithm 2: queries that come after tokens have left the GPUs attend over these on the host; "gpus" keeps cut prompts there
`,
}

// GPUCPU is the section [gpu_cpu]. [cpu_offload] describes the host.
type GPUCPU struct {
	PrefillSpec
	// Attend is where requests attend over keys and values of the host: OnHost or OnGPUs.
	Attend string `toml:"attend"`
	// Append is where a later chunk of a prompt attends over tokens that have left HGCA's window. OnHost also
	// updates which of them are salient; with OnGPUs a cut prompt stays on the GPUs until it ends.
	Append string `toml:"append"`
}

// Values of GPUCPU.Attend and Append.
const (
	OnHost = "host"
	OnGPUs = "gpus" // keys and values are transferred up beside the work
)

// Check has the rules of the section [gpu_cpu].
func (s GPUCPU) Check(c *input.Check) {
	s.PrefillSpec.Check(c)
	input.OneOf(c, "attend", s.Attend, OnHost, OnGPUs)
	input.OneOf(c, "append", s.Append, OnHost, OnGPUs)
}

// checkGPUCPU refuses chosen pages that are transferred up, since a layer would wait for them.
func checkGPUCPU(cfg *configs.Config, c *input.Check) {
	attend := configs.Section[GPUCPU](cfg).Attend
	c.That(attend == OnHost || cfg.Policy.Pages() == nil, "gpu_cpu.attend", attend, "%q with %s = %s: pages are not known before the layer that chooses them; %s = sparse-offload fetches them",
		OnHost, input.Key("policy.name"), cfg.Policy.Name, input.Key("run.system"))
}

// pageNumber is the bytes of an entry in the list of chosen pages for the host.
const pageNumber = 4

// gpuCPU is a system whose host stores keys and values, and attends or searches in every layer
// while the GPUs work.
type gpuCPU struct {
	gpus.GPUs
	hosts.CPUs
	flow.Flow
	home  []hostWork // of the current iteration, by run of layers
	loads bool       // keys and values of the host are transferred up, and the GPUs attend over them
	split bool       // the GPUs attend over some of the tokens, beside the CPUs or in their place
}

// hostWork is the host's work in one layer, and the links' transfers.
type hostWork struct {
	down, up     units.Bytes    // the layer waits for these
	leaves, load units.Bytes    // transfers down and up that the layer does not wait for
	took         units.Duration // of the CPUs
	fetch, ahead bool           // as in policy.Step
}

// assembleGPUCPU builds a replica with continuous batching of a single batch.
func assembleGPUCPU(n *Setup) Assembly {
	cfg, spec := n.Hardware.Config, configs.Section[GPUCPU](n.Hardware.Config)
	e := &gpuCPU{GPUs: gpus.New(n.Hardware)}
	e.loads = spec.Attend == OnGPUs
	e.Appends = spec.Append == OnHost && !e.loads
	for _, c := range e.Attends.Policy.Decode([]policy.Request{{Prompt: 1, Context: 2}}, 0).Attend {
		e.split = e.split || c.Device == policy.GPU
	}
	e.CPUs = hosts.New(n.Hardware, e.GPUs.Attends)
	e.home = make([]hostWork, len(e.Attends.Runs))
	e.Flow = flow.New(n.Hardware, gpus.BesideGPU("CPU"), n.Running)
	free := memory.GPU{Model: &cfg.Model, Free: gpus.FreeMemory(n.Hardware)}
	free.Window, free.PromptShare, free.Share = gpus.Windows(n.Hardware, e.Attends.Policy)
	host := gpus.Pages(n.Hardware, n.Memory.Capacity)
	host.Filling = nil // prompts stay on the GPUs until they end
	memories := batching.Memories{Ledger: memory.NewLedger(host), GPU: free}
	return Assembly{n.Continuous(Continuous{Policy: spec.Policy, Memories: memories}), e}
}

// Run runs a batch. Transfers that overlap the work of other layers occupy only the links.
func (e *gpuCPU) Run(b *scheduler.Batch, start units.Duration) (units.Duration, error) {
	e.Reset()
	sub := &b.Sub[0]
	e.Batches = e.Batches[:0]
	var down, up, ahead, channels units.Duration
	for _, run := range e.Attends.Kinds {
		h := &e.home[run]
		*h = hostWork{}
		e.decodes(h, sub.Decode, run, b.Step)
		e.prefills(h, sub, run)
		n := units.Duration(e.Attends.LayersLike(run))
		down += n * (flow.TransferTime(e.Link, h.down) + flow.TransferTime(e.Link, h.leaves))
		up += n * (flow.TransferTime(e.Link, h.up) + flow.TransferTime(e.Link, h.load))
		if h.ahead { // layers overlap, and the links' time is booked apart
			ahead += n * (e.Overhead + h.took)
			channels += n * h.took
		}
	}
	e.Hide(gpus.OnDown, down)
	e.Hide(gpus.OnUp, up)
	e.Hide(gpus.OnDevice, ahead)
	g := e.StageRuns(sub)
	for k, run := range e.Attends.Kinds {
		if h, l := &e.home[run], &g.Layers[k]; !h.ahead {
			l.Device, l.Bus, l.DeviceFirst = e.around(h), h.took, h.fetch
		}
	}
	g.Lay(&e.Flow, 0, flow.OpHostAttention)
	e.Flow.Work.Time[flow.OfDown] += down
	e.Flow.Work.Time[flow.OfUp] += up
	e.Flow.Work.Time[flow.OfChannel] += channels
	return e.Flow.Run(start)
}

// decodes sets the work of decoding requests in a layer, on both sides.
func (e *gpuCPU) decodes(h *hostWork, requests []scheduler.Decoding, run int, step int64) {
	x := e.Attends.Decode(requests, run, step)
	e.Attends.Count(x, run)
	from, there, pages := len(e.Batches), 0, units.Bytes(0) // pages that the GPUs choose for the CPUs
	loads := e.loads && x.Fetched == nil
	for i := range x.Attend {
		c := &x.Attend[i]
		if home := c.Device == policy.Home; home && !loads {
			h.took += e.AttendClass(c)
			if c.Page > 0 {
				pages += units.Bytes(c.All() / int64(c.Page))
			}
			e.Flow.Work.Tokens += c.All() * int64(e.Attends.LayersLike(run))
			there = max(there, gpus.DecodeBatch(c).Requests)
		} else if len(c.Tokens) > 0 {
			e.Batches = append(e.Batches, gpus.DecodeBatch(c))
			if home {
				h.load += e.Attends.Copies * e.Attends.KV(1) * units.Bytes(c.All()) / units.Bytes(e.Model.KVHeads)
				h.leaves += e.Attends.New(len(c.Tokens))
			}
		}
	}
	e.Decoding[run] = gpus.Decoding{Batches: e.Batches[from:], Beside: e.Passes(x, policy.GPU), Merge: e.ModelCost.Merge(x.Merged)}
	if to := &e.Decoding[run]; pages > 0 { // the CPUs wait for the choice
		to.Chooses = e.Choices(x)
	} else {
		to.Beside = e.Choices(x).Plus(to.Beside)
	}
	if loads {
		e.Decoding[run].Beside = e.Decoding[run].Beside.Plus(e.Passes(x, policy.Home))
	} else {
		for i := range x.Passes {
			if p := &x.Passes[i]; p.Device == policy.Home {
				h.took += e.Pass(p)
			}
		}
	}
	for _, n := range x.Fetched {
		h.up += e.Attends.Copies * e.Attends.KV(n)
		there = len(requests)
	}
	down, up := e.Attends.Vectors(there)
	h.down, h.up, h.leaves = down+pageNumber*pages, h.up+up, h.leaves+e.leaving(x.Leave)
	h.fetch, h.ahead = x.Fetched != nil, x.Ahead
}

// leaving returns the bytes that go to the host. Those already there cost nothing.
func (e *gpuCPU) leaving(all []policy.Leaving) (bytes units.Bytes) {
	for i := range all {
		l, tokens := &all[i], 0
		for _, n := range l.Tokens {
			tokens += n
		}
		if !l.Copies {
			bytes += e.Attends.KV(tokens)*units.Bytes(l.Heads)/units.Bytes(e.Model.KVHeads) + units.Bytes(l.Heads)*units.Bytes(l.Notes*int64(tokens)+l.Index)
		}
	}
	return bytes
}

// prefills adds the work of prompts in a layer beside the GPUs' own: their keys and values go to
// the host, and later queries attend there over tokens that have left.
func (e *gpuCPU) prefills(h *hostWork, sub *scheduler.SubBatch, run int) {
	merged := 0
	for i := range sub.Prefill {
		c := &sub.Prefill[i]
		p := e.Attends.Policy.Prompt(run, c.Tokens, c.Finished, c.Last)
		h.leaves += e.leaving(p.Leave)
		if p.Away == 0 || !e.Appends {
			continue
		}
		down, up := e.Attends.Vectors(c.Tokens)
		h.took += e.AttendNew(c.Tokens, p.Away)
		h.down, h.up, merged = h.down+down, h.up+up, merged+c.Tokens
	}
	if merged > 0 {
		e.Decoding[run].Merge = e.Decoding[run].Merge.Plus(e.ModelCost.Merge(merged))
	}
}

// around returns the time of the host's work with the transfers before and after it.
func (e *gpuCPU) around(h *hostWork) units.Duration {
	if h.took == 0 {
		return 0
	}
	return e.Around + flow.TransferTime(e.Link, h.down) + e.Overhead + h.took + flow.TransferTime(e.Link, h.up)
}

// Peak includes the GPUs' memory if a policy attends over some of the tokens there.
func (e *gpuCPU) Peak() units.Bandwidth {
	if e.split {
		return e.HBMPeak + e.PeakRate
	}
	return e.PeakRate
}
