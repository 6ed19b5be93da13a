package policies

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"pgregory.net/rapid"
)

// byteLaw computes the bytes that a policy moves outside attention, from reads and writes in one layer.
type byteLaw struct {
	*keys
	heads, group, queries, dim int // KV heads, query heads of each, query heads, elements
	element, token             int // bytes of an element of a query, and of a token's key and value in a KV head
	apart                      bool
	dense                      bool // a layer of Quest with full attention
	streams                    int  // KV heads that attend to a sink and a window
}

// sum is the total of the kernels and passes of each device.
type sum struct {
	kernels                int
	bytes, flops, elements int64
}

func add(to map[policy.Device]sum, passes []policy.Pass) map[policy.Device]sum {
	for _, p := range passes {
		s := to[p.Device]
		to[p.Device] = sum{s.kernels + p.Kernels, s.bytes + p.Bytes, s.flops + p.FLOPs, s.elements + p.Elements}
	}
	return to
}

// variant is a policy with switches that change its traffic.
type variant struct {
	name  string
	apart bool
	set   func(*keys)
}

// variants are all such policies.
func variants() (all []variant) {
	both := func(name string, set func(*keys)) {
		all = append(all, variant{name, false, set}, variant{name, true, set})
	}
	for _, name := range plainNames() {
		switch name {
		case "lserve", "quest":
			for _, how := range []string{"gpu gpu sum", "gpu gpu softmax-sum", "gpu gpu per-head", "bank gpu softmax-sum", "bank rank sum", "rank gpu sum", "bank rank max"} {
				both(name, func(s *keys) {
					words := strings.Fields(how)
					s.SelectDevice, s.SummaryDevice, s.SelectGroup = words[0], words[1], words[2]
				})
			}
		case "duo":
			both(name, func(s *keys) { s.StreamDevice = "gpu" })
			both(name, func(s *keys) { s.StreamDevice = "home" })
		case "csattention":
			for _, how := range []string{"gpu causal per-head", "gpu causal mean", "host causal per-head", "host lagged per-head", "host lagged mean"} {
				both(name, func(s *keys) {
					words := strings.Fields(how)
					s.Mode, s.Search, s.SelectGroup = words[0], words[1], words[2]
				})
			}
		case "hgca":
			both(name, func(s *keys) { s.KeepAll = false })
			both(name, func(s *keys) { s.KeepAll = true })
			both(name, func(s *keys) { s.Share = 0 })
		default:
			both(name, func(*keys) {})
		}
	}
	return all
}

// forVariants runs a rapid check on each variant.
func forVariants(t *testing.T, check func(t *rapid.T, p policy.Costs, l *byteLaw, run int)) {
	for _, v := range variants() {
		rapid.Check(t, func(t *rapid.T) {
			p, l, run := v.draw(t)
			check(t, p, l, run)
		})
	}
}

// draw returns the costs of a policy for a drawn model, and its byteLaw in a run of layers.
func (v *variant) draw(t *rapid.T) (policy.Costs, *byteLaw, int) {
	of := func(name string, of ...int) int { return rapid.SampledFrom(of).Draw(t, name) }
	shape, s := drawShape(t), drawSpecOf(t, v.name)
	shape.ElementBits, shape.KVBits, shape.Apart = of("bits", 8, 16), of("KV bits", 0, 4, 8, 16), v.apart
	if shape.KVBits == 4 || shape.KVBits == 8 {
		shape.KVScaleBytes = of("scales", 0, 4)
	}
	switch s.Name {
	case "lserve", "duo":
		s.Sink, s.Window, s.PrefillWindow = of("sink", 0, 20), of("window", 30, 200), of("prefill window", 0, 7, 999)
		s.StreamDevice = rapid.SampledFrom([]string{"gpu", "home"}).Draw(t, "streams on")
	case "quest":
		s.SkipLayers = of("skip", 0, 0, 2)
	case "hgca":
		s.PromptQueries = of("prompt queries", 1, 64)
	}
	v.set(s)
	p := costs(s, shape)
	run := rapid.IntRange(0, len(p.Runs())-1).Draw(t, "run")
	l := &byteLaw{
		keys: s, heads: shape.KVHeads, group: shape.QueryHeads / shape.KVHeads, queries: shape.QueryHeads, dim: shape.Dim,
		element: shape.ElementBits / 8, apart: shape.Apart,
	}
	bits := shape.KVBits
	if bits == 0 {
		bits = shape.ElementBits
	}
	l.token = 2 * (shape.Dim*bits/8 + shape.KVScaleBytes)
	layer := 0
	for _, n := range p.Runs()[:run] {
		layer += n
	}
	for i := range p.Runs()[run] { // all layers of a run are alike
		dense, streams := s.Name == "quest" && layer+i < l.SkipLayers, 0
		if s.Name == "lserve" || s.Name == "duo" { // the last heads of each layer, evenly over the layers
			all := int(math.Round(s.StaticSparsity * float64(shape.Layers*shape.KVHeads)))
			streams = all*(layer+i+1)/shape.Layers - all*(layer+i)/shape.Layers
		}
		if i > 0 && (dense != l.dense || streams != l.streams) {
			t.Fatalf("%+v: layers of run %d of %v differ", *s, run, p.Runs())
		}
		l.dense, l.streams = dense, streams
	}
	return p, l, run
}

