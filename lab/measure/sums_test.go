package measure

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/llm"
	"github.com/l3sim/l3sim/units"
)

// checkTable compares a table of summaryPage between two marks with the expected one, or writes it.
func checkTable(t *testing.T, begin, end, want string) {
	t.Helper()
	text, err := os.ReadFile(summaryPage)
	if err != nil {
		t.Fatal(err)
	}
	changed, stands := replaced(t, summaryPage, string(text), begin, end, want)
	if *update {
		if err := os.WriteFile(summaryPage, []byte(changed), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if stands != want {
		t.Errorf("%s has\n%s, want\n%s(go test -C lab ./measure -run 'LayersPage|SumsPage' -update)", summaryPage, stands, want)
	}
}

// TestLayersPage: the page has the errors of attention modules that no parameter has seen, of 100 us or more and of twice their launches.
func TestLayersPage(t *testing.T) {
	const held = publishedFolder + "/modules_held" // rows of modules with an indexer, to which no fit is made
	var out strings.Builder
	out.WriteString("| fit | latents: steps | prompts | with indexer: steps | prompts |\n| --- | --- | --- | --- | --- |\n")
	for _, f := range shippedFits {
		target, line, some := shippedTarget(t, f.gpu, f.fit), "| `"+f.fit+"` |", false
		tables := Tables{publishedFolder, f.system, f.framework, f.version}
		for _, file := range []string{publishedFolder + "/%s/mla_decode_layer.csv", publishedFolder + "/%s/mla_prefill_layer.csv", held + "/%s/dsa_decode_layer.csv", held + "/%s/dsa_prefill_layer.csv"} {
			rows, err := readFile(fmt.Sprintf(file, tables.name()), layerModel)
			if line += " "; err == nil {
				e := target.Judge(only(rows, (*Sample).tellsOfKernels))
				some = true
				line += fmt.Sprintf("%.0f/%.0f/%+.0f ", 100*e.Median, 100*e.P90, 100*e.Bias)
			}
			line += "|"
		}
		if some {
			out.WriteString(line + "\n")
		}
	}
	checkTable(t, "<!-- modules of attention -->\n", "<!-- end of modules of attention -->\n", out.String())
}

// neighbours are the rows from which a time is interpolated.
const neighbours = 6

// sizes are the sizes in which rows of a kind differ.
func (s *Sample) sizes() []int {
	return []int{s.m, s.n, s.k, s.batch, s.context, s.chunk, s.heads.Query, s.heads.KV, s.shares.tokens, s.shares.experts, s.shares.active, s.shares.parallel, s.ffn.Hidden, s.ffn.Width, int(s.bytes)}
}

// interpolated returns the seconds of a kernel by a table: the share of the roofline that the nearest rows reach, weighted by logarithmic
// distance in all sizes. AIConfigurator interpolates shares of the roofline, too.
func interpolated(target *Target, rows []Sample, s Sample) float64 {
	g := &target.GPU
	roof := func(s *Sample) float64 {
		if s.bytes > 0 {
			return float64(s.bytes) / float64(g.MemoryBandwidth)
		}
		c := target.kernel(s)
		return max(c.FLOPs/float64(g.Peak16), c.Bytes/float64(g.MemoryBandwidth))
	}
	type near struct{ distance, share float64 }
	var all []near
	for i := range rows {
		r := &rows[i]
		if r.heads.Dim != s.heads.Dim || r.gpus != s.gpus || r.window > 0 || r.shares.skewed {
			continue
		}
		x, sizes := near{share: roof(r) / r.Seconds}, r.sizes()
		for j, v := range s.sizes() {
			if v > 0 && sizes[j] > 0 {
				d := math.Log(float64(v) / float64(sizes[j]))
				x.distance += float64(d * d)
			}
		}
		all = append(all, x)
	}
	slices.SortFunc(all, func(a, b near) int { return cmp.Compare(a.distance, b.distance) })
	sum, weights := 0.0, 0.0
	for _, x := range all[:min(neighbours, len(all))] {
		w := 1 / (x.distance + 0.01)
		w *= w // the nearest rows of few sizes are far from the others
		weights += w
		sum += float64(w * math.Log(x.share))
	}
	return roof(&s) / math.Exp(sum/weights)
}

// composed sums the table rows of an iteration of a model: in each layer products, attention and experts, and the LM head.
func composed(m *llm.Model, x gpu.Shape, row func(s Sample, times int) float64) map[gpu.Group]float64 {
	tokens, emitting := x.Decode.Requests+x.Prefills*x.Chunk, x.Decode.Requests+x.Prefills
	kind := GEMM
	if m.WeightBits == 8 {
		kind = FP8BlockGEMM
	}
	product := func(kind Kind, m, n, k, times int) float64 { return row(Sample{kind: kind, m: m, n: n, k: k}, times) }
	query, kv := m.ShardHeads()
	tp, sum := m.TensorParallel, map[gpu.Group]float64{}
	h := gpu.Heads{Query: query, KV: kv, Dim: m.HeadDim, ElementBits: elementBits}
	attends := func(batch, context, times int) {
		if x.Prefills > 0 {
			sum[gpu.PrefillAttention] += row(Sample{kind: Prefill, batch: x.Prefills, chunk: x.Chunk, heads: h}, times)
		} else {
			sum[gpu.DecodeAttention] += row(Sample{kind: Decode, batch: batch, context: context, heads: h}, times)
		}
	}
	switch {
	case m.LatentDim > 0:
		sum[gpu.QKVProduct] = product(kind, tokens, m.QueryRank+m.HeadDim, m.Hidden, m.Layers) + product(kind, tokens, query*192, m.QueryRank, m.Layers)
		sum[gpu.ProjectionProduct] = product(kind, tokens, m.Hidden, query*m.ValueDim, m.Layers)
		if x.Prefills > 0 {
			sum[gpu.PrefillAttention] = row(Sample{kind: LatentPrefill, batch: x.Prefills, chunk: x.Chunk, heads: expandedHeads(query)}, m.Layers) +
				product(kind, tokens, query*256, latentRank, m.Layers)
			break
		}
		sum[gpu.DecodeAttention] = row(Sample{kind: LatentDecode, batch: x.Decode.Requests, context: x.Decode.Longest, heads: latentHeads(query)}, m.Layers)
		for _, nk := range [][2]int{{latentRank, nopeDim}, {nopeDim, latentRank}} {
			sum[gpu.DecodeAttention] += row(Sample{kind: FP8LatentAbsorb, m: tokens, n: nk[0], k: nk[1], heads: gpu.Heads{Query: query}}, m.Layers)
		}
	default:
		sum[gpu.QKVProduct] = product(kind, tokens, (query+2*kv)*m.HeadDim, m.Hidden, m.Layers)
		sum[gpu.ProjectionProduct] = product(kind, tokens, m.Hidden, query*m.HeadDim, m.Layers)
		windowed := m.WindowedLayers()
		attends(x.Decode.Requests, x.Decode.Longest, m.Layers-windowed)
		if windowed > 0 && x.Prefills == 0 {
			attends(x.Decode.Requests, m.Window, windowed)
		}
	}
	dense := func(width, layers int) {
		if width > 0 && layers > 0 {
			sum[gpu.FeedForward] += product(kind, tokens, 2*width/tp, m.Hidden, layers) + product(kind, tokens, m.Hidden, width/tp, layers)
		}
	}
	if m.Experts == 0 {
		dense(m.FFNHidden, m.Layers)
	} else {
		mixtures, of := m.Layers-m.DenseLayers, Experts
		if m.ExpertBits == 4 {
			of = MXFP4Experts
		} else if kind == FP8BlockGEMM {
			of = FP8BlockExperts
		}
		shares := routing{tokens: tokens, experts: m.Experts, active: m.ActiveExperts, parallel: 1}
		sum[gpu.FeedForward] = row(Sample{kind: of, mixture: mixture{shares: shares, load: shares.load(), ffn: gpu.Experts{Hidden: m.Hidden, Width: m.FFNHidden / tp, Matrices: 3}}}, mixtures)
		dense(m.SharedFFN, mixtures)
		dense(m.DenseFFN, m.DenseLayers)
	}
	if tp > 1 {
		sum[gpu.AllReduce] = row(Sample{kind: AllReduce, gpus: tp, bytes: units.Bytes(2 * tokens * m.Hidden)}, 2*m.Layers)
	}
	sum[gpu.LMHead] = product(GEMM, emitting, m.Vocab/tp, m.Hidden, 1)
	return sum
}

// TestSumsPage: the page compares six models' iterations with the sum of table rows: TensorRT-LLM 1.3 on H200s.
func TestSumsPage(t *testing.T) {
	f := shippedFits[1]
	target := shippedTarget(t, f.gpu, f.fit)
	target.GPU.Collective.Method = gpu.AllReduceDirect
	tables := &Tables{publishedFolder, f.system, f.framework, f.version}
	groups := []gpu.Group{gpu.QKVProduct, gpu.PrefillAttention, gpu.DecodeAttention, gpu.ProjectionProduct, gpu.FeedForward, gpu.AllReduce, gpu.LMHead}
	var out strings.Builder
	out.WriteString("| model, GPUs | tables, ms | l3sim | QKV/attention/projection/feed-forward/all-reduce/head |\n| --- | ---: | ---: | ---: |\n")
	for _, c := range []struct {
		model string
		gpus  int
	}{{"llama-3.1-8b", 1}, {"llama-3-70b", 4}, {"qwen3-32b", 2}, {"qwen3-235b-a22b", 8}, {"gpt-oss-120b", 1}, {"deepseek-v3", 8}} {
		for _, x := range []gpu.Shape{{Decode: gpu.UniformBatch(64, 4096)}, {Prefills: 1, Chunk: 4096}} {
			m, err := layerModel(c.model)
			if err != nil {
				t.Fatal(err)
			}
			m.TensorParallel = c.gpus
			sum := composed(m, x, func(s Sample, times int) float64 {
				rows := fittedRows(t, target, tables, s.kind)
				if expertsOf(s.kind) != nil { // those of groups of experts, too, which fits leave out
					rows = only(readTables[*tables], func(r *Sample) bool { return r.kind == s.kind && r.source != fewTokens })
				}
				if rows == nil {
					t.Fatalf("%s: no rows of %s", c.model, s.kind)
				}
				return float64(times) * interpolated(target, rows, s)
			})
			parts := gpu.NewModelCost(&target.GPU, m).IterationParts(x)
			name, total, ours := fmt.Sprintf("%s, %d", c.model, c.gpus), 0.0, 0.0
			if x.Prefills > 0 {
				name = "prompt"
			}
			var cells []string
			for _, group := range groups {
				if group == gpu.PrefillAttention && x.Prefills == 0 || group == gpu.DecodeAttention && x.Prefills > 0 {
					continue
				}
				if sum[group] == 0 || group == gpu.PrefillAttention && m.Window > 0 { // no table has prompts with this window
					cells = append(cells, "–")
					continue
				}
				total += sum[group]
				ours += parts[group].Seconds
				cells = append(cells, fmt.Sprintf("%.2f", parts[group].Seconds/sum[group]))
			}
			fmt.Fprintf(&out, "| %s | %.1f | %.2f | %s |\n", name, 1e3*total, ours/total, strings.Join(cells, "/"))
		}
	}
	checkTable(t, "<!-- sums of tables -->\n", "<!-- end of sums of tables -->\n", out.String())
}
