package claims

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"
	"sync"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/pim"
	pimmachine "github.com/l3sim/l3sim/pim/machine"
	pimtables "github.com/l3sim/l3sim/pim/tables"
	"github.com/l3sim/l3sim/results/tables"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/units"
)

// preset is the system preset of the evaluation: the paper's node with the
// assumptions that it leaves open.
const preset = "paper"

// models are the configurations for claims of the text, which need no run.
type models struct {
	llama    *configs.Config   // Llama-2-7B on one GPU (sections 1 and 2)
	measured *gpu.Spec         // of the A100 fitted to measurements, as in dgx-a100-l3; the preset's is separate
	served   []*configs.Config // the models of Table 3
	largest  *configs.Config   // the model of Table 3 with the most parameters

	mu   sync.Mutex
	cuts map[int]finding // of prompts, by scheduler.min_prefill_tokens: results of small runs
}

// loadModels loads the preset with each model, once.
var loadModels = sync.OnceValues(func() (*models, error) {
	load := func(sets ...string) (*configs.Config, error) {
		return system.Load(configs.Options{Sets: append([]string{"preset=" + strconv.Quote(preset)}, sets...)})
	}
	m := &models{}
	var err error
	if m.llama, err = load("run.model=llama-2-7b"); err != nil {
		return nil, err
	}
	fitted, err := load("run.model=llama-2-7b", `gpu.preset="a100-sxm-80gb"`)
	if err != nil {
		return nil, err
	}
	m.measured = &fitted.GPU.Spec
	for _, name := range []string{"opt-66b", "gpt-89b", "gpt-175b"} {
		cfg, err := load("run.model=" + name)
		if err != nil {
			return nil, err
		}
		m.served, m.largest = append(m.served, cfg), cfg
	}
	return m, nil
})

// Sizes of Fig 2: batches of its first part, contexts of its second.
var (
	fig2Tokens   = []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096}
	fig2Contexts = []int{1024, 2048, 4096, 8192, 16384}
)

const fig2Context = 16384 // the context length at which the paper gives attention's share

// gpuMemory is the A100's memory as the paper counts it (section 2.3).
const gpuMemory units.Bytes = 80_000_000_000

// fig2Batch is the batch of Fig 2b, which the paper does not state: the number of requests of
// 16,384 tokens that fit beside the weights, used at every length.
func (m *models) fig2Batch() int { return int(m.requestsIn(gpuMemory, fig2Context)) }

// requestsIn returns how many requests of a length fit into a memory beside the weights of
// Llama-2-7B.
func (m *models) requestsIn(memory units.Bytes, tokens int) float64 {
	llm := &m.llama.Model
	return float64(memory-llm.WeightBytes()) / (float64(tokens) * float64(llm.KVBytesPerToken()))
}

// gpus are the models of an A100 that Fig 2 compares.
func (m *models) gpus() []*gpu.Spec { return []*gpu.Spec{&m.llama.GPU.Spec, m.measured} }

// utilizationTable is Fig 2a: the utilization of an A100 by the feed-forward network of Llama-2-7B,
// over the tokens of a batch. The paper's profiler counts busy SMs. The share of peak FLOP/s shown
// here is lower, because of partial waves and memory.
func (m *models) utilizationTable() *tables.Table {
	t := &tables.Table{Name: "fig2a", Columns: []string{"gpu", "batch_size_tokens", "time_us", "utilization_feed_forward"}}
	llm := &m.llama.Model
	for _, g := range m.gpus() {
		cost := gpu.NewModelCost(g, llm)
		for _, tokens := range fig2Tokens {
			seconds := cost.FFN(tokens).Seconds
			flops := 2 * float64(tokens) * float64(llm.FFNMatrices()) * float64(llm.Hidden) * float64(llm.FFNHidden)
			t.Add(g.Name, tokens, number(1e6*seconds), number(flops/(seconds*float64(g.Peak16))))
		}
	}
	return t
}

// latencyTable is Fig 2b: the parts of a decode iteration by context, relative to the total at the
// shortest one.
func (m *models) latencyTable() *tables.Table {
	t := &tables.Table{Name: "fig2b", Columns: []string{"gpu", "context_tokens", "part", "time_ms", "relative_latency"}}
	batch := m.fig2Batch()
	for _, g := range m.gpus() {
		whole := 0.0
		for _, context := range fig2Contexts {
			attention, other := m.iteration(g, batch, context)
			if whole == 0 {
				whole = attention + other
			}
			for _, part := range []struct {
				name    string
				seconds float64
			}{{"decode attention", attention}, {"other operations", other}, {"iteration", attention + other}} {
				t.Add(g.Name, context, part.name, number(1e3*part.seconds), number(part.seconds/whole))
			}
		}
	}
	return t
}

