package kinds

import (
	"fmt"
	"math"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pcie"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/scheduler/batching"
	"github.com/l3sim/l3sim/scheduler/memory"
	"github.com/l3sim/l3sim/system/dataflow"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/system/hosts"
	"github.com/l3sim/l3sim/units"
)

// sparseOffloadSystem stores all keys and values in plain host memory, and recently chosen ones on the
// GPUs.
var sparseOffloadSystem = System{
	Name:     "sparse-offload",
	Others:   []string{"hisparse", "host-kv", "hostkv"},
	Hardware: "KV in the host's plain memory, a buffer of each request's recently chosen rows on the GPUs, which choose, fetch missing rows and attend",
	Schedule: "continuous batching, prefill first or chunked; fetches in order with the kernels, or two sub-batches, where one's fetch overlaps with the other's kernels",
	Source:   "HiSparse (SGLang, 2026); L3, section 5.3, for two sub-batches",
	Sections: "sparse_offload, batching, cpu_offload, pcie",
	Host:     true,
	Home:     policy.Fetched,
	Section:  "sparse_offload", Zero: SparseOffload{}, KV: flow.Place{Name: "in the host's memory", OnHost: true}, drafts: true, receives: true,
	more: checkSparseOffload, Remark: hits, Memory: hostCopies, Assemble: assembleSparseOffload,
	Planning: Planning{Prefill: "sparse_offload.policy", Resources: []Resource{dimmMemory, link}},
	Defaults: `
[sparse_offload]
policy = "prefill-first" # as gpu-only has it; "chunked-prefill" is what servers do now: TBT, throughput of long prompts
schedule = "in-order"    # HiSparse: attention waits for its fetch; "two" has two sub-batches, one's fetch beside the other's kernels, which no server has; decode steps
host_copies = "rank"     # SGLang's default, for each GPU that attends over all heads of latents; "node" has one that they share: requests in memory
buffer_rows = 4096       # HiSparse's guide (device_buffer_size); tokens of a request in each layer on the GPUs; requests in memory, contexts that never miss
hit_rate = 0.85          # our assumption: nobody has published one of a real model; share of chosen rows in the buffer, fetches
fetch_blocks = 8         # of 1,024 threads: as fast as 132 of 512 and in the way of fewer kernels (lab/docs/model-gpu.md); two sub-batches
translation = 1.0        # an H200 in a virtual machine with pages of 4 KiB (lab/docs/model-gpu.md), as a share; rows of large batches
shared_rate = 1.0        # nobody has measured several GPUs that fetch at once; fetches on nodes of several GPUs

[bands]
sparse_offload.hit_rate = [0.7, 0.98] # our choice: no model's is known; fetches
sparse_offload.translation = [0.0, 1.0] # none, as with huge pages, to the whole of what was measured; rows of large batches
sparse_offload.shared_rate = [0.5, 1.0] # half of the rate, to all of it: our choice; fetches on nodes of several GPUs
`,
}

// SparseOffload is the section [sparse_offload].
type SparseOffload struct {
	PrefillSpec
	Schedule    string  `toml:"schedule"`     // InOrder or Two
	HostCopies  string  `toml:"host_copies"`  // PerRank or PerNode
	BufferRows  int     `toml:"buffer_rows"`  // tokens of a request whose keys and values a layer keeps on the GPUs
	HitRate     float64 `toml:"hit_rate"`     // share of chosen tokens found in the buffer, for requests that do not fit it
	FetchBlocks int     `toml:"fetch_blocks"` // thread blocks of a fetch, with 1,024 threads each
	Translation float64 `toml:"translation"`  // share of the measured cost of address translation
	SharedRate  float64 `toml:"shared_rate"`  // share of its fetch rate that each of a node's GPUs keeps while the others fetch; a single GPU keeps all
}

// Values of SparseOffload.Schedule and HostCopies.
const (
	InOrder = "in-order"
	Two     = "two"
	PerRank = "rank"
	PerNode = "node"
)

const fetchThreads = 1024 // of a block

