package ranks

import (
	"errors"
	"sync"
	"testing"
)

// TestEqualRanksShareKernels: nodes share measurements exactly if their kernels are equal.
func TestEqualRanksShareKernels(t *testing.T) {
	small := func(sets []string) []string { return append([]string{"pim.score_buffer=8KiB"}, sets...) }
	load := func(sets ...string) *bench { return benchOf(t, small(sets)...) }
	quest := func(more ...string) []string {
		return append([]string{"policy.name=quest", "policy.quest.select_device=rank"}, more...)
	}
	same := [][]string{{"run.requests=3"}, {"run.model=gpt-89b"}, {"node.gpus=16"}, {"serving.router=least-kv"}, {"comm.balance=split"}, {"energy.bank_unit=2"}}
	other := [][]string{
		{"dram.tRFC=500"}, {"pim.mac_latency=9"}, {"pim.processing_unit=rank"}, {"model.kv_bits=8"},
		{"comm.stripe=channels"}, {"policy.name=window"}, {"pim.power_limit=10"}, {"pim.power_limit=11"}, {"pim.power_limit=10", "energy.ranks_per_dimm=1"},
		{"pim.power_limit=10", "energy.bank_unit=2"}, {"pim.power_limit=10", "node.memory_capacity=512GiB"}, quest(), quest("policy.quest.top_k_latency=77"), quest("policy.quest.select_device=bank"), quest("policy.quest.select_group=max"),
	}
	if testing.Short() {
		other = other[:2] // the race detector needs the parallel nodes below
	}
	of := func(sets ...string) ranks {
		r, err := ranksOf(hardwareOf(t, small(sets)...))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	base := of()
	for _, sets := range same {
		if of(sets...) != base {
			t.Errorf("%v: measured again", sets)
		}
	}
	seen := map[ranks][]string{base: nil}
	for _, sets := range other {
		r := of(sets...)
		if as, known := seen[r]; known {
			t.Errorf("%v: taken for %v", sets, as)
		}
		seen[r] = sets
	}
	var nodes [4]*bench
	var all sync.WaitGroup
	for i := range nodes {
		all.Go(func() { nodes[i] = load() })
	}
	all.Wait()
	for _, n := range nodes {
		if n.kernels != nodes[0].kernels {
			t.Fatal("equal nodes measured their ranks twice")
		}
	}
	if n := load("dram.tRFC=500"); n.kernels == nodes[0].kernels || n.kernels.Table.WithRefresh(1<<40) == nodes[0].kernels.Table.WithRefresh(1<<40) {
		t.Error("another tRFC: the same kernels")
	}
}

// TestMeasuredIsBounded: a sweep over ranks keeps the kernels of a few ranks.
func TestMeasuredIsBounded(t *testing.T) {
	var m recent[ranks, *Kernels]
	of := func(i int) *once[*Kernels] {
		r := ranks{}
		r.pim.MACLatency = i
		return m.of(r)
	}
	for i := range 3 * mostMeasured {
		if known := of(i); of(i) != known {
			t.Fatalf("ranks %d are forgotten at once", i)
		}
		if len(m.by) > mostMeasured {
			t.Fatalf("%d ranks are known, at most %d may be", len(m.by), mostMeasured)
		}
	}
}

// TestOldestIsForgotten: recently used kernels stay; of the others, those measured last.
func TestOldestIsForgotten(t *testing.T) {
	var m recent[int, int]
	measured := 0
	get := func(i int) {
		if v, err := m.get(i, func() (int, error) { measured++; return 10 * i, nil }); v != 10*i || err != nil {
			t.Fatalf("%d: got %d, %v", i, v, err)
		}
	}
	for i := range 3 * mostMeasured {
		get(i)
		get(0)
	}
	if measured != 3*mostMeasured {
		t.Errorf("%d values are measured %d times", 3*mostMeasured, measured)
	}
	for i := 2*mostMeasured + 1; i < 3*mostMeasured; i++ {
		get(i)
	}
	if measured != 3*mostMeasured {
		t.Errorf("the last %d are measured again", mostMeasured-1)
	}
	if get(1); measured != 3*mostMeasured+1 {
		t.Error("the second one is known still")
	}
	failed := errors.New("failed")
	if _, err := m.get(-1, func() (int, error) { return 1, failed }); err != failed {
		t.Errorf("got %v", err)
	}
	get(-1)
}

// TestPacesShareHeads: heads are measured once for all power limits, and each limit keeps its own
// pace.
func TestPacesShareHeads(t *testing.T) {
	const buffer = "pim.score_buffer=16KiB"
	measuredHeads.by = nil
	free := benchOf(t, buffer)
	slow, slower := benchOf(t, buffer, "pim.power_limit=10"), benchOf(t, buffer, "pim.power_limit=9")
	if n := len(measuredHeads.by); n != 1 {
		t.Errorf("%d tables of heads", n)
	}
	if a, b, c := free.kernels.Table.Attention(4096), slow.kernels.Table.Attention(4096), slower.kernels.Table.Attention(4096); a >= b || b >= c {
		t.Errorf("4,096 tokens take %d clocks, at 10 W %d, at 9 W %d", a, b, c)
	}
}
