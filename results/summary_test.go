package results

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with a file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: %v, got\n%s\nwant\n%s", name, err, got, want)
	}
}

// sample is a summary in which all numbers differ.
func sample() *Summary {
	return &Summary{
		About: About{
			Schema: Schema, System: "l3", Model: "gpt-175b", GPU: "a100-sxm-80gb",
			Trace: Trace{
				Name: "openr1", Requests: 1000, InputTokens: 96_000, OutputTokens: 12_684_100,
				InputMean: 96, InputStd: 74.626, OutputMean: 12684.1, OutputStd: 7883.626,
			},
			Arrivals: Arrivals{"poisson", 3.25}, Seed: 1, ConfigSHA256: strings.Repeat("0f", 32),
		},
		Throughput: Throughput{SimulatedS: 2345.6789, OutputTokensPerS: 5407.433, TotalTokensPerS: 5448.4375, RequestsPerS: 0.425, Goodput: Goodput{0.975, 0.4125, 5300.75}}, SLO: SLO{TTFT: 2000.5, TBT: 100.125, TBTPercentile: 99},
		Latencies: Latencies{
			TBT:       Latency{101.25, 99.5, 130.125, 140.5, 160.0625, 2200.5},
			TBTDecode: Latency{101.125, 99.25, 130.0625, 140.25, 160.03125, 400.25},
			Stall:     Stalls{4, 1725.5, 2190.5, 2200.5},
			TTFT:      Latency{5000.5, 10.25, 11_000, 50_000, 120_000, 1_500_000.75},
			E2E:       Latency{1_200_000, 1_100_000, 2_000_000, 2_100_000, 2_300_000, 2_345_678.9},
			Queue:     Latency{4000.5, 9.25, 10_000, 40_000, 110_000, 1_400_000.75}, TPOT: Latency{100.25, 98.5, 120.125, 135.5, 150.0625, 900.5}, TokensPerSPerUser: 10.15,
		},
		Service: Service{
			RequestsInSystem: 730.25, Saturated: true,
			DecodeBatch: Batch{540.75, 541.5, 612}, Iterations: 32_767, RejectedRequests: 2, RefusedRequests: 5, ExpiredRequests: 6, Preemptions: 3,
			Iteration: Iteration{70.25, 40.125, 10.0625, 20.0625},
		},
		Utilization: Utilization{0.25, 0.875, 0.0625, 0.03125, 0.125},
		Waits:       Waits{GPUWaits{0.5, 0.125, 0.015625, 0.03125, 0.00390625, 0.0078125, 0.0625}, PIMWaits{0.0625, 0.001, 0.002, 0.003, 0.004, 0.05, 0.0025}},
		Energy:      Energy{1_500_000, 300_000, 900_000, 300_000, 0.11825},
		EnergyReport: EnergyReport{3_000_000.5, 2_000_000.25, 5_000_000.75,
			EnergyComponents{1_500_000, 11, 12, 13, 14, 15, 16, 17, 17.5, 18, 19, 20, 21, 22, 23, 24, 25, 26}, "assumption", 0.625, 4.25, 4.5, 1279.5, 5.5, 12.5, 15.25, 10, 32, "8Gb", nil, true},
		Cost:             CostReport{"prices-2025-12", "2025-12-01", "press", 250_000.5, 12.5, 0.375, 3.75, 1.5, 9.25, 1_250_000.5, 0.875},
		DIMMsPerChannel:  2,
		RanksetImbalance: 1.375,
		KVBytes:          KVBytes{int64(2 * units.TiB), int64(3 * units.TiB / 2)}, KVFragmentation: 0.015625, Attention: Attention{Policy: "quest", Context: 4096.5, Attended: 1020.5, ByLayer: []float64{4096.5, 508.5}}, WallS: 1.5,
	}
}

