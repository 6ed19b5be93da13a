package traces

import (
	"crypto/sha256"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/units/portable"
)

// meanAndDeviation are the mean and standard deviation of a number of tokens.
type meanAndDeviation struct{ mean, std float64 }

// builtin is a data set described by the moments of its lengths.
type builtin struct {
	name          string
	input, output meanAndDeviation
}

// builtins are the data sets of the L3 paper, Table 4 (OpenR1-Math, Dolphin-r1, OpenThoughts-math and LongBench), and Mooncake's
// conversations. Mooncake's moments are those of the 12,031 requests of
// https://github.com/kvcache-ai/Mooncake/blob/main/FAST25-release/traces/conversation_trace.jsonl (inputs up to 126,195 tokens).
var builtins = []builtin{
	{"openr1", meanAndDeviation{96.0, 75.1}, meanAndDeviation{12684.1, 8464.6}},
	{"dolphin", meanAndDeviation{201.9, 563.0}, meanAndDeviation{3926.2, 4216.0}},
	{"openthoughts", meanAndDeviation{89.4, 66.7}, meanAndDeviation{6366.7, 4662.9}},
	{"longbench", meanAndDeviation{7703.9, 4285.5}, meanAndDeviation{89.8, 213.7}},
	{"mooncake", meanAndDeviation{12035.1, 15800.3}, meanAndDeviation{342.6, 249.9}},
}

// BuiltinNames returns the names of the built-in data sets; those of the paper keep its order.
func BuiltinNames() []string {
	return append(list.Map(builtins, func(b builtin) string { return b.name }), Own)
}

// Own is the name of the data set whose moments are in the section [traces].
const Own = "synthetic"

// lookupBuiltin returns the built-in data set called name; an unknown name is
// an *input.Error with the nearest one.
func lookupBuiltin(name string, spec *SyntheticSpec) (*builtin, error) {
	if name == Own {
		return spec.own()
	}
	i := slices.IndexFunc(builtins, func(b builtin) bool { return b.name == name })
	if i < 0 {
		return nil, input.UnknownName("run.trace", name, BuiltinNames())
	}
	b := builtins[i]
	return &b, nil
}

// Values of SyntheticSpec.Distribution.
const (
	// Auto is Gamma if the standard deviation is at most autoLimit times the mean, and LogNormal above. A gamma distribution with a larger
	// ratio would have most of its mass near zero, unlike prompts.
	Auto      = "auto"
	Gamma     = "gamma"
	LogNormal = "lognormal"
	// Fixed gives every request the mean.
	Fixed = "fixed"
	// Empirical draws requests from a file: see Redraw.
	Empirical = "empirical"

	autoLimit = 1.2
)

// SyntheticSpec says how lengths are drawn from their moments.
type SyntheticSpec struct {
	// Distribution is that of the lengths. For a built-in trace: "auto", "gamma", "lognormal" or "fixed", which gives all requests the
	// mean. For a file, "empirical" draws its requests with replacement, and any other value takes the file as it is.
	Distribution string `toml:"distribution"`
	// MaxTokens clips each length; reasoning models stop at 32,768.
	MaxTokens int `toml:"max_tokens"`
	// InputMean is the mean prompt length of the trace "synthetic", in tokens.
	InputMean float64 `toml:"input_mean"`
	// InputStd is the standard deviation of prompt lengths; 0 acts as "fixed".
	InputStd float64 `toml:"input_std"`
	// OutputMean is the mean number of tokens generated in the trace "synthetic".
	OutputMean float64 `toml:"output_mean"`
	// OutputStd is the standard deviation of generated tokens; 0 acts as "fixed".
	OutputStd float64 `toml:"output_std"`
	// PrefixTokens is the length of a shared prefix, such as instructions, added to the prompts of a built-in trace.
	PrefixTokens int `toml:"prefix_tokens"`
	// Prefixes is the number of different shared prefixes; each request has one of them, drawn uniformly. 0 means 1.
	Prefixes int `toml:"prefixes"`
}

