package claims

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/system/kinds"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// sparseBase is the default configuration for claims on sparse attention: one A100 of 80 GB with
// kernels of servers.
var sparseBase = []string{`run.system="gpu-only"`, `gpu.preset="a100-sxm-80gb"`, "node.gpus=1", "model.tensor_parallel=1"}

// sparseReading is the parameters of finders for claims on sparse attention.
type sparseReading struct {
	Set, Over []string // keys of the paper's system, and of the system it is compared with
	Phase     string   // "prefill", else decode steps
	Contexts  []int    // of a prompt; ratios are means over them
	Steps     int      // decode steps in a time; 0: one
	// Queries and Batches are for attention with the host; Share and InTurn for the loads of the other
	// system.
	Queries  int     // of each request; 0: one
	Batches  []int   // numbers of requests, one after the other
	Share    float64 // of the tokens that the other system loads, or of keys and values that the GPUs hold
	InTurn   bool    `toml:"in_turn"` // it loads before it does the rest
	Longest  bool    // Contexts are the longest that fit the other system's memory
	Fit      bool    // as many requests as fit the memory of the paper's system
	Repeat   bool    // the other system reads keys and values once per query head
	Least    bool    // the head with the smallest share
	OneBlock bool    `toml:"one_block"` // a thread block scores all pages of a query head, and one attends for it
	Host     bool    // a decode step includes the file's host time
	Beyond   int     // the context whose time is subtracted
	Worst    bool    // the largest ratio over the contexts, else their mean
	Copies   int     // number of copies of the keys and values; 0: one

	hostTime float64 // seconds
}

const prefillPhase = "prefill" // a prompt in one chunk; otherwise a reading is of decode steps

// onSparse makes a finder from a function of configurations alone. Such functions use times of kernels, or counts from
// shapes; the latter have bounds if arithmetic gives the number.
func onSparse(find func(*subject) (finding, error)) finder {
	return func(e *evidence, _ uint64, r *reading) (finding, error) {
		s, err := e.sparse.subject(r)
		if err != nil {
			return finding{}, err
		}
		f, err := find(s)
		f.timed = f.least == 0 || f.least != f.most
		return f, err
	}
}

// subject is a reading with the configurations of the paper's system and of the other, nil without
// one.
type subject struct {
	*reading
	own, over *machine
}

func (m *machines) subject(r *reading) (s *subject, err error) {
	s = &subject{reading: r}
	if s.own, err = m.get(r.Set...); err == nil && len(r.Over) > 0 {
		s.over, err = m.get(r.Over...)
	}
	return s, err
}

type machines struct{ all map[string]*machine } // configurations by their keys

// machine is a configuration whose iterations are split into parts.
type machine struct {
	among      *machines
	sets       []string
	cfg        *configs.Config
	iterations *gpus.GPUIterations
	salient    []float64 // of HGCA's heads, once computed
}

func (x *machine) with(sets ...string) (*machine, error) {
	return x.among.get(slices.Concat(x.sets, sets)...)
}

// get loads a configuration on top of sparseBase.
func (m *machines) get(sets ...string) (*machine, error) {
	key := strings.Join(sets, "\n")
	if x := m.all[key]; x != nil {
		return x, nil
	}
	cfg, err := system.Load(configs.Options{Sets: slices.Concat(sparseBase, sets)})
	if err != nil {
		return nil, err
	}
	if m.all == nil {
		m.all = map[string]*machine{}
	}
	m.all[key] = &machine{among: m, sets: sets, cfg: cfg, iterations: kinds.NewGPUIterations(cfg)}
	return m.all[key], nil
}

type iteration []float64 // the seconds of groups, by gpus.IterationPart, followed by the host's

// attentionParts are the parts that an attention policy changes.
var attentionParts = []gpus.IterationPart{
	gpus.PartPrefillAttention, gpus.PartDecodeAttention, gpus.PartScores, gpus.PartChoice, gpus.PartPasses, gpus.PartMerge,
}

