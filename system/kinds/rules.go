package kinds

import (
	"slices"
	"strings"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/tables"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/system/hosts"
	"github.com/l3sim/l3sim/units"
)

// check has the rules between sections; all is the systems that the configuration could name.
func (s *System) check(all []System, cfg *configs.Config, c *input.Check) {
	s.checkPolicy(all, cfg, c)
	if c.OK() {
		s.checkStripe(cfg, c)
	}
	if c.OK() && cfg.Cache.Prefix {
		s.checkCache(cfg, c)
	}
	if c.OK() && cfg.Memory.UsesSpare() {
		s.checkSpare(all, cfg, c)
	}
	if c.OK() && cfg.Serving.Prefill == scheduler.PrefillElsewhere {
		s.checkElsewhere(all, cfg, c)
	}
	if c.OK() && cfg.Serving.Verified() > 1 {
		s.checkDrafts(all, cfg, c)
	}
	share := s.gpuShare(cfg)
	cfg.CheckWeights(c, share, s.Section+".capacity_share")
	if c.OK() && !s.KV.InGPUs {
		checkWindow(s.Derive(cfg), c)
	}
	switch {
	case !c.OK():
	case s.KV.OnHost:
		checkHost(cfg, c)
	case s.KV.InDIMM:
		cfg.CheckRanks(c)
	case s.KV.InGPUs:
		if cfg.CheckActivations(c, share); c.OK() {
			checkBudget(s.Derive(cfg), s.Section, c)
		}
	}
	if c.OK() && s.more != nil {
		s.more(cfg, c)
	}
}

// checkPolicy refuses a policy that the system cannot run, and says which systems can.
func (s *System) checkPolicy(all []System, cfg *configs.Config, c *input.Check) {
	if dim := cfg.Model.LatentDim; dim > 0 && !s.takesLatents() {
		c.That(false, "model.latent_dim", dim, "0 with %s = %s: latent attention runs with %s, others have no kernel or unit for it",
			input.Key("run.system"), s.Name, namesOf(all, (*System).takesLatents))
		return
	}
	name, known := cfg.Policy.Name, cfg.Policy.List()
	takes := func(s *System) bool { return slices.Contains(known.At(s.Home), name) }
	if !takes(s) {
		system, runs := input.Key("run.system"), "no system runs it"
		if with := namesOf(all, takes); with != "" {
			runs = "it runs with " + string(system) + " = " + with
		}
		if s.Home == policy.Fetched && cfg.Policy.Dense() { // says how much a step would fetch
			s.more(cfg, c)
			return
		}
		if s.Home == policy.Fetched && slices.Contains(known.At(policy.OnHost), name) {
			runs = "the host's CPUs have a part in it, which fetches leave out; " + runs
		}
		c.That(false, "policy.name", name, "one of %s with %s = %s; %s", strings.Join(known.At(s.Home), ", "), system, s.Name, runs)
		return
	}
	if dim := cfg.Model.LatentDim; dim > 0 {
		c.That(cfg.Policy.Dense() || cfg.Policy.Indexed(), "policy.name", name, "\"dense\" with %s = %d: what a policy leaves out of latents is not modelled", input.Key("model.latent_dim"), dim)
	}
	c.That(cfg.Model.IndexTopK > 0 || !cfg.Policy.Indexed(), "policy.name", name, "a policy that needs no indexer: %s of %s is 0", input.Key("model.index_top_k"), cfg.Model.Name)
	if m := &cfg.Model; m.AttentionParallel == llm.DataAttention {
		onGPUs := func(s *System) bool { return s.Home == policy.OnGPUs || s.Home == policy.Fetched }
		c.That(onGPUs(s), "model.attention_parallel", m.AttentionParallel, "%q with %s = %s: requests are apart on the GPUs of %s alone", llm.TensorAttention, input.Key("run.system"), s.Name, namesOf(all, onGPUs))
	}
	s.checkHeads(all, cfg, c)
	if w := cfg.Model.Window; w > 0 {
		c.That(cfg.Policy.Dense(), "policy.name", name, "\"dense\" with %s = %d: what else a policy leaves out of layers with a window is not modelled", input.Key("model.window"), w)
		c.That(s.Home&(policy.OnGPUs|policy.InHBM|policy.InDIMMs) != 0, "model.window", w,
			"0 with %s = %s, which has no windows by layer; l3, gpu-only and hbm-pim have", input.Key("run.system"), s.Name)
		c.That(!s.KV.InDIMM || cfg.Comm.Stripe == scheduler.StripeNone, "comm.stripe", cfg.Comm.Stripe, "%q with %s = %d", scheduler.StripeNone, input.Key("model.window"), w)
	}
	cfg.Policy.CheckAt(policy.Place{System: s.Name, Where: s.KV.Name, Apart: !s.KV.InGPUs}, c)
	if p := cfg.Policy.Pages(); p != nil {
		s.checkPages(p, cfg, c)
	}
	c.Fails("", cfg.Policy.Fits(flow.PolicyShape(s.Derive(cfg))))
}