// drawRequests returns short and long requests.
func drawRequests(t *rapid.T) []policy.Request {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) policy.Request {
		prompt := rapid.SampledFrom([]int{1, 9, 90, 900, 3000, 9000}).Draw(t, "about") + rapid.IntRange(0, 99).Draw(t, "more")
		return policy.Request{Prompt: prompt, Context: prompt + rapid.IntRange(1, 300).Draw(t, "decoded")}
	}), 1, 6).Draw(t, "requests")
}

// paged returns the number of KV heads that choose pages.
func (l *byteLaw) paged() int {
	switch {
	case l.Name == "quest" && !l.dense:
		return l.heads
	case l.Name == "lserve":
		return l.heads - l.streams
	}
	return 0
}

// logical returns the tokens of a logical page, which has its own bounds.
func (l *byteLaw) logical() int {
	if l.Name == "quest" {
		return l.Page
	}
	return l.LogicalPage
}

// vector returns the bytes of a key, or of one bound of a page, in a KV head.
func (l *byteLaw) vector() int { return l.dim * l.element }

// centroids returns the number of centroids in a KV head after a prompt: at most the number of queries that they cluster.
func (l *byteLaw) centroids(prompt int) int { return min(l.Centroids, prompt*l.group) }

// searches returns the searches of CSAttention in a KV head: one for each query head, or one with their mean.
func (l *byteLaw) searches() int {
	if l.SelectGroup == "mean" {
		return 1
	}
	return l.group
}

// entries returns the length of a list of CSAttention; found returns the tokens that a search finds.
func (l *byteLaw) entries(prompt int) int { return max(1, int(l.TableShare*float64(prompt))) }
func (l *byteLaw) found(prompt int) int   { return max(1, int(l.SelectShare*float64(prompt))) }

const csaEntry = 4 + 2 // a token's index and an FP16 score

// step returns the bytes that a decode step moves outside attention, and the tokens fetched from
// home.
func (l *byteLaw) step(requests []policy.Request) (want map[policy.Device]sum, fetched []int) {
	var passes []policy.Pass
	gpu := func(kernels, bytes, flops int) {
		passes = append(passes, policy.Pass{Device: policy.GPU, Kernels: kernels, Bytes: int64(bytes), FLOPs: int64(flops)})
	}
	for i, r := range requests {
		first := 0 // kernels are launched for all requests at once
		if i == 0 {
			first = 1
		}
		switch heads := l.paged(); {
		case heads > 0 && l.SummaryDevice == "gpu": // the kernel that appends a key reads it, and reads and writes two bounds of its page
			gpu(0, heads*(1+2+2)*l.vector(), 0)
		case l.Name == "h2o": // read a weight, update a sum; then read sums to find the least
			kept := min(r.Context-1, int(l.Heavy*float64(r.Prompt))+int(l.Recent*float64(r.Prompt)))
			passes = append(passes, policy.Pass{Device: policy.Home, Kernels: 2 * first, Bytes: int64((kept + 1) * l.queries * 4 * 4)})
		case l.Name == "hgca": // read a weight and update an average, for each token of the window
			away := 0
			for held := r.Context - 1; held >= l.Window; held -= l.Block {
				away += l.Block
			}
			gpu(first, (r.Context-away)*l.queries*3*4, 0)
		case l.Name == "csattention":
			lists, centroids := l.Subspaces*l.centroids(r.Prompt), l.centroids(r.Prompt)*l.dim
			update := l.heads * (2*centroids + lists*csaEntry) // the new key is compared with each FP16 centroid and the least entry of each list
			flops := 2 * centroids * l.heads
			search, chosen := 0, 0
			if (r.Context-r.Prompt-1)%l.Period == 0 { // each search reads a list of each subspace, and sums by token
				n := l.heads * l.searches()
				flops += 2 * centroids * n
				search, chosen = l.Subspaces*l.entries(r.Prompt)*n, r.Context*n
			}
			found := min(r.Context, l.searches()*l.found(r.Prompt)+max(1, l.RecentTokens))
			if l.Mode == "host" { // sums stay in caches; found tokens are copied to where links read them
				fetched = append(fetched, found)
				passes = append(passes, policy.Pass{Device: policy.Home, Kernels: first, FLOPs: int64(flops), Elements: int64(search + 3*chosen),
					Bytes: int64(update + search*csaEntry + 2*found*l.token*l.heads)})
				break
			}
			gpu(first, update, flops)
			gpu(0, search*(csaEntry+4+4)+chosen*4, 0) // clear the sums, then update one for each entry
		}
	}
	if l.Name == "csattention" && l.Mode == "gpu" && slices.ContainsFunc(requests, func(r policy.Request) bool { return (r.Context-r.Prompt-1)%l.Period == 0 }) {
		gpu(2, 0, 0)
	}
	return add(map[policy.Device]sum{}, passes), fetched
}

