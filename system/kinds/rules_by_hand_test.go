package kinds

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pim/hbm"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/units"
)

// limits calls check with a default section, changed in one key, and reports which rules it breaks.
func limits[T input.Checked](t *testing.T, system, name string, changes map[string]func(*T)) {
	t.Helper()
	cfg, err := Loader().Load(configs.Options{Sets: []string{"run.system=" + system}})
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range changes {
		s := configs.Section[T](cfg)
		change(&s)
		key, fits := strings.CutPrefix(what, "+")
		key, _, _ = strings.Cut(key, " ")
		faults := input.Faults(s)
		if fits != (len(faults) == 0) || !fits && (len(faults) != 1 || !strings.HasSuffix(faults[0].Key, key)) {
			t.Errorf("%s, %s: %v", name, what, faults)
		}
	}
}

// TestLimitsByHand: the smallest and the largest legal values of systems' sections (+), and those just
// outside.
func TestLimitsByHand(t *testing.T) {
	limits(t, "gpu-only", "gpu_only", map[string]func(*GPUOnly){
		"policy": func(s *GPUOnly) { s.Policy = "prefill" }, "+policy": func(s *GPUOnly) { s.Policy = ChunkedPrefill },
		"kv_memory": func(s *GPUOnly) { s.KVMemory = -1 }, "+kv_memory": func(s *GPUOnly) { s.KVMemory = 1 },
		"kv_tokens -1": func(s *GPUOnly) { s.KVTokens = -1 }, "+kv_tokens 1": func(s *GPUOnly) { s.KVTokens = 1 }, "+kv_tokens": func(s *GPUOnly) { s.KVTokens = 1 << 32 }, "kv_tokens": func(s *GPUOnly) { s.KVTokens = 1<<32 + 1 },
		"kv_tokens both": func(s *GPUOnly) { s.KVTokens, s.KVMemory = 1, 1 },
	})
	limits(t, "hbm-pim", "hbm_pim", map[string]func(*HBMPIM){
		"policy": func(h *HBMPIM) { h.Policy = "" }, "model": func(h *HBMPIM) { h.Model = "" }, "level": func(h *HBMPIM) { h.Level = "" }, "rules": func(h *HBMPIM) { h.Rules = "" }, "sub_batches": func(h *HBMPIM) { h.SubBatches = "" }, "placement": func(h *HBMPIM) { h.Placement = "" },
		"stacks 0": func(h *HBMPIM) { h.Stacks = 0 }, "+stacks 1": func(h *HBMPIM) { h.Stacks = 1 }, "+stacks 64": func(h *HBMPIM) { h.Stacks = 64 }, "stacks 65": func(h *HBMPIM) { h.Stacks = 65 },
		"bandwidth_factor 0": func(h *HBMPIM) { h.BandwidthFactor = 0 }, "+bandwidth_factor": func(h *HBMPIM) { h.BandwidthFactor = 1024 }, "bandwidth_factor": func(h *HBMPIM) { h.BandwidthFactor = 1024.5 }, "+bandwidth_factor 1e-3": func(h *HBMPIM) { h.BandwidthFactor = 1e-3 },
		"capacity_share": func(h *HBMPIM) { h.CapacityShare = 1.01 }, "memory_beside": func(h *HBMPIM) { h.MemoryBeside = -1 }, "+memory_beside": func(h *HBMPIM) { h.MemoryBeside = 1 },
		"link": func(h *HBMPIM) { h.Link = 0 }, "+link": func(h *HBMPIM) { h.Link = 1 }, "feed_forward": func(h *HBMPIM) { h.FeedForward = -0.01 }, "+feed_forward 0": func(h *HBMPIM) { h.FeedForward = 0 }, "+feed_forward": func(h *HBMPIM) { h.FeedForward = 1 }, "feed_forward 2": func(h *HBMPIM) { h.FeedForward = 1.01 },
		"queries_per_read 0": func(h *HBMPIM) { h.QueriesPerRead = 0 }, "+queries_per_read": func(h *HBMPIM) { h.QueriesPerRead = 1024 }, "queries_per_read": func(h *HBMPIM) { h.QueriesPerRead = 1025 },
		"+elements_per_read 2": func(h *HBMPIM) { h.ElementsPerRead = 2 }, "+elements_per_read 4": func(h *HBMPIM) { h.ElementsPerRead = 4 }, "elements_per_read 3": func(h *HBMPIM) { h.ElementsPerRead = 3 }, "elements_per_read 0": func(h *HBMPIM) { h.ElementsPerRead = 0 }, "elements_per_read 5": func(h *HBMPIM) { h.ElementsPerRead = 5 }, "+elements_per_read 1": func(h *HBMPIM) { h.ElementsPerRead = 1 },
	})
	limits(t, "rank-pim", "rank_pim", map[string]func(*RankPIM){
		"policy": func(r *RankPIM) { r.Policy = "" }, "placement": func(r *RankPIM) { r.Placement = "" }, "sub_batches": func(r *RankPIM) { r.SubBatches = "" },
		"+policy": func(r *RankPIM) { r.Policy = ChunkedPrefill }, "+placement": func(r *RankPIM) { r.Placement = PlacementBalanced }, "+sub_batches": func(r *RankPIM) { r.SubBatches = SubBatchesAdaptive },
	})
	limits(t, "gpu+cpu", "gpu_cpu", map[string]func(*GPUCPU){
		"policy": func(s *GPUCPU) { s.Policy = "" }, "attend": func(s *GPUCPU) { s.Attend = "" }, "append": func(s *GPUCPU) { s.Append = "" }, "+attend": func(s *GPUCPU) { s.Attend = OnGPUs }, "+append": func(s *GPUCPU) { s.Append = OnGPUs },
	})
}

