package controller

import (
	"maps"
	"slices"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
)

// Policy is the configuration of a memory controller: the choices that the standard leaves to the designer. Policies has the presets;
// docs/reference/dram.md describes each key.
type Policy struct {
	Scheduler   string `toml:"scheduler"`    // batch, fr-fcfs or round-robin, see schedulers
	Page        string `toml:"page"`         // open, or closed: an access precharges its row if no queued request wants it
	Mapping     string `toml:"mapping"`      // order of an address's parts, see package mapping
	ReadQueue   int    `toml:"read_queue"`   // entries of the read queue; a read that finds it full waits, and blocks all later requests
	WriteBuffer int    `toml:"write_buffer"` // entries of the write buffer; a write that finds it full waits, and blocks all later requests
	BankQueue   int    `toml:"bank_queue"`   // entries of each bank's command queue
	// Writes drain from DrainHigh entries in the buffer down to DrainLow, and also when no command is queued and the buffer holds more than
	// DrainIdle. At the end all writes drain.
	DrainHigh int `toml:"drain_high"`
	DrainLow  int `toml:"drain_low"`
	DrainIdle int `toml:"drain_idle"`
	// RowHitLimit is the number of column accesses to an open row after which the bank's oldest request may close it, even if others hit.
	RowHitLimit int `toml:"row_hit_limit"`
	// AgeBound is the age in clocks from which a request goes before those preferred for bandwidth: row hits, the run's direction, the rank
	// that has the bus.
	AgeBound int    `toml:"age_bound"`
	Refresh  string `toml:"refresh"` // all: REF of a whole rank; bank: REFsb or REFpb, while the other banks continue
	// RefreshPostpone is the number of refreshes that a rank with queued requests may postpone; with Refresh "bank" it applies to each
	// bank. 0 to 8 (JESD79-4, "Refresh Command").
	RefreshPostpone int `toml:"refresh_postpone"`
	// RefreshPullIn is the number of refreshes that an idle rank (or bank, with Refresh "bank") may pull in. 0 to 8 (as above).
	RefreshPullIn int    `toml:"refresh_pull_in"`
	RefreshClose  string `toml:"refresh_close"` // before REF: all, one PREA; each, PRE bank by bank, as in DRAMsim3
	// PowerDown is off or timeout. With timeout, a rank without queued requests enters power-down PowerDownAfter clocks after its last
	// access, and self-refresh SelfRefreshAfter clocks after it; 2^30 is never. It leaves both for a request, and power-down also for a due
	// refresh.
	PowerDown        string `toml:"power_down"`
	PowerDownAfter   int    `toml:"power_down_after"`
	SelfRefreshAfter int    `toml:"self_refresh_after"`
}

// never is a limit beyond any run.
const never = 1 << 30

// defaultPolicy has the queues and the mapping of the comparison with DRAMsim3, and alternates pseudo-channels between neighbouring bursts.
var defaultPolicy = Policy{
	Scheduler: "batch", Page: "open", Mapping: "rochrababgcopc",
	ReadQueue: 32, WriteBuffer: 32, BankQueue: 8, DrainHigh: 32, DrainLow: 0, DrainIdle: 0,
	RowHitLimit: never, AgeBound: 5000, Refresh: "all", RefreshClose: "all",
	PowerDown: "off", PowerDownAfter: 64, SelfRefreshAfter: 100_000,
}

// policies are the presets, as changes to the default. "dramsim3" makes that simulator's decisions.
var policies = []struct {
	name   string
	change func(p *Policy)
}{
	{"default", func(*Policy) {}},
	{"fr-fcfs", func(p *Policy) { p.Scheduler = "fr-fcfs" }},
	{"dramsim3", func(p *Policy) {
		p.Scheduler, p.DrainIdle, p.RowHitLimit, p.AgeBound = "round-robin", 8, 4, never
		p.RefreshClose, p.PowerDownAfter, p.SelfRefreshAfter = "each", never, 1000
	}},
}

// LookupPolicy returns a copy of the named preset, or an input.Error that lists the names.
func LookupPolicy(name string) (*Policy, error) {
	for _, p := range policies {
		if p.name == name {
			policy := defaultPolicy
			p.change(&policy)
			return &policy, nil
		}
	}
	return nil, input.UnknownName("policy", name, PolicyNames())
}

// PolicyNames returns the names of the presets.
func PolicyNames() []string {
	var names []string
	for _, p := range policies {
		names = append(names, p.name)
	}
	return names
}

// Check has the rules of the section [policy]. Setup.Validate checks Mapping.
func (p *Policy) Check(c *input.Check) {
	input.OneOf(c, "scheduler", p.Scheduler, slices.Sorted(maps.Keys(schedulers))...)
	input.OneOf(c, "page", p.Page, "open", "closed")
	input.OneOf(c, "refresh", p.Refresh, "all", "bank")
	input.OneOf(c, "refresh_close", p.RefreshClose, "all", "each")
	input.OneOf(c, "power_down", p.PowerDown, "off", "timeout")
	input.Within(c, "power_down_after", p.PowerDownAfter, 0, never)
	input.Within(c, "self_refresh_after", p.SelfRefreshAfter, 0, never)
	input.Within(c, "read_queue", p.ReadQueue, 1, 4096)
	input.Within(c, "write_buffer", p.WriteBuffer, 1, 4096)
	input.Within(c, "bank_queue", p.BankQueue, 1, 64)
	input.Within(c, "drain_high", p.DrainHigh, 1, p.WriteBuffer)
	input.Within(c, "drain_low", p.DrainLow, 0, p.DrainHigh-1)
	input.Within(c, "drain_idle", p.DrainIdle, 0, p.WriteBuffer)
	input.Within(c, "row_hit_limit", p.RowHitLimit, 1, never)
	input.Within(c, "age_bound", p.AgeBound, 100, never)
	input.Within(c, "refresh_postpone", p.RefreshPostpone, 0, dram.MaxRefreshDebt)
	input.Within(c, "refresh_pull_in", p.RefreshPullIn, 0, dram.MaxRefreshDebt)
}
