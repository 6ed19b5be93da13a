package gpus

import (
	"fmt"
	"sync"
	"testing"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/units"
)

// TestSharedCosts: replicas with equal GPUs and models share costs, which equal those of a model used by one replica. With another model, other GPUs
// or more tokens a decode step, they share none.
func TestSharedCosts(t *testing.T) {
	one, same := New(gpusOf(t)), New(gpusOf(t))
	var group sync.WaitGroup
	for _, d := range []*GPUs{&one, &same} {
		group.Go(func() {
			for n := range 100 {
				d.Dense.At(n)
				d.head.At(n)
			}
		})
	}
	group.Wait()
	alone := gpu.NewModelCost(&one.hw.Config.GPU.Spec, one.Model)
	for _, n := range []int{1, 17, 99} {
		embedding, qkv, _, _ := alone.Layers(n)
		head, _ := alone.Head(n)
		if d := one.Dense.At(n); d != same.Dense.At(n) || d.entry != sumOf(embedding).plus(sumOf(qkv)) || one.head.At(n) != same.head.At(n) || one.head.At(n).kernelSum != sumOf(head) {
			t.Errorf("%d tokens: %+v", n, d)
		}
	}
	for _, sets := range [][]string{{"model.layers=5"}, {"gpu.sms=64"}, {"serving.verified_tokens=2", "serving.acceptance=0.5"}} {
		if other := New(gpusOf(t, sets...)); other.Dense.At(9) == one.Dense.At(9) || other.head.At(9) == one.head.At(9) {
			t.Error(sets)
		}
	}
}

// TestForgets: costs of many models are not kept for ever.
func TestForgets(t *testing.T) {
	var k knownCosts
	for i := range 3 * mostKnown {
		x := &costed{verified: i}
		if a := k.of(x); k.of(x) != a || len(k.by) > mostKnown {
			t.Fatal(fmt.Sprint(i, ": ", len(k.by)))
		}
	}
}

// TestTimes: a time is computed once for each count, and each time anew where caches are off.
func TestTimes(t *testing.T) {
	asked, anew := 0, &anew{}
	m := Times{of: func(n int) units.Duration { asked++; return units.Duration(3*n + 1) }, anew: anew}
	for _, n := range []int{5, 2, 5, 900, 2, 0} {
		if got := m.At(n); got != units.Duration(3*n+1) {
			t.Errorf("%v at %d", got, n)
		}
	}
	if anew.set = true; m.At(5) != 16 || asked != 5 {
		t.Errorf("asked %d times, by hand 5", asked)
	}
}
