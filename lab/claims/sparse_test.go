package claims

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/system"
	"github.com/l3sim/l3sim/system/gpus"
)

// sparseReport judges the claims about sparse attention once for all tests; a quick run leaves out those that
// run the byte model.
func sparseReport(t *testing.T) *Report {
	t.Helper()
	r, err := sparseOnce()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var sparseOnce = sync.OnceValues(func() (*Report, error) {
	if deep.On() {
		return Run(context.Background(), Options{Target: Sparse, Requests: 1000, Seeds: 1})
	}
	all, err := readSparse()
	if err != nil {
		return nil, err
	}
	quick := slices.DeleteFunc(slices.Clone(all.Claim), func(c *claim) bool { return c.Find == byteModel })
	judgements, err := judge(quick, &evidence{seeds: []uint64{1}, readings: true})
	return &Report{Target: Sparse, Judgements: judgements}, err
})

// byteModel finds claims that take seconds.
const byteModel = "hgca salience"

// inReport says whether sparseReport judges a claim.
func inReport(t *testing.T, id string) bool {
	return deep.On() || slices.ContainsFunc(claims(t, Sparse), func(c *claim) bool { return c.ID == id && c.Find != byteModel })
}

// TestSparseClaims: each claim is complete, and all of the papers' claims exist.
func TestSparseClaims(t *testing.T) {
	seen := map[string]bool{}
	papers := map[string]bool{}
	for _, c := range claims(t, Sparse) {
		paper, _, _ := strings.Cut(c.ID, ".")
		papers[paper] = true
		if seen[c.ID] || c.Says == "" || c.Paper <= 0 {
			t.Errorf("%s is there twice or not complete", c.ID)
		}
		seen[c.ID] = true
		if c.Kind == statement {
			if c.Verdict != shapeOnly && c.Verdict != notJudged || c.Reason == "" || c.find != nil {
				t.Errorf("%s: verdict %q, reason %q", c.ID, c.Verdict, c.Reason)
			}
			continue
		}
		if c.find == nil || c.Verdict != "" || c.Reason != "" || !slices.Contains([]kind{exactly, atLeast, atMost, rangeEnd}, c.Kind) {
			t.Errorf("%s: kind %q with verdict %q", c.ID, c.Kind, c.Verdict)
		}
		names := map[string]bool{}
		for _, r := range c.Readings {
			if names[r.Name] || r.Name == "" && len(c.Readings) > 1 {
				t.Errorf("%s: the reading %q is there twice or has no name", c.ID, r.Name)
			}
			names[r.Name] = true
			if r.Phase != "" && r.Phase != prefillPhase {
				t.Errorf("%s: phase %q", c.ID, r.Phase)
			}
		}
	}
	for _, paper := range strings.Fields("LS1 LS2 LS3 LS4 LS5 LS6 LS7 LS8 LS9 LS10 LS11 LS12 LS13 HG1 HG2 HG3 HG4 HG5 HG6 HG7 HG8 CS1 CS2 CS3 CS4 CS5 Q1 D1 M1") {
		if !papers[paper] {
			t.Errorf("no claim of %s", paper)
		}
	}
	for _, c := range claims(t, AllTargets) {
		if seen[c.ID] {
			t.Errorf("%s is a claim of L3, too", c.ID)
		}
	}
}

// TestVerdictBeyondArithmetic tries both sides of what arithmetic allows.
func TestVerdictBeyondArithmetic(t *testing.T) {
	for _, c := range []struct {
		kind        kind
		paper, ours float64
		least, most float64
		shape       bool
		want        string
	}{
		{exactly, 4.24, 1.2, 0, 2, false, contradicted},
		{exactly, 2.29, 1.2, 0, 2, false, sameSide}, // within 15% of what is possible
		{exactly, 2.31, 1.2, 0, 2, false, contradicted},
		{exactly, 1, 16, 16, 16, false, contradicted},
		{exactly, 0.86, 1, 1, 0, false, notReproduced}, // within 15% of what is possible
		{exactly, 0.84, 1, 1, 0, false, contradicted},
		{atLeast, 4, 1.2, 0, 2, false, contradicted},
		{atLeast, 4, 5, 6, 7, false, reproduced}, // a lower bound below what is possible is weak, but true
		{atMost, 0.5, 1, 1, 2, false, contradicted},
		{atMost, 4, 1, 1, 2, false, reproduced},
		{exactly, 7, 4.6, 0, 0, true, shapeOnly},
		{exactly, 7, 7, 0, 0, true, shapeOnly},
		{exactly, 7, 0.9, 0, 0, true, notReproduced},
		{exactly, 7, 4.6, 0, 5, true, contradicted},
	} {
		all := []judgement{{Outcome: Outcome{Number: &Number{Ours: c.ours, Least: c.least, Most: c.most}}, claim: &claim{Paper: c.paper, Kind: c.kind, Ratio: true, Shape: c.shape}}}
		if got := verdict(all, 0, judged); got != c.want {
			t.Errorf("%s of %v, ours %v of %v to %v: %s, want %s", c.kind, c.paper, c.ours, c.least, c.most, got, c.want)
		}
	}
}

// TestContradicted: a claim contradicts arithmetic if no reading allows its number.
func TestContradicted(t *testing.T) {
	for most, want := range map[float64]string{2: contradicted, 4: sameSide} {
		c := &claim{ID: "c", Paper: 4, Kind: exactly, Ratio: true, Readings: []reading{{Name: "a"}, {Name: "b"}}, find: func(_ *evidence, _ uint64, r *reading) (finding, error) {
			return finding{value: 1.5, most: map[string]float64{"a": 2, "b": most}[r.Name]}, nil
		}}
		got, err := judge([]*claim{c}, &evidence{seeds: []uint64{1}, readings: true})
		if err != nil || got[0].Verdict != want || (got[0].Others[0].Verdict == contradicted) != (most == 2) {
			t.Errorf("at most %v under another reading: %s, want %s, %v", most, got[0].Verdict, want, err)
		}
	}
}

// TestStatement: a statement has its own verdict and no number, also in JSON.
func TestStatement(t *testing.T) {
	c := &claim{ID: "s", Paper: 3, Kind: statement, Verdict: notJudged, Reason: "nothing here", Readings: []reading{{}}}
	got, err := judge([]*claim{c}, &evidence{seeds: []uint64{1}, readings: true})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(got[0])
	if want := `{"id":"s","paper":3,"verdict":"not judged","reason":"nothing here"}`; err != nil || string(text) != want {
		t.Errorf("%v: got %s, want %s", err, text, want)
	}
}

// found returns the report's outcome of a claim under one of its readings; reading 0 is the judged
// one.
func found(t *testing.T, r *Report, id string, reading int) Outcome {
	t.Helper()
	for i := range r.Judgements {
		j := &r.Judgements[i]
		if j.ID == id && reading == 0 {
			return j.Outcome
		} else if j.ID == id {
			return j.Others[reading-1]
		}
	}
	t.Fatalf("no claim %s", id)
	return Outcome{}
}

// TestSparseNumbers: claims' numbers agree with the GPU model and arithmetic by hand.
func TestSparseNumbers(t *testing.T) {
	deep.Heavy(t)
	r := sparseReport(t)
	cfg, err := system.Load(configs.Options{Sets: append(slices.Clone(sparseBase), "run.model=llama-3-8b")})
	if err != nil {
		t.Fatal(err)
	}
	s, cost := &cfg.GPU.Spec, gpu.NewModelCost(&cfg.GPU.Spec, &cfg.Model)
	step := func(context int) (all, attention float64) { // 16 steps at contexts 17 to 32 beyond the prompt
		for i := range 16 {
			b := gpu.UniformBatch(1, context+17+i)
			all += cost.Iteration(gpu.Shape{Decode: b}).Seconds / 16
			attention += 32 * cost.DecodeBatch(b).Seconds / 16
		}
		return all, attention
	}
	all, attention := step(65536)
	long, longAttention := step(131072)
	decode, _ := step(272144)
	longest, _ := step(327680)
	bounds, own := 512.0*131072/16, &s.PageSparse
	for _, c := range []struct {
		id      string
		reading int
		want    float64
	}{
		{"LS1.decode_64k", 1, attention / all},
		{"LS2.decode", 1, 20000 * decode},
		// One block reads the bounds of its query head: 0.18 ms, plus the launch. The roofline's corner
		// is round: at most 2^(1/p) longer if arithmetic takes as long.
		{"LS7.reuse", 0, 4},
		{"LS4.vllm_growth", 1, 1e3 * (longest - all)}, // KV of 16 bits; weights cancel out
		// As computed by l3lab eval --policy hgca --set policy.hgca.window=256 --prompt 1024 --steps 512 --profile FILE at
		// 1,025 tokens, of which 896 have left: 248 are salient in the second layer's third head.
		{"HG6.most", 0, 0.2767857142857143},
		{"CS3.insensitive", 0, 131072 / 8192},
		// 8 KV heads of 256 elements of 2 bytes in 32 layers, and 8 lists for each of 128 centroids of
		// a quarter of the tokens, 6 bytes each: three times as much. The centroids are small.
		{"CS1.memory", 1, (16.06e9 + 131074*131072 + 131072*32*8*8*128*0.25*6) / (80<<30 - 717<<20 - 623e6)},
		{"HG4.hf", 0, (23.2e9 + 4098*36*2*5120*2) / (2 * ((48 << 30) - (1 << 30)))},
		{"HG4.hf", 1, (23.2e9 + 13*2*4098*36*2*5120*2) / (2 * ((48 << 30) - (1 << 30)))},
		{"HG4.hgca", 1, (23.2e9 + 17*0.5*4098*36*2*5120*2) / ((48<<30 - 1<<30) - 250e6)}, // activations of a chunk on one GPU
		// A thread block for each query head reads 4,096 tokens of a head, with 1-byte keys and values.
		{"LS7.attention", 0, 1e3*4096*2*128/float64(own.BlockBandwidth) + 1e3*own.Overhead.Seconds()},
		{"LS7.attention", 1, 1e3*4096*2*2*128/float64(own.BlockBandwidth) + 1e3*own.Overhead.Seconds()},
		// 8 modules of 64 bits at 4.395 GT/s.
		{"HG8", 1, 8 * 8 / 0.455 * 2},
		{"D1.memory_gqa", 0, (16.06 + 68.47) / (16.06 + 68.47/2 + 0.1)},
	} {
		if !inReport(t, c.id) {
			continue
		}
		if got := found(t, r, c.id, c.reading); math.Abs(got.Ours-c.want) > 0.005*c.want {
			t.Errorf("%s: got %v, want %v", c.id, got.Ours, c.want)
		}
	}
	if got, want := found(t, r, "CS1.128k", 0).Most, long/(long-longAttention); math.Abs(got-want) > 1e-3*want {
		t.Errorf("at most %v, with attention free %v", got, want)
	}
	quarter, most := step(262144)
	if got, want := found(t, r, "LS9.static", 1).Most, quarter/(quarter-most); math.Abs(got-want) > 1e-3*want {
		t.Errorf("at most %v, with attention free %v", got, want)
	}
	if got := found(t, r, "LS7.selector", 0).Ours; got < 1e3*bounds/float64(own.BlockBandwidth) || got > 2e3*bounds/float64(own.BlockBandwidth) {
		t.Errorf("a block reads in %v ms", got)
	}
	// With repeated KV heads, dense attention reads four times as much.
	if got, want := found(t, r, "CS1.128k", 1).Most, (long+3*longAttention)/(long-longAttention); math.Abs(got-want) > 0.05*want {
		t.Errorf("with repeated heads at most %v, want about %v", got, want)
	}
}

// TestSparseVerdicts: verdicts that follow from the papers' own arithmetic do not depend on our costs.
func TestSparseVerdicts(t *testing.T) {
	deep.Heavy(t)
	r := sparseReport(t)
	for id, want := range map[string]string{
		"CS1.32k": sameSide, "CS1.64k": sameSide, "CS1.128k": sameSide, "CS3.insensitive": contradicted, "LS9.dynamic_text": sameSide,
		"LS6.quest_memory": notReproduced, "LS7.reuse": reproduced, "LS10": shapeOnly, "LS13": notJudged, "M1": notJudged,
		"Q1.attention": shapeOnly, "LS12": shapeOnly, "HG1.decode": reproduced, "HG3.flexgen": reproduced, "HG7": notJudged, "HG6.least": shapeOnly, "HG6.most": shapeOnly,
	} {
		if !inReport(t, id) {
			continue
		}
		if got := found(t, r, id, 0).Verdict; got != want {
			t.Errorf("%s is %s, want %s", id, got, want)
		}
	}
	// Baselines that read keys four times, or do not split contexts, allow the number.
	for _, reading := range []int{1, 2} {
		if got := found(t, r, "CS1.128k", reading); got.Verdict == contradicted {
			t.Errorf("%s: %s", got.Reading, got.Verdict)
		}
	}
}

// TestSparsePage: the page agrees with the command, to the last digit. If costs change, put the
// page of docs into D and run l3lab reproduce sparse --out D.
func TestSparsePage(t *testing.T) {
	deep.Only(t) // all claims are on the page
	var b bytes.Buffer
	if err := sparseReport(t).writePart(&b); err != nil {
		t.Fatal(err)
	}
	page := strings.Split(oldPart(readFile(t, filepath.Join(docs, pageFile)), string(Sparse)), "\n")
	for i, line := range strings.Split(b.String(), "\n") {
		if i >= len(page) || page[i] != line {
			t.Fatalf("the page is not what 'l3lab reproduce sparse' writes, write it again; line %d is\n%s\nwant\n%s", i+1, page[min(i, len(page)-1)], line)
		}
	}
}

// TestAccuracyPage: the counts of verdicts in docs/accuracy.md are the report's.
func TestAccuracyPage(t *testing.T) {
	deep.Only(t) // all claims are counted
	page := strings.Join(strings.Fields(readFile(t, "../../docs/accuracy.md")), " ")
	if want := sparseReport(t).counts(); !strings.Contains(page, want) {
		t.Errorf("docs/accuracy.md does not say %q", want)
	}
}

// TestNeedle: any policy finds a key that is many times the query; an ordinary key is found by chance.
func TestNeedle(t *testing.T) {
	defer func(scales []float64) { needleScales = scales }(needleScales)
	own := policies.New("lserve")
	policy.Edit(&own, func(k *policies.LServeSpec) { k.StaticSparsity, k.Budget = 0, 512 })
	for _, c := range []struct {
		scale       float64
		least, most int
	}{{5, needlePlaces, needlePlaces}, {0, 0, needlePlaces / 2}} {
		needleScales = []float64{c.scale}
		if n, err := hidden(&own); err != nil || n < c.least || n > c.most {
			t.Errorf("%v times the query: %d of %d found, %v", c.scale, n, needlePlaces, err)
		}
	}
}

// TestWeightBits: products of few rows speed up about as much as weights shrink (kernels are not bound by memory alone;
// TestNarrowProducts of package gpu has the bytes). Products of prompts gain as much with 4 bits as with 8; nothing else changes.
func TestWeightBits(t *testing.T) {
	m := &machines{}
	products := func(bits int, prefill bool) float64 {
		sets := []string{"run.model=llama-3-8b", fmt.Sprint("model.weight_bits=", bits), "model.activation_bits=8"}
		if bits == 0 {
			sets = sets[:1]
		}
		both, err := m.subject(&reading{sparseReading: sparseReading{Set: sets, Over: sets[:1]}})
		if err != nil {
			t.Fatal(err)
		}
		x, y := both.own.iterate(prefill, 1, 4096), both.over.iterate(prefill, 1, 4096)
		p := x[gpus.PartProducts]
		x[gpus.PartProducts], y[gpus.PartProducts] = 0, 0
		for i := range x {
			if math.Abs(x[i]-y[i]) > 1e-8*y[i] { // moments are whole picoseconds
				t.Errorf("%d bits: %v, else %v", bits, x, y)
			}
		}
		return p
	}
	wide, half, quarter := products(0, false), products(8, false), products(4, false)
	if saved := wide - half; saved < 0.3*wide || math.Abs(saved-2*(half-quarter)) > 0.05*saved {
		t.Errorf("products of 16, 8 and 4 bits take %v, %v and %v s", wide, half, quarter)
	}
	if half, quarter := products(8, true), products(4, true); math.Abs(half-quarter) > 1e-3*half || half >= 0.6*products(0, true) {
		t.Errorf("products of prompts of 8 and 4 bits take %v and %v s", half, quarter)
	}
}

// TestSparseWhy: a claim that is not reproduced has a reason, at one of its contexts.
func TestSparseWhy(t *testing.T) {
	deep.Heavy(t)
	explained := map[string]bool{}
	r := sparseReport(t)
	for i := range r.Judgements {
		j := &r.Judgements[i]
		paper, _, _ := strings.Cut(j.ID, ".")
		explained[paper] = explained[paper] || j.Why != ""
	}
	for i := range r.Judgements {
		j := &r.Judgements[i]
		paper, _, _ := strings.Cut(j.ID, ".")
		if (j.Verdict == notReproduced || j.Verdict == contradicted) && !explained[paper] {
			t.Errorf("%s is %s, and nothing says why", j.ID, j.Verdict)
		}
	}
}