// iteration returns the seconds of a decode iteration of Llama-2-7B: attention of all layers, and
// all else.
func (m *models) iteration(g *gpu.Spec, batch, context int) (attention, other float64) {
	cost := gpu.NewModelCost(g, &m.llama.Model)
	decode := gpu.UniformBatch(batch, context)
	attention = cost.DecodeBatch(decode).Times(m.llama.Model.Layers).Seconds
	return attention, cost.Iteration(gpu.Shape{Decode: decode}).Seconds - attention
}

// attentionShare is text.mha_share_16k, with the batch of Fig 2b if the reading sets none.
func (m *models) attentionShare(r *reading) (finding, error) {
	batch := cmp.Or(r.Batch, m.fig2Batch())
	return finding{value: m.shareOf(&m.llama.GPU.Spec, batch), reason: fmt.Sprintf("%d requests on %s; %.2f on %s",
		batch, m.llama.GPU.Name, m.shareOf(m.measured, batch), m.measured.Name)}, nil
}

// shareOf is the share of decode attention in an iteration of Llama-2-7B.
func (m *models) shareOf(g *gpu.Spec, batch int) float64 {
	attention, other := m.iteration(g, batch, fig2Context)
	return attention / (attention + other)
}

// number rounds a result to six digits.
func number(v float64) tables.Value { return tables.Of(tables.Round(v, 6)) }

// transferShare returns the time of a prompt's keys and values on the replica's links over that of
// the feed-forward network, both for a layer: the largest over models and prompts of at least 512
// tokens, which fill the GPUs.
func (m *models) transferShare(*reading) (finding, error) {
	var worst finding
	short := 0.0 // for prompts that may not fill them
	for _, cfg := range m.served {
		cost := gpu.NewModelCost(&cfg.GPU.Spec, &cfg.Model)
		links := units.Bandwidth(cfg.Model.TensorParallel) * cfg.PCIe.Bandwidth() / units.Bandwidth(cfg.PCIe.GPUsPerUplink)
		share := func(tokens int) float64 {
			return links.TransferTime(units.Bytes(tokens)*cfg.Model.KVBytesPerTokenLayer()).Seconds() / cost.FFN(tokens).Seconds
		}
		for tokens := 512; tokens <= 8192; tokens *= 2 {
			if s := share(tokens); s > worst.value {
				worst = finding{value: s, reason: fmt.Sprintf("largest of three models and prompts of 512 to 8,192 tokens: %s, %d tokens, %.1f GB/s over %d links",
					cfg.Run.Model, tokens, float64(links)/1e9, cfg.Model.TensorParallel)}
			}
		}
		short = max(short, share(64))
	}
	worst.reason += fmt.Sprintf("; at most %.2f with 64 tokens", short)
	return worst, nil
}

// computeKept interrupts heads of a rank by a prompt's KV, command by command.
func (m *models) computeKept(*reading) (finding, error) {
	const context, tokens = 8192, 2048 // of the computed heads, of the prompt
	cfg := m.largest
	t, err := pimmachine.MeasureTransfer(&cfg.PIM, &cfg.DRAM.Spec, cfg.HeadShape(), cfg.Node.Ranksets, context, tokens, 1)
	if err != nil {
		return finding{}, err
	}
	return finding{value: t.ComputeShare, reason: fmt.Sprintf(
		"%d ranksets, one head's KV of %d tokens into a rank at work on %d: it loses %d clocks to %d of the transfer, the others lose 0",
		cfg.Node.Ranksets, tokens, context, t.LostClocks, t.WriteClocks)}, nil
}

// unitRatio returns the rate at which the ranks of a channel read keys and values over the channel's bandwidth to
// the host: the peak, or what decode attention achieves.
func (m *models) unitRatio(r *reading) (finding, error) {
	const context = 8192
	cfg := m.largest
	spec, d, shape := cfg.PIM, &cfg.DRAM.Spec, cfg.HeadShape()
	spec.ProcessingUnit = r.Unit
	host := float64(d.Bandwidth()) * d.TCK.Seconds() // bytes per clock
	// The peak of a bank PU is one column of every bank each tCCD_L.
	peak := float64(cfg.Node.Ranksets)
	if r.Unit == pim.BankUnits {
		peak *= float64(d.Banks()) * float64(d.BurstBytes()) / float64(d.TCCDL) / host
	}
	if r.Peak {
		return finding{value: peak, reason: fmt.Sprintf("%d ranks of %d banks, a column of %d bytes each %d clocks, against %.4g GB/s of the channel",
			cfg.Node.Ranksets, d.Banks(), d.BurstBytes(), d.TCCDL, float64(d.Bandwidth())/1e9)}, nil
	}
	bytes := float64(cfg.Node.Ranksets * 2 * context * shape.HeadDim * shape.ElementBits / 8)
	table, err := pimtables.NewKernelTable(&spec, d, shape)
	if err != nil {
		return finding{}, err
	}
	ratio := bytes / float64(table.WithRefresh(table.InSequence(context))) / host
	return finding{value: ratio, reason: fmt.Sprintf("heads of %d tokens one after another, commands at legal clocks: %.0f%% of the peak of %.1f; without refresh %.1f",
		context, 100*ratio/peak, peak, bytes/float64(table.InSequence(context))/host)}, nil
}

