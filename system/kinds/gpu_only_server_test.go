package kinds

import (
	"testing"

	"github.com/l3sim/l3sim/units"
)

// TestKVBudget: a budget in bytes or tokens leaves as many whole pages as it has room for; one above the free memory
// is refused.
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