// takesLatents says that the system's GPUs or units attend to latents.
func (s *System) takesLatents() bool {
	return s.Home&(policy.OnGPUs|policy.InHBM|policy.InDIMMs|policy.Fetched) != 0
}

// checkHeads refuses heads that the system or its policy does not support: only in layers with a window, or with values of another width than
// keys.
func (s *System) checkHeads(all []System, cfg *configs.Config, c *input.Check) {
	m, key, value, home := &cfg.Model, "model.value_dim", cfg.Model.ValueDim, policy.OnGPUs|policy.InHBM|policy.InDIMMs
	switch {
	case m.HeadsDiffer():
		key, value, home = "model.window_kv_heads", m.WindowKVHeads, policy.OnGPUs
		if value == 0 {
			key, value = "model.window_head_dim", m.WindowHeadDim
		}
	case m.LatentDim > 0 || m.HeadsOf(false).Value == m.HeadDim:
		return
	}
	takes := func(s *System) bool { return s.Home&home != 0 }
	c.That(takes(s), key, value, "0 with %s = %s: such heads run with %s", input.Key("run.system"), s.Name, namesOf(all, takes))
	c.That(cfg.Policy.Dense(), "policy.name", cfg.Policy.Name, "\"dense\" with %s = %d: what a policy leaves out of such heads is not modelled", input.Key(key), value)
}

// checkBudget refuses a budget for keys and values that exceeds the GPUs' free memory.
func checkBudget(h *flow.Hardware, section string, c *input.Check) {
	room := gpus.FreeMemory(h) - h.Config.Workspace()
	c.That(h.KVBudget <= room, section+".kv_memory", h.KVBudget, "at most %v, %d tokens: what weights and activations leave of the GPUs' memory; or 0B for all of it",
		room, room/h.Config.Model.KVBytesOnGPUs())
}

// checkWindow refuses a window that the GPUs cannot hold for a single request beside the
// activations of the shortest chunk of a prompt.
func checkWindow(h *flow.Hardware, c *input.Check) {
	cfg := h.Config
	tokens, _, _ := gpus.Windows(h, flow.PolicyOf(h))
	m := &cfg.Model
	free := units.Bytes(m.TensorParallel)*cfg.GPUMemory(h.GPUShare) - m.WeightBytes() - m.ActivationBytes(cfg.Scheduler.ChunkMultiple)
	most := int(max(free, 0) / m.KVBytesOnGPUs())
	key, window := cfg.Policy.GPUWindow()
	c.That(tokens <= most, key, window, "%d at most, with the sink: what the weights of %s leave of the GPUs holds the keys and values of %d tokens of a request; "+
		"or a larger %s", max(0, most-(tokens-window)), m.Name, most, input.Key("model.tensor_parallel"))
}

// checkStripe refuses what is not modelled with stripes.
func (s *System) checkStripe(cfg *configs.Config, c *input.Check) {
	if cfg.Comm.Stripe == scheduler.StripeNone || !s.KV.InDIMM {
		return
	}
	c.That(cfg.Policy.Pages() == nil && cfg.Policy.Profile == "", "comm.stripe", cfg.Comm.Stripe, "%q with %s = %s or a profile: selected pages lie anywhere, and not evenly over parts",
		scheduler.StripeNone, input.Key("policy.name"), cfg.Policy.Name)
}

// namesOf returns the names of the systems for which can is true.
func namesOf(all []System, can func(s *System) bool) string {
	var with []string
	for i := range all {
		if can(&all[i]) {
			with = append(with, all[i].Name)
		}
	}
	return strings.Join(with, ", ")
}

// checkSpare refuses what is not modelled with requests in the GPUs' spare memory; all is the systems that the configuration could
// name.
func (s *System) checkSpare(all []System, cfg *configs.Config, c *input.Check) {
	off := func(fits bool, why string, args ...any) {
		c.That(fits, "memory.spare", cfg.Memory.Spare, "%q with "+why, append([]any{scheduler.SpareOff}, args...)...)
	}
	if !s.spares {
		with := namesOf(all, func(s *System) bool { return s.spares })
		off(false, "%s = %s: of %s alone the GPUs hold no keys and values and decode all the same", input.Key("run.system"), s.Name, with)
		return
	}
	off(!cfg.Cache.Prefix, "%s = true, whose blocks are in the DIMMs", input.Key("cache.prefix"))
	off(cfg.Predictor.Kind != scheduler.PredictLearned, "%s = %q, which is not told what the GPUs decode", input.Key("predictor.kind"), cfg.Predictor.Kind)
	here := cfg.Policy.List().At(policy.OnGPUs)
	off(slices.Contains(here, cfg.Policy.Name), "%s = %s, which GPUs alone cannot run; they run %s", input.Key("policy.name"), cfg.Policy.Name, strings.Join(here, ", "))
	if p := cfg.Policy.Pages(); p != nil {
		section := "policy." + cfg.Policy.Name
		off(p.SelectDevice == tables.SelectGPU, "%s = %q: only GPUs choose pages of what is on GPUs", input.Key(section+".select_device"), p.SelectDevice)
		off(p.Layout == "row", "%s = %q, which is of the DIMMs", input.Key(section+".layout"), p.Layout)
	}
	if c.OK() {
		h := s.Derive(cfg)
		off(slices.Equal(flow.PolicyOf(h).Runs(), flow.PolicyOf(gpus.OfSpare(h)).Runs()), "%s = %s, whose layers group otherwise on GPUs", input.Key("policy.name"), cfg.Policy.Name)
	}
}

