package traces

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
	"github.com/l3sim/l3sim/units/portable"
)

// Kinds of arrivals.
const (
	ArrivalsAuto   = "auto"        // ArrivalsTrace if requests have times; else ArrivalsPoisson if a rate is given, ArrivalsAtOnce if not
	ArrivalsAtOnce = "all-at-once" // all at the start: a full queue, which measures throughput
	ArrivalsTrace  = "trace"       // the file's times
	// ArrivalsPoisson draws exponential gaps, ArrivalsGamma gaps with a given coefficient of variation.
	ArrivalsPoisson = "poisson"
	ArrivalsGamma   = "gamma"
	// ArrivalsClosed is a number of users: each sends the next request a think time after the answer to the last.
	ArrivalsClosed = "closed-loop"
)

// Distributions of the think time of closed-loop users.
const (
	ThinkFixed       = "fixed"
	ThinkExponential = "exponential"
)

// ArrivalSpec is the section [arrivals]: when the requests of a trace arrive.
type ArrivalSpec struct {
	// Kind is "auto", "all-at-once", "trace", "poisson", "gamma" or "closed-loop". "auto" uses the file's times if it has any; otherwise it
	// draws Poisson arrivals if a rate is given, and lets all requests arrive at once if not.
	Kind string `toml:"kind"`
	// RatePerS is the mean rate in requests a second: of drawn arrivals, or of a file's times, which are stretched to it; 0: no rate is
	// given.
	RatePerS float64 `toml:"rate_per_s"`
	CV       float64 `toml:"cv"` // coefficient of variation of the gaps of "gamma"; 1 is Poisson, above it is bursty
	// Users is the maximum number of concurrent requests with "closed-loop".
	Users int `toml:"users"`
	// ThinkTime is the mean time from an answer to the same user's next request.
	ThinkTime units.Duration `toml:"think_time"`
	// ThinkDistribution is "fixed" or "exponential".
	ThinkDistribution string `toml:"think_distribution"`
	// Scale multiplies the rate of a file's times: at 2, requests arrive in half the time.
	Scale float64 `toml:"scale"`
	// Window is the part of a file's times to run, from:to, without its end; "" for all. Its start becomes time 0.
	Window string `toml:"window"`
}

// ArrivalDefaults are the defaults of the section [arrivals], below all presets.
const ArrivalDefaults = `
[arrivals]
kind = "auto"                  # a file's times where it has any, else all at once, as in the paper; TTFT; --arrivals
rate_per_s = 0.0               # 0: as the file has it; requests a second, TTFT, batch size; --rate
cv = 1.0                       # Poisson's; "gamma" only: bursts, the tail of TTFT
users = 0                      # "closed-loop" only, where it must be given: concurrency of a load generator
think_time = "0s"              # "closed-loop" only: a load generator does not think
think_distribution = "fixed"
scale = 1.0                    # the rate of the file
window = ""
`

const (
	maxRate  = 1e9
	maxUsers = 1 << 20
)

// Check has the rules of the section [arrivals].
func (s *ArrivalSpec) Check(c *input.Check) {
	input.OneOf(c, "kind", s.Kind, ArrivalsAuto, ArrivalsAtOnce, ArrivalsTrace, ArrivalsPoisson, ArrivalsGamma, ArrivalsClosed)
	input.OneOf(c, "think_distribution", s.ThinkDistribution, ThinkFixed, ThinkExponential)
	input.Within(c, "rate_per_s", s.RatePerS, 0, maxRate)
	input.Within(c, "cv", s.CV, 0.01, 100)
	c.That(s.Users >= 0 && s.Users <= maxUsers, "users", s.Users, "0 to %d", maxUsers)
	c.That(s.ThinkTime >= 0 && s.ThinkTime <= maxTime, "think_time", s.ThinkTime, "0s to %v", maxTime)
	input.Within(c, "scale", s.Scale, 1e-6, 1e6)
	_, _, err := s.window()
	c.That(err == nil, "window", s.Window, `two times, the later one last, such as "600s:1200s"`)
	c.That(s.Kind != ArrivalsClosed || s.Users > 0, "users", s.Users, "at least 1 with %s = %q", input.Key("arrivals.kind"), s.Kind)
	c.That(s.RatePerS == 0 || s.Kind != ArrivalsAtOnce && s.Kind != ArrivalsClosed, "rate_per_s", s.RatePerS, "0 with %s = %q, which has no rate of its own", input.Key("arrivals.kind"), s.Kind)
	c.That(s.RatePerS == 0 || s.Scale == 1, "scale", s.Scale, "1 with %s, which stretches the times itself", input.Key("arrivals.rate_per_s"))
}

