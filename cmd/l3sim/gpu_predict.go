package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/units"
)

type predictFlags struct {
	cli.GPUFlags
	op, bytes                          string
	size                               units.Bytes // value of bytes
	m, n, k                            int
	chunk, finished                    int
	batch                              int
	context                            []int
	heads, kvHeads, dim, width, kvBits int
	kvFormat                           string
	gpus, page, pages                  int
	perQueryHead                       bool
}

// predictOp is a value of --op: the flags that it needs, and the cost of the kernel that they describe.
type predictOp struct {
	name  string
	needs []string
	cost  func(f *predictFlags, s *gpu.Spec, heads gpu.Heads) gpu.Cost
}

var predictOps = []predictOp{
	{"gemm", []string{"m", "n", "k"}, func(f *predictFlags, s *gpu.Spec, _ gpu.Heads) gpu.Cost { return s.GEMMCost(f.m, f.n, f.k, f.width) }},
	{"norm", []string{"m", "n"}, func(f *predictFlags, s *gpu.Spec, _ gpu.Heads) gpu.Cost { return s.Norm(f.m, f.n, f.width) }},
	{"activation", []string{"m", "n"}, func(f *predictFlags, s *gpu.Spec, _ gpu.Heads) gpu.Cost {
		return s.Activation(f.m, f.n, false, f.width)
	}},
	{"prefill", []string{"chunk", "heads"}, func(f *predictFlags, s *gpu.Spec, heads gpu.Heads) gpu.Cost {
		return s.PrefillAttentionCost(f.batch, f.chunk, f.finished, heads)
	}},
	{"decode", []string{"context", "heads"}, func(f *predictFlags, s *gpu.Spec, heads gpu.Heads) gpu.Cost {
		return s.DecodeAttentionCost(f.decoding(1), heads)
	}},
	{"allreduce", []string{"gpus", "bytes"}, func(f *predictFlags, s *gpu.Spec, _ gpu.Heads) gpu.Cost { return s.AllReduceCost(f.gpus, f.size) }},
	{"page-score", []string{"context", "page", "heads"}, func(f *predictFlags, s *gpu.Spec, heads gpu.Heads) gpu.Cost {
		return s.PageScoreCost(gpu.PageScores{Pages: f.decoding(f.page), PerQueryHead: f.perQueryHead}, heads)
	}},
	{"top-k", []string{"context", "page", "pages", "heads"}, func(f *predictFlags, s *gpu.Spec, heads gpu.Heads) gpu.Cost {
		return s.TopKCost(f.decoding(f.page), f.selecting(heads).KV, f.pages)
	}},
	{"page-attention", []string{"page", "pages", "heads"}, func(f *predictFlags, s *gpu.Spec, heads gpu.Heads) gpu.Cost {
		return s.PageAttentionCost(gpu.UniformBatch(f.batch, f.pages*f.page), f.page, f.selecting(heads))
	}},
}

func (f *predictFlags) selecting(heads gpu.Heads) gpu.Heads {
	if f.perQueryHead {
		heads.KV = heads.Query
	}
	return heads
}

func predictNames() []string {
	return list.Map(predictOps, func(op predictOp) string { return op.name })
}

