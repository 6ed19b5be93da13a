package measure

import (
	"strings"

	"github.com/l3sim/l3sim/configs"
)

// moved returns the keys of a fit's sections that the fits of kinds move.
func moved(kinds []Fitted) map[string]bool {
	sections := map[Kind]string{
		GEMM: "gpu.gemm", FP8GEMM: "gpu.gemm_fp8", FP8BlockGEMM: "gpu.gemm_fp8_block", NVFP4GEMM: "gpu.gemm_nvfp4",
		Decode: "gpu.decode_attention", FP8Decode: "gpu.decode_attention_fp8", Prefill: "gpu.prefill_attention", FP8Prefill: "gpu.prefill_attention_fp8",
	}
	keys := map[string]bool{}
	for _, l := range latentSections {
		sections[l.kind] = "gpu.latent." + l.section
	}
	for i := range tabledKinds {
		sections[tabledKinds[i].kind] = tabledKinds[i].section
	}
	for i := range expertKinds {
		sections[expertKinds[i].kind] = "gpu.experts." + expertKinds[i].Section
	}
	for _, k := range kinds {
		keys["gpu.all_reduce.small_limit"] = keys["gpu.all_reduce.small_limit"] || k.Kind == AllReduce
		if section := sections[k.Kind]; section != "" {
			for _, p := range parameters(k.Kind) {
				name := section + "." + p.name
				if strings.Contains(p.name, ".") {
					name = "gpu." + p.name // in a section of its own
				}
				keys[name] = true
			}
		}
	}
	return keys
}

