package paper

// captions say under a figure what its reader cannot see.
var captions = map[string]string{
	"fig2a": "Fig 2a. The paper's profiler counts busy SMs; this is the share of peak FLOP/s, of each model's own: 156 TFLOP/s of the evaluation's GPU, 312 of the one fitted to " +
		"measured kernels. `l3sim gpu predict --gpu a100-paper --op gemm --m 62 --n 11008 --k 4096` costs one product.",
	"fig2b": "Fig 2b. The paper does not state the batch: 7 requests of 16,384 tokens are what fits beside the weights in 80 GB.",
	"fig8":  "Fig 8. `configs/paper/fig8.toml`. Every system serves the same requests of a model and trace, so that the bars compare.",
	"fig8_batch": "The batches behind Fig 8. With reserved final lengths they follow from the memory: 2 TiB of DIMMs against what the weights leave of the " +
		"GPUs' memory.",
	"fig9": "Fig 9. `configs/paper/fig9.toml`. The paper's \"Bw-only\" is the lower line, \"Cap-only\" the step between the lines at 2 ranksets.",
	"fig10a": "Fig 10a. `configs/paper/fig10a.toml`. The last bar is ours: offsets that even out the ranksets within each sub-batch. `configs/paper/fig10a_parts.toml` and " +
		"`docs/ablation.md` take the steps apart.",
	"fig10b": "Fig 10b. Our times have no noise, so that errors are those of the models alone (`docs/predictors.md`).",
	"fig11":  "Fig 11. `configs/paper/fig11.toml`, run from the repository's root. RS-N is L3 with N ranksets. Median gap of requests that all decode together.",
	"fair":   "`configs/paper/fair.toml`, each system at its best layout.",
}

// caveats say what stands against a claim that does come out. They appear on the
// page where it does.
var caveats = map[string]string{
	"fig8.max_over_hbm_pim":  bestOnOPT,
	"fig8.max_over_gpu_only": bestOnOPT,
	"fig8.max_over_rank_pim": unevenRanksets,
	"fig8.max_batch_ratio":   whichBatch,
	"fig8.opt66b_dolphin_hbm_below_gpu": "The paper names this case alone; here hbm-pim is below gpu-only nearly everywhere (the reason counts), since its two sub-batches " +
		"each read all weights. With two only where they are faster the order turns, here too (Sensitivity).",
	"fig9.ranksets_only": "Within 15% of 1.1, which no gain at all would be as well. With 512 GB the GPUs' reading of the weights is the limit, which ranksets do not move.",
	"fig9.both": "Depends on the offsets of requests: balanced ones (`comm.balance = \"split\"`) make the largest node about 1.3 times as fast, and the ratio too large. The smallest node, " +
		"to which it is relative, is slow (capacity alone).",
	"fig10.scheduling":   "The naive node is not described, and the gain is relative to it.",
	"fig10.all":          "Relative to a naive node that is not described.",
	"text.mha_share_16k": "With one or two requests, which the paper does not exclude, it is not (the reason).",
}

// What both notes on a claim of Fig 8 say, come out or not.
const (
	bestOnOPT = "The best cases lie on OPT-66B in the layout of Table 3, two GPUs a replica, whose weights leave room for little more than one long request. " +
		"Four GPUs a replica, admission that does not reserve a request's whole length and, for hbm-pim, one batch in place of two each take a good part of the lead, " +
		"balanced offsets in l3, which are ours, add to it (Sensitivity). The paper's GPUs ran out of memory on two of that model's traces, so that it has no ratio there; the reason names our best case on another model."
	unevenRanksets = "Depends on how evenly the ranksets are loaded. Where l3's requests begin and where rank-pim's lie are assumptions; with both balanced, or neither, the " +
		"ratio differs (Sensitivity)."
	whichBatch = "The paper does not say what it counts. Ours is the mean over the iterations that decode; the reason has the largest batches and a mean over time, too. Memory " +
		"alone gives 14.6 for OPT-66B, 2 TiB of DIMMs against the 140 GiB that its weights and activations leave; what it amounts to depends on how the requests' " +
		"lengths fill small memories, and on the layout."
)