// TestTextsOfLimits: the texts of errors about values of sections.
func TestTextsOfLimits(t *testing.T) {
	for _, c := range []struct{ sets, want string }{
		{"run.system=gpu-only gpu_only.kv_tokens=-1", "gpu_only.kv_tokens = -1: expected 0 to 4294967296"}, {"run.system=gpu-only gpu_only.kv_tokens=5 gpu_only.kv_memory=1GiB", "gpu_only.kv_tokens = 5: expected 0 with gpu_only.kv_memory = 1GiB"},
		{"run.system=hbm-pim hbm_pim.bandwidth_factor=0", "more than 0, at most 1024"}, {"run.system=hbm-pim hbm_pim.feed_forward=2", "0 to 1"},
		{"run.system=hbm-pim hbm_pim.elements_per_read=3", "1, 2 or 4"}, {"run.system=hbm-pim hbm_pim.stacks=65", "1 to 64"}, {"run.system=hbm-pim hbm_pim.queries_per_read=0", "1 to 1024"}, {"run.system=hbm-pim hbm_pim.link=0GB/s", "more than 0GB/s"},
		{"run.system=hbm-pim cache.prefix=true hbm_pim.placement=channel", "false with hbm_pim.memory_beside or with hbm_pim.placement = \"channel\": what prompts share is kept in the GPUs' own memory"},
		{"run.system=hbm-pim run.model=llama-3-8b node.gpus=1 model.tensor_parallel=1 hbm_pim.feed_forward=0.25 hbm_pim.memory_beside=1GiB", "room for a page of batching.page_tokens, and for the copies of weights that hbm_pim.feed_forward = 0.25 has there, "},
		{"run.system=sparse-offload policy.name=quest run.model=llama-3-8b policy.quest.budget=4096 sparse_offload.buffer_rows=4095", "sparse_offload.buffer_rows = 4095: expected at least 4096: the tokens that a step of quest attends to"},
		{"run.system=sparse-offload run.model=llama-3-8b", "a policy that chooses rows with run.system = sparse-offload: all 512MiB of a context of 131072 tokens would be fetched in each step and layer"}, // of 4,096 B a token
	} {
		if _, err := Loader().Load(configs.Options{Sets: strings.Fields(c.sets)}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.sets, err, c.want)
		}
	}
}