// SyntheticDefaults are the defaults of keys in [traces] that presets may leave out.
const SyntheticDefaults = `
[traces]
input_mean = 0.0  # of the trace "synthetic" alone, where it must be given: prefill time, KV of a request
input_std = 0.0   # all alike: spread of prefill times
output_mean = 0.0 # of the trace "synthetic" alone, where it must be given: length of decode
output_std = 0.0  # all alike: when requests end
prefix_tokens = 0 # none, as in the paper; hits of a cache, prefill time
prefixes = 1      # one for all, as a server's instructions are; hits of a cache, how many ranksets they lie on
`

// own returns the moments of the data set Own.
func (s *SyntheticSpec) own() (*builtin, error) {
	for _, m := range []struct {
		key  string
		mean float64
	}{{"input_mean", s.InputMean}, {"output_mean", s.OutputMean}} {
		if m.mean < 1 {
			return nil, &input.Error{Key: "traces." + m.key, Value: fmt.Sprint(m.mean), Expected: "at least 1 with run.trace = \"" + Own + "\"", OtherKeys: []string{"run.trace"}}
		}
	}
	return &builtin{Own, meanAndDeviation{s.InputMean, s.InputStd}, meanAndDeviation{s.OutputMean, s.OutputStd}}, nil
}

// Check has the rules of the section [traces].
func (s *SyntheticSpec) Check(c *input.Check) {
	input.OneOf(c, "distribution", s.Distribution, Auto, Gamma, LogNormal, Fixed, Empirical)
	input.Within(c, "max_tokens", s.MaxTokens, 1, maxTokens)
	for _, m := range []struct {
		key   string
		value float64
	}{{"input_mean", s.InputMean}, {"input_std", s.InputStd}, {"output_mean", s.OutputMean}, {"output_std", s.OutputStd}} {
		input.Within(c, m.key, m.value, 0, maxTokens)
	}
	input.Within(c, "prefix_tokens", s.PrefixTokens, 0, maxTokens)
	input.Within(c, "prefixes", s.Prefixes, 0, MaxRequests)
}

// synthetic returns the moments of a built-in trace, after checking that n requests can be drawn.
func synthetic(name string, n int, spec *SyntheticSpec) (b *builtin, err error) {
	if err := input.Validate(spec); err != nil {
		return b, err
	}
	if b, err = lookupBuiltin(name, spec); err != nil {
		return b, err
	}
	if spec.Distribution == Empirical {
		return b, &input.Error{Key: "traces.distribution", Value: strconv.Quote(Empirical),
			Expected: "another one with run.trace = " + strconv.Quote(name) + ", or a file, from whose lengths this one draws", OtherKeys: []string{"run.trace"}}
	}
	if n < 1 || n > MaxRequests {
		return b, badRequests(n)
	}
	for _, l := range []meanAndDeviation{b.input, b.output} {
		if float64(spec.MaxTokens) < l.mean {
			return b, &input.Error{
				Key: "traces.max_tokens", Value: fmt.Sprint(spec.MaxTokens),
				Expected: fmt.Sprintf("at least %g, a mean length of %s", math.Ceil(l.mean), name),
			}
		}
	}
	return b, nil
}

// Synthetic draws n requests with the lengths of the built-in data set called name, all arriving at time 0. The same name, n, seed and spec
// give the same requests. Input and output lengths are independent, each from a separate random stream.
//
// Lengths are whole tokens from 1 to spec.MaxTokens. Clipping lowers the mean, so the lengths are then rescaled until the sample's mean is
// the data set's, to a token a request or better. The standard deviation remains that of the clipped draw; Moments reports both.
//
// An unknown name, n < 1 or a spec that cannot be met is an *input.Error.
func Synthetic(name string, n int, seed uint64, spec SyntheticSpec) (*Trace, error) {
	b, err := synthetic(name, n, &spec)
	if err != nil {
		return nil, err
	}
	in, out := make([]float64, n), make([]float64, n)
	fill(in, b.input, stream(seed, name, "input"), &spec)
	fill(out, b.output, stream(seed, name, "output"), &spec)
	t := &Trace{Name: name, Requests: make([]Request, n)}
	for i := range t.Requests {
		t.Requests[i] = Request{ID: i, Input: int(in[i]), Output: int(out[i])}
	}
	if spec.PrefixTokens > 0 {
		t.addPrefixes(spec.PrefixTokens, max(spec.Prefixes, 1), stream(seed, name, "prefix"))
	}
	return t, nil
}