// misses say why a claim that does not come out may not: what the paper leaves
// open there, or what stands against it. They appear beside such claims alone.
var misses = map[string]string{
	"fig8.max_over_hbm_pim":             bestOnOPT,
	"fig8.max_over_gpu_only":            bestOnOPT,
	"fig8.max_over_rank_pim":            unevenRanksets,
	"fig8.max_batch_ratio":              whichBatch,
	"fig8.opt66b_dolphin_hbm_below_gpu": "hbm-pim's second pass over the weights costs less than its attention gains.",
	"fig9.capacity_only": "With 512 GB few requests of GPT-175B decode, and each of the two sub-batches reads all weights for half of them: the smallest node, to which " +
		"everything is relative, is slow.",
	"fig9.ranksets_only": "With 512 GB the GPUs' weights are the limit, which ranksets do not move; with `scheduler.adaptive = true` they do, a little.",
	"fig9.both": "See capacity alone: the smallest node is slow. The largest one depends on the offsets of requests; balanced ones (`comm.balance = \"split\"`) make it about " +
		"1.3 times as fast.",
	"fig10.scheduling": "The naive node is not described; docs/ablation.md shows where ours spends its time.",
	"fig10.overlap": "The parts are in the reason. Transfers are a small share of the naive node's time, so that hiding them gains little, and prompts of 96 tokens have next to " +
		"nothing to send. Rotation evens out the ranksets over the layers, but each layer still waits for its busiest one: offsets that go round are hardly more even there than random ones, and less even " +
		"than the naive node's, whose full memory puts requests where few tokens are. Balanced offsets (`comm.balance = \"split\"`), which the paper does not describe, gain the " +
		"last factor of the reason (docs/ablation.md). A naive node that moves data more slowly has more to gain.",
	"fig10.all": "As for overlap. With balanced offsets, ours, the whole comes close (the last factor of the reason).",
	"fig11.low": "Two sub-batches read all weights each, every iteration, and that alone is more than the paper's ratio allows; see the other end.",
	"fig11.high": "At batch 16 the paper's 53% of gpu-only would be less than one pass of the GPUs over the weights takes, all-reduces included. `scheduler.adaptive = true`, one " +
		"batch where that is faster, comes closer. \"Comparable at the fewest ranksets\" holds for 4 from 32 requests on, not for 2.",
	"text.bank_pu_ratio": "The peak is 32, and more than 30 leaves no room for losses. Legal activation of 16 banks, read-outs, weights and refresh take their share of every row.",
	"text.mha_share_16k": "Depends on the batch, which the paper does not state.",
}

// fairText opens the part on the fair comparison.
const fairText = "Fig 8 again under the preset `fair` (`l3sim config show fair`): the best policies of every system, an admission that foresees how memory fills (docs/node.md), " +
	"at most 256 requests that decode at once on a replica, physical A100s, shared PCIe uplinks, whole traces, and for each system " +
	"the best of the layouts that the hardware allows. Weights and heads decide which those are: OPT-66B's 72 heads do not divide over the 16 channels of an eight-GPU replica, so that l3 and " +
	"rank-pim have it on four at most. hbm-pim stands twice: as the paper has it, 16 times the bandwidth in all of the memory, and with AttAcc's limit on power and " +
	"the capacity that units leave (9 times, three quarters; from memory, Samsung's has 6 of 8 GB). l3 stands with more ranksets, too, of the same capacity in all. The paper did not make this comparison; its numbers stand beside for orientation, and nothing is judged. The number of " +
	"requests matters: at a run's end large batches drain and cannot be filled, and with fewer requests this is a larger part of l3's run.\n\n"

// limits closes the evaluation: what no run of ours can show, and why.
const limits = `## What cannot be reproduced, and why

- **The traces.** The paper gives means and standard deviations (Table 4), not its 1,000 requests. Lengths are drawn from distributions with these
  moments, clipped at 32,768 tokens; seeds show how much the draw matters, the sensitivity how much the distribution does.
- **The bars of Figs 8 to 11.** The text states best cases and a few ratios; only those are judged. Which model and trace a best case belongs to is
  not stated either: ours is named in its reason.
- **The layout.** The best cases of Fig 8 rest on Table 3, which has OPT-66B on two GPUs a replica: its weights nearly fill their memory. The sensitivity has it
  on four, which is more like what one would run; eight, which the GPUs alone do best with, l3 cannot have, since 72 heads do not divide over a replica's 16 channels.
- **Where a request begins.** Section 5.1 puts successive layers on successive ranksets and does not say which comes first. The preset goes round; balanced
  choices, which are ours, are in the sensitivity and the last bar of Fig 10a.
- **The naive node of Fig 10a** is not described. Ours is docs/ablation.md's; "a further 1.7" is judged over scheduling and in all.
- **Fig 2** was measured on a GPU with S-LoRA. Ours are two models of that GPU; the batch of Fig 2b is not stated.
- **Fig 10b** has no numbers in the text, and its measured times had noise that a simulator's have not. It is drawn, not judged.
- **Table 5**, area and power of the units in 28 nm, needs synthesis of their hardware description, which this project does not have.
- **"156 TFLOPs on FP16"** cannot be the sum of 8 GPUs: the paper's own throughput would be out of reach. It is taken as each GPU's, half the physical rate;
  the fair comparison has the physical one.
- **"2 TB" with 8 Gb timing.** No such DDR4 part exists. Capacity and timing are separate here; tRFC is in the sensitivity.
`
