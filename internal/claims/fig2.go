package claims

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/units"
)

// Sizes of Fig 2: batches of its first part, contexts of its second.
var (
	fig2Tokens   = []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096}
	fig2Contexts = []int{1024, 2048, 4096, 8192, 16384}
)

// fig2Context is the context length at which the paper gives attention's share.
const fig2Context = 16384

// gpuMemory is the memory of the A100 as the paper counts it (section 2.3).
const gpuMemory units.Bytes = 80_000_000_000

// fig2Batch is the batch of Fig 2b, which the paper does not state: as many
// requests of 16,384 tokens as fit beside the weights, at every length.
func (m *models) fig2Batch() int { return int(m.requestsIn(gpuMemory, fig2Context)) }

// requestsIn returns how many requests of a length fit into a memory beside the
// weights of Llama-2-7B.
func (m *models) requestsIn(memory units.Bytes, tokens int) float64 {
	llm := &m.llama.Model
	return float64(memory-llm.WeightBytes()) / (float64(tokens) * float64(llm.KVBytesPerToken()))
}

// gpus are the models of an A100 that Fig 2 shows beside each other.
func (m *models) gpus() []*gpu.Spec { return []*gpu.Spec{&m.llama.GPU.Spec, m.measured} }

// utilizationTable is Fig 2a: the arithmetic that the feed-forward network of
// Llama-2-7B gets out of an A100, over the tokens of a batch. The paper's profiler
// counts busy SMs. The share of the peak is lower: waves and memory take from it.
func (m *models) utilizationTable() *results.Table {
	t := &results.Table{Name: "fig2a", Columns: []string{"gpu", "batch_size_tokens", "time_us", "utilization_feed_forward"}}
	llm := &m.llama.Model
	for _, g := range m.gpus() {
		cost := gpu.NewModelCost(g, llm)
		for _, tokens := range fig2Tokens {
			seconds := cost.FFN(tokens).Seconds
			flops := 2 * float64(tokens) * float64(llm.FFNMatrices()) * float64(llm.Hidden) * float64(llm.FFNHidden)
			t.Rows = append(t.Rows, []string{g.Name, strconv.Itoa(tokens), number(1e6 * seconds), number(flops / (seconds * float64(g.Peak16)))})
		}
	}
	return t
}

// latencyTable is Fig 2b: the parts of a decode iteration over the context,
// relative to the whole at the shortest one.
func (m *models) latencyTable() *results.Table {
	t := &results.Table{Name: "fig2b", Columns: []string{"gpu", "context_tokens", "part", "time_ms", "relative_latency"}}
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
				t.Rows = append(t.Rows, []string{g.Name, strconv.Itoa(context), part.name, number(1e3 * part.seconds), number(part.seconds / whole)})
			}
		}
	}
	return t
}

// iteration returns the seconds of a decode iteration of Llama-2-7B: attention of
// all layers, and everything else.
func (m *models) iteration(g *gpu.Spec, batch, context int) (attention, other float64) {
	cost := gpu.NewModelCost(g, &m.llama.Model)
	decode := gpu.UniformBatch(batch, context)
	attention = cost.DecodeBatch(decode).Times(m.llama.Model.Layers).Seconds
	return attention, cost.Iteration(gpu.Shape{Decode: decode}).Seconds - attention
}

// attentionShare is text.mha_share_16k, with the batch of Fig 2b where the reading says
// nothing of it.
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

// number writes a result with six digits.
func number(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
