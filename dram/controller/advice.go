package controller

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
)

// A report names the rules that bound the data buses if three conditions hold: the buses are busy for less than busyBus of the time (which
// refreshes and bus turnarounds leave to a stream), requests wait for rules in at least half of the rest, and the rule takes at least
// boundShare of the time. All thresholds are our choice; a twentieth is what refreshes take of DDR4 (tRFC / tREFI).
const (
	busyBus    = 0.9
	boundShare = 0.05
)

// A setting is advised if it moves at least 1/gain more data a second in a trial with the first requests.
const (
	trialRequests = 20_000
	gain          = 20
)

// boundReport is a rule that keeps data buses idle while requests wait.
type boundReport struct {
	Wait
	Meaning       string  `json:"meaning"`
	AccessesShare float64 `json:"share_of_accesses"`
	BusShare      float64 `json:"bus_share"` // share of the time of all data buses
}

// Advice is a setting with which the first requests of a trace move more data a second than with the given set-up.
type Advice struct {
	Set      string  `json:"set"` // KEY=VALUE
	Requests int     `json:"requests"`
	GBPerS   float64 `json:"gb_per_s"`
	Before   float64 `json:"gb_per_s_before"`
}

// causes describe the accesses that a rule delays; they follow the rule's share in the text.
var causes = [...]string{
	ownGroup:    "follow one of their own bank group",
	writesFirst: "are reads that follow writes",
	readsFirst:  "are writes that follow reads",
	otherRank:   "follow one of another rank",
	rowOpens:    "wait until their row is open",
	bankRow:     "wait for a bank that has to close another row",
	activates:   "wait for a row, and the rank may open none yet",
	refreshes:   "wait for a refresh",
	wakes:       "wait for a rank that leaves a power state",
	otherwise:   "wait for another command",
}

// bounds returns the rules that bound the buses, the largest share first. accesses is the number of bursts, clocks the time of all buses,
// and busy the share that bursts take.
func bounds(waits []Wait, accesses int64, clocks, busy float64) []boundReport {
	var list []boundReport
	waited := int64(0)
	for _, k := range waits {
		waited += k.Clocks
	}
	if busy >= busyBus || float64(waited) < (1-busy)*clocks/2 {
		return nil
	}
	for _, k := range waits {
		if share := float64(k.Clocks) / clocks; share >= boundShare {
			list = append(list, boundReport{k, causes[k.cause], float64(k.Accesses) / float64(accesses), share})
		}
	}
	return list
}

// writeBounds writes a line of cells for each rule, and one for the advice.
func (r *Report) writeBounds(w io.Writer) {
	for i, b := range r.Bounds {
		name := "  bound by"
		if i > 0 {
			name = ""
		}
		fmt.Fprintf(w, "%s\t%s: idle %.1f%%\t%.2g%% of accesses %s\n", name, b.Rule, 100*b.BusShare, 100*b.AccessesShare, b.Meaning)
	}
	if a := r.Advice; a != nil {
		fmt.Fprintf(w, "  avoided by\t%s\t%.3f in place of %.3f GB/s, the first %d requests\n", a.Set, a.GBPerS, a.Before, a.Requests)
	}
}

// settings are those that may avoid waits, by the cause that takes most of the time.
func (s *Setup) settings(of cause) []string {
	var list []string
	pseudo := ""
	if s.Spec.Rules().PseudoChannels > 1 && s.Ranks%s.Spec.Rules().PseudoChannels == 0 {
		pseudo = "pc"
	}
	switch of {
	case ownGroup, rowOpens, bankRow, activates, otherRank:
		// Mappings that put neighbouring addresses in other banks; in one row, bank groups first; in one row.
		for _, order := range []string{"rocorababgch", "rochrabacobg", "rochrababgco"} {
			list = append(list, "mapping="+order+pseudo)
		}
		if of == bankRow {
			list = append(list, "page=closed")
		}
	case writesFirst, readsFirst:
		list = append(list, "write_buffer=128 drain_high=128", "mapping=rocorababgch"+pseudo)
	case refreshes:
		if len(s.Spec.Rules().Refreshes) > 1 {
			list = append(list, "refresh=bank")
		}
	}
	return slices.DeleteFunc(list, func(set string) bool { return set == "mapping="+s.Policy.Mapping })
}

// Advise tries settings against the bounds in a report, with the first requests of the trace. It returns the best setting, or nil if none
// gains enough.
func (s *Setup) Advise(ctx context.Context, r *Report, requests []Request) (*Advice, error) {
	if len(r.Bounds) == 0 {
		return nil, nil
	}
	requests = requests[:min(len(requests), trialRequests)]
	before, err := s.rate(ctx, requests)
	if err != nil {
		return nil, err
	}
	best := Advice{Requests: len(requests), Before: before, GBPerS: before * (1 + 1.0/gain)}
	for _, set := range s.settings(r.Bounds[0].cause) {
		policy := *s.Policy
		other := *s
		other.Policy = &policy
		for _, one := range strings.Fields(set) {
			key, value, _ := strings.Cut(one, "=")
			if err := other.Set(key, value); err != nil {
				return nil, err
			}
		}
		if other.Validate() != nil {
			continue // the setting does not apply to the part or the set-up
		}
		rate, err := other.rate(ctx, requests)
		if err != nil {
			return nil, err
		}
		if rate > best.GBPerS {
			best.Set, best.GBPerS = set, rate
		}
	}
	if best.Set == "" {
		return nil, nil
	}
	return &best, nil
}

// rate returns the gigabytes a second that a replay moves.
func (s *Setup) rate(ctx context.Context, requests []Request) (float64, error) {
	stats, err := s.Replay(ctx, requests, nil)
	if err != nil {
		return 0, err
	}
	return NewReport(s, "", stats, 0).GBPerS, nil
}
