package kinds

import (
	"fmt"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/configs"
)

// TestModelRulesByHand: which models, policies and steps each system accepts, and the messages for the others.
func TestModelRulesByHand(t *testing.T) {
	const (
		latent  = " run.model=llama-2-7b model.kv_heads=1 model.latent_dim=512 model.nope_dim=128 model.value_dim=128 model.head_dim=576"
		window  = " run.model=mistral-7b model.window=4096"
		drafts  = " serving.acceptance=0.5"
		heads   = " run.model=llama-3-70b node.gpus=8 model.tensor_parallel=8" // eight query heads a KV head
		quest   = " policy.name=quest policy.quest.budget=4096"
		stripes = " comm.stripe=ranksets"
		index   = latent + " model.query_rank=1536 model.index_heads=32 model.index_dim=128 model.index_top_k=512 policy.name=dsa"
		spare   = " run.model=llama-3-8b memory.spare=decode"
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
		// What a cache of prefixes can be combined with.
		{"run.system=gpu-only run.model=llama-3-8b cache.prefix=true policy.name=streaming", "cache.prefix = true: expected false with policy.name = streaming: another prompt may need what it has dropped"},
		{"run.system=gpu+cpu run.model=llama-3-8b cache.prefix=true", "cache.prefix = true: expected false with run.system = gpu+cpu, which has no such cache"},
		{"run.system=cpu-offload run.model=llama-3-8b cache.prefix=true", "expected false with run.system = cpu-offload, which has no such cache"},
		{"run.system=gpu-only cache.prefix=true" + index, ""},
		{"run.system=l3 cache.prefix=true cache.block=512" + index, "cache.prefix = true: expected false with policy.name = dsa and keys and values in the DIMMs: the index keys of a prompt are on the GPUs"},
		// Pages that units, or GPUs, choose.
		{"run.system=l3 run.model=llama-3-8b policy.quest.layout=quad policy.quest.page=128 pim.activation=simultaneous" + quest, "policy.quest.layout = \"quad\": expected \"row\" with pim.activation = \"simultaneous\": all banks open one row"},
		{"run.system=l3 run.model=llama-3-8b policy.quest.layout=quad policy.quest.page=256" + quest, "policy.quest.page = 256: expected 128 with layout = \"quad\": a quad of banks has a quarter of a row"},
		{"run.system=gpu-only run.model=llama-3-8b policy.quest.layout=quad policy.quest.page=128" + quest, "policy.quest.layout = \"quad\": expected \"row\" with run.system = gpu-only"},
		{"run.system=gpu-only run.model=llama-3-8b policy.quest.select_device=bank" + quest, "policy.quest.select_device = \"bank\": expected \"gpu\" with run.system = gpu-only, whose keys and values are "},
		{"run.system=gpu+cpu run.model=llama-3-8b policy.quest.select_device=rank" + quest, "policy.quest.select_device = \"rank\": expected \"gpu\" with run.system = gpu+cpu, whose keys and values are "},
		{"run.system=l3 run.model=llama-3-8b policy.quest.select_device=bank" + quest, ""},
		// What the spare memory of GPUs can be combined with.
		{"run.system=l3" + spare, ""}, {"run.system=l3 policy.name=duo" + spare, ""},
		{"run.system=rank-pim" + spare, "memory.spare = \"decode\": expected \"off\" with run.system = rank-pim: of l3 alone the GPUs hold no keys and values and decode all the same"},
		{"run.system=l3 policy.name=hgca" + spare, "memory.spare = \"decode\": expected \"off\" with policy.name = hgca, which GPUs alone cannot run; they run dense, streaming, h2o, quest, lserve, duo, csattention, dsa"},
		{"run.system=l3 policy.quest.select_device=bank" + quest + spare, "memory.spare = \"decode\": expected \"off\" with policy.quest.select_device = \"bank\": only GPUs choose pages"},
		{"run.system=l3 policy.quest.select_device=gpu" + quest + spare, ""},
		// Values narrower than keys, and policies of other systems.
		{"run.system=l3 run.model=llama-3-8b model.value_dim=64", ""}, {"run.system=gpu-only run.model=llama-3-8b model.value_dim=64", ""}, {"run.system=hbm-pim run.model=llama-3-8b model.value_dim=64", ""},
		{"run.system=cpu-offload run.model=llama-3-8b model.value_dim=64", "model.value_dim = 64: expected 0 with run.system = cpu-offload: such heads run with l3, gpu-only, hbm-pim"},
		{"run.system=gpu-only run.model=llama-3-8b model.value_dim=64 policy.name=streaming", "policy.name = \"streaming\": expected \"dense\" with model.value_dim = 64"},
		{"run.system=cpu-offload policy.name=quest", "expected one of dense with run.system = cpu-offload; it runs with run.system = l3, gpu-only, hbm-pim, gpu+cpu, sparse-offload"},
		{"run.system=l3 run.model=llama-3-8b model.attention_parallel=data", "model.attention_parallel = \"data\": expected \"tensor\" with run.system = l3: requests are apart on the GPUs of gpu-only, sparse-offload alone"},
		{"run.system=gpu-only policy.name=streaming" + latent, "policy.name = \"streaming\": expected \"dense\" with model.latent_dim = 512"},
	} {
		_, err := Loader().Load(configs.Options{Sets: strings.Fields(c.sets)})
		if got := fmt.Sprint(err); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(got, c.want)) {
			t.Errorf("%s\n%s\nwant %q", c.sets, got, c.want)
		}
	}
}