// Check has the rules of the section [sparse_offload].
func (s SparseOffload) Check(c *input.Check) {
	s.PrefillSpec.Check(c)
	input.OneOf(c, "schedule", s.Schedule, InOrder, Two)
	input.OneOf(c, "host_copies", s.HostCopies, PerRank, PerNode)
	input.Within(c, "buffer_rows", s.BufferRows, 1, policy.MaxTokens)
	input.Within(c, "hit_rate", s.HitRate, 0, 1)
	input.Within(c, "fetch_blocks", s.FetchBlocks, 1, 1<<12)
	input.Within(c, "translation", s.Translation, 0, 1)
	input.Within(c, "shared_rate", s.SharedRate, 0.01, 1)
}

// hits says what decides the fetches of requests that the buffer does not hold.
func hits(cfg *configs.Config) string {
	s := configs.Section[SparseOffload](cfg)
	if c := cfg.Policy.Choices(); c != nil {
		return fmt.Sprintf("policy.profile = %q decides what is fetched of contexts beyond %d tokens, in place of sparse_offload.hit_rate: its recorded steps after the first find %.3g of 100 chosen rows in the buffer",
			cfg.Policy.Profile, s.BufferRows, 100*recordedHits(c, pageOf(cfg), s.BufferRows))
	}
	return fmt.Sprintf("sparse_offload.hit_rate = %v is an assumption, in a band of 0.7 to 0.98: no model's has been published; %d of 100 chosen rows are fetched in each step and layer of contexts beyond %d tokens",
		s.HitRate, int(math.Round(100*(1-s.HitRate))), s.BufferRows)
}

// pageOf returns the tokens that are chosen, and fetched, together.
func pageOf(cfg *configs.Config) int {
	if p := cfg.Policy.Pages(); p != nil {
		return p.Page
	}
	return 1
}

// recordedHits returns the share of chosen pages that a buffer of so many tokens has in the recorded steps after the first.
func recordedHits(c *policy.Choices, page, rows int) float64 {
	missed, chosen := 0.0, 0.0
	misses, groups := c.Misses(page, rows/page), c.Groups(page)
	for i := 1; i < len(groups); i++ {
		missed, chosen = missed+misses[i], chosen+groups[i]
	}
	return 1 - missed/max(chosen, 1)
}

// farContext is one beyond any budget, with pages that are not full.
const farContext = policy.MaxTokens - 1

// chooses says which runs of layers have heads that attend to chosen tokens, and the largest number of tokens that a step attends to
// there.
func chooses(p policy.Costs) (runs []bool, most int) {
	for run := range p.Runs() {
		chosen := false
		for context := farContext - 256; context <= farContext; context++ {
			for _, c := range p.Decode([]policy.Request{{Prompt: context - 1, Context: context}}, run).Attend {
				if c.Device == policy.Home && c.Page > 0 {
					chosen, most = true, max(most, c.Tokens[0])
				}
			}
		}
		runs = append(runs, chosen)
	}
	return runs, most
}

// checkSparseOffload refuses policies that choose nothing, buffers smaller than what a step attends to, and GPUs without room for one
// buffer.
func checkSparseOffload(cfg *configs.Config, c *input.Check) {
	s, h := configs.Section[SparseOffload](cfg), Of(cfg).Derive(cfg)
	p := flow.PolicyOf(h)
	_, most := chooses(p)
	name := cfg.Policy.Name
	if most == 0 {
		const tokens = 1 << 17
		c.That(false, "policy.name", name, "a policy that chooses rows with %s = %s: all %v of a context of %d tokens would be fetched in each step and layer", input.Key("run.system"), Of(cfg).Name, units.Bytes(p.KV(tokens)), tokens)
		return
	}
	c.That(s.BufferRows >= most, "sparse_offload.buffer_rows", s.BufferRows, "at least %d: the tokens that a step of %s attends to", most, name)
	if !c.OK() {
		return
	}
	free := gpus.FreeMemory(h) - cfg.Model.ActivationBytes(cfg.Scheduler.ChunkMultiple)
	buffer := bufferMemory(h, p, s.BufferRows)
	need := units.Bytes(buffer.Window) * cfg.Model.KVBytesOnGPUs()
	c.That(need <= free, "sparse_offload.buffer_rows", s.BufferRows, "fewer, or a larger %s: the rows of one request take %v in all layers, weights and activations leave %v of the GPUs", input.Key("model.tensor_parallel"), need, max(free, 0))
}