func (a *app) newGPUPredictCommand() *cobra.Command {
	var f predictFlags
	cmd := &cobra.Command{
		Use:   "predict",
		Short: "Predict the time and energy of one kernel",
		Long: `Predict the time and energy of one kernel.

A kernel measured alone takes longer than in a graph of many. A kernel that runs for seconds slows down where it would
draw more than the power limit. The time and its parts are those of a kernel measured alone.`,
		Example: `  l3sim gpu predict --gpu a100-sxm-80gb --op gemm --m 64 --n 12288 --k 4096
  l3sim gpu predict --gpu h200-sxm --op prefill --chunk 512 --finished 4096 --heads 32 --kv-heads 8
  l3sim gpu predict --gpu a100-sxm-80gb --op decode --context 100,2000,30000 --heads 32
  l3sim gpu predict --gpu a100-sxm-80gb --op allreduce --gpus 8 --bytes 64MiB
  l3sim gpu predict --gpu h200-sxm --op page-attention --batch 16 --page 16 --pages 256 --heads 32 --kv-heads 8`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.gpuPredict(cmd, &f) },
	}
	flags := cmd.Flags()
	f.Register(a.App, flags)
	flags.StringVar(&f.op, "op", "", "`kernel`: "+strings.Join(predictNames(), ", "))
	flags.IntVar(&f.m, "m", 0, "gemm, norm, activation: rows (tokens)")
	flags.IntVar(&f.n, "n", 0, "gemm, norm, activation: columns")
	flags.IntVar(&f.k, "k", 0, "gemm: inner size")
	flags.IntVar(&f.chunk, "chunk", 0, "prefill: query tokens")
	flags.IntVar(&f.finished, "finished", 0, "prefill: tokens before the chunk")
	flags.IntVar(&f.batch, "batch", 1, "prefill, decode, pages: equal requests")
	flags.IntSliceVar(&f.context, "context", nil, "decode, page-score, top-k: context length, or one for each request")
	flags.IntVar(&f.heads, "heads", 0, "attention: query heads")
	flags.IntVar(&f.kvHeads, "kv-heads", 0, "attention: KV heads (default: as many as --heads)")
	flags.IntVar(&f.dim, "head-dim", 128, "attention: elements of a head")
	flags.IntVar(&f.width, "bits", 16, "element width, 16 or 8")
	flags.StringVar(&f.kvFormat, "kv-format", "", "`format` of keys and values in the cache: fp16, bf16, fp8, int8 or int4 (default: as --kv-bits)")
	flags.IntVar(&f.kvBits, "kv-bits", 0, "width of keys and values in the cache, 16, 8 or 4, these with scale and zero of each token (default: as --bits)")
	flags.IntVar(&f.page, "page", 0, "page-score, top-k, page-attention: tokens of a page")
	flags.IntVar(&f.pages, "pages", 0, "top-k, page-attention: pages selected of each request")
	flags.BoolVar(&f.perQueryHead, "per-query-head", false, "page-score, top-k, page-attention: each query head has scores, a selection and pages of its own")
	flags.IntVar(&f.gpus, "gpus", 0, "allreduce: GPUs")
	flags.StringVar(&f.bytes, "bytes", "", "allreduce: size, in `bytes` or with a unit (64MiB)")
	_ = cmd.RegisterFlagCompletionFunc("op", cobra.FixedCompletions(predictNames(), cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

// gpuPredict checks the flags that --op needs and prints the kernel's cost.
func (a *app) gpuPredict(cmd *cobra.Command, f *predictFlags) error {
	g, _, err := f.Load(cmd)
	if err != nil {
		return err
	}
	i := slices.Index(predictNames(), f.op)
	if i < 0 {
		return input.UnknownName("--op", f.op, predictNames())
	}
	for _, flag := range predictOps[i].needs {
		if err := cli.RequireFlag(cmd, flag, "a value, which --op "+f.op+" needs"); err != nil {
			return err
		}
	}
	if err := f.check(cmd); err != nil {
		return err
	}
	kv := llm.Model{ElementBits: f.width, Widths: llm.Widths{KVFormat: llm.KVFormat(f.kvFormat), KVBits: f.kvBits}}
	heads := gpu.Heads{Query: f.heads, KV: f.kvHeads, Dim: f.dim, ElementBits: f.width, KVBits: kv.KVElementBits(), KVScaleBytes: kv.KVScaleBytes(), KVFloat: kv.KVFloat()}
	return a.printCost(g, f, predictOps[i].cost(f, g, heads))
}

// beyond says how a kernel exceeds the range to which its GPU's parameters were fitted, "" if it does not or no range is
// known.
func (f *predictFlags) beyond(s *gpu.Spec) string {
	switch f.op {
	case "gemm":
		return s.GEMMBeyond(f.m, f.n, f.k)
	case "prefill":
		return s.PrefillBeyond(f.chunk, f.finished)
	case "decode":
		return s.DecodeBeyond(f.decoding(1))
	}
	return ""
}

func (f *predictFlags) check(cmd *cobra.Command) error {
	if !cmd.Flags().Changed("kv-heads") {
		f.kvHeads = f.heads
	}
	const most = 1 << 40
	for _, name := range strings.Fields("m n k chunk finished batch heads kv-heads head-dim gpus page pages") {
		low := 1
		if name == "finished" {
			low = 0
		}
		if n, _ := cmd.Flags().GetInt(name); cmd.Flags().Changed(name) && (n < low || n > most) {
			return wrongSize(name, n, "%d to 2^40", low)
		}
	}
	for _, c := range f.context {
		if c < 1 || c > most {
			return wrongSize("context", c, "at least 1")
		}
	}
	switch {
	case f.heads > 0 && f.heads%f.kvHeads != 0:
		return wrongSize("kv-heads", f.kvHeads, "a divisor of --heads %d", f.heads)
	case f.page > 0 && f.pages > most/f.page:
		return wrongSize("pages", f.pages, "at most 2^40 tokens, %d pages of %d", most/f.page, f.page)
	case f.width != 16 && f.width != 8:
		return wrongSize("bits", f.width, "16 or 8")
	case !slices.Contains([]int{0, 4, 8, 16}, f.kvBits):
		return wrongSize("kv-bits", f.kvBits, "16, 8 or 4")
	case f.kvFormat != "" && f.kvBits != 0:
		return wrongSize("kv-bits", f.kvBits, "no value with --kv-format")
	case f.kvFormat != "" && !slices.Contains(llm.KVFormats(), f.kvFormat):
		return input.UnknownName("--kv-format", f.kvFormat, llm.KVFormats())
	case len(f.context) > 1 && cmd.Flags().Changed("batch") && f.batch != len(f.context):
		return wrongSize("batch", f.batch, "%d, the number of contexts", len(f.context))
	}
	if f.op == "top-k" {
		if all := (slices.Min(f.context)-1)/f.page + 1; f.pages > all {
			return wrongSize("pages", f.pages, "at most the %d pages of the shortest context", all)
		}
	}
	return f.parseBytes(cmd)
}

func wrongSize(flag string, value int, expected string, args ...any) error {
	return &input.Error{Key: "--" + flag, Value: strconv.Itoa(value), Expected: fmt.Sprintf(expected, args...)}
}

func (f *predictFlags) parseBytes(cmd *cobra.Command) error {
	if n, err := strconv.ParseInt(f.bytes, 10, 64); err == nil {
		f.size = units.Bytes(n)
	} else if err := f.size.UnmarshalText([]byte(f.bytes)); err != nil && cmd.Flags().Changed("bytes") {
		return &input.Error{Key: "--bytes", Value: strconv.Quote(f.bytes), Err: err}
	}
	if f.op == "allreduce" && f.size < 1 {
		return &input.Error{Key: "--bytes", Value: f.bytes, Expected: "at least 1"}
	}
	return nil
}

// decoding returns the batch of --context or --batch, its contexts in pages of page tokens.
func (f *predictFlags) decoding(page int) gpu.DecodeBatch {
	if len(f.context) == 1 {
		return gpu.UniformBatch(f.batch, (f.context[0]-1)/page+1)
	}
	var batch gpu.DecodeBatch
	for _, c := range f.context {
		batch.Add((c-1)/page + 1)
	}
	return batch
}

// prediction is the JSON of `gpu predict`.
type prediction struct {
	GPU             string  `json:"gpu"`
	Op              string  `json:"op"`
	Suite           string  `json:"suite"`
	Time            float64 `json:"time_us"`      // measured alone; for an all-reduce in a graph
	Graph           float64 `json:"graph_us"`     // in a graph, for milliseconds
	Sustained       float64 `json:"sustained_us"` // in a graph, for seconds: the power limit applies
	Joules          float64 `json:"joules"`       // sustained, of one GPU
	Limit           string  `json:"limit"`
	Compute         float64 `json:"compute_us"`
	Memory          float64 `json:"memory_us"`
	Latency         float64 `json:"latency_us"`
	Overhead        float64 `json:"overhead_us"`
	FLOPs           float64 `json:"flops"`
	Bytes           float64 `json:"bytes"`
	PeakFLOPShare   float64 `json:"peak_flop_share"`
	PeakMemoryShare float64 `json:"peak_bandwidth_share"` // of memory; of NVLink's parameter for an all-reduce
	Beyond          string  `json:"beyond,omitempty"`     // how the kernel exceeds the measured range, so that its time is extrapolated
}

// printCost prints a kernel's time in a graph and alone, the limit that binds, and its shares of
// peak rates.
func (a *app) printCost(s *gpu.Spec, f *predictFlags, c gpu.Cost) error {
	peak, bandwidth, name := float64(s.Peak16), float64(s.MemoryBandwidth), "memory bandwidth"
	if f.width == 8 {
		peak = float64(s.Peak8)
	}
	graph := c
	if f.op != "allreduce" { // its parameters hold for graphs and for streams that are never empty
		c = s.MeasuredAlone(c)
	}
	limit := c.Limit()
	if f.op == "allreduce" {
		bandwidth, name = float64(s.Collective.Bandwidth), "all-reduce bandwidth"
		if limit == "memory" {
			limit = "link"
		}
	}
	p := prediction{
		GPU: s.Name, Op: f.op, Suite: string(s.Suite), Time: c.Seconds * 1e6, Graph: graph.Seconds * 1e6, Limit: limit, Compute: c.Compute * 1e6, Memory: c.Memory * 1e6,
		Latency: c.Latency * 1e6, Overhead: c.Overhead * 1e6, FLOPs: c.FLOPs, Bytes: c.Bytes, Beyond: f.beyond(s),
	}
	sustained, joules := s.KernelSustained(graph)
	p.Sustained, p.Joules = sustained*1e6, joules
	watts := 0.0
	if sustained > 0 {
		watts = joules / sustained
	}
	if c.Seconds > 0 {
		p.PeakFLOPShare, p.PeakMemoryShare = c.FLOPs/c.Seconds/peak, c.Bytes/c.Seconds/bandwidth
	}
	return a.PrintAligned(p, 0, func(w io.Writer) {
		where := "measured alone"
		if f.op == "allreduce" {
			where = "in a stream that is never empty"
		}
		fmt.Fprintf(w, "time\t%.3f us\ton %s, %s\n", p.Time, p.GPU, where)
		fmt.Fprintf(w, "in a graph\t%.3f us\tfor milliseconds\n", p.Graph)
		fmt.Fprintf(w, "sustained\t%.3f us\tfor seconds: %.3g J, %.0f W\n", p.Sustained, p.Joules, watts)
		fmt.Fprintf(w, "limit\t%s\tof the four below\n", p.Limit)
		fmt.Fprintf(w, "compute\t%.3f us\t%.1f%% of %v\n", p.Compute, 100*p.PeakFLOPShare, units.FLOPRate(peak))
		fmt.Fprintf(w, "memory\t%.3f us\t%.1f%% of %v %s\n", p.Memory, 100*p.PeakMemoryShare, units.Bandwidth(bandwidth), name)
		fmt.Fprintf(w, "latency\t%.3f us\t\n", p.Latency)
		fmt.Fprintf(w, "overhead\t%.3f us\t\n", p.Overhead)
		if p.Beyond != "" {
			fmt.Fprintf(w, "extrapolated\tall of it\t%s\n", p.Beyond)
		}
	})
}
