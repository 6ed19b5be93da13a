package system

import (
	"slices"
	"sync"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
)

// System is one of the systems that a node can be: L3 or one that its paper
// compares it with (section 6.1). All share the models of GPUs, memory and links,
// and the queues.
type System struct {
	Name     string `json:"name"`     // value of run.system
	Hardware string `json:"hardware"` // where keys and values are and what attends over them
	Schedule string `json:"schedule"`
	Source   string `json:"source"`
	Sections string `json:"sections"`  // of the configuration, that are its own
	Host     bool   `json:"host_dram"` // it uses the host's memory

	// section is the name of its own section of the configuration, "" for none, zero a value
	// of the section's type, defaults the section in TOML, where each number has a comment.
	section  string
	zero     input.Checked
	defaults string
	kv       place
	home     policy.Homes // where its keys and values are, for policies; 0: a place that takes dense attention alone
	// share is the share of the GPUs' memory that may be used, nil for all of it.
	share func(cfg *configs.Config) float64
	// memory is that for keys and values of a replica.
	memory   func(h *hardware) kvMemory
	assemble func(n *setup) assembly
}

// Places of keys and values.
var (
	kvInDIMMs = place{name: "in the DIMMs", inDIMM: true, keeps: true}
	kvOnGPUs  = place{name: "on its GPUs", inGPUs: true, keeps: true}
)

// derive returns what a node of the system consists of.
func (s *System) derive(cfg *configs.Config) *hardware {
	return &hardware{Config: cfg, kv: s.kv, gpuShare: s.gpuShare(cfg)}
}

// all is the list of all systems. Their functions look systems up in it.
var all []System

func init() {
	all = append([]System{l3System, gpuOnlySystem, hbmPIMSystem, rankPIMSystem, cpuOffloadSystem, gpuCPUSystem}, all...)
}

// otherNames are what a system is called by those who know what it stands for.
var otherNames = map[string][]string{
	"gpu-only": {"vllm", "sglang", "tgi", "tensorrt-llm", "orca", "sarathi", "sarathi-serve", "gpu", "gpus", "baseline"},
	"hbm-pim":  {"attacc", "neupims", "pim", "hbm"}, "rank-pim": {"hermes", "r-pim", "dimm-pim"},
	"cpu-offload": {"neo", "fastdecode", "offload", "cpu"}, "gpu+cpu": {"hgca", "csattention", "h2o"},
}

// systemOf returns the system of a name that has been validated.
func systemOf(name string) *System {
	i := slices.IndexFunc(all, func(s System) bool { return s.Name == name })
	return &all[i]
}

// hardwareOf returns what a node of a validated configuration consists of.
func hardwareOf(cfg *configs.Config) *hardware { return systemOf(cfg.Run.System).derive(cfg) }

// loader loads configurations of all systems, with the policies of package policy.
var loader = sync.OnceValue(func() *configs.Loader { return newConfigs(policy.Builtin()) })

// newConfigs returns the loader of configurations of all systems with some policies.
func newConfigs(policies *policy.List) *configs.Loader {
	known := make([]configs.System, len(all))
	for i := range all {
		s := &all[i]
		known[i] = configs.System{Name: s.Name, Others: otherNames[s.Name], Section: s.section, Zero: s.zero, Defaults: s.defaults, Check: s.check}
	}
	return configs.New(policies, known...)
}

// Policies returns the policies of package policy that the system takes, values of policy.name.
func (s *System) Policies() []string { return policy.Builtin().At(s.home) }

// gpuShare returns the share of the GPUs' memory that may be used.
func (s *System) gpuShare(cfg *configs.Config) float64 {
	if s.share == nil {
		return 1
	}
	return s.share(cfg)
}

// Values of the keys policy of several systems.
const (
	PrefillFirst   = "prefill-first"
	ChunkedPrefill = "chunked-prefill"
)

// policies are the values of the keys policy of several systems.
func policies() []string { return []string{PrefillFirst, ChunkedPrefill} }

// measure runs the programs of the hardware of a node of the system on the models of its memory, and tells errors
// in terms of the configuration.
func (s *System) measure(h *hardware) (t commandTables, err error) {
	if s.kv.inDIMM {
		t.kernels, err = kernelsOf(h)
	} else {
		t.stack, err = newStack(h.Config)
	}
	return t, err
}

// Register adds a system of a caller's own to the list, before the first configuration is loaded.
func Register(s System) { all = append(all, s) }