// TestRoomByHand: what fits exactly is accepted; a byte, a token or a page more is refused, with its key.
func TestRoomByHand(t *testing.T) {
	loads := func(key string, want bool, sets ...string) {
		t.Helper()
		_, err := Loader().Load(configs.Options{Sets: sets})
		if (err == nil) != want || err != nil && !strings.Contains(err.Error(), key) {
			t.Errorf("%v: %v", sets, err)
		}
	}
	h := rigOf(t, "run.system=gpu-only", "run.model=llama-3-8b").Hardware
	room := gpus.FreeMemory(h) - h.Config.Workspace()
	for more, fits := range map[units.Bytes]bool{0: true, 1: false} {
		loads("gpu_only.kv_memory", fits, "run.system=gpu-only", "run.model=llama-3-8b", fmt.Sprintf("gpu_only.kv_memory=%dB", room+more))
	}
	// A page of 16 tokens, and a GPU's copies of a quarter of the columns: 32 layers of three matrices of 4,096 rows and 14,336/4 columns, two bytes each.
	beside := []string{"run.system=hbm-pim", "run.model=llama-3-8b", "node.gpus=1", "model.tensor_parallel=1", "batching.page_tokens=16", "hbm_pim.feed_forward=0.25"}
	least := 16*128*1024 + 32*3*4096*14336/4*2
	for more, fits := range map[int]bool{0: true, -1: false} {
		loads("hbm_pim.memory_beside", fits, append(beside, fmt.Sprintf("hbm_pim.memory_beside=%dB", least+more))...)
	}
	cache := []string{"run.system=gpu-only", "run.model=llama-3-8b", "cache.prefix=true", "batching.page_tokens=16"}
	node := int64(h.Config.Node.MemoryCapacity)
	for set, fits := range map[string]bool{"cache.block=512": true, "cache.block=32": true, fmt.Sprintf("cache.host_capacity=%dB", node): true, fmt.Sprintf("cache.host_capacity=%dB", node+1): false} {
		loads("cache.host_capacity", fits, append(cache, set)...)
	}
	loads("kB\": expected at most node.memory_capacity, 2TiB", false, append(cache, fmt.Sprintf("cache.host_capacity=%dB", node+1))...)
	loads("a multiple of the 48 tokens of batching.page_tokens", false, append(cache[:3:3], "cache.block=512", "batching.page_tokens=48")...)
	for page, fits := range map[int]bool{16: true, 32: true, 512: true, 1024: true, 8: false, 24: false, 48: false, 768: false} { // rows of 512 tokens, of which banks score 16 at once
		loads("policy.quest.page", fits, "run.model=llama-3-8b", "policy.name=quest", "policy.quest.budget=4096", fmt.Sprint("policy.quest.page=", page))
	}
	for set, fits := range map[string]bool{"policy.quest.page=128": true, "policy.quest.page=64": false} {
		loads("policy.quest.page", fits, "run.model=llama-3-8b", "policy.name=quest", "policy.quest.layout=quad", set)
	}
	loads("cache.prefix", false, "run.system=hbm-pim", "cache.prefix=true", "hbm_pim.placement=channel")
	loads("cache.prefix", false, "run.system=hbm-pim", "cache.prefix=true", "hbm_pim.memory_beside=80GiB")
	loads("cache.prefix", true, "run.system=hbm-pim", "cache.prefix=true")
}