// maxTime bounds the time between events, so that many of them fit the clock.
const maxTime = 24 * 3600 * units.Second

// window returns the two times of Window, or the whole range for "".
func (s *ArrivalSpec) window() (from, to units.Duration, err error) {
	if s.Window == "" {
		return 0, math.MaxInt64, nil
	}
	return ParseWindow(s.Window)
}

// ParseWindow reads two times, such as "600s:1200s". The first is not negative, and the second is
// later. The error unwraps to the error of one of them.
func ParseWindow(text string) (from, to units.Duration, err error) {
	first, last, found := strings.Cut(text, ":")
	if found {
		if err = from.UnmarshalText([]byte(first)); err == nil {
			err = to.UnmarshalText([]byte(last))
		}
	}
	switch {
	case err != nil:
		return 0, 0, fmt.Errorf("%q is no window: %w", text, err)
	case !found || from < 0 || to <= from:
		return 0, 0, fmt.Errorf("%q is no window", text)
	}
	return from, to, nil
}

// Arrivals describes how the requests of a trace arrive.
type Arrivals struct {
	Kind string // "" in a trace whose requests have their times from elsewhere
	// RatePerS is the mean rate; 0 if all arrive at once, or if arrivals depend on completions.
	RatePerS float64
	Closed   *ClosedLoop // of "closed-loop"
}

// Described returns the arrivals of a trace, derived from its times if they were not set.
func (t *Trace) Described() Arrivals {
	t = cmp.Or(t, &Trace{})
	a := t.Arrivals
	switch span := t.span(); {
	case a.Kind != "":
	case span == 0:
		a.Kind = ArrivalsAtOnce
	default:
		a.Kind, a.RatePerS = ArrivalsTrace, float64(len(t.Requests)-1)/span.Seconds()
	}
	return a
}

// Waits reports whether arrivals depend on completions: the file's times are used, and turns of conversations wait for one another.
func (t *Trace) Waits() bool {
	t = cmp.Or(t, &Trace{})
	return t.Described().Kind == ArrivalsTrace && slices.ContainsFunc(t.Requests, func(r Request) bool { return r.Turn != nil && r.Turn.Waits })
}

// Turns returns, for each turn that others wait for, the indices in the trace of the waiting turns, by its own index. A turn does not wait
// for turns that are not in the trace, nor for turns of other conversations that come after it.
func (t *Trace) Turns() map[int32][]int32 {
	t = cmp.Or(t, &Trace{})
	type turn struct{ session, number int }
	place := map[turn]int32{}
	for i, r := range t.Requests {
		if r.Turn != nil {
			place[turn{r.Turn.Session, r.Turn.Number}] = int32(i)
		}
	}
	after := map[int32][]int32{}
	for i, r := range t.Requests {
		if r.Turn == nil || !r.Turn.Waits {
			continue
		}
		if before, ok := place[turn{r.Turn.Session, r.Turn.Number - 1}]; ok {
			after[before] = append(after[before], int32(i))
		}
		for _, of := range r.Turn.After {
			if before, ok := place[turn{of.Session, of.Number}]; ok && before < int32(i) {
				after[before] = append(after[before], int32(i))
			}
		}
	}
	return after
}

// span returns the time from the first arrival to the last.
func (t *Trace) span() units.Duration {
	if len(t.Requests) == 0 {
		return 0
	}
	first, last := units.Duration(math.MaxInt64), units.Duration(0)
	for i := range t.Requests {
		first, last = min(first, t.Requests[i].Arrival), max(last, t.Requests[i].Arrival)
	}
	return last - first
}

// Cut returns the requests in a window of the trace's times; the window's start becomes time 0. A window without a request is an
// *input.Error.
func (t *Trace) Cut(spec ArrivalSpec) (*Trace, error) {
	if err := t.given(); err != nil {
		return nil, err
	}
	if spec.Window == "" {
		return t, nil
	}
	from, to, err := spec.window()
	if err != nil {
		return nil, input.Validate(&spec)
	}
	cut := *t
	cut.Requests = nil
	for _, r := range t.Requests {
		if r.Arrival >= from && r.Arrival < to {
			r.Arrival -= from
			cut.Requests = append(cut.Requests, r)
		}
	}
	if len(cut.Requests) == 0 {
		return nil, &input.Error{Key: "arrivals.window", Value: strconv.Quote(spec.Window),
			Expected: fmt.Sprintf("a part of the times of %s in which requests come; the last of %d comes at %v", t.Name, len(t.Requests), t.span())}
	}
	return &cut, nil
}

