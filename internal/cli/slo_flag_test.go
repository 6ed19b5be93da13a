package cli

import (
	"fmt"
	"strings"
	"testing"
)

// TestTargetFlags: --slo names at most one percentile of each latency, and an error suggests what was meant.
func TestTargetFlags(t *testing.T) {
	for value, want := range map[string]string{
		"ttft=2s,tbt=100ms":               "slo.ttft=2s slo.tbt=100ms",
		"tpot=50ms, e2e=60s":              "slo.tpot=50ms slo.e2e=60s",
		"tbt.p90=80ms,tbt.p99.tokens=.2s": "slo.tbt_percentile=90 slo.tbt=80ms slo.p99.tbt=.2s",
		"ttft=2s,ttft.p50=1s,e2e.p95=1s":  "slo.ttft=2s slo.p50.ttft=1s slo.p95.e2e=1s",
		"ttft":                            `--slo = "ttft": expected NAME=TIME`,
		"tbt.p98=1s":                      `did you mean "tbt.p90"?`,
		"ttfb=1s":                         `did you mean "ttft"?`,
		"ttft.p90.tokens=1s":              `did you mean "tbt.p90.tokens"?`,
		"tbt=1s,tbt.p50=1s":               "one percentile of a request's own gaps",
		"":                                `--slo = "": expected`,
	} {
		flags, err := targetFlags(value)
		got := fmt.Sprint(err)
		if err == nil {
			var all []string
			for _, f := range flags {
				all = append(all, f.Key+"="+f.Value)
			}
			got = strings.Join(all, " ")
		}
		if !strings.Contains(got, want) || err == nil && got != want {
			t.Errorf("%q: got %s, want %s", value, got, want)
		}
	}
}