// TestFaultByHand: why a system cannot be added to those that ship.
func TestFaultByHand(t *testing.T) {
	type own struct{ GPUOnly }
	whole := System{Name: "my-1+b_c", Memory: gpus.Memory, Assemble: assembleGPUOnly}
	if err := whole.fault(builtin); err != nil {
		t.Error(err)
	}
	keyed := whole
	if keyed.Section, keyed.Zero = "mine", (own{}); keyed.fault(builtin) != nil {
		t.Error(keyed.fault(builtin))
	}
	for why, change := range map[string]func(s *System){
		"expected a name of small letters ": func(s *System) { s.Name = "" }, "expected a name of small letters": func(s *System) { s.Name = "My" }, "expected a name of": func(s *System) { s.Name = "all" },
		"there is a system of this name": func(s *System) { s.Name = "gpu+cpu" }, "expected Memory and Assemble": func(s *System) { s.Memory = nil }, "expected Memory and": func(s *System) { s.Assemble = nil },
		"expected Section, the name": func(s *System) { s.Zero = own{} }, "expected Section": func(s *System) { s.Defaults = "[x]" }, `its Section "a+b": expected small letters`: func(s *System) { s.Section, s.Zero = "a+b", own{} },
		`its Section "gpu_cpu": there is`: func(s *System) { s.Section, s.Zero = "gpu_cpu", own{} }, `its Section "dram": there is`: func(s *System) { s.Section, s.Zero = "dram", own{} },
		"its Zero: expected a type of its own": func(s *System) { s.Section, s.Zero = "mine", GPUOnly{} }, "its Zero": func(s *System) { s.Section = "mine" },
	} {
		s := whole
		if change(&s); s.fault(builtin) == nil || !strings.Contains(s.fault(builtin).Error(), strings.TrimSpace(why)) {
			t.Errorf("%s: %v", why, s.fault(builtin))
		}
	}
	if _, err := Extend(policies.Builtin(), whole, whole); err == nil || !strings.Contains(err.Error(), "there is a system of this name") {
		t.Error(err)
	}
}

// TestPlanningByHand: the keys of hardware that matter to each system.
func TestPlanningByHand(t *testing.T) {
	for i := range builtin {
		s := &builtin[i]
		host := slices.Contains([]string{"l3", "rank-pim", "cpu-offload", "gpu+cpu", "sparse-offload"}, s.Name)
		dimms := slices.Contains([]string{"l3", "rank-pim"}, s.Name)
		if s.Uses("node.memory_capacity") != host || s.Uses("node.ranksets") != dimms || !s.Uses("gpu.memory_capacity") || !s.Uses("anything") {
			t.Errorf("%s: %v, %v", s.Name, s.Uses("node.memory_capacity"), s.Uses("node.ranksets"))
		}
		chunk := map[bool]string{true: "scheduler.min_prefill_tokens", false: "batching.max_num_batched_tokens"}[s.Name == "l3"]
		if all := s.Planning.AllResources(); s.Planning.ChunkKey() != chunk || len(all) != 4+len(s.Planning.Resources) || all[0].Name != "GPU memory" {
			t.Errorf("%s: chunks of %s; %v", s.Name, s.Planning.ChunkKey(), all)
		}
	}
}

