package machine

import (
	"strings"
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/internal/parts"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/units"
	"pgregory.net/rapid"
)

// fp16Head is one query head of d = 128 in FP16.
var fp16Head = pim.HeadShape{HeadDim: 128, Queries: 1, ElementBits: 16}

// runHead returns the clocks of one head without append and refresh, and the
// machine that ran it.
func runHead(t testing.TB, spec *pim.Spec, shape pim.HeadShape, context int, periodic bool) (int64, *Machine) {
	t.Helper()
	return runHeadOn(t, parts.DDR4(t), spec, shape, context, periodic)
}

// runHeadOn is runHead on ranks of d.
func runHeadOn(t testing.TB, d *dram.Spec, spec *pim.Spec, shape pim.HeadShape, context int, periodic bool) (int64, *Machine) {
	t.Helper()
	p, err := NewProgram(spec, d, shape, []Head{{Context: context}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewMachine(spec, d)
	if err != nil {
		t.Fatal(err)
	}
	m.Repeats.On = periodic
	return m.Run(p), m
}

// closedForm is the formula of lab/docs/model-dimm.md: four clocks a token, a row switch for each
// further row of keys and of values, and a fixed part. At d = 128 tRAS does not delay short rows.
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

// closedForm5 is closedForm for x8 chips of DDR5: chunks of 32 tokens and columns of 8, three quarters of the reads for
// a token, 32 bursts of context. The 32 activations wait for tRRD_S only, since four take tFAW. A two-clock command
// delays others by a clock once a head: the ACT after which the first weights are written.
func closedForm5(d *dram.Spec, context int, simultaneous bool) int64 {
	const mac, softmax, burst, partialBursts = 4, 28, 8, 4
	a := 31 * d.TRRDS
	if simultaneous {
		a = 0
	}
	load := max(d.CWL+4*burst, a+d.TRCD)
	reopen := d.TRTP + d.TRP + a + d.TRCD
	// From the last MACA: PREA, and tRP until the first ACT; the last partial sum, which PREA delays
	// unless the sum takes longer; the first weights.
	precharge := 1 + d.TRTP
	sums := mac + (partialBursts-1)*burst
	if readOut := sums + d.CL + burst + softmax + d.CWL + burst; readOut <= reopen && (precharge-mac)%burst == 0 {
		sums++
	}
	weights := sums + d.CL + burst + softmax
	turn := max(reopen, weights+d.CWL+burst)
	if first := precharge + d.TRP - 1; !simultaneous && (weights-first)%burst == burst-1 {
		turn++
	}
	drain := max(mac+d.CL+32*burst, d.TRTP+d.TRP)
	rows := (context+511)/512 - 1
	reads := ((context+31)/32*4 + (context+7)/8) * d.TCCDL
	return int64(reads + 2*rows*(reopen-d.TCCDL) + load + turn + drain - 2*d.TCCDL)
}

func TestClosedFormOnDDR5(t *testing.T) {
	for _, name := range []string{"ddr5-4800-16gb-x8", "ddr5-4800an-16gb-x8", "ddr5-5600-32gb-x8"} {
		d := parts.Of(t, name)
		for _, activation := range []string{pim.Staggered, pim.Simultaneous} {
			spec := pim.Default()
			spec.Activation = activation
			for _, context := range []int{1, 8, 9, 32, 33, 64, 496, 512, 513, 544, 1024, 1056, 8192} {
				got, _ := runHeadOn(t, d, spec, fp16Head, context, false)
				if want := closedForm5(d, context, activation == pim.Simultaneous); got != want {
					t.Errorf("%s, %s, %d tokens: %d clocks, closed form %d", name, activation, context, got, want)
				}
			}
		}
	}
}

func TestClosedForm(t *testing.T) {
	for _, simultaneous := range []bool{false, true} {
		spec := pim.Default()
		fixed := int64(380)
		if simultaneous {
			spec.Activation = pim.Simultaneous
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

// TestWithoutActivationWindow: without tFAW, tRRD spreads 16 activations over 60 clocks, not 114: at the load, at the turn from
// keys to values, and at the end of each row.
func TestWithoutActivationWindow(t *testing.T) {
	d := parts.DDR4(t)
	const ends = 2 * (8192/512 - 1)
	for _, c := range []struct{ window, want int }{{d.TFAW, 38008}, {16, 38008 - (114-60)*(ends+2)}} {
		d.TFAW = c.window
		if got, _ := runHeadOn(t, d, pim.Default(), fp16Head, 8192, false); got != int64(c.want) {
			t.Errorf("a window of %d clocks: %d clocks, want %d", c.window, got, c.want)
		}
	}
}

// The longest latency from command to use that the machine remembers is 4,096 clocks.
func TestLongestLatency(t *testing.T) {
	d, spec := parts.DDR4(t), pim.Default()
	spec.SoftmaxLatency = 4096 - d.CL - d.BurstClocks()
	if _, err := NewMachine(spec, d); err != nil {
		t.Error(err)
	}
	spec.SoftmaxLatency++
	if _, err := NewMachine(spec, d); err == nil {
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
			t, err := NewRunner(pim.Default(), parts.DDR4(b), shape)
			if err != nil {
				b.Fatal(err)
			}
			t.Machine.Repeats.On = false
			t.Attention(32768)
			b.ReportAllocs()
			commands := int64(0)
			for b.Loop() {
				t.Attention(32768)
				for _, n := range t.Machine.Counters.Commands {
					commands += n
				}
			}
			b.ReportMetric(float64(commands)/b.Elapsed().Seconds()/1e6, "Mcommands/s")
		})
	}
}

// drawSpec draws a configuration that takes every branch of the program.
func drawSpec(t *rapid.T) (*pim.Spec, pim.HeadShape) {
	spec := pim.Default()
	spec.Activation = rapid.SampledFrom([]string{pim.Staggered, pim.Simultaneous}).Draw(t, "activation")
	spec.ProcessingUnit = rapid.SampledFrom([]string{pim.BankUnits, pim.BankUnits, pim.BankUnits, pim.RankLevelUnit}).Draw(t, "unit")
	spec.Precision.Preset = rapid.SampledFrom([]string{"fp32", "paper"}).Draw(t, "precision")
	spec.BeyondBuffer = rapid.SampledFrom([]string{pim.Refetch, pim.Segment}).Draw(t, "beyond")
	spec.ScoreBuffer = rapid.SampledFrom([]units.Bytes{256 * units.KiB, 256 * units.KiB, 24 * units.KiB, units.KiB}).Draw(t, "buffer")
	spec.MACLatency = rapid.IntRange(1, 20).Draw(t, "mac")
	spec.SoftmaxLatency = rapid.IntRange(0, 100).Draw(t, "softmax")
	shape := pim.HeadShape{
		HeadDim:     rapid.SampledFrom([]int{8, 64, 80, 128, 256, 512}).Draw(t, "d"),
		Queries:     rapid.IntRange(1, 9).Draw(t, "g"),
		ElementBits: rapid.SampledFrom([]int{8, 16}).Draw(t, "bits"),
		KVBits:      rapid.SampledFrom([]int{0, 0, 4, 8, 16}).Draw(t, "kv bits"),
		ScaleBytes:  rapid.SampledFrom([]int{0, 0, 4}).Draw(t, "scales"),
	}
	if shape.StoredBits() < 16 {
		shape.KeyGroup = rapid.SampledFrom([]int{0, 0, 128}).Draw(t, "group")
		switch {
		case shape.KeyGroup == 0 || shape.ScaleBytes == 0:
		case shape.HeadDim > 256: // no row of 8 KiB holds 512 keys and their scales
			shape.ScaleBytes = 0
		default: // default: any number up to the elements
			shape.KeyGroup = max(shape.KeyGroup, shape.HeadDim)
		}
	}
	shape.ValueDim = rapid.SampledFrom([]int{0, 0, 0, 8, 64, 80, 256, 512}).Draw(t, "value d")
	if shape.ValueDim > 0 && rapid.Bool().Draw(t, "latent") {
		shape.HeadDim, shape.ValueDim = 576, 512
	}
	shape.ValueInKey = shape.StoredBits() == 16 && shape.ScaleBytes == 0 && spec.ProcessingUnit == pim.BankUnits && shape.ValueDim > 0 && shape.ValueDim <= shape.HeadDim &&
		rapid.Bool().Draw(t, "value in the key")
	if shape.ValueDim > 0 && shape.KeyGroup > 0 { // rows may end within a group
		shape.KeyGroup = 16
		if shape.ScaleBytes > 0 {
			shape.KeyGroup = 0
		}
	}
	spec.Multipliers = rapid.SampledFrom([]int{0, 0, 4, 8, 16}).Draw(t, "multipliers")
	spec.MACsPerRead = rapid.IntRange(1, shape.Queries).Draw(t, "macs")
	return spec, shape
}

// drawDevice draws a part, most often L3's, that can hold the shape and a chunk of its scores.
func drawDevice(t *rapid.T, spec *pim.Spec, shape pim.HeadShape) *dram.Spec {
	part := rapid.SampledFrom([]string{"ddr4-3200-8gb-x8", "ddr4-3200-8gb-x8", "ddr4-3200-8gb-x4", "ddr4-2400-16gb-x16",
		"ddr5-4800-16gb-x8", "ddr5-5600-16gb-x8", "ddr5-4800an-32gb-x4", "ddr5-5600-16gb-x16"}).Draw(t, "part")
	d, err := dram.LookupSpec(part)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := spec.SegmentTokens(d, shape); err != nil {
		t.Skip(err)
	}
	if _, err := NewProgram(spec, d, shape, nil); err != nil {
		if strings.Contains(err.Error(), "REFs") && shape.ValueDim > 0 {
			t.Skip(err) // the rows of wide keys take longer than REFs can wait
		}
		t.Fatal(err)
	}
	return d
}

// TestRepeatsChangeNoCount: skipped repeats count like those that ran: clocks, commands, operations and phases are equal.
func TestRepeatsChangeNoCount(t *testing.T) {
	for _, c := range []struct{ queries, context int }{{1, 40}, {1, 600}, {1, 5000}, {4, 3000}} {
		shape := fp16Head
		shape.Queries = c.queries
		all, each := runHead(t, pim.Default(), shape, c.context, false)
		skipping, some := runHead(t, pim.Default(), shape, c.context, true)
		if skipping != all || some.Counters != each.Counters {
			t.Errorf("%+v: %d clocks and %+v, skipping %d and %+v", c, all, each.Counters, skipping, some.Counters)
		}
		if p := &some.Counters.phases; c.queries == 1 && p.total() != all || (c.context > 40) != (some.Repeats.skipped > 0) {
			t.Errorf("%+v: phases of %d of %d clocks, %d skipped", c, p.total(), all, some.Repeats.skipped)
		}
	}
}
