package controller

import (
	"math"
	"testing"

	"github.com/l3sim/l3sim/dram"
)

// TestPostponedRefreshWaits: under load the first REF that may not be
// postponed any more issues late in its tREFI: as late as closing all banks
// of all ranks may take, and before the ninth falls due.
func TestPostponedRefreshWaits(t *testing.T) {
	s := setup(t, "default")
	s.Ranks, s.Policy.RefreshPostpone = 1, 8
	_, records := replayLog(t, s, streamReads(60_000))
	for _, r := range records {
		if r.Command != dram.REF {
			continue
		}
		ninth := int64(9 * s.Spec.TREFI)
		// tRC, CWL + BL/2 + tWR, a PRE a bank and tRP.
		margin := int64(74 + 16 + 4 + 24 + 16 + 22)
		if r.Clock >= ninth || r.Clock < ninth-margin {
			t.Errorf("the first REF issues at clock %d, want %d to %d", r.Clock, ninth-margin, ninth-1)
		}
		return
	}
	t.Error("no REF")
}

// TestIdleRefreshWaits: a rank pulls REFs in only while it has no work, and has
// had none for tRC.
func TestIdleRefreshWaits(t *testing.T) {
	s := setup(t, "default")
	s.Ranks, s.Policy.RefreshPullIn = 1, 8
	// The rank is eight REFs ahead long before the next falls due at 12,480.
	due := int64(s.Spec.TREFI)
	stats, records := replayLog(t, s, []Request{{Clock: due - 10}, {Clock: due + 60, Address: nextColumn}})
	if stats.RowHits != 1 || stats.Latency.Max() > 60 {
		t.Errorf("the second read finds its row closed: %v", records)
	}
	stats, _ = replayLog(t, s, streamReads(20_000))
	if ahead := stats.Count(dram.REF) - stats.EndClock/due; ahead > 0 {
		t.Errorf("a busy rank pulls %d REFs in", ahead)
	}
}

// TestIdleEnergy: four idle ranks draw their precharge standby, and REFs on
// average IDD5B for tRFC of every tREFI.
func TestIdleEnergy(t *testing.T) {
	s := setup(t, "default")
	stats, _ := replayLog(t, s, []Request{{Clock: 100 * 12480}})
	seconds := float64(stats.EndClock) * 625e-12
	watts := stats.Energy.TotalJoules() / seconds
	want := 4 * 8 * 1.2 * 1e-3 * (37 + (250-37)*560/12480.)
	if math.Abs(watts/want-1) > 0.005 {
		t.Errorf("%v W, want %v W", watts, want)
	}
}
