package plan

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/input/schema"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/system/kinds"
)

// axis is a knob of the server with the values among which a search chooses. A value is settings of keys.
type axis struct {
	key    string
	values [][]string
	starts []int // indices from which searches begin, for a knob with an order: the effect of a value is between those of its neighbours
	arm    bool  // the other knobs have a separate optimum for each value
}

const leastSeqs = 8

// The grid: prompt tokens in an iteration, also between powers of two, each a multiple of the kernels' tile; and batch limits. Searches
// begin at 2,048 and 1,024, with which vLLM starts on large GPUs; at 512 and 1,024; and at the smallest of both, which only tight targets
// need.
var (
	chunks, seqs            = geometric(256, 8192, 4, 16), geometric(leastSeqs, 4096, 1, 1)
	chunkStarts, seqsStarts = []int{12, 4, 0}, []int{7, 7, 0}
)

// geometric returns a number of values per doubling, each rounded to a multiple.
func geometric(least, most float64, perDoubling, multiple int) (all []string) {
	for i := range perDoubling*int(math.Log2(most/least)) + 1 {
		v := least * math.Exp2(float64(i)/float64(perDoubling))
		all = append(all, strconv.Itoa(multiple*int(math.Round(v/float64(multiple)))))
	}
	return all
}

const (
	tensorParallel = "model.tensor_parallel"
	maxSeqs        = "batching.max_num_seqs"
	admission      = "memory.admission"
	history        = "memory.history"
)

// asServers is the admission of servers, which do not know output lengths: they admit what fits now, and may have to preempt it.
var asServers = []string{admission + "=current", history + "=0"}

// memoryShare is the share of a GPU's memory that servers use: vLLM's default gpu_memory_utilization. SGLang and TensorRT-LLM use about as much.
const memoryShare = "gpu.memory_share=0.9"

// shareOf returns the setting of the servers' share of memory, unless the user has chosen another.
func shareOf(o configs.Options) []string {
	if key, _, _ := strings.Cut(memoryShare, "="); Given(o, key) {
		return nil
	}
	return []string{memoryShare}
}

// AsServer returns options with the share of memory and the admission of servers, unless the user has chosen others. Naming a variant
// counts as a choice of the admission.
func AsServer(o configs.Options) configs.Options {
	sets := shareOf(o)
	for _, set := range asServers {
		if key, _, _ := strings.Cut(set, "="); !Given(o, key) && !Given(o, "run.variant") {
			sets = append(sets, set)
		}
	}
	o.Sets = slices.Concat(sets, o.Sets)
	return o
}

// Given says that the user has set a key: by --set, a flag or a file of --config.
func Given(o configs.Options, key string) bool {
	if slices.ContainsFunc(o.Sets, func(s string) bool { return strings.HasPrefix(s, key+"=") }) ||
		slices.ContainsFunc(o.Flags, func(f configs.Flag) bool { return f.Key == key }) {
		return true
	}
	if len(o.ConfigFiles) == 0 {
		return false
	}
	e, err := system.Configs().Explain(o, key)
	return err == nil && slices.ContainsFunc(o.ConfigFiles, func(file string) bool { return strings.HasPrefix(e.SetIn, file+":") })
}

// grid returns the knobs of a server: how GPUs divide the model and how much they share, how prompts are batched and cut, the largest batch, and admission. A key
// that the user has set is no knob. Admission "final" is no value, since it knows output lengths.
func grid(o configs.Options, cfg *configs.Config) (axes []axis) {
	add := func(starts []int, arm bool, key string, values ...string) {
		if !Given(o, key) && system.Keys().Key(key) != nil {
			axes = append(axes, axis{key, list.Map(values, func(v string) []string { return []string{key + "=" + v} }), starts, arm})
		}
	}
	s := kinds.Of(cfg)
	p := &s.Planning
	add(nil, true, tensorParallel, divisors(cfg.Node.GPUs)...)
	for _, k := range s.Layouts(&cfg.Model) {
		add(nil, false, k.Key, k.Values...)
	}
	if p.Prefill != "" {
		add(nil, true, p.Prefill, kinds.ChunkedPrefill, kinds.PrefillFirst)
	}
	for _, k := range p.Knobs {
		add(nil, false, k.Key, k.Values...)
	}
	add(chunkStarts, false, p.ChunkKey(), chunks...)
	add(seqsStarts, false, maxSeqs, seqs...)
	if !Given(o, admission) && !Given(o, history) && !Given(o, "run.variant") {
		axes = append(axes, axis{admission, [][]string{asServers, {admission + "=max"}}, nil, false})
	}
	return axes
}

// divisors returns the possible numbers of GPUs of a replica, largest first: if any number serves something, the largest does.
func divisors(n int) (all []string) {
	for i := n; i >= 1; i-- {
		if n%i == 0 {
			all = append(all, strconv.Itoa(i))
		}
	}
	return all
}

