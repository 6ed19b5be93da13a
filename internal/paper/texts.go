package paper

import (
	"fmt"
	"strings"

	"github.com/l3sim/l3sim/configs"
)

// caption says under a figure what its reader cannot see.
func (m *models) caption(figure string) string {
	switch figure {
	case "fig2a":
		return fmt.Sprintf("Fig 2a. The paper's profiler counts busy SMs; this is the share of peak FLOP/s, of each model's own: %.0f TFLOP/s of `%s`, %.0f of `%s`, which is "+
			"fitted to measured kernels. `l3sim gpu predict --gpu a100-paper --op gemm --m 62 --n 11008 --k 4096` costs one product.",
			float64(m.llama.GPU.Peak16)/1e12, m.llama.GPU.Name, float64(m.measured.Peak16)/1e12, m.measured.Name)
	case "fig2b":
		return fmt.Sprintf("Fig 2b. The paper does not state the batch: %d requests of %d tokens are what fits beside the weights in %.0f GB.",
			m.fig2Batch(), fig2Context, float64(gpuMemory)/1e9)
	case "fig8":
		return "Fig 8. `configs/paper/fig8.toml`. Every system serves the same requests of a model and trace, so that the bars compare."
	case "fig8_batch":
		return fmt.Sprintf("The batches behind Fig 8, with `memory.admission = %q`.", m.largest.Memory.Admission)
	case "fig8_iteration":
		return "Dense is all but attention; waiting is for attention on other devices and for transfers. Iterations have different batches: the figure before."
	case "fig9":
		return "Fig 9. `configs/paper/fig9.toml`. The paper's \"Bw-only\" is the lower line, \"Cap-only\" the step between the lines at 2 ranksets."
	case "fig10a":
		return "Fig 10a. `configs/paper/fig10a.toml`. Overlap is shown with requests that begin in turn, and with even ranksets. `configs/paper/fig10a_parts.toml` and " +
			"`docs/ablation.md` take the steps apart."
	case "fig10b":
		if m.largest.Predictor.Noise == 0 {
			return "Fig 10b. Our times have no noise, so that errors are those of the models alone (`docs/predictors.md`)."
		}
		return fmt.Sprintf("Fig 10b. Our times have a noise of %g (`docs/predictors.md`).", m.largest.Predictor.Noise)
	case "fig11":
		return "Fig 11. `configs/paper/fig11.toml`, run from the repository's root. RS-N is L3 with N ranksets. Median gap of requests that all decode together, half of them on each replica."
	case "fair":
		return "`configs/paper/fair.toml`, each system at its best layout."
	}
	return ""
}

// Where a request begins, as comm.balance has it.
const (
	inTurn = "round-robin"
	evenly = "split"
)

// placementNote says which claims no single placement of requests gives, "" where one
// gives all that either does.
func (r *Report) placementNote() string {
	missing := map[string][]string{} // by the reading's name, of the claims that the other one gives
	names := map[string]string{}     // of the readings, by placement
	for i := range r.Judgements {
		j := &r.Judgements[i]
		if len(j.Others) != 1 || j.claim.Readings[0].Placement == "" {
			continue
		}
		for _, read := range j.claim.Readings {
			names[read.Placement] = read.Name
		}
		for _, pair := range [][2]*Outcome{{&j.Outcome, &j.Others[0]}, {&j.Others[0], &j.Outcome}} {
			if out, in := pair[0], pair[1]; out.Verdict != Reproduced && in.Verdict == Reproduced {
				missing[out.Reading] = append(missing[out.Reading], fmt.Sprintf("`%s` is %.3g in place of %.3g (else %.3g)", j.ID, out.Ours, j.Paper, in.Ours))
			}
		}
	}
	if len(missing) < 2 {
		return ""
	}
	return fmt.Sprintf("No one placement of requests gives all of these figures. Where %s, %s. With %s, %s.",
		names[inTurn], strings.Join(missing[names[inTurn]], ", "), names[evenly], strings.Join(missing[names[evenly]], ", "))
}

