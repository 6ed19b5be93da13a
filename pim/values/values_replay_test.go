package values

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
)

// Replayed in the order of the timed run, with each datum valid only from its
// clock, the program gives the same bits.
func TestReplayGivesTheSameValues(tb *testing.T) {
	rapid.Check(tb, func(t *rapid.T) {
		drawProblem(tb, t).replay(t)
	})
}

// replay compares the values of a problem in program order with those by the clock.
func (p *valueProblem) replay(t *rapid.T) {
	p.spec.Activation = rapid.SampledFrom([]string{pim.Staggered, pim.Simultaneous}).Draw(t, "activation")
	p.spec.SoftmaxLatency = rapid.IntRange(0, 200).Draw(t, "softmax latency")
	m, program, data := p.machine(t)
	results, err := m.run(program, data)
	if err != nil {
		t.Fatal(err)
	}
	var want []float32
	for i := range results {
		for _, out := range results[i].out {
			want = append(want, out...)
		}
	}
	again, program, data := p.machine(t)
	clock, err := machine.NewMachine(p.spec, p.device)
	if err != nil {
		t.Fatal(err)
	}
	clock.Refresh.On = rapid.Bool().Draw(t, "refresh")
	results, err = replayed(again, clock, program, data, [2][][]uint16{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := range results {
		for _, out := range results[i].out {
			for _, got := range out {
				if !sameBits(got, want[n]) {
					t.Fatalf("head %d: %g in program order, %g by the clock", i, want[n], got)
				}
				n++
			}
		}
	}
}

// A replay of many rows, with the refreshes that fall between them.
func TestReplayOfALongHead(t *testing.T) {
	deep.Heavy(t)
	spec := precision("fp32")
	shape := pim.HeadShape{HeadDim: 128, Queries: 2, ElementBits: 16}
	m, p, data := storedHead(t, spec, shape, 30000, 1)
	heads := p.Heads
	results, err := m.run(p, data)
	if err != nil {
		t.Fatal(err)
	}
	want := append(slices.Clone(results[0].out[0]), results[0].out[1]...)
	clock, err := machine.NewMachine(spec, parts.DDR4(t))
	if err != nil {
		t.Fatal(err)
	}
	clock.Refresh.On = true
	p.Restart(heads)
	if results, err = replayed(m, clock, p, data, [2][][]uint16{}); err != nil {
		t.Fatal(err)
	}
	if got := append(slices.Clone(results[0].out[0]), results[0].out[1]...); !slices.Equal(got, want) {
		t.Error("the replay gives other values")
	}
	if n := clock.Counters.Commands[dram.REF]; n == 0 {
		t.Error("no refresh fell into the head")
	}
}

// A unit that is slower than the timing assumes shows in the values.
func TestReplaySeesDataThatIsTooLate(t *testing.T) {
	p := &valueProblem{spec: pim.Default(), device: parts.DDR4(t), shape: halfHead, heads: []machine.Head{{Context: 100, Appends: true}}, rows: 2}
	r := rand.New(rand.NewPCG(1, 1))
	p.vectors = []headVectors{{q: randomVectors(r, StoreFP16, 1, 128, 1), k: randomVectors(r, StoreFP16, 100, 128, 1), v: randomVectors(r, StoreFP16, 100, 128, 1)}}
	for _, c := range []struct {
		name string
		slow func(s *pim.Spec, d *dram.Spec)
		nan  bool
	}{
		{"as timed", func(*pim.Spec, *dram.Spec) {}, false},
		{"softmax", func(s *pim.Spec, _ *dram.Spec) { s.SoftmaxLatency++ }, true},
		{"MAC", func(s *pim.Spec, _ *dram.Spec) { s.MACLatency += 40 }, true},
		{"bus", func(_ *pim.Spec, d *dram.Spec) { d.CWL += 40 }, true},
	} {
		m, program, data := p.machine(t)
		clock, err := machine.NewMachine(p.spec, p.device)
		if err != nil {
			t.Fatal(err)
		}
		slowSpec, slowDevice := *p.spec, *p.device
		c.slow(&slowSpec, &slowDevice)
		clock.Spec, clock.Device = &slowSpec, &slowDevice // the replay's view; the timing state is unchanged
		results, err := replayed(m, clock, program, data, [2][][]uint16{})
		if err != nil {
			t.Fatal(err)
		}
		if out := results[0].out[0][0]; (out != out) != c.nan {
			t.Errorf("%s: output %v, NaN expected: %v", c.name, out, c.nan)
		}
	}
}

// A machine that does not wait for one of an instruction's operands computes with missing data.
func TestReplaySeesMissingWaits(t *testing.T) {
	p := &valueProblem{spec: pim.Default(), device: parts.DDR4(t), shape: halfHead, heads: []machine.Head{{Context: 100, Appends: true}}, rows: 2}
	p.spec.Activation, p.device.TRCD = pim.Simultaneous, 4 // activation hides no wait
	p.vectors = []headVectors{dataKinds[1].vectors(rand.New(rand.NewPCG(1, 1)), StoreFP16, p.shape, 100)}
	for _, c := range []struct {
		name   string
		op     machine.Operation
		waited machine.Sequencer
	}{
		{"q", machine.OpScore, machine.BufferSequencer},
		{"weights", machine.OpContext, machine.BufferSequencer},
		{"partial sums", machine.OpReadPartials, machine.BankSequencer},
		{"accumulators", machine.OpReadContext, machine.BankSequencer},
		{"scores", machine.OpLoadWeights, machine.ResultSequencer},
	} {
		m, program, data := p.machine(t)
		clock, err := machine.NewMachine(p.spec, p.device)
		if err != nil {
			t.Fatal(err)
		}
		clock.Latency[c.op][c.waited] = 0
		results, err := replayed(m, clock, program, data, [2][][]uint16{})
		if err != nil {
			t.Fatal(err)
		}
		if out := results[0].out[0]; !slices.ContainsFunc(out, func(x float32) bool { return x != x }) {
			t.Errorf("%s: without a wait the output is %v", c.name, out[:4])
		}
	}
}