// SyntheticMoments returns the moments of Synthetic's draw. It needs a tenth of the memory, since it keeps no requests.
func SyntheticMoments(name string, n int, seed uint64, spec SyntheticSpec) (Moments, error) {
	b, err := synthetic(name, n, &spec)
	if err != nil {
		return Moments{}, err
	}
	m, lengths := Moments{Requests: n}, make([]float64, n)
	fill(lengths, b.input, stream(seed, name, "input"), &spec)
	for i := range lengths {
		lengths[i] += float64(spec.PrefixTokens)
	}
	length := func(i int) int { return int(lengths[i]) }
	m.InputTokens, m.InputMax, m.InputMean, m.InputStd = columnMoments(n, length)
	fill(lengths, b.output, stream(seed, name, "output"), &spec)
	m.OutputTokens, m.OutputMax, m.OutputMean, m.OutputStd = columnMoments(n, length)
	return m, nil
}

// addPrefixes puts one of a number of shared prefixes, each of the given length, before every prompt, as vLLM's benchmark does with
// --dataset-name prefix_repetition. Hashes identify the whole blocks of a prefix and no others; Prefix has its exact length.
func (t *Trace) addPrefixes(tokens, prefixes int, source rand.Source) {
	random, shared := rand.New(source), tokens/BlockTokens
	next := uint64(prefixes * shared) // the first hash that belongs to no prefix
	each := make([]Prefix, prefixes)
	for i := range each {
		each[i] = Prefix{Number: uint64(i), Tokens: tokens}
	}
	for i := range t.Requests {
		r := &t.Requests[i]
		r.Input += tokens
		of := random.IntN(prefixes)
		r.Prefix = &each[of]
		first := uint64(of * shared)
		r.Hashes = make([]uint64, (r.Input+BlockTokens-1)/BlockTokens)
		for b := range r.Hashes {
			if b < shared {
				r.Hashes[b] = first + uint64(b)
			} else {
				r.Hashes[b] = next
				next++
			}
		}
	}
}

// Redraw returns n requests, all arriving at time 0, each with both lengths of one of the trace's requests, drawn with replacement. It thus
// keeps the distribution of lengths and the correlation of prompt and output. n = 0 draws as many as the trace has. The same trace, n and
// seed give the same requests.
func (t *Trace) Redraw(n int, seed uint64) (*Trace, error) {
	if err := t.given(); err != nil {
		return nil, err
	}
	if n == 0 {
		n = len(t.Requests)
	}
	if n < 1 || n > MaxRequests {
		return nil, badRequests(n)
	}
	if len(t.Requests) == 0 {
		return nil, &input.Error{Key: "trace", Value: "0 requests", Expected: "at least one, whose lengths are drawn"}
	}
	random := rand.New(stream(seed, Empirical, "requests"))
	drawn := *t
	drawn.Requests = make([]Request, n)
	for i := range drawn.Requests {
		from := &t.Requests[random.IntN(len(t.Requests))]
		drawn.Requests[i] = Request{ID: i, Input: from.Input, Output: from.Output}
	}
	return &drawn, nil
}

// MaxRequests is the largest number of requests of a trace. It bounds its memory: 72 bytes each, plus shared parts.
const MaxRequests = 10_000_000

func badRequests(n int) error {
	return &input.Error{Key: "run.requests", Value: fmt.Sprint(n), Expected: fmt.Sprintf("1 to %d", MaxRequests)}
}

// stream returns a separate random source for each column of each data set and seed.
func stream(seed uint64, name, column string) rand.Source {
	return rand.NewChaCha8(sha256.Sum256(fmt.Appendf(nil, "l3sim/traces/%s/%s/%d", name, column, seed)))
}

