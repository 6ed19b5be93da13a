package kinds

import (
	"fmt"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
)

// TestModelRulesByHand: which models, policies and steps each system takes, and what the message says of the others.
func TestModelRulesByHand(t *testing.T) {
	const (
		latent  = " run.model=llama-2-7b model.kv_heads=1 model.latent_dim=512 model.nope_dim=128 model.value_dim=128 model.head_dim=576"
		window  = " run.model=mistral-7b model.window=4096"
		drafts  = " serving.acceptance=0.5"
		heads   = " run.model=llama-3-70b node.gpus=8 model.tensor_parallel=8" // eight query heads a KV head
		quest   = " policy.name=quest policy.quest.budget=4096"
		stripes = " comm.stripe=ranksets"
	)
	for _, c := range []struct{ sets, want string }{
		{"run.system=gpu-only policy.name=hgca", "policy.name = \"hgca\": expected one of "},
		{"run.system=gpu-only policy.name=hgca", "; it runs with run.system = l3, gpu+cpu"},
		{"run.system=gpu+cpu policy.name=hgca run.model=gpt-89b", ""},
		{"run.system=gpu-only" + window, ""}, {"run.system=hbm-pim" + window, ""}, {"run.system=l3" + window, ""},
		{"run.system=gpu+cpu" + window, "model.window = 4096: expected 0 with run.system = gpu+cpu, which has no windows by layer"},
		{"run.system=cpu-offload" + window, "model.window = 4096: expected 0 with run.system = cpu-offload"},
		{"run.system=gpu-only policy.name=streaming" + window, "policy.name = \"streaming\": expected \"dense\" with model.window = 4096"},
		{"run.system=l3" + window + stripes, "comm.stripe = \"ranksets\": expected \"none\" with model.window = 4096"},
		{"run.system=gpu-only" + window + stripes, ""},
		{"run.system=gpu-only cache.prefix=true" + window, "cache.prefix = true: expected false with model.window = 4096"},
		{"run.system=l3 run.model=llama-3-8b" + stripes, ""}, {"run.system=l3 run.model=llama-3-8b policy.name=window" + stripes, ""},
		{"run.system=l3 run.model=llama-3-8b" + quest + stripes, "comm.stripe = \"ranksets\": expected \"none\" with policy.name = quest or a profile"},
		{"run.system=gpu-only run.model=llama-3-8b" + quest + stripes, ""},
		{"run.system=l3 run.model=llama-3-8b cache.prefix=true" + stripes, "cache.prefix = true: expected false with comm.stripe = \"ranksets\""},
		{"run.system=gpu-only run.model=llama-3-8b cache.prefix=true" + stripes, ""},
		{"run.system=l3 run.model=llama-3-8b cache.prefix=true cache.block=512", ""},
		{"run.system=l3 run.model=llama-3-8b cache.prefix=true cache.block=256", "a multiple of the 512 tokens of an allocation unit of a rank"},
		{"run.system=l3 run.model=llama-3-8b cache.prefix=true cache.block=512 cache.host_capacity=1GiB", "cache.host_capacity = \"1GiB\": expected 0B with run.system = l3"},
		{"run.system=l3 serving.verified_tokens=16" + heads + drafts, ""},
		{"run.system=l3 serving.verified_tokens=17" + heads + drafts, "serving.verified_tokens = 17: expected 16 at most with the 8 query heads of a KV head of llama-3-70b: a unit takes 128 queries of one"},
		{"run.system=rank-pim serving.verified_tokens=17" + heads + drafts, "serving.verified_tokens = 17: expected 16 at most"},
		{"run.system=gpu-only serving.verified_tokens=17" + heads + drafts, ""},
		{"run.system=l3 run.model=llama-3-8b cache.prefix=true cache.block=512 cache.prefix_attention=dimm serving.verified_tokens=2" + drafts, "1 with cache.prefix_attention = \"dimm\""},
		{"run.system=l3 run.model=llama-3-8b cache.prefix=true cache.block=512 cache.prefix_attention=dimm serving.verified_tokens=1", ""},
		{"run.system=l3 run.model=llama-3-8b memory.spare=decode predictor.kind=learned", "memory.spare = \"decode\": expected \"off\" with predictor.kind = \"learned\""},
		{"run.system=l3 run.model=llama-3-8b memory.spare=decode cache.prefix=true cache.block=512", "memory.spare = \"decode\": expected \"off\" with cache.prefix = true"},
		{"run.system=l3 run.model=llama-3-8b memory.spare=decode policy.quest.layout=quad policy.quest.page=128" + quest, "memory.spare = \"decode\": expected \"off\" with policy.quest.layout"},
		{"run.system=l3 run.model=llama-3-8b policy.quest.page=24" + quest, "a divisor or a multiple of the 512 tokens of a row"},
		{"run.system=l3 run.model=llama-3-8b policy.quest.page=24 model.kv_bits=8" + quest, "which without scales in it (pim.scales, model.kv_scales) is a power of two"},
		{"run.system=l3" + latent, ""}, {"run.system=rank-pim" + latent, "model.latent_dim = 512: expected 0 with run.system = rank-pim: latent attention runs with l3, gpu-only, hbm-pim"},
		{"run.system=gpu-only" + latent, ""},
		{"run.system=gpu-only policy.name=streaming" + latent, "policy.name = \"streaming\": expected \"dense\" with model.latent_dim = 512"},
	} {
		_, err := Loader().Load(configs.Options{Sets: strings.Fields(c.sets)})
		if got := fmt.Sprint(err); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(got, c.want)) {
			t.Errorf("%s\n%s\nwant %q", c.sets, got, c.want)
		}
	}
}