// TestSystemsAreDescribed: each system says what it is and whose. The sections that it names exist in the configuration, and its own is among
// them. An operator's keys accept each of the values to try, and keys to double are numbers.
func TestSystemsAreDescribed(t *testing.T) {
	knobs := map[string][]Knob{"l3": {{"scheduler.sub_batches", []string{"2", "1"}}}}
	const (
		dimms, sets, lanes = "DIMM memory node.memory_capacity", "ranksets node.ranksets", "link pcie.lanes"
		cpus               = "CPU bandwidth node.channels, CPU compute cpu_offload.cores"
	)
	short := map[string]string{ // resources that may be short, and the keys that double them
		"l3": dimms + ", " + sets + ", " + lanes, "rank-pim": dimms + ", " + sets + ", " + lanes, "gpu-only": "",
		"hbm-pim": "PIM bandwidth hbm_pim.bandwidth_factor, memory beside hbm_pim.memory_beside", "sparse-offload": dimms + ", " + lanes,
		"cpu-offload": dimms + ", " + cpus + ", " + lanes, "gpu+cpu": dimms + ", " + cpus + ", " + lanes,
	}
	for i := range builtin {
		s := &builtin[i]
		known := Loader().Keys()
		load := func(sets ...string) {
			t.Helper()
			if _, err := Loader().Load(configs.Options{SectionsOnly: true, Sets: append(sets, "run.system="+s.Name)}); err != nil {
				t.Errorf("%s: %v", s.Name, err)
			}
		}
		for name, text := range map[string]string{"hardware": s.Hardware, "schedule": s.Schedule} {
			if len(strings.Fields(text)) < 6 {
				t.Errorf("%s: %s %q", s.Name, name, text)
			}
		}
		if !strings.ContainsAny(s.Source, "0123456789") {
			t.Errorf("%s: no source %q with a year or a section", s.Name, s.Source)
		}
		sections := strings.Split(s.Sections, ", ")
		for _, section := range sections {
			if !known.IsSection(section) {
				t.Errorf("%s: no section %q", s.Name, section)
			}
		}
		if s.Section != "" && sections[0] != s.Section {
			t.Errorf("%s: its section %s is not the first of %s", s.Name, s.Section, s.Sections)
		}
		if !slices.EqualFunc(s.Planning.Knobs, knobs[s.Name], func(a, b Knob) bool { return a.Key == b.Key && slices.Equal(a.Values, b.Values) }) {
			t.Errorf("%s: knobs %v", s.Name, s.Planning.Knobs)
		}
		for _, k := range s.Planning.Knobs {
			for _, value := range k.Values {
				load(k.Key + "=" + value)
			}
		}
		if p := s.Planning.Prefill; p != "" {
			load(p+"="+PrefillFirst, "run.model=llama-3-8b")
			load(p+"="+ChunkedPrefill, "run.model=llama-3-8b")
		}
		var names []string
		for _, r := range s.Planning.Resources {
			names = append(names, r.Name+" "+strings.Join(r.Keys, "+"))
		}
		for _, r := range s.Planning.AllResources() {
			for _, key := range r.Keys {
				if known.Key(key) == nil {
					t.Errorf("%s: no key %q", s.Name, key)
				}
			}
		}
		if got := strings.Join(names, ", "); got != short[s.Name] {
			t.Errorf("%s: too little of %s, want %s", s.Name, got, short[s.Name])
		}
		if s.Planning.VLLM != (s.Name == "gpu-only") || (s.Planning.Prefill == "") != (s.Name == "l3") {
			t.Errorf("%s: %+v", s.Name, s.Planning)
		}
	}
}

// TestLayoutsByHand: whole experts are for mixtures only, and data-parallel attention for mixtures and latents on GPUs
// alone.
func TestLayoutsByHand(t *testing.T) {
	const data, experts = "model.attention_parallel", "model.expert_parallel"
	for _, c := range []struct {
		sets string
		want []string
	}{
		{"gpu-only run.model=llama-3-70b node.gpus=8", nil}, {"gpu-only run.model=mixtral-8x7b", []string{data, experts}}, {"gpu-only run.model=deepseek-v3", []string{data, experts}},
		{"l3 run.model=mixtral-8x7b", []string{experts}}, {"hbm-pim run.model=deepseek-v3", []string{experts}},
		{"gpu-only run.model=llama-3-8b node.gpus=16 model.kv_heads=1 model.latent_dim=512 model.head_dim=576 model.nope_dim=128 model.value_dim=128", []string{data}},
	} {
		cfg, err := Loader().Load(configs.Options{SectionsOnly: true, Sets: strings.Fields("run.system=" + c.sets)})
		if err != nil {
			t.Fatal(c.sets, err)
		}
		var got []string
		for _, k := range Of(cfg).Layouts(&cfg.Model) {
			if got = append(got, k.Key); len(k.Values) != 2 {
				t.Error(k)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.sets, got, c.want)
		}
	}
}

