package kinds

import (
	"cmp"
	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/ranks"
	"github.com/l3sim/l3sim/units"
)

// System is one of the systems that a node can be: L3 or one that its paper compares it with
// (section 6.1). All share the queues and the models of GPUs, memory and links.
type System struct {
	Name     string   `json:"name"`     // value of run.system: small letters, digits, "-", "_" and "+"
	Others   []string `json:"-"`        // other names, in lower case: run.system refuses these and names the system
	Hardware string   `json:"hardware"` // where keys and values are and what attends over them
	Schedule string   `json:"schedule"`
	Source   string   `json:"source"`
	Sections string   `json:"sections"`  // of the configuration, for this system alone
	Host     bool     `json:"host_dram"` // it uses the host's memory

	// Section is the name of the system's own section of the configuration, "" for none. Zero is a value of the
	// section's type. Defaults is the section in TOML, where each number has a comment with its source.
	Section  string        `json:"-"`
	Zero     input.Checked `json:"-"`
	Defaults string        `json:"-"`

	KV   flow.Place   `json:"-"` // where keys and values are
	Home policy.Homes `json:"-"` // where keys and values are, as Policy.Homes of policies names it; 0: a place for dense attention alone
	// share returns the usable share of the GPUs' memory; nil for all of it.
	share func(cfg *configs.Config) float64
	// budget returns the memory of a replica for keys and values within that share; nil or 0: all that is free.
	budget func(cfg *configs.Config) units.Bytes
	// drafts says that decode steps may verify several tokens of a request.
	drafts bool
	// receives says that keys and values of prompts can come from other servers.
	receives bool
	// spares says that the GPUs can decode requests in memory that weights leave (memory.spare); otherwise they hold no keys and
	// values.
	spares bool
	// Remark returns the system's own assumptions behind results; nil or "" for none.
	Remark func(cfg *configs.Config) string `json:"-"`
	// Planning is what a planner of servers needs of the system.
	Planning Planning `json:"-"`
	// more has rules between sections for this system alone; nil for none.
	more func(cfg *configs.Config, c *input.Check)
	// Memory returns the memory of a replica for keys and values.
	Memory func(h *flow.Hardware) flow.KVMemory `json:"-"`
	// Assemble builds a replica.
	Assemble func(n *Setup) Assembly `json:"-"`
}

// Places of keys and values.
var (
	kvInDIMMs = flow.Place{Name: "in the DIMMs", InDIMM: true, Keeps: true}
	kvOnGPUs  = flow.Place{Name: "on its GPUs", InGPUs: true, Keeps: true}
)

// Derive returns the hardware of a node of the system.
func (s *System) Derive(cfg *configs.Config) *flow.Hardware {
	s = cmp.Or(s, &System{})
	h := &flow.Hardware{Config: cfg, KV: s.KV, GPUShare: s.gpuShare(cfg)}
	if s.budget != nil {
		h.KVBudget = s.budget(cfg)
	}
	return h
}

// Policies returns the policies of package policy that the system takes, values of policy.name.
func (s *System) Policies() []string {
	s = cmp.Or(s, &System{})
	return policies.Builtin().At(s.Home)
}

// gpuShare returns the share of the GPUs' memory that the system's own hardware leaves for data.
func (s *System) gpuShare(cfg *configs.Config) float64 {
	if s.share == nil {
		return 1
	}
	return s.share(cfg)
}

// Values of the policy keys of several systems.
const (
	PrefillFirst   = "prefill-first"
	ChunkedPrefill = "chunked-prefill"
)

// BatchingPolicies returns the values of the policy keys of several systems.
func BatchingPolicies() []string { return []string{PrefillFirst, ChunkedPrefill} }

// PrefillSpec is the key of a system's section that says when prompts run.
type PrefillSpec struct {
	Policy string `toml:"policy"` // PrefillFirst or ChunkedPrefill
}

// Check has the rule of the key.
func (s PrefillSpec) Check(c *input.Check) { input.OneOf(c, "policy", s.Policy, BatchingPolicies()...) }

// Measure runs the programs of the system's hardware on the models of its memory. Its errors name keys of the
// configuration.
func (s *System) Measure(h *flow.Hardware) (t CommandTables, err error) {
	switch {
	case s == nil || h == nil || h.Config == nil:
		return t, &input.Error{Key: "hardware", Value: "nil", Expected: "that of a system, as Derive returns"}
	case s.KV.InDIMM:
		t.Kernels, err = ranks.KernelsOf(h)
	default:
		t.Stack, err = newStack(h.Config)
	}
	return t, err
}
