package controller

import (
	"maps"
	"slices"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
)

// Policy is the configuration of a memory controller: what the standard leaves
// to its designer. Policies gives the presets; docs/reference/dram.md says what each key does.
type Policy struct {
	Scheduler   string `toml:"scheduler"`    // batch, fr-fcfs or round-robin, see schedulers
	Page        string `toml:"page"`         // open, or closed: an access whose row no queued request wants precharges it
	Mapping     string `toml:"mapping"`      // order of an address's parts, see package mapping
	ReadQueue   int    `toml:"read_queue"`   // entries that accept reads: one that finds the queue full waits, and all behind it
	WriteBuffer int    `toml:"write_buffer"` // entries that accept writes: one that finds the buffer full waits, and all behind it
	BankQueue   int    `toml:"bank_queue"`   // entries of each bank's command queue
	// Writes drain when the buffer holds DrainHigh, down to DrainLow; and when no command is queued and the buffer holds more than DrainIdle. At the
	// end all writes drain.
	DrainHigh int `toml:"drain_high"`
	DrainLow  int `toml:"drain_low"`
	DrainIdle int `toml:"drain_idle"`
	// RowHitLimit is the column accesses to an open row after which the bank's oldest request may close it though others hit.
	RowHitLimit int `toml:"row_hit_limit"`
	// AgeBound is the clocks after which a request goes before those that would gain
	// bandwidth: hits of its bank's open row, the run's direction, the rank that has the bus.
	AgeBound int    `toml:"age_bound"`
	Refresh  string `toml:"refresh"` // all: REF of a whole rank; bank: REFsb or REFpb, so that the other banks go on
	// RefreshPostpone is how many refreshes a rank with queued requests may owe; with Refresh "bank" it holds for each bank.
	// 0 to 8 (JESD79-4, "Refresh Command").
	RefreshPostpone int `toml:"refresh_postpone"`
	// RefreshPullIn is how many refreshes an idle rank, with Refresh "bank" an idle bank, may be ahead. 0 to 8 (as above).
	RefreshPullIn int    `toml:"refresh_pull_in"`
	RefreshClose  string `toml:"refresh_close"` // before REF: all, one PREA; each, PRE bank by bank, as DRAMsim3
	// PowerDown is off, or timeout: a rank for which no request is queued goes into power-down PowerDownAfter clocks after its last access and into
	// self-refresh SelfRefreshAfter clocks after it; 2^30 is never. It leaves them for a request and, power-down, for a refresh that falls due.
	PowerDown        string `toml:"power_down"`
	PowerDownAfter   int    `toml:"power_down_after"`
	SelfRefreshAfter int    `toml:"self_refresh_after"`
}

// never is a limit or bound that no run reaches.
const never = 1 << 30

// defaultPolicy has the queues and the mapping of the comparison with DRAMsim3, with neighbouring bursts in the pseudo-channels by turns.
var defaultPolicy = Policy{
	Scheduler: "batch", Page: "open", Mapping: "rochrababgcopc",
	ReadQueue: 32, WriteBuffer: 32, BankQueue: 8, DrainHigh: 32, DrainLow: 0, DrainIdle: 0,
	RowHitLimit: never, AgeBound: 5000, Refresh: "all", RefreshClose: "all",
	PowerDown: "off", PowerDownAfter: 64, SelfRefreshAfter: 100_000,
}

// policies are the presets, by what each changes of the default. "dramsim3" takes that simulator's decisions.
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