func TestSummaryJSON(t *testing.T) {
	var b bytes.Buffer
	if err := sample().WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "summary.json", b.Bytes())

	// Laws: the keys are in the schema's order, and every value reads back.
	var keys []string
	d := json.NewDecoder(bytes.NewReader(b.Bytes()))
	for depth, key := 0, true; ; {
		token, err := d.Token()
		if err != nil {
			break
		}
		switch token {
		case json.Delim('{'):
			depth++
			key = true
			continue
		case json.Delim('}'):
			depth--
			key = true
			continue
		}
		if key && depth == 1 {
			keys = append(keys, token.(string))
		}
		key = !key
	}
	want := strings.Fields(`schema system model gpu trace arrivals seed config_sha256 simulated_s output_tokens_per_s total_tokens_per_s requests_per_s goodput slo_ms
		tbt_ms tbt_decode_ms stall_ms ttft_ms e2e_ms queue_ms tpot_ms output_tokens_per_s_per_user requests_in_system_mean saturated decode_batch iteration_ms iterations
		rejected_requests refused_requests expired_requests preemptions utilization waits gpu_energy site_energy cost dimms_per_channel beyond_boards rankset_imbalance kv_bytes kv_fragmentation attention wall_s`)
	if !slices.Equal(keys, want) {
		t.Errorf("keys %v, want %v", keys, want)
	}
	var back Summary
	if err := json.Unmarshal(b.Bytes(), &back); err != nil || !reflect.DeepEqual(back, *sample()) {
		t.Errorf("read back %+v, %v", back, err)
	}
}

// TestNoTarget: without a latency target JSON has null, and reads it back.
func TestNoTarget(t *testing.T) {
	text, err := json.Marshal(SLO{TBT: 50})
	back := SLO{TTFT: 3}
	if err != nil || string(text) != `{"ttft":null,"tbt":50,"tpot":null,"e2e":null,"tbt_percentile":0}` || json.Unmarshal(text, &back) != nil || back.TBT != 50 {
		t.Errorf("%s, %v, %+v", text, err, back)
	}
}

func TestSummaryHoldsNoNaN(t *testing.T) {
	s := sample()
	s.OutputTokensPerS = math.NaN()
	if err := s.WriteJSON(&bytes.Buffer{}); err == nil {
		t.Error("a summary with NaN was written")
	}
}

func TestSummaryText(t *testing.T) {
	var b bytes.Buffer
	if err := sample().WriteFull(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "summary.txt", b.Bytes())

	// Laws: every number of the summary is shown, no line is wider than a terminal, and the columns of
	// the table are right-aligned.
	for _, want := range []string{
		"l3", "gpt-175b", "openr1", "1,000 requests", "seed 1", "12,684,100", "5,407.4 output tokens/s", "39 min simulated",
		"101 ms", "160 ms", "2.20 s", "25 min", "540.8", "612", "32,767", "25.0%", "87.5%", "6.2%", "3.1%", "12.5%",
		"1.5 TiB of 2.0 TiB at the peak (75.0%)", "3 preemptions", "2 requests rejected",
		"400 ms", "4 gaps: mean 1.73 s, p99 2.19 s, max 2.20 s",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in the text", want)
		}
	}
	for _, line := range strings.Split(b.String(), "\n") {
		if len([]rune(line)) > 80 {
			t.Errorf("%d columns: %s", len([]rune(line)), line)
		}
	}
	// Numbers do not run together up to the longest run possible, 106 days.
	long := sample()
	long.TTFT = Latency{Mean: 8e9, P50: 8e9, P90: 9e9, P99: 9.1e9, Max: 9.2e9}
	b.Reset()
	if err := long.WriteFull(&b); err != nil || !regexp.MustCompile(`(?m)^TTFT +2,222 h +2,222 h +2,500 h +2,528 h +2,556 h$`).Match(b.Bytes()) {
		t.Errorf("%v\n%s", err, b.String())
	}
	var empty Summary
	if err := empty.WriteFull(&b); err != nil || strings.Contains(b.String(), "NaN") {
		t.Errorf("an empty summary: %v\n%s", err, b.String())
	}
	if err := empty.WriteFull(failing{}); !errors.Is(err, errFull) {
		t.Errorf("a full disk: got %v", err)
	}
}