// meanings explain numbers of a section that no shipped fit explains.
var meanings = map[string]string{
	"tiles":                             "tiles of the library by rows of the product, \"\" where it chooses as in gemm; steps in time over rows",
	"convert_overhead":                  "fixed time of the kernel that converts activations; small products",
	"convert_memory_efficiency":         "of bandwidth, in that kernel; products of many rows and few columns",
	"arrange_overhead":                  "of overhead, in which the tables arrange scales of weights at each call, and servers once; decode steps of FP8 checkpoints",
	"group_limit":                       "query heads of a KV head that one reading of keys and values serves, 0 for all; decode of large groups",
	"lone_element_time":                 "of an SM for an element of a key or value of a KV head with one query head; decode of multi-head attention",
	"head_knee":                         "elements of a head at half an SM's rate; prefill of narrow heads",
	"experts.overhead":                  "launches of all kernels of the experts; small batches",
	"experts.memory_efficiency":         "of bandwidth; small batches, which read the weights of the experts that they touch",
	"experts.ridge":                     "p-norm between the limits, 0 the sharp maximum; batches near the ridge",
	"experts.expert_time":               "for each expert that has tokens; middle batches of many small experts",
	"experts.pass_memory_efficiency":    "of bandwidth, in conversion, activation and the weighted sum; large batches",
	"experts.row_latency_ps":            "of a k step of a lone block, for each row of its tile; middle batches of few experts",
	"experts.tile_share":                "tiles have at least that share of the rows that each expert would have if the GPU had all pairs of a token and an expert, 0 for any tile; middle batches, expert parallelism",
	"experts.absent_share":              "of a row's passes, for a row of an expert of another GPU; expert parallelism",
	"latent.wide_group":                 "most heads of the kernel whose readings serve group_limit heads, 0 for all; middle numbers of heads",
	"latent.again_share":                "of a further reading of the latents, from memory; the same",
	"latent.tile_rows":                  "rows of a tile, to which tokens of a head, or a token's heads, are padded; small batches",
	"latent.row_time":                   "a block's time of a chosen row; few tokens",
	"latent.widened_share":              "of these rates, over FP8 rows, which the kernel widens, 0 for all; FP8 latents",
	"latent.cluster":                    "thread blocks that share a tile, each on an SM, 0 for one; few tokens",
	"latent.slots":                      "rows that a token's block passes over, chosen or not; short contexts",
	"latent.widens":                     "FP8 weights are widened on loading, and their products take 16 bits; FP8 checkpoints",
	"latent.widens_blocks":              "kv_b of FP8 blocks is widened on loading, and its products take 16 bits; FP8 checkpoints",
	"index.always":                      "attention over chosen rows is the only one, for contexts of any length; short contexts",
	"index.small_overhead":              "launches of an indexer's small kernels; steps of few tokens",
	"index.small_token_time":            "of these kernels, for each token; prompts",
	"index.wide_keys":                   "one product of 16 bits makes an indexer's key and the weights of its heads; decode steps of FP8 checkpoints",
	"latent.prefill_absorbed":           "prompts attend to latents, as decode steps do; long prompts",
	"latent.prefill_expands_from":       "from so many finished tokens on prompts attend to expanded keys, as those without any do, 0: none does; short prompts, long contexts",
	"expert_tokens":                     "most tokens of a batch of experts; beyond them experts are extrapolated",
	"expert_width":                      "most inner columns of an expert; the same",
	"small_limit":                       "direct kernels run up to it, if they are faster than the switch and NCCL; batches of up to 500 tokens",
	"last_step":                         "of a step of a ring, for the last one, which sends nothing; large transfers of few GPUs",
	"all_reduce_switch.latency":         "sums in the switch: the call; middle sizes",
	"all_reduce_switch.latency_per_gpu": "its growth with the replica",
	"all_reduce_switch.bandwidth":       "of the bytes that a GPU sends to the switch, (1 + 1/T) of those summed; middle sizes",
	"exchange.overhead":                 "launch, and the wait for the last GPU; decode steps",
	"exchange.expert_time":              "for each expert: counts that all GPUs send each other; decode steps of many experts",
	"exchange.bandwidth":                "of what the busiest GPU sends or receives; hundreds of tokens a GPU",
	"exchange.lane_bandwidth":           "of a pair of an expert and a GPU that sends to it; few experts",
	"exchange.ridge":                    "p-norm between the two; middle batches",
	"scores.overhead":                   "launch and tail; short contexts",
	"scores.memory_efficiency":          "of bandwidth, at which scores are written; many tokens",
	"scores.key_tile":                   "keys of a block's tile, to which keys are padded; short contexts",
	"scores.block_time":                 "a block's start and end; short contexts",
	"step_scores.overhead":              "launch and tail; small batches",
	"step_scores.memory_efficiency":     "of bandwidth, at which keys are read; small batches of long contexts",
	"step_scores.row_time":              "for each token with scores; large batches of short contexts",
	"step_scores.pair_time_ps":          "for each pair of such tokens; batches of thousands of tokens",
	"step_scores.fill_bandwidth":        "of rows of scores as long as the longest; prompts in steps",
	"top_k.overhead":                    "launch and tail; small batches",
	"top_k.row_time":                    "a block's time of a token, alone on its SM; short contexts",
	"top_k.element_time":                "a block's time of a score, alone on its SM; long contexts",
	"top_k.short_time":                  "a block's time of a token that sees no more than are chosen; the start of prompts",
	"top_k.tie_row_time":                "added to row_time where all scores are alike, which no run has",
	"top_k.tie_element_time":            "added to element_time where all scores are alike",
	"packs_groups":                      "the query heads of a group share a tile where that fills it better; short prompts with grouped queries",
}

// commented adds to each value of a fit a comment with its origin and meaning. The origin is "fit" for moved values, else the base;
// meanings come from the preset h200-sxm.
func commented(fit string, moved map[string]bool, base string) (string, error) {
	texts, err := presetTexts()
	if err != nil {
		return "", err
	}
	var out strings.Builder
	section := ""
	for line := range strings.Lines(fit) {
		line = strings.TrimRight(line, "\n")
		key, value, isKey := strings.Cut(line, " = ")
		switch {
		case strings.HasPrefix(line, "["):
			section = strings.Trim(line, "[]")
		case isKey && strings.HasPrefix(section, "gpu."):
			line = key + " = " + value + " # " + origin(section+"."+key, value, moved, base) + "; " + text(section, key, texts)
		}
		out.WriteString(line + "\n")
	}
	return out.String(), nil
}

