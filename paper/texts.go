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

// caveats say what stands against a claim that does come out.
var caveats = map[string]string{}

// misses say why a claim that does not come out may not: what the paper leaves
// open there, or what stands against it. They appear beside such claims alone.
var misses = map[string]string{
	"fig8.max_over_hbm_pim": "The best cases lie on OPT-66B, whose weights leave a pair of GPUs room for little more than one long request. The paper's GPUs ran out of " +
		"memory on two of that model's traces, so that it has no ratio there; the reason names our best case on another model. One batch instead of two " +
		"in hbm-pim, or admission that does not reserve a request's whole length, brings the ratio down (Sensitivity).",
	"fig8.max_over_gpu_only": "As for hbm-pim: OPT-66B decodes nearly unbatched on GPUs alone. Admission by the current length, which is what servers do, fills " +
		"their memory better and takes a good part of the lead (Sensitivity).",
	"fig8.max_over_rank_pim": "Depends on how even the ranksets are loaded: random placement for rank-pim and balanced sub-batches for l3 are assumptions (Sensitivity).",
	"fig8.max_batch_ratio": "The paper does not say what it counts. Ours is the mean over the iterations that decode; the reason has the largest batches and a mean " +
		"over time, too. Memory alone gives 14.6 for OPT-66B, 2 TiB of DIMMs against the 140 GiB that its weights and activations leave; what it amounts to depends on how the requests' " +
		"lengths fill small memories.",
	"fig9.capacity_only": "With 512 GB few requests of GPT-175B decode, and each of the two sub-batches reads all weights for half of them: the smallest node, to which " +
		"everything is relative, is slow.",
	"fig9.ranksets_only": "With 512 GB the GPUs' weights are the limit, which ranksets do not move; with `scheduler.adaptive = true` they do, a little.",
	"fig9.both": "See capacity alone: the smallest node is slow. The largest one is limited by the GPUs, whose model at 156 TFLOP/s is the paper's as far as " +
		"it is known.",
	"fig10.scheduling": "The naive node is not described; docs/ablation.md shows where ours spends its time.",
	"fig10.overlap": "2.2 in all is out of reach of our naive node: transfers are a small share of its time, so that hiding them gains little, and what remains comes " +
		"from rotation and balance of the ranksets (docs/ablation.md). A naive node that moves data more slowly has more to gain.",
	"fig10.all": "As for overlap: the gain is bounded by the naive node's own losses.",
	"fig11.low": "Two sub-batches read all weights each, every iteration, and that alone is more than the paper's ratio allows; see the other end.",
	"fig11.high": "At batch 16 the paper's 53% of gpu-only would be less than one pass of the GPUs over the weights takes, all-reduces included. `scheduler.adaptive = true`, one " +
		"batch where that is faster, comes closer. \"Comparable at the fewest ranksets\" holds for 4, not for 2.",
	"text.bank_pu_ratio": "The peak is 32, and more than 30 leaves no room for losses. Legal activation of 16 banks, read-outs, weights and refresh take their share of every row.",
	"text.mha_share_16k": "Depends on the batch, which the paper does not state.",
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
