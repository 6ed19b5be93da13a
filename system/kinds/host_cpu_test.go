package kinds

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/system/hosts"
	"github.com/l3sim/l3sim/units"
)

// hostCall is a row of testdata/host_cpu.csv: a stream (read: op sum) or decode attention of 32
// heads of 128 elements. They ran in PyTorch 2.11 on 16 cores of a Xeon with AMX (the host of an
// H100); values are medians of repeated calls on the same data.
type hostCall struct {
	op, dtype      string
	threads        int
	batch, context int
	seconds, bytes float64
}

func readHostCalls(t *testing.T) []hostCall {
	t.Helper()
	f, err := os.Open("testdata/host_cpu.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	number := func(s string) float64 {
		if s == "" { // the streams have no shape
			return 0
		}
		x, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	var calls []hostCall
	for _, r := range rows[1:] {
		calls = append(calls, hostCall{op: r[0], threads: int(number(r[1])), batch: int(number(r[2])), context: int(number(r[3])),
			dtype: r[6], seconds: number(r[7]) * 1e-6, bytes: number(r[8])})
	}
	return calls
}

// hostElementBits is the width of the types in the file.
var hostElementBits = map[string]float64{"fp32": 32, "bf16": 16, "fp16": 16}

// TestHostMeasurements derives the defaults of [cpu_offload] from the measurements: the share of a
// read stream that attention reaches if memory binds, a core's time for an element, and a bound of
// the overhead.
func TestHostMeasurements(t *testing.T) {
	calls := readHostCalls(t)
	stream := map[int]float64{} // bytes a second by threads
	for _, c := range calls {
		if c.op == "sum" {
			stream[c.threads] = c.bytes / c.seconds
		}
	}
	if got := stream[16] / 1e9; math.Abs(got-107.6) > 0.1 {
		t.Errorf("read stream of 16 cores %.1f GB/s", got)
	}
	share, element := map[string]float64{}, map[string][]float64{}
	smallest := math.Inf(1)
	for _, c := range calls {
		if c.op != "decode_attention" {
			continue
		}
		smallest = min(smallest, c.seconds)
		if c.threads != 16 || c.bytes < 1<<29 { // less may lie in the caches, call after call
			continue
		}
		if c.batch == 16 && c.context == 8192 {
			share[c.dtype] = c.bytes / c.seconds / stream[16]
		}
		element[c.dtype] = append(element[c.dtype], 1e12*16*c.seconds/(c.bytes*8/hostElementBits[c.dtype]))
	}
	for dtype, want := range map[string]float64{"fp32": 0.95, "bf16": 0.76, "fp16": 0.47} {
		if math.Abs(share[dtype]-want) > 0.005 {
			t.Errorf("%s reaches %.3f of the stream, the documents say %v", dtype, share[dtype], want)
		}
	}
	cfg := rigOf(t).cfg
	spec := configs.Section[hosts.CPUOffload](cfg)
	slices.Sort(element["bf16"])
	slices.Sort(element["fp16"])
	if got := (element["bf16"][1] + element["bf16"][2]) / 2; math.Abs(got-float64(spec.ElementTime)) > 1 {
		t.Errorf("median of a core's time for a BF16 element %.1f ps, the default is %v", got, spec.ElementTime)
	}
	if got := element["fp16"][0]; math.Abs(got-631) > 1 {
		t.Errorf("a core's time for an FP16 element %.1f ps, the documents say 631", got)
	}
	// STREAM's share of the peak on the EPYC, times the share of a stream that FP32, which needs no
	// conversion, reaches.
	if got := 339 / 409.6 * share["fp32"]; math.Abs(got-spec.MemoryEfficiency) > 0.015 {
		t.Errorf("derived memory efficiency %.3f, the default is %v", got, spec.MemoryEfficiency)
	}
	if got := 1e6 * smallest; math.Abs(got-323.9) > 0.1 || spec.Overhead.Microseconds() > got {
		t.Errorf("the shortest call takes %.1f us, the overhead is %v", got, spec.Overhead)
	}
}

// TestHostOverheadIsBelowTheNoise: of the calls on few bytes, all but one take no longer than their
// bytes at the stream's share. So the file shows no overhead, and has an outlier.
func TestHostOverheadIsBelowTheNoise(t *testing.T) {
	calls := readHostCalls(t)
	var slow []hostCall
	for _, small := range calls {
		if small.op != "decode_attention" || small.bytes >= 1<<29 {
			continue
		}
		rate := 0.0 // the best of the same threads and type on many bytes
		for _, c := range calls {
			if c.op == small.op && c.threads == small.threads && c.dtype == small.dtype && c.bytes >= 1<<29 {
				rate = max(rate, c.bytes/c.seconds)
			}
		}
		if small.seconds > 1.5*small.bytes/rate {
			slow = append(slow, small)
		}
	}
	if len(slow) != 1 || slow[0].threads != 16 || slow[0].dtype != "bf16" || slow[0].seconds < 1.9e-3 {
		t.Errorf("slow calls on few bytes: %+v, want that of 16 threads in BF16 alone", slow)
	}
}

// TestElementWidth: keys and values of half the width take half the time only while the cores
// convert them faster than memory delivers them.
func TestElementWidth(t *testing.T) {
	attend := func(sets ...string) float64 {
		hw := rigOf(t, append([]string{"run.system=cpu-offload", "run.model=gpt-89b"}, sets...)...).Hardware
		h := hosts.New(hw, flow.NewAttends(hw))
		return h.Attend(100_000).Seconds()
	}
	wide, narrow := attend(), attend("model.element_bits=8")
	cores := attend("model.element_bits=8", "cpu_offload.element_time=1ns")
	free := attend("model.element_bits=8", "cpu_offload.element_time=0ps")
	if math.Abs(free/wide-0.5) > 1e-6 || narrow < free || cores <= narrow {
		t.Errorf("16 bits %g s, 8 bits %g, at 1 ns an element %g, without conversion %g", wide, narrow, cores, free)
	}
	// 2 replicas of gpt-89b: half of 128 cores, 96 heads of 128 elements of keys and values each.
	if want := 1e-9 * 2 * 96 * 128 * 100_000 / 64; math.Abs(cores/want-1) > 1e-6 {
		t.Errorf("at 1 ns an element %g s, want %g", cores, want)
	}
}

// TestHGCAHost: on HGCA's machine the CPUs attend at 0.8 of eight channels of DDR5-4400. That is nine
// times as fast as a GPU gets keys and values over its link (in HGCA's Figure 6 the CPUs are ahead).
func TestHGCAHost(t *testing.T) {
	hw := rigOf(t, "preset=hgca", "node.gpus=1").Hardware
	h := hosts.New(hw, flow.NewAttends(hw))
	const tokens = 10_000
	bytes := 2 * 40 * 128 * 2.0 * tokens // of OPT-13B in one layer
	got := h.Attend(tokens).Seconds()
	if want := bytes / (0.8 * 8 * 8 * 4.4e9); math.Abs(got/want-1) > 2e-3 { // tCK has whole picoseconds
		t.Errorf("%g s, want %g", got, want)
	}
	if over := bytes / float64(h.Link) / got; over < 8.5 || over > 9.5 {
		t.Errorf("the link takes %.2f times as long", over)
	}
}

// TestHostAttention compares the roofline of a replica's share of the host with the figures of the
// default node; GPT-89B has 2 replicas.
func TestHostAttention(t *testing.T) {
	n := rigOf(t, "run.system=cpu-offload", "run.model=gpt-89b")
	cfg, hw := n.cfg, n.Hardware
	h := hosts.New(hw, flow.NewAttends(hw))
	// 8 channels of 25.6 GB/s at 0.8; K and V of 96 heads of 128 FP16 elements.
	const tokens = 1000
	bytes := 2.0 * 96 * 128 * 2 * tokens
	if got, want := h.Attend(tokens).Seconds(), bytes/(8*25.6e9*0.8); math.Abs(got/want-1) > 1e-9 {
		t.Errorf("attention over %d tokens takes %v s, reading them %v s", tokens, got, want)
	}
	// q, k and v of 3 requests go down 4 links of 0.79 times 16 lanes of 16 GT/s, 128b/130b; one result each comes up.
	link := 4 * 0.79 * 16 * 16e9 * 128 / 130 / 8
	want := 2*5e-6 + 20e-6 + bytes/(8*25.6e9*0.8) + 3*(3+1)*96*128*2/link
	if got := h.HostAttention(3, tokens).Seconds(); math.Abs(got/want-1) > 1e-6 {
		t.Errorf("with transfers %v s, want %v s", got, want)
	}
	// Three requests of as many tokens each, with one query and with four.
	apart := NewHostAttention(rigOf(t, "run.system=gpu+cpu", "run.model=gpt-89b").cfg)
	if got, want := apart.OnCPUs(3, 1, tokens).Seconds(), want+2*bytes/(8*25.6e9*0.8); math.Abs(got/want-1) > 1e-6 {
		t.Errorf("three requests take %v s, by hand %v s", got, want)
	}
	want = 2*5e-6 + 20e-6 + 3*h.AttendNew(4, tokens).Seconds() + 4*3*(3+1)*96*128*2/link
	if got := apart.OnCPUs(3, 4, tokens).Seconds(); math.Abs(got/want-1) > 1e-6 {
		t.Errorf("three requests of four queries take %v s, by hand %v s", got, want)
	}
	if got, want := float64(apart.Bandwidth()), 8*25.6e9; math.Abs(got/want-1) > 1e-9 {
		t.Errorf("the host's memory has %v B/s, by hand %v", got, want)
	}
	// With one core, the elements of K and V bound, or, if they take no time, 4 operations for each two.
	for _, c := range []struct {
		element string
		want    float64
	}{{"390ps", 390e-12 * 2 * 96 * 128 * tokens}, {"0ps", 4 * 96 * 128 * tokens / (72e9 * 0.5)}} {
		for key, value := range map[string]string{"cores": "2", "element_time": c.element} {
			if err := cfg.Set("cpu_offload."+key, value); err != nil {
				t.Fatal(err)
			}
		}
		one := hosts.New(hw, flow.NewAttends(hw))
		if got := one.Attend(tokens).Seconds(); math.Abs(got/c.want-1) > 1e-6 {
			t.Errorf("one core takes %v s at %s an element, want %v s", got, c.element, c.want)
		}
	}
}

// TestHostOfDrafts: the CPUs read and convert keys and values once for all tokens that a step verifies, and multiply them for each.
// Tokens of a prompt that attend there are counted separately.
func TestHostOfDrafts(t *testing.T) {
	const tokens = 50_000
	for _, efficiency := range []float64{0.5, 0.01} { // memory binds, then arithmetic
		for k := 1; k <= 4; k++ {
			cfg, err := Loader().Load(configs.Options{Sets: []string{"run.system=gpu+cpu", "run.model=llama-3-8b", "node.gpus=1", fmt.Sprint("cpu_offload.compute_efficiency=", efficiency),
				fmt.Sprint("serving.verified_tokens=", k), "serving.acceptance=0.5"}})
			if err != nil {
				t.Fatal(err)
			}
			h := Of(cfg).Derive(cfg)
			cpus := hosts.New(h, flow.NewAttends(h))
			// 8 KV heads of 128 elements in 16 bits, 32 query heads, 128 cores of 72 GFLOP/s, 390 ps an element.
			read := tokens * 2 * 8 * 128 * 2 / (0.8 * float64(h.Channels()))
			convert := tokens * 2 * 8 * 128 * 390e-12 / 128
			each := tokens * 4 * 32 * 128 / (128 * 72e9 * efficiency)
			if got, want := cpus.Attend(tokens).Seconds(), max(read, convert, float64(k)*each); math.Abs(got-want) > 2e-12 {
				t.Errorf("%d tokens, efficiency %v: %v s, want %v", k, efficiency, got, want)
			}
			if got, want := cpus.AttendNew(3, tokens).Seconds(), max(read, convert, 3*each); math.Abs(got-want) > 2e-12 {
				t.Errorf("%d tokens, efficiency %v: three tokens of a prompt take %v s, want %v", k, efficiency, got, want)
			}
			if got, want := cpus.Down(7), units.FromSeconds(float64(k*7*(4096+2*1024)*2)/float64(cpus.Link)); max(got-want, want-got) > 1 {
				t.Errorf("%d tokens: vectors of seven requests go down in %v, want %v", k, got, want)
			}
		}
	}
}