// bufferMemory returns what each request keeps on the GPUs: its buffer in layers that choose, index keys and data of heads there, and all
// keys and values of other layers.
func bufferMemory(h *flow.Hardware, p policy.Costs, rows int) memory.GPU {
	g := memory.GPU{Model: &h.Config.Model, Free: gpus.FreeMemory(h)}
	g.Window, g.PromptShare, g.Share = gpus.Windows(h, p)
	runs, _ := chooses(p)
	token, buffer := float64(h.Config.Model.KVBytesPerToken()), 0.0
	for run, layers := range p.Runs() {
		held, _ := p.Memory(run)
		for _, x := range held {
			bytes := float64(float64(layers) * float64(x.Heads) * float64(x.Bytes))
			switch {
			case x.Device != policy.Home:
			case runs[run]:
				buffer += bytes
			default:
				g.Share += bytes / token
			}
		}
	}
	g.Window += int(math.Ceil(float64(buffer*float64(rows)) / token))
	return g
}

// hostPages describes the host's memory for the layers that choose, with capacity pages.
func hostPages(h *flow.Hardware, capacity int64) memory.LedgerSpec {
	p := flow.PolicyOf(h)
	runs, _ := chooses(p)
	s := memory.LedgerSpec{Ranksets: 1, Layers: 1, UnitTokens: h.Config.Batching.PageTokens, UnitBytes: int64(gpus.PageBytes(h)), Capacity: capacity}
	for run, layers := range p.Runs() {
		if runs[run] {
			held, _ := p.Memory(run)
			s.Classes = flow.AddClasses(s.Classes, held, policy.Home, layers)
		}
	}
	return s
}

// copies returns the number of copies of a head's keys and values on the host.
func copies(h *flow.Hardware) int {
	if configs.Section[SparseOffload](h.Config).HostCopies == PerRank {
		return h.Config.Model.KVReplicas()
	}
	return 1
}

// hostCopies is the memory of one replica on the host, in pages that include all copies.
func hostCopies(h *flow.Hardware) flow.KVMemory {
	n := copies(h)
	return flow.KVMemory{Unit: units.Bytes(n) * gpus.PageBytes(h), Capacity: hosts.Pages(h) / int64(n), More: n - 1}
}

// sparseOffload is a system whose GPUs fetch chosen rows from the host's memory unless they have them.
type sparseOffload struct {
	gpus.GPUs
	flow.Flow
	spec    SparseOffload
	gather  pcie.Gather
	link    units.Bandwidth // of one GPU: its link to the host, or its share of the host's memory
	gpuLink units.Bandwidth // of all GPUs of the replica
	join    units.Duration  // time that kernels lose when they wait for a fetch on another stream
	taken   float64         // share of the GPU that a fetch takes from kernels that run meanwhile
	copies  units.Bytes
	vectors units.Bytes        // bytes of the contiguous pieces of a token's key and value
	stored  units.Bytes        // of a token and KV head in a layer
	heads   int                // KV heads of a GPU
	chosen  []bool             // by run of layers: see chooses
	fetch   [2][]fetching      // of the sub-batches, by run of layers
	decodes [2][]gpus.Decoding // the GPUs' part of these
	Moved   units.Bytes        // that the link of one GPU has carried up
	Rows    int64              // that one GPU has fetched
	scale   float64            // of the GPU's times: measured over computed; 1
	record  *policy.Choices    // nil: the hit rate decides
	missed  []float64          // pages of a head that the buffer does not have, by recorded step
	misses  int                // of each request and layer in place of the hit rate; negative: none is told
}

// fetching is a fetch of a sub-batch in one layer.
type fetching struct {
	pcie.Rows
	took, reads units.Duration
}

// assembleSparseOffload builds a replica with continuous batching of a single batch or of two.
func assembleSparseOffload(n *Setup) Assembly {
	e := newSparseOffload(n.Hardware, n.Running)
	free := bufferMemory(n.Hardware, e.Attends.Policy, e.spec.BufferRows)
	ledger := memory.NewLedger(hostPages(n.Hardware, n.Memory.Capacity))
	c := Continuous{Policy: e.spec.Policy, Memories: batching.Memories{Ledger: ledger, GPU: free}}
	if e.spec.Schedule == Two {
		c.former = batching.FormerOf(batchingPolicy(e.spec.Policy), nil)
	}
	return Assembly{n.Continuous(c), e}
}