// fairText opens the part on the fair comparison.
func (m *models) fairText(x *experiment) string {
	text := "Fig 8 again under the preset `fair` (`l3sim config show fair`): the best policies of every system, physical A100s, shared PCIe uplinks, whole traces, and for each " +
		"system the best of the layouts that the hardware allows."
	small := m.served[0]
	if heads, channels := small.Model.KVHeads, small.Node.Channels; heads%channels != 0 {
		text += fmt.Sprintf(" %d heads of %s do not divide over the %d channels of a replica on all GPUs, so that systems with DIMM-PIM have it on fewer.", heads, small.Run.Model, channels)
	}
	seen := map[string]bool{}
	for i, c := range x.configs {
		if c == nil || seen[x.systemOf(i)] {
			continue
		}
		name := x.systemOf(i)
		if seen[name] = true; len(seen) == 1 {
			text += fmt.Sprintf(" Admission is %q, at most %d requests decode at once on a replica.", c.Memory.Admission, c.Batching.MaxNumSeqs)
		}
		switch {
		case c.Run.System == "hbm-pim":
			text += fmt.Sprintf(" `%s` has %.0f times the bandwidth of HBM in %.0f%% of its capacity", name, c.HBMPIM.BandwidthFactor, 100*c.HBMPIM.CapacityShare)
			if c.HBMPIM.CapacityShare < 1 {
				text += " (AttAcc's limit on power; Samsung's units leave 6 of 8 GB, from memory, not looked up)"
			}
			text += "."
		case c.Run.System == "l3":
			text += fmt.Sprintf(" `%s` has %d ranksets.", name, c.Node.Ranksets)
		}
	}
	return text + " The paper did not make this comparison; its numbers stand " +
		"beside for orientation, and nothing is judged. With fewer requests the end of a run, where batches drain, is a larger part of it.\n\n"
}

// limits closes the evaluation: what no run of ours can show, and why.
func (m *models) limits() string {
	small := m.served[0]
	layout := fmt.Sprintf("Table 3 has %s on %d GPUs a replica, whose memory its weights fill by %.0f%%; the paper's GPUs ran out of memory on two of its traces. "+
		"The sensitivity has it on four", small.Run.Model, small.Model.TensorParallel, 100*m.weightsOf(small))
	if channels := small.Node.Channels; small.Model.KVHeads%channels != 0 {
		layout += fmt.Sprintf("; l3 cannot have it on all %d, since %d heads do not divide over %d channels", small.Node.GPUs, small.Model.KVHeads, channels)
	}
	return fmt.Sprintf(limitsText, m.largest.Traces.MaxTokens, layout, float64(m.llama.GPU.Peak16)/float64(m.measured.Peak16))
}

// weightsOf returns the share of the memory of a replica's GPUs that weights take.
func (m *models) weightsOf(c *configs.Config) float64 {
	return float64(c.Model.WeightBytes()) / (float64(c.Model.TensorParallel) * float64(c.GPU.MemoryCapacity))
}

const limitsText = `## What cannot be reproduced, and why

- **The traces.** The paper gives means and standard deviations (Table 4), not its 1,000 requests. Lengths are drawn from distributions with these
  moments, clipped at %d tokens; seeds show how much the draw matters, the sensitivity how much the distribution does.
- **The bars of Figs 8 to 11.** The text states best cases and a few ratios; only those are judged. Which model and trace a best case belongs to is
  not stated either: ours is named with its number.
- **The layout.** %s.
- **Where a request begins.** Section 5.1 puts successive layers on successive ranksets, does not say which comes first, and claims balance. Both readings
  stand above; other choices are in the sensitivity.
- **The naive node of Fig 10a** is not described. Ours is docs/ablation.md's; "a further 1.7" is judged over scheduling and in all.
- **Fig 2** was measured on a GPU with S-LoRA. Ours are two models of that GPU; the batch of Fig 2b is not stated.
- **Fig 10b** has no numbers in the text, and its measured times had noise that a simulator's have not. It is drawn, not judged.
- **Table 5**, area and power of the units in 28 nm, needs synthesis of their hardware description, which this project does not have.
- **"156 TFLOPs on FP16"** is taken as each GPU's, not as the sum over 8: %.2g of the physical rate, which the fair comparison has.
- **"2 TB" with 8 Gb timing.** No such DDR4 part exists. Capacity and timing are separate here; tRFC is in the sensitivity.
`