// starts returns the points of a grid from which a search of the ordered knobs begins, with the others as in at.
func starts(axes []axis, at []int) (all [][]int) {
	for nth := range chunkStarts {
		p := slices.Clone(at)
		for i, x := range axes {
			if x.starts != nil {
				p[i] = x.starts[nth]
			}
		}
		if !slices.ContainsFunc(all, func(q []int) bool { return slices.Equal(p, q) }) {
			all = append(all, p)
		}
	}
	return all
}

// settings returns the settings of a point.
func settings(axes []axis, point []int) (all []string) {
	for i, v := range point {
		all = append(all, axes[i].values[v]...)
	}
	return all
}

// move is a change of a knob: its axis and the index of the new value.
type move struct{ axis, value int }

// from returns the point after the move from another.
func (m move) from(p []int) []int {
	q := slices.Clone(p)
	q[m.axis] = m.value
	return q
}

// arms returns the points of the knobs whose values each have a separate optimum of the others.
func arms(axes []axis) (all [][]int) {
	all = [][]int{make([]int, len(axes))}
	for i, x := range axes {
		if !x.arm {
			continue
		}
		var more [][]int
		for _, p := range all {
			for v := range x.values {
				more = append(more, move{i, v}.from(p))
			}
		}
		all = more
	}
	return all
}

// stride is the step of a search, for the rate and for ordered knobs.
type stride struct {
	rate        float64 // relative
	chunk, seqs []int   // grid indices
	choices     bool    // also tries other prompt policies
	both        bool    // ordered knobs move in both directions, whatever fails
}

// The strides of a search: by few requests, and by all requests. The last is used if no nearer
// neighbour is better.
var (
	coarse = stride{0.25, []int{8, 4, 2}, []int{2}, false, false}
	last   = stride{0.03, []int{1}, []int{1}, true, true}
	wide   = stride{0.03, []int{8, 4, 2}, nil, false, true}
)

// gaps says whether a failure concerns the times between tokens, which smaller chunks and batches improve; others concern waits and
// prompts, which larger ones improve.
func (f *Failure) gaps() bool {
	return strings.HasPrefix(f.Name, "TBT") || strings.HasPrefix(f.Name, "TPOT")
}

// neighbours returns the moves of one knob from a point. Ordered knobs go in the directions that failures suggest, or in both.
func neighbours(axes []axis, p []int, fails []Failure, by stride) (all []move) {
	down, up := by.both, by.both
	for i := range fails {
		if f := &fails[i]; f.Share == 0 || f.Share >= fails[0].Share/4 {
			down, up = down || f.gaps() || strings.HasPrefix(f.Name, "E2E"), up || !f.gaps()
		}
	}
	for i, x := range axes {
		steps := by.chunk
		if x.key == maxSeqs {
			steps = by.seqs
		}
		var to []int
		switch {
		case x.starts != nil:
			for _, step := range steps {
				if down {
					to = append(to, p[i]-step)
				}
				if up {
					to = append(to, p[i]+step)
				}
			}
		case !x.arm || by.choices && x.key != tensorParallel:
			for v := range x.values {
				to = append(to, v)
			}
		}
		for _, v := range to {
			if v >= 0 && v < len(x.values) && v != p[i] {
				all = append(all, move{i, v})
			}
		}
	}
	return all
}

// AsGiven returns a configuration for its hardware, model and trace, even if the model does not fit with the given tensor parallelism,
// which is a knob. If no tensor parallelism makes the sections valid, it returns the error of the configuration as given.
func AsGiven(o configs.Options) (cfg *configs.Config, err error) {
	o.SectionsOnly = true
	cfg, err = system.Load(o)
	for n := 1; err != nil && n <= 16; n *= 2 {
		with := o
		with.Sets = append(slices.Clone(o.Sets), tensorParallel+"="+strconv.Itoa(n))
		if other, bad := system.Load(with); bad == nil {
			return other, nil
		}
	}
	return cfg, err
}

// Infeasible says that an error of AsGiven comes from a rule between sections: model, GPUs and memory do not fit together. A wrong name or an
// invalid value is no such error.
func Infeasible(err error) bool {
	bad := (*input.Error)(nil)
	if !errors.As(err, &bad) || bad.Err != nil {
		return false
	}
	section, _ := schema.Split(bad.Key)
	return (section == "node" || section == "model") && slices.ContainsFunc(bad.OtherKeys, func(key string) bool {
		other, _ := schema.Split(key) // "" within the section
		return other != "" && other != section
	})
}

// Distinct identifies a configuration by the keys that its system uses: two with the same text are equivalent.
func Distinct(cfg *configs.Config) string {
	c, s := *cfg, kinds.Of(cfg)
	if !s.Uses("node.ranksets") {
		c.Node.Ranksets = 1
	}
	if !s.Uses("node.memory_capacity") {
		c.Node.MemoryCapacity = 1
	}
	hash, _ := c.SHA256() // cannot fail for a configuration that was loaded
	return hash
}