// sum adds the seconds of parts.
func (x iteration) sum(parts ...gpus.IterationPart) (s float64) {
	for _, p := range parts {
		s += x[p]
	}
	return s
}

func (x iteration) attention() float64 { return x.sum(attentionParts...) }

func (x iteration) total() (s float64) {
	for _, part := range x {
		s += part
	}
	return s
}

// String returns the milliseconds of the groups that take at least 1% of the time.
func (x iteration) String() string {
	var parts []string
	for i, s := range x {
		name := "host"
		if i < len(gpus.IterationParts()) {
			name = gpus.IterationPart(i).String()
		}
		if s >= 0.01*x.total() {
			parts = append(parts, fmt.Sprintf("%s %.4g", name, 1e3*s))
		}
	}
	return fmt.Sprintf("%.4g ms (%s)", 1e3*x.total(), strings.Join(parts, ", "))
}

// meanSteps is the number of decode steps in a mean, a multiple of all periods of claims; settled
// is the number of steps after the prompt at which they begin.
const meanSteps, settled = 16, 16

// iterate returns an iteration of a batch of requests of one context: a prefill, or a decode step.
func (x *machine) iterate(prefill bool, batch, context int) iteration {
	sum := make(iteration, len(gpus.IterationParts()))
	add := func(one gpus.GPUIteration, steps int) {
		for i, took := range one {
			sum[i] += float64(took.Seconds() / float64(steps)) // a constant divisor becomes a factor
		}
	}
	if prefill {
		add(x.iterations.Parts(nil, slices.Repeat([]scheduler.Chunk{{Tokens: context, Last: true}}, max(batch, 1))...), 1)
	} else {
		for step := range meanSteps {
			r := policy.Request{Prompt: context, Context: context + settled + 1 + step}
			add(x.iterations.Parts(slices.Repeat([]policy.Request{r}, max(batch, 1))), meanSteps)
		}
	}
	return sum
}

// ours and base return the iterations that a reading compares.
func (s *subject) ours(context int) iteration { return s.iterate(s.own, context) }
func (s *subject) base(context int) iteration { return s.iterate(s.over, context) }

func (s *subject) iterate(x *machine, context int) iteration {
	prefill := s.Phase == prefillPhase
	i := x.iterate(prefill, s.Batch, context)
	if s.OneBlock && !prefill && x.cfg.Policy.Name == "lserve" && i[gpus.PartScores] > 0 {
		i[gpus.PartScores], i[gpus.PartDecodeAttention] = x.blockScores(context), x.blockAttention(context)
	}
	if s.Host && !prefill {
		i = append(i, s.hostTime)
	}
	return i
}

func (s *subject) share() (finding, error) {
	x := s.ours(s.Contexts[0])
	return finding{value: x.attention() / x.total(), reason: fmt.Sprintf("%v at %s tokens", x, tokens(s.Contexts[0]))}, nil
}

// time returns the seconds of an iteration, or of all Steps, less those at a shorter context if one is given.
func (s *subject) time() (finding, error) {
	x := s.ours(s.Contexts[0])
	if s.Beyond > 0 {
		short := s.ours(s.Beyond)
		return finding{value: (x.total() - short.total()) * float64(max(s.Steps, 1)), reason: fmt.Sprintf("%v at %s tokens, %v at %s", x, tokens(s.Contexts[0]), short, tokens(s.Beyond))}, nil
	}
	return finding{value: x.total() * float64(max(s.Steps, 1)), reason: fmt.Sprintf("%v at %s tokens", x, tokens(s.Contexts[0]))}, nil
}

// growth returns the time of an iteration at the second context over that at the first.
func (s *subject) growth() (finding, error) {
	short, long := s.ours(s.Contexts[0]), s.ours(s.Contexts[1])
	return finding{value: long.total() / short.total(), reason: fmt.Sprintf("%v at %s against %v at %s tokens", long, tokens(s.Contexts[1]), short, tokens(s.Contexts[0]))}, nil
}