// TestContinuousByHand: how systems of continuous batching form iterations.
func TestContinuousByHand(t *testing.T) {
	for _, c := range []struct {
		sets       string
		subBatches int
		adaptive   bool
		balance    string
		policy     scheduler.Policy
		ahead      bool
		multiple   int
	}{
		{"gpu-only", 1, false, scheduler.BalanceLeastLoaded, scheduler.PolicyPrefillFirst, false, 16},
		{"gpu-only gpu_only.policy=chunked-prefill gpu_only.async_scheduling=true scheduler.chunk_multiple=500 batching.max_num_batched_tokens=300", 1, false, scheduler.BalanceLeastLoaded, scheduler.PolicyChunkedPrefill, true, 300},
		{"hbm-pim scheduler.chunk_multiple=8", 2, false, scheduler.BalanceLeastLoaded, scheduler.PolicyPrefillFirst, false, 8}, {"hbm-pim hbm_pim.sub_batches=adaptive", 2, true, scheduler.BalanceLeastLoaded, scheduler.PolicyPrefillFirst, false, 16},
		{"hbm-pim hbm_pim.sub_batches=never", 1, false, scheduler.BalanceLeastLoaded, scheduler.PolicyPrefillFirst, false, 16},
		{"rank-pim", 1, false, scheduler.BalanceRandom, scheduler.PolicyPrefillFirst, false, 16}, {"rank-pim rank_pim.placement=balanced rank_pim.sub_batches=adaptive rank_pim.policy=chunked-prefill", 2, true, scheduler.BalanceLeastLoaded, scheduler.PolicyChunkedPrefill, false, 16},
		{"cpu-offload", 2, false, scheduler.BalanceLeastLoaded, scheduler.PolicyPrefillFirst, false, 16}, {"gpu+cpu", 1, false, scheduler.BalanceLeastLoaded, scheduler.PolicyPrefillFirst, false, 16},
		{"gpu+cpu gpu_cpu.policy=chunked-prefill", 1, false, scheduler.BalanceLeastLoaded, scheduler.PolicyChunkedPrefill, false, 16},
		{"hbm-pim hbm_pim.policy=chunked-prefill", 2, false, scheduler.BalanceLeastLoaded, scheduler.PolicyChunkedPrefill, false, 16},
		{"cpu-offload gpu_only.policy=chunked-prefill", 2, false, scheduler.BalanceLeastLoaded, scheduler.PolicyChunkedPrefill, false, 16},
	} {
		sets := append(strings.Fields("run.system="+c.sets), "run.model=llama-2-7b", "serving.prefill_streak=7")
		if !strings.Contains(c.sets, "chunk_multiple") {
			sets = append(sets, "scheduler.chunk_multiple=16")
		}
		s := rigOf(t, sets...).loop(nil, nil).Batcher
		if s.Scheduler.SubBatches != c.subBatches || len(s.Batch.Sub) != c.subBatches || s.Scheduler.Adaptive != c.adaptive || s.Comm.Balance != c.balance || s.Policy != c.policy || s.Ahead != c.ahead || !s.Scheduler.Chunking || s.Scheduler.ChunkMultiple != c.multiple || s.PrefillStreak != 7 {
			t.Errorf("%s: %+v, %+v, %+v", c.sets, s.Scheduler, s.Comm, s.Config)
		}
	}
	// Prompts from elsewhere cross a link of 50 GB/s with 128 KiB a token, 20 µs later; prompts that run here cross none.
	here, elsewhere := rigOf(t, "run.system=gpu-only", "run.model=llama-3-8b").loop(nil, nil).Batcher, rigOf(t, "run.system=gpu-only", "run.model=llama-3-8b", "serving.prefill=elsewhere", "serving.prefill_bandwidth=50GB/s", "serving.prefill_latency=20us").loop(nil, nil).Batcher
	if here.Prefilled != nil || elsewhere.Prefilled == nil || elsewhere.Prefilled.Latency != 20*units.Microsecond {
		t.Fatalf("%+v, from elsewhere %+v", here.Prefilled, elsewhere.Prefilled)
	}
	if got, want := elsewhere.Prefilled.Transfer(1000).Seconds(), 1000*131072/50e9; math.Abs(got/want-1) > 1e-6 {
		t.Errorf("a prompt of 1,000 tokens comes in %v s, by hand %v s", got, want)
	}
	// With data-parallel attention on sixteen GPUs, each has a sixteenth of the tokens of an
	// iteration, rounded up.
	for parallel, share := range map[string]int{"data": 63, "tensor": 0} {
		s := rigOf(t, "run.system=gpu-only", "run.model=deepseek-v3", "gpu.preset=h200-sxm", "node.gpus=16", "model.tensor_parallel=16", "batching.max_num_batched_tokens=1000", "model.attention_parallel="+parallel).loop(nil, nil).Batcher
		if s.PromptShare != share {
			t.Errorf("%s: %d tokens of a prompt, by hand %d", parallel, s.PromptShare, share)
		}
	}
	cfg := rigOf(t, "run.model=llama-2-7b", "run.seed=5").Hardware
	n := Setup{Hardware: cfg, Replica: 3}
	if got, want := n.stream(streamPredictor).Uint64(), rand.New(rand.NewPCG(5, 2<<32|3)).Uint64(); got != want || n.stream(streamBalance).Uint64() == want {
		t.Errorf("a stream begins with %d, want %d", got, want)
	}
	for rules, rate := range map[hbm.Rules]int{hbm.AttAcc: 5200, hbm.JEDEC: 6400} {
		if got := (HBMPIM{Rules: string(rules), Level: "bg", PowerLimit: true}).spec(); got != (hbm.Spec{Level: "bg", Rules: rules, Rate: rate, PowerLimited: true}) {
			t.Errorf("%s: %+v", rules, got)
		}
	}
}