// checkCache has the rules between a cache of prefixes and other keys.
func (s *System) checkCache(cfg *configs.Config, c *input.Check) {
	c.That(s.KV.Keeps, "cache.prefix", true, "false with %s = %s, which has no such cache", input.Key("run.system"), s.Name)
	c.That(cfg.Model.Window == 0, "cache.prefix", true, "false with %s = %d: another prompt may need what has left the window", input.Key("model.window"), cfg.Model.Window)
	c.That(cfg.Policy.Dense() || cfg.Policy.Indexed(), "cache.prefix", true, "false with %s = %s: another prompt may need what it has dropped", input.Key("policy.name"), cfg.Policy.Name)
	c.That(!cfg.Policy.Indexed() || !s.KV.InDIMM, "cache.prefix", true, "false with %s = %s and keys and values %s: the index keys of a prompt are on the GPUs, which free them when its request ends",
		input.Key("policy.name"), cfg.Policy.Name, s.KV.Name)
	c.That(!s.KV.InDIMM || cfg.Comm.Stripe == scheduler.StripeNone, "cache.prefix", true, "false with %s = %q", input.Key("comm.stripe"), cfg.Comm.Stripe)
	if !c.OK() {
		return
	}
	if host := cfg.Cache.HostCapacity; host > 0 {
		c.That(s.KV.InGPUs, "cache.host_capacity", host, "0B with %s = %s, whose keys and values are %s", input.Key("run.system"), s.Name, s.KV.Name)
		c.That(host <= cfg.Node.MemoryCapacity, "cache.host_capacity", host, "at most %s, %v", input.Key("node.memory_capacity"), cfg.Node.MemoryCapacity)
	}
	unit, what := cfg.Batching.PageTokens, any(input.Key("batching.page_tokens"))
	if s.KV.InDIMM {
		g, err := pim.NewGeometry(&cfg.DRAM.Spec, cfg.HeadShape())
		if err != nil {
			return // reported with the ranks
		}
		unit, what = g.RowTokens, "an allocation unit of a rank"
	}
	c.That(cfg.Cache.Block%unit == 0, "cache.block", cfg.Cache.Block, "a multiple of the %d tokens of %s", unit, what)
}

// checkPages has the rules of policies that choose pages: the device that chooses, and pages that
// ranks can read.
func (s *System) checkPages(p *policy.PagesSpec, cfg *configs.Config, c *input.Check) {
	system, section := input.Key("run.system"), "policy."+cfg.Policy.Name
	if s.KV.InGPUs || s.Home&(policy.Fetched|policy.OnHost) != 0 {
		c.That(p.SelectDevice == tables.SelectGPU, section+".select_device", p.SelectDevice, "%q with %s = %s, whose keys and values are %s", tables.SelectGPU, system, s.Name, s.KV.Name)
		c.That(p.Layout == "row", section+".layout", p.Layout, "\"row\" with %s = %s", system, s.Name)
		return
	}
	g, err := pim.NewGeometry(&cfg.DRAM.Spec, cfg.HeadShape())
	if err != nil {
		return // CheckRanks says so
	}
	if p.Layout == "quad" {
		c.That(cfg.PIM.Activation == pim.Staggered, section+".layout", p.Layout, "\"row\" with %s = %q: all banks open one row", input.Key("pim.activation"), cfg.PIM.Activation)
		c.That(p.Page*pim.Quads == g.RowTokens, section+".page", p.Page, "%d with %s = \"quad\": a quad of banks has a quarter of a row", g.RowTokens/pim.Quads, input.Key("layout"))
	}
	part := min(p.Page, g.RowTokens)
	expected := "a multiple of %d tokens with %s = %s, whose banks score as many at once, and a divisor or a multiple of the %d tokens of a row"
	args := []any{g.ChunkTokens, system, s.Name, g.RowTokens}
	if cfg.HeadShape().ScaleBytes > 0 {
		expected, args = expected+", which without scales in it (%s, %s) is a power of two", append(args, input.Key("pim.scales"), input.Key("model.kv_scales"))
	}
	c.That(p.Page%g.ChunkTokens == 0 && g.RowTokens%part == 0 && p.Page%part == 0, section+".page", p.Page, expected, args...)
}

// checkHost requires that the host has room for a token of each replica.
func checkHost(cfg *configs.Config, c *input.Check) {
	token := units.Bytes(cfg.Replicas()) * cfg.Model.KVBytesPerToken()
	share := configs.Section[hosts.CPUOffload](cfg).HostMemory
	c.That(share*float64(cfg.Node.MemoryCapacity) >= float64(token), "node.memory_capacity", cfg.Node.MemoryCapacity,
		"room for keys and values in %s = %v of it: those of a token on each replica take %s", input.Key("cpu_offload.host_memory_share"), share, token)
}