// Repeated returns a trace of n requests that repeats t. Each repetition begins the mean gap after the last, if the requests have times. An
// empty trace stays empty.
func (t *Trace) Repeated(n int) *Trace {
	t = cmp.Or(t, &Trace{})
	if len(t.Requests) == 0 {
		n = 0
	}
	if n = max(n, 0); n <= len(t.Requests) {
		return &Trace{Name: t.Name, Requests: t.Requests[:n], Distinct: t.Distinct, HashTokens: t.HashTokens, Notes: t.Notes}
	}
	again := &Trace{Name: t.Name, Requests: make([]Request, n), Distinct: cmp.Or(t.Distinct, len(t.Requests)), HashTokens: t.HashTokens, Notes: t.Notes}
	first, period, length := t.Requests[0].Arrival, t.span(), len(t.Requests)
	if length > 1 {
		period += period / units.Duration(length-1)
	}
	for i := range again.Requests {
		r := t.Requests[i%length]
		r.ID, r.Arrival = i, r.Arrival-first+period*units.Duration(i/length)
		again.Requests[i] = r
	}
	return again
}

// Arrive returns the trace with arrivals by spec. Requests keep their order and lengths. Draws depend only on the seed and on a request's
// position in the trace: gaps are drawn at a rate of 1 and then stretched, so that runs at different rates, or of different systems, see
// the same pattern. Drawn gaps are stretched to give the rate exactly, as in vLLM's benchmark (vllm/benchmarks/serve.py, get_request).
//
// Times that a file lacks, and times beyond 106 days, are an *input.Error.
func (t *Trace) Arrive(spec ArrivalSpec, seed uint64) (*Trace, error) {
	if err := t.given(); err != nil {
		return nil, err
	}
	kind, err := t.arrivalKind(&spec, len(t.Requests))
	if err != nil {
		return nil, err
	}
	span := t.span()
	switch kind {
	case ArrivalsTrace:
		rate, scale := float64(len(t.Requests)-1)/span.Seconds(), spec.Scale
		switch {
		case span == 0 || spec.RatePerS == 0 && spec.Scale == 1:
			if span == 0 {
				rate = 0
			}
			return t.with(t.Requests, Arrivals{Kind: kind, RatePerS: rate}), nil
		case spec.RatePerS > 0:
			scale = spec.RatePerS / rate
		}
		return t.stretched(func(i int) float64 { return float64(t.Requests[i].Arrival) / scale }, Arrivals{Kind: kind, RatePerS: rate * scale})
	case ArrivalsPoisson, ArrivalsGamma:
		at := gaps(len(t.Requests), kind, spec.CV, seed)
		picoseconds := 0.0
		if n := len(at); n > 1 {
			picoseconds = 1e12 / spec.RatePerS * float64(n-1) / at[n-1]
		}
		return t.stretched(func(i int) float64 { return at[i] * picoseconds }, Arrivals{Kind: kind, RatePerS: spec.RatePerS})
	case ArrivalsClosed:
		return t.with(t.AtOnce().Requests, Arrivals{Kind: kind, Closed: &ClosedLoop{spec.Users, spec.ThinkTime, spec.ThinkDistribution, seed}}), nil
	}
	return t.with(t.AtOnce().Requests, Arrivals{Kind: ArrivalsAtOnce}), nil
}

// arrivalKind resolves "auto" for a trace of n requests. The error is that of Arrive.
func (t *Trace) arrivalKind(spec *ArrivalSpec, n int) (string, error) {
	kind, span := spec.Kind, t.span()
	if kind == ArrivalsAuto {
		switch {
		case span > 0:
			kind = ArrivalsTrace
		case spec.RatePerS > 0:
			kind = ArrivalsPoisson
		default:
			kind = ArrivalsAtOnce
		}
	}
	switch {
	case kind == ArrivalsTrace && span == 0 && n > 1 && len(t.Turns()) == 0:
		return "", &input.Error{Key: "arrivals.kind", Value: strconv.Quote(spec.Kind),
			Expected: fmt.Sprintf("a trace with times of arrival; those of %s are all the same", t.Name)}
	case kind != ArrivalsPoisson && kind != ArrivalsGamma:
	case spec.RatePerS == 0:
		return "", &input.Error{Key: "arrivals.rate_per_s", Value: "0", Expected: fmt.Sprintf("more than 0 with arrivals.kind = %q (--rate)", kind), OtherKeys: []string{"arrivals.kind"}}
	case !(float64(n-1)/spec.RatePerS < float64(maxSeconds)):
		return "", tooSlow(t.Name, n, spec.RatePerS)
	}
	return kind, nil
}