// rankShare returns the peak bandwidth of units at all ranks over that of all GPUs, which follows from the
// paper's Table 2.
func (m *models) rankShare(*reading) (finding, error) {
	c := m.largest
	ranks := c.Node.Channels * c.Node.Ranksets
	units, all := float64(ranks)*float64(c.DRAM.Bandwidth()), float64(c.Node.GPUs)*float64(c.GPU.MemoryBandwidth)
	share := units / all
	return finding{value: share, least: share, most: share, reason: fmt.Sprintf("%d ranks of %.3g GB/s, %d GPUs of %.4g GB/s", ranks, float64(c.DRAM.Bandwidth())/1e9, c.Node.GPUs, float64(c.GPU.MemoryBandwidth)/1e9)}, nil
}

// promptCuts returns the mean number of cuts of a prompt in the trace with the longest prompts.
func (m *models) promptCuts(r *reading) (finding, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f, done := m.cuts[r.Floor]; done {
		return f, nil
	}
	cfg := *m.largest
	cfg.Run.System, cfg.Run.Trace, cfg.Run.CommonTo, cfg.Run.Requests = "l3", "longbench", "", cutRequests
	cfg.Scheduler.MinPrefillTokens = r.Floor
	trace, err := system.LoadTrace(&cfg)
	if err != nil {
		return finding{}, err
	}
	node, err := system.NewNode(&cfg)
	if err != nil {
		return finding{}, err
	}
	p, err := node.Profile(context.Background(), trace, math.MaxInt)
	if err != nil {
		return finding{}, err
	}
	prompts, pieces := 0, 0
	for i := range p.Samples {
		for _, c := range p.Samples[i].Chunks {
			pieces++
			if c.Finished == 0 {
				prompts++
			}
		}
	}
	cuts := float64(pieces-prompts) / float64(prompts)
	if m.cuts == nil {
		m.cuts = map[int]finding{}
	}
	m.cuts[r.Floor] = finding{value: cuts, reason: fmt.Sprintf("%s on %s: %d prompts in %d pieces, %d iterations with prompts", cfg.Run.Model, cfg.Run.Trace, prompts, pieces, p.Batches)}
	return m.cuts[r.Floor], nil
}

// cutRequests are enough for a mean of cuts, since cuts do not change over a run.
const cutRequests = 100

// transposition returns the bus time of the CPU's additional read and write over that of storing
// the data.
func (m *models) transposition(*reading) (finding, error) {
	d := &m.largest.DRAM.Spec
	bursts := int64(2048) * int64(m.largest.Model.KVBytesPerTokenLayer()) / int64(d.BurstBytes()*m.largest.ReplicaChannels())
	ratio := float64(pim.CPUTranspositionClocks(d, bursts)) / float64(bursts*int64(d.BurstClocks()))
	return finding{value: ratio, reason: fmt.Sprintf(
		"every burst is read and written once more, and the bus turns around each row: %d bursts a channel, a layer's KV of 2,048 tokens of %s",
		bursts, m.largest.Run.Model)}, nil
}

// largeRequests counts GPT-175B's requests of 8,000 tokens in 80 GiB.
func (m *models) largeRequests(*reading) (finding, error) {
	const tokens = 8000
	kv := m.largest.Model.KVBytesPerToken()
	return finding{value: float64(80*units.GiB) / (tokens * float64(kv)), reason: fmt.Sprintf("%d bytes of KV a token", kv)}, nil
}

// smallRequests counts Llama-2-7B's requests of 2,048 tokens beside its weights.
func (m *models) smallRequests(*reading) (finding, error) {
	const tokens = 2048
	llm := &m.llama.Model
	return finding{value: m.requestsIn(gpuMemory, tokens), reason: fmt.Sprintf("%.1f GB of weights, %d bytes of KV a token", float64(llm.WeightBytes())/1e9, llm.KVBytesPerToken())}, nil
}
