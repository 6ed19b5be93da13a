package claims

import (
	"fmt"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/units"
)

// transferShare is the time that a prompt's keys and values need on the replica's
// links over that of the feed-forward network, a layer of each: the largest over
// models and prompts of 512 tokens and more, which fill the GPUs.
func (m *models) transferShare(*reading) (finding, error) {
	var worst finding
	short := 0.0 // of prompts that may not fill them
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
	const context, tokens = 8192, 2048 // of the heads computed, of the prompt
	cfg := m.largest
	t, err := pim.MeasureTransfer(&cfg.PIM, &cfg.DRAM.Spec, cfg.HeadShape(), cfg.Node.Ranksets, context, tokens, 1)
	if err != nil {
		return finding{}, err
	}
	return finding{value: t.ComputeShare, reason: fmt.Sprintf(
		"%d ranksets, one head's KV of %d tokens into a rank at work on %d: it loses %d clocks to %d of the transfer, the others lose 0",
		cfg.Node.Ranksets, tokens, context, t.LostClocks, t.WriteClocks)}, nil
}

// unitRatio is the rate at which the ranks of a channel read keys and values in
// decode attention over what the channel could deliver to the host.
func (m *models) unitRatio(r *reading) (finding, error) {
	const context = 8192
	cfg := m.largest
	spec, d, shape := cfg.PIM, &cfg.DRAM.Spec, cfg.HeadShape()
	spec.ProcessingUnit = r.Unit
	host := float64(d.Bandwidth()) * d.TCK.Seconds() // bytes a clock
	bytes := float64(cfg.Node.Ranksets * 2 * context * shape.HeadDim * shape.ElementBits / 8)
	table, err := pim.NewKernelTable(&spec, d, shape)
	if err != nil {
		return finding{}, err
	}
	ratio := bytes / float64(table.WithRefresh(table.InSequence(context))) / host
	// The peak of a bank PU is a column of every bank each tCCD_L.
	peak := float64(cfg.Node.Ranksets)
	if r.Unit == pim.BankPU {
		peak *= float64(d.Banks()) * float64(d.BurstBytes()) / float64(d.TCCDL) / host
	}
	reason := fmt.Sprintf("heads of %d tokens one after another, commands at legal clocks: %.0f%% of the peak of %.1f; without refresh %.1f",
		context, 100*ratio/peak, peak, bytes/float64(table.InSequence(context))/host)
	if r.Unit == pim.BankPU && spec.Activation != pim.Simultaneous {
		spec.Activation = pim.Simultaneous
		if table, err = pim.NewKernelTable(&spec, d, shape); err != nil {
			return finding{}, err
		}
		reason += fmt.Sprintf(", and %.1f if all banks were activated at once", bytes/float64(table.InSequence(context))/host)
	}
	return finding{value: ratio, reason: reason}, nil
}

// transposition is the bus time of the CPU's read and write of the data again over
// that of storing it.
func (m *models) transposition(*reading) (finding, error) {
	d := &m.largest.DRAM.Spec
	bursts := int64(2048) * int64(m.largest.Model.KVBytesPerTokenLayer()) / int64(d.BurstBytes()*m.largest.ReplicaChannels())
	ratio := transpositionRatio(d, bursts)
	return finding{value: ratio, reason: fmt.Sprintf(
		"every burst is read and written once more, and the bus turns around each row: %d bursts a channel, a layer's KV of 2,048 tokens of %s",
		bursts, m.largest.Run.Model)}, nil
}

// transpositionRatio returns the clocks of the CPU's transposition of bursts over those of the bursts on the bus.
func transpositionRatio(d *dram.Spec, bursts int64) float64 {
	return float64(pim.CPUTranspositionClocks(d, bursts)) / float64(bursts*int64(d.BurstClocks()))
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