// CheckDrawn returns an error if n requests without times, those of a built-in trace, cannot arrive by spec. The error is that of Arrive.
func (s *ArrivalSpec) CheckDrawn(name string, n int) error {
	_, err := (&Trace{Name: name}).arrivalKind(s, n)
	return err
}

// tooSlow is the error for a rate at which n requests take longer than the clock's range.
func tooSlow(name string, n int, rate float64) error {
	return &input.Error{Key: "arrivals.rate_per_s", Value: fmt.Sprint(rate),
		Expected: fmt.Sprintf("a rate at which the %d requests of %s come within 106 days", n, name)}
}

// stretched returns the trace with request i arriving at at(i) picoseconds.
func (t *Trace) stretched(at func(i int) float64, a Arrivals) (*Trace, error) {
	requests := slices.Clone(t.Requests)
	for i := range requests {
		ps := at(i)
		if !(ps < float64(maxSeconds)*1e12) {
			return nil, tooSlow(t.Name, len(requests), a.RatePerS)
		}
		requests[i].Arrival = units.FromPicoseconds(math.Round(ps))
	}
	return t.with(requests, a), nil
}

func (t *Trace) with(requests []Request, a Arrivals) *Trace {
	at := *t
	at.Requests, at.Arrivals = requests, a
	return &at
}

// gaps returns n arrival times, the first 0, with gaps of mean 1.
func gaps(n int, kind string, cv float64, seed uint64) []float64 {
	r := rand.New(stream(seed, "arrivals", kind))
	draw := func() float64 { return exponential(r) }
	if kind == ArrivalsGamma {
		shape := 1 / (cv * cv)
		draw = func() float64 { return gamma(r, shape) / shape }
	}
	at := make([]float64, n)
	for i := 1; i < n; i++ {
		at[i] = at[i-1] + draw()
	}
	return at
}

// exponential draws from the exponential distribution of mean 1, bit-identical on every machine.
func exponential(r *rand.Rand) float64 { return -portable.Log(1 - float64(r.Float64())) }

// gamma draws from the gamma distribution of a shape and scale 1 (Marsaglia and Tsang, "A simple method for generating gamma variables",
// ACM TOMS 26(3), 2000), bit-identical on every machine.
func gamma(r *rand.Rand, shape float64) float64 {
	if shape < 1 {
		u := 1 - float64(r.Float64())
		return gamma(r, shape+1) * portable.Exp(portable.Log(u)/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := normal(r)
		v := 1 + float64(c*x)
		if v <= 0 {
			continue
		}
		v = v * v * v
		if portable.Log(1-float64(r.Float64())) < float64(0.5*float64(x*x))+d-float64(d*v)+float64(d*portable.Log(v)) {
			return d * v
		}
	}
}

// normal draws from the standard normal distribution by the polar method (Marsaglia and
// Bray, SIAM Review 6(3), 1964).
func normal(r *rand.Rand) float64 {
	for {
		u, v := float64(2*float64(r.Float64()))-1, float64(2*float64(r.Float64()))-1
		if s := float64(u*u) + float64(v*v); s > 0 && s < 1 {
			return u * math.Sqrt(-2*portable.Log(s)/s)
		}
	}
}

// ClosedLoop is a set of users, each with one request at a time.
type ClosedLoop struct {
	Users        int
	ThinkTime    units.Duration // mean
	distribution string
	seed         uint64
}

// Thinking returns a function that draws the think times of successive requests, in the order in which they are sent.
func (c *ClosedLoop) Thinking() func() units.Duration {
	if c.distribution != ThinkExponential {
		return func() units.Duration { return c.ThinkTime }
	}
	r := rand.New(stream(c.seed, "arrivals", "think"))
	return func() units.Duration { return units.FromPicoseconds(math.Round(float64(c.ThinkTime) * exponential(r))) }
}
