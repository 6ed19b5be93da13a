package ranks

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/scheduler/memory"
)

// TestBoundWindows: ranks with 5 whole and 10 windowed heads, and with 4 and 12, hold at most as much as 5 and 11; if
// ranks hold only one kind, the whole heads bound both.
func TestBoundWindows(t *testing.T) {
	of := func(whole, ring int) (c []memory.HeadClass) {
		return []memory.HeadClass{{Heads: whole, TokenBytes: 512}, {Heads: ring, TokenBytes: 512, Most: 128}}
	}
	for _, c := range []struct {
		on         [][]memory.HeadClass
		most, want []memory.HeadClass
	}{
		{[][]memory.HeadClass{of(5, 10), of(4, 12)}, of(5, 12), of(5, 11)},
		{[][]memory.HeadClass{of(12, 0)[:1], of(0, 12)[1:]}, of(12, 12), of(12, 0)[:1]},
	} {
		spec := memory.LedgerSpec{Classes: c.most}
		if boundWindows(&spec, c.on); !slices.Equal(spec.Classes, c.want) {
			t.Errorf("%+v: bound by %+v, want %+v", c.on, spec.Classes, c.want)
		}
	}
}

// TestAlikeLayersByHand: 6 layers on 4 ranksets, two on each of the first two and one on each of the others, from a request's offset. A window of
// 512 tokens in blocks of 128 keeps a prompt's last 384 tokens on the GPUs; the 2,048 before it fill 4 units of 512 tokens in each head and layer.
func TestAlikeLayersByHand(t *testing.T) {
	for sets, away := range map[string]int{"policy.name=window policy.window.window=512 policy.window.block=128": 384, "policy.name=dense": 0} {
		for layers, most := range map[int]int64{6: 2, 8: 2, 4: 1, 3: 1} {
			h := benchOf(t, append(strings.Fields(sets), "run.model=llama-2-7b", "node.ranksets=4", fmt.Sprint("model.layers=", layers))...).hw
			heads := int64(32 / h.Config.ReplicaChannels())
			for _, rotation := range []bool{true, false} {
				l := Ledger(h, rotation)
				room := int64(h.Config.RankRoom() / rankUnitBytes(h))
				r, ok := l.Reserve(memory.Prompted(2048+away), nil, 0, nil)
				if got, want := l.Used(), int64(layers)*heads*4; !ok || got != want || l.HeldBy(&r) != want {
					t.Errorf("%s, %d layers, rotation %t: %d units, by hand %d", sets, layers, rotation, got, want)
				}
				if !rotation {
					most = int64(layers)
				}
				if fits := int(room / (most * heads)); !l.FitsEmpty(memory.Prompted(fits*512+away)) || l.FitsEmpty(memory.Prompted(fits*512+away+1)) {
					t.Errorf("%s, %d layers, rotation %t: not %d units of a head fit the fullest rank", sets, layers, rotation, fits)
				}
			}
		}
	}
}