// newSparseOffload returns the hardware of a replica.
func newSparseOffload(h *flow.Hardware, how flow.Running) *sparseOffload {
	cfg := h.Config
	e := &sparseOffload{GPUs: gpus.New(h), spec: configs.Section[SparseOffload](cfg), gather: pcie.MeasuredGather(), copies: units.Bytes(copies(h)), scale: 1, misses: -1}
	each := h.Channels() / units.Bandwidth(cfg.Model.TensorParallel) * units.Bandwidth(randomShare(&cfg.DRAM.Spec, cfg.Node.Ranksets))
	e.link, e.gpuLink, e.join = min(h.LinkShare(), each/units.Bandwidth(e.gather.Share)), h.Links(), h.Join()
	if cfg.Node.GPUs > 1 {
		e.link *= units.Bandwidth(e.spec.SharedRate)
	}
	e.taken = e.gather.Taken(e.grid(), cfg.GPU.SMs)
	e.vectors, e.stored = 2, e.Attends.KV(1)/units.Bytes(e.Model.KVHeads)
	if e.Model.LatentDim > 0 {
		e.vectors = 1
	}
	_, e.heads = e.Model.ShardHeads()
	e.chosen, _ = chooses(e.Attends.Policy)
	if e.record = cfg.Policy.Choices(); e.record != nil {
		page := pageOf(cfg)
		e.missed = e.record.Misses(page, e.spec.BufferRows/page)
	}
	for s := range e.fetch {
		e.fetch[s], e.decodes[s] = make([]fetching, len(e.Attends.Runs)), make([]gpus.Decoding, len(e.Attends.Runs))
	}
	resources := gpus.BesideGPU("")[:gpus.OnUp]
	resources[gpus.OnDevice] = flow.Resource{Resource: dataflow.Resource{Name: "PCIe up", Reason: flow.ForUp}, Track: flow.TrackUp}
	e.Flow = flow.New(h, resources, how)
	return e
}

func (e *sparseOffload) grid() pcie.Grid {
	return pcie.Grid{Blocks: e.spec.FetchBlocks, Threads: fetchThreads}
}

// interleaved is the number of successive bytes on one channel of a host.
const interleaved = 256

// randomShare returns the share of a channel's bandwidth that random reads of interleaved bytes reach, each of which opens a row. Ranks take
// turns, each within its four-activate window and its banks' row cycles.
func randomShare(s *dram.Spec, ranks int) float64 {
	data := interleaved / float64(s.Bandwidth())
	tCK, n := s.TCK.Seconds(), float64(max(ranks, 1))
	window := float64(s.TFAW) * tCK / 4 / n
	cycle := float64(s.TRC) * tCK / float64(s.BankGroups*s.BanksPerGroup) / n
	return data / max(data, window, cycle)
}

// Run runs a batch.
func (e *sparseOffload) Run(b *scheduler.Batch, start units.Duration) (units.Duration, error) {
	e.Reset()
	var down units.Duration
	both := len(b.Sub) > 1 && b.Sub[0].Tokens() > 0 && b.Sub[1].Tokens() > 0
	e.Batches = e.Batches[:0]
	for s := range b.Sub { // the fetches of both must be known to each
		e.decode(&b.Sub[s], s, b.Step)
		down += flow.TransferTime(e.gpuLink, e.copies*e.leaving(&b.Sub[s]))
	}
	e.Hide(gpus.OnDown, down)
	for s := range b.Sub {
		copy(e.Decoding, e.decodes[s])
		g := e.StageRuns(&b.Sub[s])
		if e.scale != 1 {
			g.Scale(e.scale)
		}
		for k, run := range e.Attends.Kinds {
			l, own, other := &g.Layers[k], &e.fetch[s][run], &e.fetch[1-s][run]
			if own.took > 0 {
				l.Device, l.DeviceFirst = own.took, true
			}
			if !both {
				continue
			}
			slower := e.gather.Stretch(other.reads, g.Block+l.Attention+l.Merge+l.Chooses, e.taken)
			if own.took > 0 {
				slower += e.join
			}
			// A block ends with the choices of the next layer, so that the fetch runs during a whole layer of the other
			// sub-batch.
			if run == 0 {
				g.Entry += l.Chooses
			}
			if run == e.Attends.Alike[len(e.Attends.Alike)-1] {
				g.Exit += slower
			}
			l.Next, l.Chooses = l.Chooses+slower, 0
		}
		g.Lay(&e.Flow, s, flow.OpFetch)
	}
	e.Flow.Work.Time[flow.OfDown] += down
	return e.Flow.Run(start)
}