// softmax adds the two passes over the scores of each query head that softmaxes of a group take, if GPUs
// choose.
func (l *byteLaw) softmax(x *policy.Step) (passes []policy.Pass) {
	if l.SelectGroup == "softmax-sum" && l.SelectDevice == "gpu" {
		for _, c := range x.Choose {
			scores := 0
			for _, n := range c.Scored {
				scores += n
			}
			passes = append(passes, policy.Pass{Device: policy.GPU, Kernels: 2, Bytes: int64(2 * 4 * scores * l.paged() * l.group)})
		}
	}
	return passes
}

// after returns the tokens of a prompt that have left the window, without the sink.
func (l *byteLaw) after(tokens int) int {
	away := tokens
	if l.Window > 0 {
		away = 0
		for held := tokens; held >= l.Window; held -= l.Block {
			away += l.Block
		}
	}
	return max(0, away-max(0, l.Sink))
}

// prompt returns the bytes that a chunk moves outside attention, and the tokens that it sends home.
func (l *byteLaw) prompt(chunk, finished int, last bool) (want sum, leave []policy.Leaving) {
	n := finished + chunk
	send := func(heads, have, more int) *policy.Leaving {
		leave = append(leave, policy.Leaving{Heads: heads, From: []int{have}, Tokens: []int{more - have}})
		return &leave[len(leave)-1]
	}
	switch l.Name {
	case "streaming", "h2o", "window", "hgca":
	default: // all keys and values of heads that do not stream, chunk by chunk
		if heads := l.heads - l.streams; heads > 0 {
			send(heads, finished, n)
		}
	}
	if heads := l.paged(); heads > 0 && l.SummaryDevice == "gpu" { // read keys, write bounds
		pages := (chunk + l.logical() - 1) / l.logical()
		want = sum{1, int64(heads * (chunk + 2*pages) * l.vector()), 0, 0}
		if l.apart && l.SelectDevice != "gpu" {
			send(heads, finished/l.logical(), n/l.logical()).Bounds = true
		}
	}
	switch {
	case l.Name == "window" || l.Name == "hgca" && l.KeepAll:
		x := send(l.heads, l.after(finished), l.after(n))
		if l.Name == "hgca" {
			x.Notes = int64(4 * l.group)
		}
	case l.streams > 0 && last && !(l.apart && l.StreamDevice == "gpu"): // the sink and window of a step
		send(l.streams, 0, min(n, l.Sink+l.Window))
	}
	if !last {
		return want, leave
	}
	switch l.Name {
	case "hgca": // for each of the last queries, read a score, update an average
		x := send(l.heads, 0, int(math.Ceil(l.Share*float64(l.after(n)))))
		x.Copies, x.Notes = l.KeepAll, int64(4*l.group)
		pairs := min(n, l.PromptQueries) * n * l.queries
		want = sum{2, int64(3 * 4 * pairs), int64(2 * l.dim * pairs), 0}
	case "h2o": // sums are read once for each 8-bit digit and once to gather; kept tokens are copied
		kept := int(l.Heavy*float64(n)) + int(l.Recent*float64(n))
		send(l.heads, 0, kept).Notes = int64(4 * l.group)
		want = sum{2, int64(l.heads * (5*4*n + 2*kept*l.token)), 0, 0}
	case "csattention":
		lists, centroids := l.Subspaces*l.centroids(n), l.centroids(n)*l.dim
		tables := lists*l.entries(n)*csaEntry + 2*centroids
		leave[0].Index = int64(tables)
		want = sum{2*l.Iterations + 3, int64(l.Iterations*l.queries*l.dim*l.element*n + l.heads*(lists*n*4*(1+5)+tables)),
			int64(l.heads * 2 * centroids * n * (l.Iterations*l.group + 1)), 0}
	}
	return want, leave
}