// ratio returns base's time over that of the paper's system, as the mean or the maximum over the contexts; the
// bound assumes attention without any time.
func (s *subject) ratio() (finding, error) {
	f, contexts := finding{}, s.contexts()
	for _, context := range contexts {
		x, b := s.ours(context), s.base(context)
		r, most := b.total()/x.total(), b.total()/(x.total()-x.attention())
		if s.Worst {
			f.value, f.most = max(f.value, r), max(f.most, most)
		} else {
			f.value, f.most = f.value+float64(r/float64(len(contexts))), f.most+float64(most/float64(len(contexts)))
		}
		f.reason = fmt.Sprintf("%v against %v at %s tokens", x, b, tokens(context))
	}
	f.reason += fmt.Sprintf("; with attention free %.3g", f.most)
	return f, nil
}

func (s *subject) attentionRatio() (finding, error) {
	f := finding{}
	for _, context := range s.Contexts {
		x, b := s.ours(context), s.base(context)
		f.value += b.attention() / x.attention() / float64(len(s.Contexts))
		f.reason = fmt.Sprintf("attention of all layers %.4g ms against %.4g ms at %s tokens", 1e3*x.attention(), 1e3*b.attention(), tokens(context))
	}
	return f, nil
}

func (s *subject) contexts() []int {
	if s.Longest {
		return []int{s.over.longest()}
	}
	return s.Contexts
}

// longest returns the longest context of a single request that fits a machine's memory.
func (x *machine) longest() int {
	llm := &x.cfg.Model
	return int((x.room() - float64(llm.WeightBytes())) / float64(llm.KVBytesPerToken()))
}

// memory returns the memory of base with one request, weights included, divided by that of the paper's
// system. Without a base it is the system's memory with all requests of a batch, copies and the GPUs' share,
// over its GPU's.
func (s *subject) memory() (finding, error) {
	context := s.contexts()[0]
	own, reason, err := s.own.held(context, max(s.Batch, 1)*max(s.Copies, 1), cmp.Or(s.Share, 1))
	if err != nil || s.over == nil {
		return finding{value: own, reason: reason}, err
	}
	base, other, err := s.over.held(context, 1, 1)
	return finding{value: base / own, reason: reason + " against " + other}, err
}

// held returns the share of a replica's memory, without activations, that weights and a share of the keys and
// values of requests of a context take.
func (x *machine) held(context, requests int, share float64) (float64, string, error) {
	roomy, err := x.with(`gpu.memory_capacity="1TiB"`)
	if err != nil {
		return 0, "", err
	}
	r, err := roomy.serve(1, context, 2)
	if err != nil {
		return 0, "", err
	}
	s, err := r.Summary(roomy.cfg)
	if err != nil {
		return 0, "", err
	}
	llm := &x.cfg.Model
	weights, kv := float64(llm.WeightBytes()), float64(share*float64(requests)*float64(s.KVBytes.Peak))
	all, what := x.room(), "a request"
	if requests > 1 {
		what = fmt.Sprintf("%d requests", requests)
	}
	return (weights + kv) / all, fmt.Sprintf("weights of %.1f GB and %.1f GB of %s of %s tokens in %.1f GB", weights/1e9, kv/1e9, what, tokens(context), all/1e9), nil
}

// room returns the memory of a replica's GPUs for weights, keys and values.
func (x *machine) room() float64 {
	llm := &x.cfg.Model
	return float64(units.Bytes(llm.TensorParallel)*x.cfg.GPU.UsableMemory() - llm.ActivationBytes(x.cfg.Batching.MaxBatchTokens))
}

// serve runs a batch of equal requests that arrive at once.
func (x *machine) serve(batch, in, out int) (*system.Result, error) {
	n, err := system.NewNode(x.cfg)
	if err != nil {
		return nil, err
	}
	return n.Run(context.Background(), traces.Equal("equal requests", batch, in, out), system.Options{})
}

func tokens(n int) string {
	if n%1024 == 0 {
		return fmt.Sprintf("%dK", n/1024)
	}
	return fmt.Sprint(n)
}