// decode sets the attention of a sub-batch's decoding requests in each run of layers, and counts
// it.
func (e *sparseOffload) decode(sub *scheduler.SubBatch, s int, step int64) {
	e.Attends.Ask(sub.Decode, step)
	for _, run := range e.Attends.Kinds {
		x := e.Attends.Policy.Decode(e.Attends.Requests, run)
		f := &e.fetch[s][run]
		e.fetches(f, x)
		e.Attends.Count(x, run)
		layers := int64(e.Attends.LayersLike(run))
		e.Rows += layers * f.Count
		e.Moved += units.Bytes(layers*f.Count) * f.Bytes
		from := len(e.Batches)
		for i := range x.Attend {
			if c := &x.Attend[i]; len(c.Tokens) > 0 {
				e.Batches = append(e.Batches, gpus.DecodeBatch(c))
			}
		}
		to := &e.decodes[s][run]
		*to = gpus.Decoding{Batches: e.Batches[from:], Beside: e.Passes(x, policy.GPU).Plus(e.Passes(x, policy.Home)), Merge: e.ModelCost.Merge(x.Merged)}
		if f.took > 0 {
			to.Chooses = e.Choices(x)
		} else {
			to.Beside = e.Choices(x).Plus(to.Beside)
		}
	}
}

// fetches sets the fetch of a step in a layer. Requests that fit the buffer need no lookup.
func (e *sparseOffload) fetches(f *fetching, x *policy.Step) {
	*f = fetching{Rows: pcie.Rows{Grid: e.grid(), Cold: true}}
	missed, region, looks := 0.0, units.Bytes(0), false
	for i := range x.Attend {
		c := &x.Attend[i]
		if c.Device != policy.Home || c.Page == 0 {
			continue
		}
		tokens := 0.0
		for r, n := range c.Tokens {
			context := e.Attends.Requests[r].Context
			region += units.Bytes(context) * e.stored * units.Bytes(e.heads)
			switch {
			case context <= e.spec.BufferRows:
				continue
			case e.misses >= 0:
				tokens += float64(min(n, e.misses))
			case e.record != nil:
				tokens += e.missing(e.Attends.Requests[r], n, c.Page)
			default:
				tokens += float64(float64(n) * (1 - e.spec.HitRate))
			}
			looks = true
		}
		share := float64(c.Heads) / float64(e.Model.KVHeads) * float64(e.heads)
		missed += float64(tokens*share) / float64(c.Page)
		f.Bytes = e.stored * units.Bytes(c.Page) / e.vectors
	}
	if !looks {
		return
	}
	if n := len(e.Attends.Requests); e.Model.DataParallel() { // the requests of the GPU that has most
		busiest := float64((n+e.Model.TensorParallel-1)/e.Model.TensorParallel) / float64(n)
		missed, region = float64(missed*busiest), units.Bytes(float64(region)*busiest)
	}
	f.Count, f.Region = int64(math.Ceil(missed-1e-6))*int64(e.vectors), region
	f.reads = e.gather.Reads(&f.Rows, e.link, e.spec.Translation)
	f.took = e.gather.LookUp + e.gather.Time(&f.Rows, e.link, e.spec.Translation)
}

// missing returns how many of a request's chosen tokens are not in the buffer, according to the recording. In the request's first step the
// buffer is empty. The recording's own first step applies only to that.
func (e *sparseOffload) missing(r policy.Request, chosen, page int) float64 {
	if r.Context == r.Prompt+1 {
		return float64(chosen)
	}
	step := min(max(e.record.Step(r.Context), 1), len(e.missed)-1)
	return min(float64(chosen), float64(e.missed[step]*float64(page)))
}

// leaving returns the bytes of one copy that go to the host in all layers: keys and values of new tokens in layers that choose.
func (e *sparseOffload) leaving(sub *scheduler.SubBatch) (bytes units.Bytes) {
	tokens := sub.DecodeTokens() + sub.PrefillTokens()
	for run, layers := range e.Attends.Runs {
		if e.chosen[run] {
			bytes += units.Bytes(layers) * e.Attends.KV(tokens)
		}
	}
	return bytes
}

// Peak is the bandwidth of the GPUs' memory, where all attention runs.
func (e *sparseOffload) Peak() units.Bandwidth { return e.HBMPeak }