// TestProfileByHand: iterations with prompts are kept, each sub-batch with the prompt tokens that the other one moves.
func TestProfileByHand(t *testing.T) {
	a := rigOf(t, "run.model=llama-2-7b").loop(nil, nil)
	e := a.Engine.(*l3)
	p, ok := a.Profiled()
	if _, other := rigOf(t, "run.system=gpu-only").loop(nil, nil).Profiled(); !ok || other {
		t.Fatalf("l3 %v, gpu-only %v", ok, other)
	}
	first := scheduler.SubBatch{Decode: []scheduler.Decoding{{Base: 3000, Prompt: 2000}}, Prefill: []scheduler.Chunk{{Request: 1, Tokens: 96}}}
	second := scheduler.SubBatch{Decode: []scheduler.Decoding{{Request: 2, Base: 5000, Prompt: 2000}}, Prefill: []scheduler.Chunk{{Request: 3, Tokens: 480, Finished: 100, Last: true}}}
	alone := scheduler.SubBatch{Decode: first.Decode}
	for _, subs := range [][]scheduler.SubBatch{{first, second}, {second, {}}, {alone, {}}, {alone, second}} {
		b := &scheduler.Batch{Step: 1, Sub: subs}
		before := len(p.Batches)
		if _, err := e.Run(b, 0); err != nil {
			t.Fatal(err)
		}
		var want []units.Duration
		for i := range subs {
			if other := subs[1-i].PrefillTokens(); subs[i].Tokens() > 0 {
				want = append(want, e.ranks.PIM(&subs[i], 1, other))
			}
		}
		if b.Sub[0].PrefillTokens()+b.Sub[1].PrefillTokens() == 0 {
			if len(p.Batches) != before {
				t.Error("an iteration without prompts is kept")
			}
			continue
		}
		kept := p.Batches[before]
		if len(p.Batches) != before+1 || len(kept) != len(want) {
			t.Fatalf("%d sub-batches of %d are kept", len(kept), len(want))
		}
		for i := range kept {
			sub, layers := &subs[i], units.Duration(e.Model.Layers)
			e.decodeBeside(sub, 1)
			g := e.StageRuns(sub)
			joins := units.Duration(0)
			if len(sub.Decode) > 0 {
				joins = e.join
			}
			if fc := g.Entry + (layers-1)*g.Block + g.Exit + layers*joins; kept[i].PIM != want[i] || kept[i].FC != fc || len(kept[i].Chunks) != len(sub.Prefill) {
				t.Errorf("sub-batch %d: %v and %v with %d chunks, by hand %v and %v", i, kept[i].PIM, kept[i].FC, len(kept[i].Chunks), want[i], fc)
			}
			if context := sub.Decode[0].Base + 1; kept[i].Contexts != context || kept[i].Decoding != 1 || kept[i].PrefillMoved != subs[1-i].MovedTokens() { // in step 1
				t.Errorf("sub-batch %d: %+v, by hand a context of %d", i, kept[i], context)
			}
			for j, c := range kept[i].Chunks {
				if took := layers * g.Layers[0].Prompts; c.Time < took*999/1000 || c.Time > took*1001/1000 {
					t.Errorf("chunk %d takes %v, by hand %v", j, c.Time, took)
				}
			}
		}
	}
}
