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

// TestHoldOutNoise: what cannot be learned remains. Noise of a relative standard
// deviation σ leaves even a perfect model a relative error of σ·√(2/π).
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
