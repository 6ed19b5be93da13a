package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/controller/mapping"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
)

// Setup is a memory system: channels, ranks, a DRAM part and a policy.
type Setup struct {
	Spec     *dram.Spec
	Policy   *Policy
	Channels int
	Ranks    int // ranks of a channel
	// RequestBytes is the size of a request without its own: a power of two, at most a row, that divides addresses. 0 is the line of
	// DefaultRequestBytes around the address, and OneBurst the burst around it.
	RequestBytes int
}

// made returns the error for a set-up without a part or a policy.
func (s *Setup) made() error {
	switch {
	case s == nil:
		return &input.Error{Key: "memory", Value: "nil", Expected: "a set-up with a part and a policy, as NewDRAM returns"}
	case s.Policy == nil:
		return &input.Error{Key: "policy", Value: "nil", Expected: "one of a controller, as LookupPolicy returns"}
	}
	return s.Spec.Given()
}

// Check has the rules of the whole set-up except its mapping.
func (s *Setup) Check(c *input.Check) {
	if err := s.made(); err != nil {
		c.Fails("", err)
		return
	}
	s.Spec.Check(c)
	s.Policy.Check(c)
	input.Within(c, "channels", s.Channels, 1, 256)
	input.Within(c, "ranks", s.Ranks, 1, dram.MaxRanks)
	if c.OK() {
		s.checkStandard(c)
		s.checkRequestBytes(c)
	}
}

// checkStandard has the rules across policy and standard.
func (s *Setup) checkStandard(c *input.Check) {
	table := s.Spec.Rules()
	c.That(s.Ranks%table.PseudoChannels == 0, "ranks", s.Ranks, "as many in each of the %d pseudo-channels of %s", table.PseudoChannels, table.Name)
	c.That(s.Policy.Refresh == "all" || len(table.Refreshes) > 1, "refresh", s.Policy.Refresh, "all: %s refreshes no banks alone", table.Name)
	for _, cmd := range []dram.Command{dram.PDE, dram.PDX, dram.SRE, dram.SRX} {
		c.That(s.Policy.PowerDown == "off" || table.Action(cmd).Known, "power_down", s.Policy.PowerDown, "off: %s has no %v", table.Name, cmd)
		c.That(s.Policy.PowerDown == "off" || table.Action(cmd).Span >= table.Action(dram.REF).Span, "power_down", s.Policy.PowerDown,
			"off: %v of %s concerns fewer ranks than REF", cmd, table.Name)
	}
	if most, less := s.Spec.Managed(); most > 0 {
		_, known := managementCommand(table, s.Policy)
		c.That(known, "RAAMMT", most, "0: %s has no RFM, which bounds the activations of a bank", table.Name)
		c.That(less > 0 && less <= most, "RAAIMT", less, "1 to RAAMMT = %d: what an RFM takes off a bank's activations", most)
	}
	postpone := table.Postpone
	if s.Policy.Refresh == "bank" {
		postpone-- // the last tREFI is left to the refreshes of other banks, which go first
	}
	input.Within(c, "refresh_postpone", s.Policy.RefreshPostpone, 0, postpone)
	input.Within(c, "refresh_pull_in", s.Policy.RefreshPullIn, 0, table.PullIn)
	if c.OK() && s.Policy.Refresh == "bank" {
		took, access := s.bankRefreshes(), s.Spec.LongestAccess()
		c.That(s.Spec.TREFI >= took+2*access, "tREFI", s.Spec.TREFI,
			"at least %d with refresh = bank: the refreshes of all banks take %d, and two accesses of %d clocks between them", took+2*access, took, access)
	}
}

// bankRefreshes returns the clocks in which every bank refreshes once, each as soon after the last as the standard allows.
func (s *Setup) bankRefreshes() int {
	table := s.Spec.Rules()
	cmd, steps := table.Refreshes[1].Command, 0
	spans, _ := spansOf(s.Spec, cmd, s.Ranks)
	for _, row := range s.Spec.Constraints() {
		if row.Command != cmd || row.Next != cmd {
			continue
		}
		refreshes := 1 // successive refreshes at this distance
		switch row.Scope {
		case dram.SameRank:
			refreshes = len(spans) / s.Ranks
		case dram.SamePseudoChannel:
			refreshes = len(spans) / table.PseudoChannels
		case dram.SameChannel:
			refreshes = len(spans)
		}
		steps = max(steps, refreshes*row.Clocks/max(1, row.Window))
	}
	return (steps + int(s.Spec.BusSteps(1)) - 1) / int(s.Spec.BusSteps(1))
}

