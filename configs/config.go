package configs

import (
	"cmp"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/energy"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/pcie"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// Config is one complete configuration: what to run, on which hardware, under which policies. It is read-only once loaded. The toml tags
// are exactly the keys of configuration files.
type Config struct {
	Preset string    `toml:"preset"` // the system preset below all layers
	Run    Run       `toml:"run"`
	Model  llm.Model `toml:"model"` // starts from the preset that Run.Model names
	Devices
	Scheduling
	Policy policy.Spec `toml:"policy"` // sparse attention policy

	Batching scheduler.BatchingSpec `toml:"batching"` // batching of the systems that L3 is compared with
	// Sections are the systems' own sections; Section returns one of them. They must not be changed in place.
	Sections []any
	Workload
	Energy  energy.Spec         `toml:"energy"` // power of a node's parts other than GPUs and DRAM chips
	Prices  Prices              `toml:"prices"`
	Cache   scheduler.CacheSpec `toml:"cache"`
	Content Content             `toml:"content"`

	loader       *Loader
	sectionsOnly bool // see Options
	notes        []string
}

// ReadingNotes returns remarks on how the configuration's files were read, such as an unknown model type.
func (c *Config) ReadingNotes() []string { return slices.Clone(c.notes) }

// Devices are the hardware of a node.
type Devices struct {
	Node Node      `toml:"node"`
	DRAM DRAM      `toml:"dram"`
	PIM  pim.Spec  `toml:"pim"`
	GPU  GPU       `toml:"gpu"`
	PCIe pcie.Spec `toml:"pcie"`
}

// Scheduling is the sections of L3's scheduler.
type Scheduling struct {
	Scheduler scheduler.Spec          `toml:"scheduler"`
	Memory    scheduler.MemorySpec    `toml:"memory"`
	Comm      scheduler.CommSpec      `toml:"comm"`
	Predictor scheduler.PredictorSpec `toml:"predictor"`
}

// Workload is the requests and their latency targets.
type Workload struct {
	Traces   traces.SyntheticSpec  `toml:"traces"` // how the lengths of built-in traces are drawn
	Arrivals traces.ArrivalSpec    `toml:"arrivals"`
	Serving  scheduler.ServingSpec `toml:"serving"`
	SLO      scheduler.SLO         `toml:"slo"`
}

// Run says what is simulated.
type Run struct {
	System string `toml:"system"` // simulated system, see 'l3sim config systems'
	Model  string `toml:"model"`  // preset or file that [model] starts from
	Trace  string `toml:"trace"`  // built-in name or path of a file
	// Columns describes what a trace file does not say itself: any of input=NAME,output=NAME, arrival=NAME, unit=s|ms|us|ns, session=NAME
	// and block=TOKENS (prompt tokens for each hash), joined by commas; "" adds nothing.
	Columns string `toml:"columns"`
	// CommonTo restricts the trace to requests that all of some systems can hold, so that their throughputs cover the same work: system
	// names joined by commas, "all" that run the policy, or "" for the whole trace.
	CommonTo string `toml:"common_to"`
	// Requests is the number of requests: 0 for all of a file, or for the default number of a built-in trace.
	Requests int    `toml:"requests"`
	Seed     uint64 `toml:"seed"` // of all random draws
	// Variant names one of the preset's alternative sets of keys for the system; "" uses none. If nobody sets it, runs and sweeps try all
	// variants and report the one with the highest throughput of requests that meet the targets of [slo].
	Variant string `toml:"variant"`
}

// Check has the rules of the section [run].
func (r *Run) Check(c *input.Check) {
	// TOML is UTF-8.
	c.That(r.Trace != "" && utf8.ValidString(r.Trace), "trace", r.Trace, "the name of a built-in trace or a file, in UTF-8")
	if r.Columns != "" {
		_, err := traces.ParseColumns(r.Columns)
		c.Fails("columns", err)
	}
	c.That(r.Requests >= 0, "requests", r.Requests, "at least 0")
}

// Node is the number of GPUs, channels and ranks, and the memory of the node.
type Node struct {
	GPUs     int `toml:"gpus"`     // of the node; model.tensor_parallel of them share a replica
	Channels int `toml:"channels"` // memory channels of the host; each of a DDR5 DIMM's two sub-channels is one
	// Ranksets is the number of ranks on each channel; one rank of every channel
	// forms a rankset (L3, section 5.1).
	Ranksets int `toml:"ranksets"`
	// MemoryCapacity is the capacity of all DIMMs. It decides how many dies of [dram] share each position of a rank (dram.dies); the timing
	// is that of one die.
	MemoryCapacity units.Bytes `toml:"memory_capacity"`
}

// Check has the rules of the section [node].
func (n *Node) Check(c *input.Check) {
	input.Within(c, "gpus", n.GPUs, 1, 4096)
	input.Within(c, "channels", n.Channels, 1, 4096)
	input.Within(c, "ranksets", n.Ranksets, 1, 1024)
	c.That(n.MemoryCapacity >= 1, "memory_capacity", n.MemoryCapacity, "more than 0B")
}

// RankCapacity returns the bytes of one rank, including check bits stored in line with the data: see Config.RankRoom.
func (n *Node) RankCapacity() units.Bytes {
	return n.MemoryCapacity / units.Bytes(max(1, n.Channels*n.Ranksets))
}

// RankDies returns the number of dies at each position of a rank: dram.dies, or the number that gives its capacity.
func (c *Config) RankDies() int { return cmp.Or(c.DRAM.Dies, c.capacityDies()) }

// capacityDies returns the number of dies at each position that gives a rank its capacity.
func (c *Config) capacityDies() int {
	each := max(1, c.DRAM.LayerBytes())
	return int((c.Node.RankCapacity() + each - 1) / each)
}

// RankSpec returns the DRAM part with the rank's number of dies, for its energy.
func (c *Config) RankSpec() *dram.Spec {
	s := c.DRAM.Spec
	s.Dies = c.RankDies()
	return &s
}

// checkDies checks that dram.dies agrees with the capacity.
func (c *Config) checkDies(k *input.Check) {
	given, want := c.DRAM.Dies, c.capacityDies()
	k.That(given == 0 || given == want, "dram.dies", given, "%d, or 0 for as many as it takes: %s = %v on %s * %s = %d ranks of %d positions, dies of %s",
		want, input.Key("node.memory_capacity"), c.Node.MemoryCapacity, input.Key("node.channels"), input.Key("node.ranksets"), c.Node.Channels*c.Node.Ranksets, c.DRAM.Chips(), c.DieText())
}

// DieText names the density of a die: 8Gb.
func (c *Config) DieText() string {
	return fmt.Sprintf("%.4gGb", float64(c.DRAM.LayerBytes())*8/float64(max(1, c.DRAM.Chips()))/(1<<30))
}

// RankRoom returns the usable bytes of one rank, without in-line ECC.
func (c *Config) RankRoom() units.Bytes { return c.DRAM.Usable(c.Node.RankCapacity()) }

// DRAM is the section [dram]: a standard part and what differs from it.
type DRAM struct {
	// Preset is the part from which the section starts: a preset, a file with a section [dram], or a table of a standard. FILE.toml:PART
	// names one of several parts in a table.
	Preset string `toml:"preset"`
	dram.Spec
}

// Prices is the section [prices]: a dated list and what differs from it.
type Prices struct {
	Preset string `toml:"preset"` // list or file from which the section starts
	energy.Prices
}

// GPU is the section [gpu]: a measured part and what differs from it.
type GPU struct {
	Preset string `toml:"preset"` // preset or file from which the section starts
	// Fit names the table of the GPU's kernel parameters, embedded or a file; "" if the section has the parameters itself.
	Fit string `toml:"fit,optional"`
	gpu.Spec
	Price float64 `toml:"price,optional"` // USD for each GPU; 0 takes the price list's
}

// Check has the rules of the section [gpu].
func (g *GPU) Check(c *input.Check) {
	g.Spec.Check(c)
	c.That(g.Price >= 0 && g.Price <= 1e9, "price", g.Price, "0 to 1e9 USD")
}

// AttendsToAll reports whether decode attention covers the whole context in every layer and head, and layers keep no other state.
func (c *Config) AttendsToAll() bool {
	return c.Policy.Dense() && c.Model.Window == 0 && c.Model.IndexTopK == 0
}

// Replicas returns the number of data-parallel model replicas on the node's GPUs.
func (c *Config) Replicas() int { return c.Node.GPUs / max(1, c.Model.TensorParallel) }

// ReplicaChannels returns the number of memory channels of one replica.
func (c *Config) ReplicaChannels() int { return c.Node.Channels / max(1, c.Replicas()) }

// DIMMs returns the number of DIMMs of the node, from the ranks that a DIMM has on a channel. A DDR5 DIMM has ranks on both of its
// sub-channels.
func (c *Config) DIMMs() int {
	channels := (c.Node.Channels + c.DRAM.Rules().SubChannels - 1) / c.DRAM.Rules().SubChannels
	ranks := max(1, c.Energy.RanksPerDIMM)
	return channels * ((c.Node.Ranksets + ranks - 1) / ranks)
}

// HeadShape returns the shape of one KV head on the DIMMs. Each token that a step verifies has one query for each query head.
func (c *Config) HeadShape() pim.HeadShape {
	h := pim.HeadShape{HeadDim: c.Model.HeadDim, Queries: c.Model.QueryGroup() * c.Serving.Verified(), ElementBits: c.Model.ElementBits, KVBits: c.Model.StoredBits(), KVFloat: c.Model.KVFloat()}
	h.KeyGroup = c.Model.KeyGroup()
	if value := c.Model.HeadsOf(false).Value; value != h.HeadDim {
		h.ValueDim = value
	}
	if c.PIM.Scales == pim.ScalesInRows {
		h.ScaleBytes = c.Model.KVScaleBytes()
	}
	return h
}