// fill draws lengths, in whole numbers.
func fill(lengths []float64, l meanAndDeviation, source rand.Source, spec *SyntheticSpec) {
	random := l.distribution(spec.Distribution, source)
	for i := range lengths {
		lengths[i] = random.Rand()
	}
	scale := rescale(lengths, l.mean, spec.MaxTokens)
	for i, x := range lengths {
		lengths[i] = float64(length(x*scale, spec.MaxTokens))
	}
}

// distribution returns the distribution of the given kind with moments l (Johnson, Kotz and Balakrishnan, Continuous Univariate
// Distributions, chapters 14 and 17).
func (l meanAndDeviation) distribution(kind string, source rand.Source) distuv.Rander {
	if kind == Fixed || l.std < 0.01 { // tokens: lengths are whole numbers
		return fixed(l.mean)
	}
	ratio := l.std / l.mean
	if kind == Gamma || kind == Auto && ratio <= autoLimit {
		return distuv.Gamma{Alpha: 1 / (ratio * ratio), Beta: l.mean / (l.std * l.std), Src: source}
	}
	variance := portable.Log1p(ratio * ratio)
	return distuv.LogNormal{Mu: portable.Log(l.mean) - float64(variance/2), Sigma: math.Sqrt(variance), Src: source}
}

type fixed float64 // a constant, as a distribution

func (f fixed) Rand() float64 { return float64(f) }

// length rounds x to a whole number of tokens from 1 to limit.
func length(x float64, limit int) int {
	return int(min(max(math.Round(x), 1), float64(limit)))
}

// rescale returns the factor that brings the mean of the drawn lengths, after rounding and clipping, as close to mean as rounding permits.
// The mean grows with the factor, from 1 to limit, so bisection finds it to the last bit. If mean is so close to limit that every length
// would be clipped, bisection ends at that point.
func rescale(raw []float64, mean float64, limit int) float64 {
	want := int64(math.Round(mean * float64(len(raw))))
	total := func(scale float64) int64 {
		sum := int64(0)
		for _, x := range raw {
			sum += int64(length(x*scale, limit))
		}
		return sum
	}
	low, high := 0.0, 1.0
	for range 200 { // a draw of only zeros cannot be scaled up
		if total(high) >= want {
			break
		}
		low, high = high, float64(2*high)
	}
	for range 60 {
		if middle := float64((low + high) / 2); total(middle) >= want {
			high = middle
		} else {
			low = middle
		}
	}
	if want-total(low) < total(high)-want {
		return low
	}
	return high
}

// Sample returns n requests of the trace, drawn without replacement and in their order. Conversations are drawn whole; the last one drawn
// is cut short if it has too many turns. The same trace, n and seed give the same requests. An n larger than the trace is an *input.Error.
func (t *Trace) Sample(n int, seed uint64) (*Trace, error) {
	if err := t.given(); err != nil {
		return nil, err
	}
	if n < 1 || n > len(t.Requests) {
		return nil, &input.Error{Key: "requests", Value: fmt.Sprint(n), Expected: fmt.Sprintf("1 to %d, the number of requests of %s", len(t.Requests), t.Name)}
	}
	var groups [][]int // indices of the requests of each conversation, or of a single request
	of := map[int]int{}
	for i := range t.Requests {
		turn := t.Requests[i].Turn
		if turn != nil && turn.Number > 0 {
			g := of[turn.Session]
			groups[g] = append(groups[g], i)
			continue
		}
		if turn != nil {
			of[turn.Session] = len(groups)
		}
		groups = append(groups, []int{i})
	}
	random := rand.New(stream(seed, "sample", "requests"))
	random.Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
	var chosen []int
	for _, g := range groups {
		chosen = append(chosen, g[:min(len(g), n-len(chosen))]...)
		if len(chosen) == n {
			break
		}
	}
	slices.Sort(chosen)
	sample := *t
	sample.Requests = make([]Request, n)
	for i, from := range chosen {
		sample.Requests[i] = t.Requests[from]
		sample.Requests[i].Arrival -= t.Requests[chosen[0]].Arrival
	}
	sample.normalize()
	return &sample, nil
}
