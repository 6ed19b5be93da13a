package controller_test

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/check"
	"github.com/l3sim/l3sim/dram/controller"
)

// TestReplayCounts: on every standard, a stream that saturates the data buses uses each for at most all of the time; the ranks' counts add
// up to the total, and refreshes of ranks or banks are those of the log.
func TestReplayCounts(t *testing.T) {
	for _, standard := range dram.Standards() {
		for _, refresh := range []string{"all", "bank"} {
			if refresh == "bank" && len(standard.Refreshes) < 2 {
				continue
			}
			spec, err := standard.Part(standard.PartNames()[0])
			if err != nil {
				t.Fatal(err)
			}
			policy, err := controller.LookupPolicy("default")
			if err != nil {
				t.Fatal(err)
			}
			policy.Refresh, policy.Mapping = refresh, "rochcobabgra"
			s := &controller.Setup{Spec: spec, Policy: policy, Channels: 2, Ranks: standard.PseudoChannels}
			requests := make([]controller.Request, 12_000)
			for i := range requests {
				requests[i].Address = uint64(i * spec.BurstBytes())
			}
			var text [2]bytes.Buffer
			logs := []*check.LogWriter{check.NewLogWriter(&text[0], check.LogHeader{}), check.NewLogWriter(&text[1], check.LogHeader{})}
			stats, err := s.Replay(t.Context(), requests, []dram.Observe{logs[0].Write, logs[1].Write})
			if err != nil {
				t.Fatal(err)
			}
			r := controller.NewReport(s, "default", stats, 0)
			shares := 0.0
			for _, k := range r.ByRank {
				if shares += k.BusShare; k.BusShare > 1 {
					t.Errorf("%s: a rank has its bus for %v of the time", spec.Name, k.BusShare)
				}
			}
			if mean := shares / float64(2*standard.PseudoChannels); r.BusUtilization > 1 || r.BusUtilization < 0.5 || math.Abs(mean-r.BusUtilization) > 1e-12 {
				t.Errorf("%s: buses %v busy, by rank %v", spec.Name, r.BusUtilization, mean)
			}
			logged, printed := "", bytes.Buffer{}
			for i := range logs {
				if err := logs[i].Flush(); err != nil {
					t.Fatal(err)
				}
				logged += text[i].String()
			}
			r.WriteLines(&printed)
			sum := int64(0)
			for name, n := range map[string]int64{"REF": r.REF, "REFsb": r.REFsb, "REFpb": r.REFpb} {
				sum += n
				if n != int64(strings.Count(logged, ","+name+",")) || n > 0 && !strings.Contains(printed.String(), fmt.Sprintf(", %s %d", name, n)) {
					t.Errorf("%s, refresh of %s: %d %s in\n%s", spec.Name, refresh, n, name, printed.String())
				}
			}
			if sum == 0 {
				t.Errorf("%s, refresh of %s: no refresh", spec.Name, refresh)
			}
		}
	}
}
