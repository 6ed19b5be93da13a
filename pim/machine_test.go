package pim

import (
	"testing"

	"github.com/l3sim/l3sim/dram"
)

// ddr4 returns the device of L3's Table 2.
func ddr4(t testing.TB) *dram.Spec {
	t.Helper()
	d, err := dram.LookupSpec("ddr4-3200-8gb-x8")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// fp16Head is one query head of d = 128 in FP16.
var fp16Head = HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16}

// runHead returns the clocks of one head without append and refresh, and the
// machine that ran it.
func runHead(t testing.TB, spec *Spec, shape HeadShape, context int, periodic bool) (int64, *machine) {
	t.Helper()
	d := ddr4(t)
	p, err := newProgram(spec, d, shape, []headRun{{context: context}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := newMachine(spec, d)
	if err != nil {
		t.Fatal(err)
	}
	m.periodic.on = periodic
	return m.run(p), m
}

// closedForm is docs/pim-timing.md's: four clocks a token, a row switch for
// each further row of keys and of values, and a fixed part. A row of a few
// tokens is not held up by tRAS at d = 128.
func closedForm(context int, simultaneous bool) int64 {
	const rp, rcd, rtp, cl, cwl, burst, ccdl = 22, 22, 12, 22, 16, 4, 8
	const mac, softmax, qBursts, partialBursts, contextBursts = 4, 28, 4, 4, 16
	a := int64(3*34 + 3*4)
	if simultaneous {
		a = 0
	}
	load := max(cwl+qBursts*burst, a+rcd)
	reopen := rtp + rp + a + rcd
	readOut := int64(mac + cl + partialBursts*burst + softmax + cwl + burst)
	drain := int64(max(mac+cl+contextBursts*burst, rtp+rp))
	rows := int64((context+511)/512 - 1)
	// Scores take whole chunks of 16, values whole columns of 4.
	reads := int64((context+15)/16*4+(context+3)/4) * ccdl
	return reads + 2*rows*(reopen-ccdl) + load + max(reopen, readOut) - ccdl + drain - ccdl
}

func TestClosedForm(t *testing.T) {
	for _, simultaneous := range []bool{false, true} {
		spec := Default()
		fixed := int64(380)
		if simultaneous {
			spec.Activation = Simultaneous
			fixed = 196
		}
		for _, context := range []int{1, 7, 16, 17, 32, 48, 496, 500, 512, 513, 528, 1024, 1040, 8192} {
			got, _ := runHead(t, spec, fp16Head, context, false)
			want := closedForm(context, simultaneous)
			if context == 16 && want != 64+fixed {
				t.Fatalf("the closed form has a fixed part of %d, want %d", want-64, fixed)
			}
			if got != want {
				t.Errorf("%s, %d tokens: %d clocks, closed form %d", spec.Activation, context, got, want)
			}
		}
	}
}

// A path from command to use of 4,096 clocks is the longest that the machine
// remembers.
func TestLongestLatency(t *testing.T) {
	d, spec := ddr4(t), Default()
	spec.SoftmaxLatency = 4096 - d.CL - d.BurstClocks()
	if _, err := newMachine(spec, d); err != nil {
		t.Error(err)
	}
	spec.SoftmaxLatency++
	if _, err := newMachine(spec, d); err == nil {
		t.Error("a path of 4,097 clocks is accepted")
	}
}

// The goal is 20 million commands a second on one core.
func BenchmarkMachine(b *testing.B) {
	for _, c := range []struct {
		name    string
		queries int
	}{{"mha", 1}, {"gqa8", 8}} {
		b.Run(c.name, func(b *testing.B) {
			shape := fp16Head
			shape.Queries = c.queries
			t, err := newTableBuilder(Default(), ddr4(b), shape)
			if err != nil {
				b.Fatal(err)
			}
			t.machine.periodic.on = false
			t.attention(32768)
			b.ReportAllocs()
			commands := int64(0)
			for b.Loop() {
				t.attention(32768)
				for _, n := range t.machine.counters.commands {
					commands += n
				}
			}
			b.ReportMetric(float64(commands)/b.Elapsed().Seconds()/1e6, "Mcommands/s")
		})
	}
}
