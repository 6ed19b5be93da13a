package system

import (
	"slices"
	"strings"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system/kinds"
)

// Served is a load of GPUs: requests of given lengths that decode together.
type Served struct{ Batch, Input, Output float64 }

// KernelKind says how well a kind of kernels is known, and its share of the GPUs' time.
type KernelKind struct {
	Kind   string
	Share  float64
	Far    float64 // share of the GPUs' time in kernels beyond the measured range
	Beyond string  // how they exceed it; "" if none does
	configs.Known
}

// KernelKinds returns the kinds of kernels of a configuration's GPUs, by their share of the time under a load. The load's prompts and
// its decode steps each count as one iteration. decodes says that the GPUs compute decode attention.
func KernelKinds(cfg *configs.Config, l Served, decodes bool) ([]KernelKind, error) {
	cost := gpu.NewModelCost(&cfg.GPU.Spec, &cfg.Model)
	batch, in := max(1, int(l.Batch+0.5)), max(1, int(l.Input+0.5))
	chunk := in
	if most := cfg.Batching.MaxBatchTokens; most > 0 {
		chunk = min(in, most)
	}
	iterations := []struct {
		shape gpu.Shape
		times float64 // times a request has it
	}{
		{gpu.Shape{Decode: gpu.UniformBatch(batch, max(1, int(l.Input+float64(l.Output/2))))}, max(0, l.Output-1) / float64(batch)},
		{gpu.Shape{Prefills: 1, Chunk: chunk, Finished: (in - chunk) / 2}, float64(in) / float64(chunk)},
	}
	var all []KernelKind
	sum := 0.0
	for _, i := range iterations {
		for _, k := range cost.KernelTimes(i.shape) {
			seconds := float64(i.times * k.Seconds)
			kind, decode := k.Kind, strings.HasSuffix(k.Kind, "decode_attention") || strings.HasSuffix(k.Kind, "latent_decode")
			if decode && !decodes || seconds == 0 {
				continue
			}
			if decode && !cfg.Policy.Dense() && !cfg.Policy.Indexed() { // an indexer's choice has kinds of its own
				kind = "page_sparse"
			}
			at := slices.IndexFunc(all, func(o KernelKind) bool { return o.Kind == kind })
			if at < 0 {
				about, err := cfg.KernelsKnown(kind)
				if err != nil {
					return nil, err
				}
				at, all = len(all), append(all, KernelKind{Kind: kind, Known: about})
			}
			all[at].Share += seconds
			all[at].Far += float64(i.times * k.Far)
			if all[at].Beyond == "" {
				all[at].Beyond = k.Beyond
			}
			sum += seconds
		}
	}
	for i := range all {
		k := &all[i]
		k.Share, k.Far = k.Share/sum, k.Far/sum
		if k.Grade != configs.Measured && k.Grade != configs.Borrowed {
			k.Far, k.Beyond = 0, "" // kinds without a range
		}
	}
	slices.SortStableFunc(all, func(a, b KernelKind) int { return strings.Compare(a.Kind, b.Kind) })
	return all, nil
}

// Summed sums the shares of kinds by how well they are known.
func Summed(cfg *configs.Config, all []KernelKind) results.Known {
	s := results.Known{Fit: cfg.GPU.Fit}
	told := 0.0
	for i := range all {
		k := &all[i]
		share := map[configs.Grade]*float64{configs.Measured: &s.Measured, configs.Borrowed: &s.Borrowed, configs.DataSheet: &s.DataSheet, configs.Never: &s.Never}[k.Grade]
		*share += k.Share
		s.Beyond += k.Far
		if k.Grade == configs.Measured && k.Mean > 0 {
			s.Error += float64(k.Share * k.Mean)
			told += k.Share
		}
	}
	if told > 0 {
		s.Error /= told
	}
	return s
}

// known returns how well the kernels of a run are known.
func (r *Result) known(cfg *configs.Config) results.Known {
	of := results.DescribeTrace(r.trace)
	l := Served{Batch: r.batch.StepMean / float64(max(1, cfg.Replicas())), Input: of.InputMean, Output: of.OutputMean}
	all, err := KernelKinds(cfg, l, kinds.Of(cfg).KV.InGPUs)
	if err != nil {
		return results.Known{} // a file of a fit has vanished since the run began
	}
	s := Summed(cfg, all)
	s.Beyond = 0
	m := cfg.GPU.Range()
	for k, most := range [gpu.Kinds]int{m.ProductRows, m.PrefillTokens, m.DecodeRequests, m.AllReduceGPUs, m.SmallRows} {
		if most > 0 {
			s.Beyond += r.extrapolated[k]
		}
	}
	return s
}