// TestBytes compares the bytes that each policy moves outside attention with reads and writes counted here: in kernels and loops of steps
// and prompts, to and from home, and a step's vectors.
func TestBytes(t *testing.T) {
	forVariants(t, func(t *rapid.T, p policy.Costs, l *byteLaw, run int) {
		requests := drawRequests(t)
		x := p.Decode(slices.Clone(requests), run)
		want, fetched := l.step(requests)
		if got := add(map[policy.Device]sum{}, x.Passes); !reflect.DeepEqual(got, add(want, l.softmax(x))) {
			t.Fatalf("%+v: a step of %v passes over %+v, want %+v", l, requests, got, want)
		}
		if !slices.Equal(x.Fetched, fetched) || x.Ahead != (fetched != nil && l.Search == "lagged") {
			t.Fatalf("%+v: a step of %v fetches %v, want %v", l, requests, x.Fetched, fetched)
		}
		if b := x.Bounds; l.apart && l.paged() > 0 && l.SelectDevice != "gpu" {
			for i, r := range requests {
				down := l.SummaryDevice == "gpu" && r.Context%l.logical() == 0
				if b.Heads != l.paged() || b.Updates != (l.SummaryDevice != "gpu") || (b.Down[i] == 1) != down || b.Down[i] > 1 {
					t.Fatalf("%+v: bounds %+v of %v", l, b, requests)
				}
			}
		} else if b.Heads != 0 {
			t.Fatalf("%+v: bounds %+v go home", l, b)
		}
		finished, chunk := rapid.IntRange(0, 5000).Draw(t, "finished"), rapid.IntRange(1, 5000).Draw(t, "chunk")
		for _, last := range []bool{false, true} {
			got := p.Prompt(run, chunk, finished, last)
			passes, leave := l.prompt(chunk, finished, last)
			if all := add(map[policy.Device]sum{}, got.Passes); all[policy.GPU] != passes || all[policy.Home] != (sum{}) {
				t.Fatalf("%+v: %d tokens after %d, the last %v, pass over %+v, want %+v", l, chunk, finished, last, all, passes)
			}
			away := 0
			if l.Name == "hgca" && l.KeepAll { // salience is computed again
				away = l.after(finished)
			}
			if got.Away != away {
				t.Fatalf("%+v: %d tokens after %d attend to %d at home, want %d", l, chunk, finished, got.Away, away)
			}
			if fmt.Sprint(got.Leave) != fmt.Sprint(leave) {
				t.Fatalf("%+v: %d tokens after %d, the last %v, send home\n%+v, want\n%+v", l, chunk, finished, last, got.Leave, leave)
			}
		}
		v := policy.Vectors{Queries: int64(l.queries * l.vector()), New: int64(l.heads * l.token), Results: int64(l.queries * l.vector())}
		switch {
		case l.Name == "csattention" && l.Mode == "host": // the GPUs attend
			v.Results = 0
		case l.Name == "window" || l.Name == "hgca":
			if l.Window > 0 {
				v.New = 0
			}
			if l.Window+max(0, l.Sink) > 0 { // partial outputs: a log-sum-exp of each query head
				v.Sums = int64(4 * l.queries)
			}
		}
		if got := p.Vectors(); got != v || p.KV(7) != int64(7*l.heads*l.token) {
			t.Fatalf("%+v: vectors of %+v, want %+v; %d bytes of KV", l, got, v, p.KV(7))
		}
	})
}
