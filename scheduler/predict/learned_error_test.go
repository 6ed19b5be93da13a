package predict

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/units"
)

func TestRelativeError(t *testing.T) {
	var e RelativeError
	e.add(100, 90)
	e.add(100, 130)
	e.add(50, 50)
	e.add(0, 7) // has no relative error
	if e.Count != 3 || math.Abs(e.Mean-0.4/3) > 1e-12 {
		t.Errorf("got %+v, want a mean of 0.1333 of 3", e)
	}
}

// profile returns n samples of costs that the models can represent.
func profile(n int, rng *rand.Rand) []scheduler.Sample {
	samples := make([]scheduler.Sample, n)
	for i := range samples {
		s := &samples[i]
		s.Decoding = 1 + rng.IntN(200)
		s.Contexts = int64(s.Decoding) * int64(1000+rng.IntN(4000))
		s.PrefillMoved = 16 * rng.IntN(30)
		s.PIM = units.Duration(5_000_000 + 700*s.Contexts + 9000*int64(s.Decoding) + 300*int64(s.PrefillMoved))
		for range rng.IntN(3) {
			c := scheduler.ChunkSample{Tokens: 16 + 16*rng.IntN(64), Finished: 64 * rng.IntN(16)}
			c.Time = units.Duration(1_000_000 + 40*c.Tokens*(c.Finished+c.Tokens/2))
			s.PrefillTokens += c.Tokens
			s.Chunks = append(s.Chunks, c)
		}
		s.FC = units.Duration(20_000_000 + 30_000*max(0, s.PrefillTokens+s.Decoding-156))
	}
	return samples
}

func learnedSpec() *scheduler.PredictorSpec {
	return &scheduler.PredictorSpec{Kind: scheduler.PredictLearned, WarmUp: 64, RefitEvery: 256, Window: 1024, Trees: 32, MaxDepth: 12, MinLeaf: 2}
}

// TestHoldOut: the models learn what they can represent.
func TestHoldOut(t *testing.T) {
	samples := profile(1000, rand.New(rand.NewPCG(1, 1)))
	e, err := HoldOut(learnedSpec(), samples, rand.New(rand.NewPCG(2, 2)))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", e)
	if e.DecodeAttention.Count != 200 || e.FC.Count != 200 || e.PrefillAttention.Count < 100 {
		t.Errorf("tested on %+v, want 200 sub-batches, those with chunks for prefill attention", e)
	}
	if e.DecodeAttention.Mean > 1e-6 {
		t.Errorf("a linear cost has an error of %v", e.DecodeAttention.Mean)
	}
	if e.PrefillAttention.Mean > 0.08 || e.FC.Mean > 0.04 {
		t.Errorf("errors %+v, want at most 0.08 and 0.04", e)
	}
}

// TestHoldOutNoise: noise cannot be learned. With a relative standard deviation σ it leaves even a
// perfect model a relative error of σ·√(2/π).
func TestHoldOutNoise(t *testing.T) {
	spec := learnedSpec()
	spec.Noise = 0.05
	e, err := HoldOut(spec, profile(5000, rand.New(rand.NewPCG(1, 1))), rand.New(rand.NewPCG(2, 2)))
	if err != nil {
		t.Fatal(err)
	}
	floor := 0.05 * math.Sqrt(2/math.Pi)
	if got := e.DecodeAttention.Mean; got < 0.93*floor || got > 1.07*floor {
		t.Errorf("error %v of the line, want %v within 7%%", got, floor)
	}
	if e.FC.Mean < floor || e.FC.Mean > 2*floor {
		t.Errorf("error %v of the forest, want %v to %v", e.FC.Mean, floor, 2*floor)
	}
}

func TestHoldOutOfNothing(t *testing.T) {
	for _, samples := range [][]scheduler.Sample{nil, make([]scheduler.Sample, 1), make([]scheduler.Sample, 10)} {
		e, err := HoldOut(learnedSpec(), samples, rand.New(rand.NewPCG(2, 2)))
		if err != nil || e != (PredictionErrors{}) {
			t.Errorf("%d empty samples: %+v, %v", len(samples), e, err)
		}
	}
}

func TestNoise(t *testing.T) {
	n := newNoise(0.2, rand.New(rand.NewPCG(1, 1)))
	sum, squares := 0.0, 0.0
	const draws = 200_000
	for range draws {
		f := n.measure(1000) / 1000
		if f <= 0 {
			t.Fatal("a time that is not positive")
		}
		sum += f
		squares += f * f
	}
	mean := sum / draws
	if deviation := math.Sqrt(squares/draws - mean*mean); math.Abs(mean-1) > 0.002 || math.Abs(deviation-0.2) > 0.002 {
		t.Errorf("mean %v, standard deviation %v, want 1 and 0.2", mean, deviation)
	}
	quiet := newNoise(0, nil)
	if got := quiet.measure(1001); got != 1001 {
		t.Errorf("without noise 1001 is measured as %v", got)
	}
}

// TestFailedFits: forests that cannot grow are an error once there are enough samples for them, of the first fit and of a later one, learned in a run or from all samples.
func TestFailedFits(t *testing.T) {
	samples := profile(80, rand.New(rand.NewPCG(1, 1)))
	spec := learnedSpec()
	l := NewLearned(spec, nil, rand.New(rand.NewPCG(2, 2)))
	l.prefill.spec.Trees, l.batched.spec.Trees = 0, 0
	failed := 0
	for i := range samples {
		err := l.Observe(&samples[i])
		if warm := l.prefill.when.seen >= spec.WarmUp && l.batched.when.seen >= spec.WarmUp; (err != nil) != warm {
			t.Fatalf("%d chunks and %d sub-batches: %v", l.prefill.when.seen, l.batched.when.seen, err)
		} else if warm {
			failed++
		}
	}
	if failed == 0 {
		t.Error("no fit was due")
	}
	l.prefill.spec.Trees = 4 // the other forest still fails
	if err := l.Observe(&samples[0]); err == nil || l.prefill.forest == nil {
		t.Errorf("%v, a forest of prompts: %v", err, l.prefill.forest != nil)
	}
	spec.Trees = 0
	if e, err := HoldOut(spec, samples, rand.New(rand.NewPCG(2, 2))); err == nil || e != (PredictionErrors{}) {
		t.Errorf("%+v, %v", e, err)
	}
	for i := range samples {
		samples[i].Chunks = nil
	}
	if _, err := HoldOut(spec, samples, rand.New(rand.NewPCG(2, 2))); err == nil {
		t.Error("no error without chunks")
	}
}