func TestDescribeTrace(t *testing.T) {
	trace := &traces.Trace{Name: "x", Requests: []traces.Request{{Input: 2, Output: 10}, {Input: 4, Output: 20}}}
	want := Trace{"x", 2, 6, 30, 3, 1, 15, 5}
	if got := DescribeTrace(trace); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestGrouped(t *testing.T) {
	for _, c := range []struct {
		v        float64
		decimals int
		want     string
	}{
		{0, 0, "0"}, {999, 0, "999"}, {1000, 0, "1,000"}, {-1234567.891, 2, "-1,234,567.89"}, {999.96, 1, "1,000.0"},
	} {
		if got := grouped(c.v, c.decimals); got != c.want {
			t.Errorf("%v: got %s, want %s", c.v, got, c.want)
		}
	}
}

func TestBinary(t *testing.T) {
	for n, want := range map[units.Bytes]string{
		0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", units.MiB: "1.0 MiB", 315 * units.GiB: "315.0 GiB", 2 * units.TiB: "2.0 TiB",
	} {
		if got := binary(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

// TestBrief: the short text has the most important lines, at most ten, with readable times. Warnings are separate.
func TestBrief(t *testing.T) {
	var b bytes.Buffer
	if err := sample().WriteText(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "brief.txt", b.Bytes())
	plain := sample()
	plain.SLO, plain.Doubts, plain.Notes = SLO{}, []string{"a sum is wrong"}, []string{"a name is new", strings.Repeat("a long note has lines ", 9)}
	b.Reset()
	if err := plain.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(strings.TrimSpace(b.String()), "\n"); len(lines) != 16 || !strings.HasPrefix(lines[10], "note 1          a DIMM draws 12.5 W") || lines[11] != "note 2          a name is new" ||
		!strings.HasPrefix(lines[15], "                note has") || strings.Contains(b.String(), "wrong") || strings.Contains(b.String(), "goodput") || !strings.Contains(b.String(), "39 min simulated") {
		t.Errorf("without targets:\n%s", b.String())
	}
	plain.EnergyReport.NotEstimated = []string{"DRAM"}
	if got, want := plain.Warnings(), []string{
		"2 of 1,000 requests fit no empty memory and were rejected", "more requests come than are served: latencies depend on how long the run is",
		"5 requests were refused, 6 expired", "the energy lacks DRAM",
		"a sum is wrong",
	}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := (&Summary{}).Warnings(); len(got) > 0 {
		t.Errorf("of an empty run: %q", got)
	}
	if got := (&GPUWaits{}).text(); got != "GPUs 0%" {
		t.Errorf("GPUs that never wait: %s", got)
	}
	if err := plain.WriteText(failing{}); !errors.Is(err, errFull) {
		t.Error(err)
	}
}

func TestTimeText(t *testing.T) {
	for ms, want := range map[float64]string{0: "0.00 ms", 0.5: "0.50 ms", 12.34: "12.3 ms", 103.2: "103 ms", 999.4: "999 ms", 999.6: "1.00 s", 12_300: "12.3 s", 119_900: "120 s", 119_949: "120 s", 119_950: "2.0 min", 120_000: "2.0 min",
		590_000: "9.8 min", 44 * 60e3: "44 min", 119 * 60e3: "119 min", 7.5 * 3600e3: "7.5 h", 5000 * 3600e3: "5,000 h"} {
		if got := TimeText(ms); got != want {
			t.Errorf("%v ms are %q, want %q", ms, got, want)
		}
	}
}

// TestRuns: a line for each run, in 80 columns; a column without values is left out.
func TestRuns(t *testing.T) {
	slow, plain := sample(), sample()
	slow.TTFT.P99, slow.SLO, slow.Cost = 44*60e3, SLO{}, CostReport{}
	plain.SLO, plain.Cost, plain.Utilization.PIM = SLO{}, CostReport{}, 0
	hot := *slow // alone draws more than a slot supplies
	targets := sample()
	for _, s := range []*Summary{slow, plain, targets} {
		s.EnergyReport.DIMM = s.EnergyReport.DIMMLimit
	}
	beyond := *slow
	beyond.DIMMsPerChannel, beyond.BeyondBoards = 4, true
	for _, c := range []struct {
		names []string
		runs  []*Summary
		want  string
	}{
		{strings.Fields("l3 gpu-only"), []*Summary{slow, plain}, "" +
			"          tokens/s  TBT mean  TBT p99  TTFT p99  tokens/kJ   GPUs    PIM  batch\n" +
			"l3         5,407.4    101 ms   160 ms    44 min    4,250.0  25.0%  87.5%  540.8\n" +
			"gpu-only   5,407.4    101 ms   160 ms   2.0 min    4,250.0  25.0%         540.8\n"},
		{strings.Fields("l3 gpu-only"), []*Summary{&beyond, plain}, "" +
			"          tokens/s  TBT mean  TBT p99  TTFT p99  tokens/kJ   GPUs    PIM  batch\n" +
			"l3 †       5,407.4    101 ms   160 ms    44 min    4,250.0  25.0%  87.5%  540.8\n" +
			"gpu-only   5,407.4    101 ms   160 ms   2.0 min    4,250.0  25.0%         540.8\n" + boardsLegend + "\n"},
		{strings.Fields("l3 gpu-only"), []*Summary{&hot, plain}, "" +
			"          tokens/s  TBT mean  TBT p99  TTFT p99  tokens/kJ   GPUs    PIM  batch\n" +
			"l3 ‡       5,407.4    101 ms   160 ms    44 min    4,250.0  25.0%  87.5%  540.8\n" +
			"gpu-only   5,407.4    101 ms   160 ms   2.0 min    4,250.0  25.0%         540.8\n" + slotLegend + "\n"},
		{[]string{"gpu-only,meta-llama-3-70b-instruct,h200-sxm"}, []*Summary{targets}, "" +
			"                                             tokens/s  attained  TBT mean\n"},
		{[]string{strings.Repeat("x", 90)}, []*Summary{plain}, strings.Repeat(" ", 90) + "  tokens/s\n"},
	} {
		var b bytes.Buffer
		if err := WriteRuns(&b, c.names, c.runs); err != nil || !strings.HasPrefix(b.String(), c.want) {
			t.Errorf("%v, got\n%swant\n%s", err, b.String(), c.want)
		}
	}
	if err := WriteRuns(failing{}, nil, nil); !errors.Is(err, errFull) {
		t.Error(err)
	}
}

// TestRunNotes: notes of several runs are listed once below them, after the names of their runs unless all have them; a sign's
// meaning is no note; and if all requests arrive at once, TTFT is explained.
func TestRunNotes(t *testing.T) {
	a, b := sample(), sample()
	a.Notes, b.Notes = []string{"both", "only a", "node.ranksets = 6 are 3 DIMMs on a channel"}, []string{"only b", "both"}
	a.BeyondBoards = true
	a.Arrivals.Kind, b.Arrivals.Kind = traces.ArrivalsAtOnce, traces.ArrivalsAtOnce
	var text bytes.Buffer
	if err := WriteRuns(&text, []string{"a", "b"}, []*Summary{a, b}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	if !strings.HasPrefix(lines[1], "a †‡ [2]  ") || !strings.HasPrefix(lines[2], "b ‡ [3]  ") {
		t.Errorf("names in\n%s", text.String())
	}
	if want := []string{"[1] all: both", "[2] only a", "[3] only b", "TTFT is the place in the queue: all requests come at once"}; !slices.Equal(lines[5:], want) {
		t.Errorf("%q, want %q", lines[5:], want)
	}
}

// TestLinesByHand: rare lines of a summary, each with its own numbers.
func TestLinesByHand(t *testing.T) {
	with := func(set func(*Summary)) *Summary {
		s := &Summary{}
		s.Trace.Requests = 1200
		set(s)
		return s
	}
	for _, c := range []struct {
		s     *Summary
		has   string // a line, with its name
		lacks string
	}{
		{with(func(s *Summary) {
			s.Cache = Cache{HitTokens: 3000, MissTokens: 7000, HitRate: 0.3, Peak: 2 << 30, EvictedBlocks: 4, Transferred: 5 << 20}
		}), "prefix cache    3,000 of 10,000 prompt tokens found (30.0%), 2.0 GiB at the peak, 4 blocks evicted, 5.0 MiB brought to the GPUs\n", "group reads"},
		{with(func(s *Summary) { s.Cache = Cache{Spared: 1234} }), "group reads     1,234 tokens of contexts read for several requests at once and not again\n", "prefix cache"},
		{with(func(s *Summary) { s.EnergyReport = EnergyReport{DIMM: 25, DIMMHigh: 27, DIMMLimit: 25} }), "", "a DIMM draws "},
		{with(func(s *Summary) { s.EnergyReport = EnergyReport{DIMM: 25.5, DIMMHigh: 27, DIMMLimit: 25} }), "note 1          a DIMM draws 25.5 W, at most 27.0 W: its slot supplies 25 W\n", ""},
		{with(func(s *Summary) { s.RefusedRequests, s.ExpiredRequests = 3, 1500 }), "turned away     3 requests refused, 1,500 expired\n", ""},
		{with(func(s *Summary) { s.APIServer.Utilization = 0.125 }), "API server      12.5% busy\n", ""},
		{with(func(s *Summary) {
			s.Attention = Attention{Policy: "quest", Context: 100, Attended: 40.5, ByLayer: []float64{1}}
		}), "attention       quest: a KV head attends to 40.5 of 100.0 tokens on average\n", ""},
		{with(func(s *Summary) { s.Stall = Stalls{Count: 1000, Mean: 1, P99: 20, Max: 300} }), "stalls          1,000 gaps: mean 1.00 ms, p99 20.0 ms, max 300 ms\n", ""},
		{with(func(s *Summary) { s.Iterations, s.Preemptions, s.RejectedRequests = 1, 2, 3 }), "iterations      1, 2 preemptions, 3 requests rejected\n", "turned away"},
	} {
		var b bytes.Buffer
		if err := c.s.WriteFull(&b); err != nil {
			t.Fatal(err)
		}
		if text := b.String(); !strings.Contains(text, c.has) || c.lacks != "" && strings.Contains(text, c.lacks) {
			t.Errorf("%s\nwant %q, not %q", text, c.has, c.lacks)
		}
	}
}

// TestWarningsByHand: refused requests are reported once, by reason. Requests beyond the model's context have a note of their own.
func TestWarningsByHand(t *testing.T) {
	for _, c := range []struct {
		rejected, tooLong, refused, expired int64
		want                                []string
	}{
		{0, 0, 0, 0, []string{"a doubt"}},
		{5, 5, 0, 0, []string{"a doubt"}},
		{7, 5, 0, 0, []string{"2 of 1,200 requests fit no empty memory and were rejected", "a doubt"}},
		{7, 0, 0, 4, []string{"7 of 1,200 requests fit no empty memory and were rejected", "0 requests were refused, 4 expired", "a doubt"}},
	} {
		s := &Summary{Doubts: []string{"a doubt"}}
		s.Trace.Requests, s.RejectedRequests, s.TooLongRequests, s.RefusedRequests, s.ExpiredRequests = 1200, c.rejected, c.tooLong, c.refused, c.expired
		if got := s.Warnings(); !slices.Equal(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	s := &Summary{EnergyReport: EnergyReport{NotEstimated: []string{"DRAM chips"}}}
	s.Saturated = true
	if got, want := s.Warnings(), []string{"more requests come than are served: latencies depend on how long the run is", "the energy lacks DRAM chips"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
