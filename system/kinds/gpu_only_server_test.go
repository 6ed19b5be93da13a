package kinds

import (
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// TestStepHostTime: each iteration takes the host's time more, for which the GPUs wait.
func TestStepHostTime(t *testing.T) {
	const host = 3 * units.Millisecond
	run := func(sets ...string) (end units.Duration, iterations int64, waits units.Duration) {
		l := rigOf(t, append(sets, "run.system=gpu-only")...).replica(equal(3, 300, 20))
		end, err := l.run(func(*scheduler.Batch, units.Duration, units.Duration) { iterations++ })
		if err != nil {
			t.Fatal(err)
		}
		return end, iterations, l.Engine.Core().Work.Time[flow.OfGPUWaits+int(flow.ForHost)]
	}
	plain, n, none := run()
	slow, m, waits := run("gpu_only.step_host_time=3ms")
	if added := host * units.Duration(n); n < 20 || n != m || slow-plain != added || waits-none != added {
		t.Errorf("%d and %d iterations in %v and %v, the host is waited for %v", n, m, plain, slow, waits)
	}
}

// TestKVBudget: a budget in bytes or in tokens leaves whole pages for no more, and one beyond what is free is refused.
func TestKVBudget(t *testing.T) {
	all := rigOf(t, "run.system=gpu-only")
	token := all.cfg.Model.KVBytesPerToken()
	free := all.Memory.Unit * units.Bytes(all.Memory.Capacity)
	for set, want := range map[string]units.Bytes{"gpu_only.kv_tokens=1000": 1000 * token, "gpu_only.kv_memory=4GiB": 4 * units.GiB, "gpu_only.kv_tokens=0": free} {
		m := rigOf(t, "run.system=gpu-only", set).Memory
		if got := m.Unit * units.Bytes(m.Capacity); got > want || got <= want-m.Unit {
			t.Errorf("%s: %v, want %v in pages of %v", set, got, want, m.Unit)
		}
	}
}
