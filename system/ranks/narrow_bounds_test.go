package ranks

import (
	"strings"
	"testing"
)

// TestBoundsOfNarrowKeys: bounds of pages have FP16 and no scales, whatever format keys and values have.
func TestBoundsOfNarrowKeys(t *testing.T) {
	of := func(sets string) *Devices {
		return devicesOf(benchOf(t, append(strings.Fields(sets), "run.model=llama-3-8b", "policy.name=quest", "policy.quest.select_device=bank")...))
	}
	wide := of("").written
	for _, sets := range []string{"model.kv_bits=8", "model.kv_bits=4", "model.kv_format=fp8", "model.kv_bits=8 model.kv_scales=tensor"} {
		got := of(sets).written
		if got.TokenBursts() != 4 || got.ScaleBursts(1, 30) != 0 || got.Write(1, 30) != wide.Write(1, 30) {
			t.Errorf("%s: %d bursts of a bound, %d of scales, %d clocks for 30; want 4, 0 and %d", sets, got.TokenBursts(), got.ScaleBursts(1, 30), got.Write(1, 30), wide.Write(1, 30))
		}
	}
}