// Validate returns the first fault of the set-up.
func (s *Setup) Validate() error {
	if err := input.Validate(s); err != nil {
		return err
	}
	_, err := s.Mapping()
	return err
}

// Mapping returns the address mapping of the set-up.
func (s *Setup) Mapping() (*mapping.Mapping, error) {
	if err := s.made(); err != nil {
		return nil, err
	}
	return mapping.New(s.Policy.Mapping, s.Spec, s.Channels, s.Ranks)
}

// Replay runs a trace. Each channel accepts its requests in order, at most one burst a clock. Channels are independent, so they run in
// parallel and give the same statistics with any number of processors. logs observe the commands of each channel; logs, or any element, may
// be nil.
func (s *Setup) Replay(ctx context.Context, requests []Request, logs []dram.Observe) (*Stats, error) {
	if err := cmp.Or(s.Validate(), input.Ended(ctx)); err != nil {
		return nil, err
	}
	if err := ascend(requests); err != nil {
		return nil, err
	}
	if err := s.checkRequests(requests); err != nil {
		return nil, err
	}
	to, err := s.Mapping()
	if err != nil {
		return nil, err
	}
	splitter := newSplitter(s.Spec, to, s.Channels, s.requestBytes())
	parts, total, shared := [][]Request{requests}, &Stats{}, 0
	if s.Channels > 1 {
		parts, shared = splitter.deal(requests)
	}
	stats := make([]*Stats, s.Channels)
	errs := make([]error, s.Channels)
	var wg sync.WaitGroup
	for i := range parts {
		var log dram.Observe
		if logs != nil {
			log = logs[i]
		}
		c := newController(s.Spec, s.Policy, to, s.Ranks, log)
		c.front.splitter = splitter
		c.front.splitter.channel = i
		wg.Go(func() { stats[i], errs[i] = c.run(ctx, parts[i]) })
	}
	wg.Wait()
	for i := range stats {
		if errs[i] != nil {
			return nil, errs[i]
		}
		total.add(stats[i])
	}
	total.addShared(shared, stats, s.Spec.BusSteps(1))
	return total, nil
}

// ascend returns the error for requests from a program whose clock is negative, too late, or before the previous request's. Readers of
// files refuse such requests.
func ascend(requests []Request) error {
	last := int64(0)
	for i := range requests {
		clock := requests[i].Clock
		if clock < last || clock > dram.MaxClock {
			return &input.Error{Key: fmt.Sprintf("request %d: clock", i), Value: strconv.FormatInt(clock, 10), Expected: fmt.Sprintf("%d to %d", last, int64(dram.MaxClock))}
		}
		last = clock
	}
	return nil
}

// Set sets a field by its configuration key: of the part ("tRFC", "dram.tRFC") or of the policy ("page", "policy.page"). Call Validate
// after the last one.
func (s *Setup) Set(key, value string) error {
	if err := s.made(); err != nil {
		return err
	}
	part, policy := schema.Of[dram.Spec](), schema.Of[Policy]()
	ofPart, isPart := strings.CutPrefix(key, "dram.")
	ofPolicy, isPolicy := strings.CutPrefix(key, "policy.")
	own := s.Spec.Rules().TimingNames()
	switch {
	case isPart, !isPolicy && (part.Key(key) != nil || slices.Contains(own, key)):
		return s.Spec.Set(ofPart, value)
	case isPolicy, policy.Key(key) != nil:
		return policy.Set(s.Policy, ofPolicy, value)
	}
	return &input.Error{Key: key, Expected: "a key of the part or of the policy",
		Nearest: input.Nearest(key, slices.Concat(part.Names(), policy.Names(), own))}
}
