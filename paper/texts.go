package paper

// captions say under a figure what its reader cannot see.
var captions = map[string]string{
	"fig2a": "Fig 2a. The paper's profiler counts busy SMs; this is the share of peak FLOP/s, of the evaluation's GPU and of the model fitted to measured " +
		"kernels. `l3sim gpu predict --gpu a100-paper --op gemm --m 62 --n 11008 --k 4096` costs one product.",
	"fig2b": "Fig 2b. The paper does not state the batch: 7 requests of 16,384 tokens are what fits beside the weights in 80 GB.",
	"fig8":  "Fig 8. `configs/paper/fig8.toml`. Every system serves the same requests of a model and trace, so that the bars compare.",
	"fig8_batch": "The batches behind Fig 8. With reserved final lengths they follow from the memory: 2 TiB of DIMMs against what the weights leave of the " +
		"GPUs' memory.",
	"fig9":   "Fig 9. `configs/paper/fig9.toml`. The paper's \"Bw-only\" is the lower line, \"Cap-only\" the step between the lines at 2 ranksets.",
	"fig10a": "Fig 10a. `configs/paper/fig10a.toml`; `docs/ablation.md` takes the steps apart.",
	"fig10b": "Fig 10b. Our times have no noise, so that errors are those of the models alone (`docs/predictors.md`).",
	"fig11":  "Fig 11. `configs/paper/fig11.toml`, run from the repository's root. Median gap of requests that all decode together.",
	"fair":   "`configs/paper/fair.toml`.",
}

// fairText opens the part on the fair comparison.
const fairText = "Fig 8 again under the preset `fair`: every baseline with its best policy, physical A100s, shared PCIe uplinks (`l3sim config show fair`). " +
	"The paper's numbers stand beside for orientation; it did not make this comparison. The number of requests matters: at a run's end large " +
	"batches drain and cannot be filled, and with fewer requests this is a larger part of l3's run.\n\n"

// limits closes the evaluation: what no run of ours can show, and why.
const limits = `## What cannot be reproduced, and why

- **The traces.** The paper gives means and standard deviations (Table 4), not its 1,000 requests. Lengths are drawn from distributions with these
  moments, clipped at 32,768 tokens; seeds show how much the draw matters, the sensitivity how much the distribution does.
- **The bars of Figs 8 to 11.** The text states best cases and a few ratios; only those are judged. Which model and trace a best case belongs to is
  not stated either: ours is named in its reason.
- **The naive node of Fig 10a** is not described. Ours is docs/ablation.md's; "a further 1.7" is judged over scheduling and in all.
- **Fig 2** was measured on a GPU with S-LoRA. Ours are two models of that GPU; the batch of Fig 2b is not stated.
- **Fig 10b** has no numbers in the text, and its measured times had noise that a simulator's have not. It is drawn, not judged.
- **Table 5**, area and power of the units in 28 nm, needs synthesis of their hardware description, which this project does not have.
- **"156 TFLOPs on FP16"** cannot be the sum of 8 GPUs: the paper's own throughput would be out of reach. It is taken as each GPU's, half the physical rate;
  the fair comparison has the physical one.
- **"2 TB" with 8 Gb timing.** No such DDR4 part exists. Capacity and timing are separate here; tRFC is in the sensitivity.
`