// origin returns the origin of a value.
func origin(key, value string, moved map[string]bool, base string) string {
	section, name := key[:strings.LastIndex(key, ".")], key[strings.LastIndex(key, ".")+1:]
	of := "gpu." + measuredSection[strings.Split(name, "_")[0]]
	fitted := moved[of+".overhead"] || moved[of+".small_latency"]
	switch {
	case moved[key]:
		return "fit"
	case section == "gpu.measured" && value == "0":
		return "not measured on this GPU"
	case section == "gpu.measured" && fitted:
		return "the rows of the fit"
	case section == "gpu.scale" && strings.Contains(value, "assumption"):
		return "not measured: a spread of 20%"
	case section == "gpu.scale" && fitted:
		return "errors on shapes held out of the fit, 10th to 90th percentile of a log-normal"
	}
	return "of the " + base
}

// measuredSection maps the first word of keys of [gpu.measured] and [gpu.scale] to the section of their kernels.
var measuredSection = map[string]string{"product": "gemm", "products": "gemm", "decode": "decode_attention", "prefill": "prefill_attention", "all": "all_reduce", "expert": "experts.bf16"}

// text returns the meaning of a value; sections of narrow types use the texts of the 16-bit section.
func text(section, key string, texts map[string]string) string {
	if strings.HasPrefix(section, "gpu.experts.") {
		if t := meanings["experts."+key]; t != "" {
			return t
		}
		section = "gpu.gemm"
	}
	if of, latent := strings.CutPrefix(section, "gpu.latent."); latent {
		if t := meanings["latent."+key]; t != "" {
			return t
		}
		section = "gpu.gemm"
		if strings.HasPrefix(of, "decode") || strings.HasPrefix(of, "prefill") {
			section = "gpu." + strings.Replace(strings.TrimSuffix(of, "_fp8"), "fill", "fill_attention", 1)
			section = strings.TrimSuffix(strings.Replace(section, "gpu.decode", "gpu.decode_attention", 1), "_fp8")
		}
	}
	if section == "gpu.latent" || section == "gpu.index" {
		return meanings[strings.TrimPrefix(section, "gpu.")+"."+key]
	}
	if section+"."+key == "gpu.all_reduce.small_limit" {
		return meanings[key]
	}
	if of, index := strings.CutPrefix(section, "gpu.index."); index {
		if t := meanings[of+"."+key]; t != "" {
			return t
		}
		section = "gpu.gemm"
	}
	if strings.HasPrefix(section, "gpu.collectives.") || section == "gpu.all_reduce_switch" {
		if t := meanings[strings.TrimPrefix(section, "gpu.")+"."+key]; t != "" {
			return t
		}
		if t := meanings["exchange."+key]; t != "" && (strings.HasSuffix(section, "dispatch") || strings.HasSuffix(section, "combine")) {
			return t
		}
		section = "gpu.all_reduce"
	}
	for _, suffix := range []string{"_fp8_block", "_fp8", "_nvfp4"} {
		section = strings.TrimSuffix(section, suffix)
	}
	if t := texts[section+"."+key]; t != "" {
		return t
	}
	return meanings[key]
}

// presetTexts returns the comments of h200-sxm's fit by key, without their sources.
func presetTexts() (map[string]string, error) {
	source, err := configs.Source("h200-sxm")
	if err != nil {
		return nil, err
	}
	texts, section := map[string]string{}, ""
	for line := range strings.Lines(source) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = strings.Trim(line, "[]")
			continue
		}
		key, rest, ok := strings.Cut(line, " = ")
		_, comment, commented := strings.Cut(rest, " # ")
		if !ok || !commented {
			continue
		}
		if section == "gpu.scale" { // after the source and the origin of the band
			comment = comment[strings.LastIndex(comment, "; ")+2:]
		}
		if of, what, two := strings.Cut(comment, "; "); two && (of == "fit" || strings.Contains(of, "h100-sxm") || strings.Contains(of, "fit")) {
			comment = what
		}
		texts[section+"."+strings.TrimSpace(key)] = comment
	}
	return texts, nil
}
