package llm

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// kind is a kind of matrices that a checkpoint quantises or keeps in 16 bits.
type kind int

const (
	attentionMatrices kind = iota
	networkMatrices
)

// matrix is a matrix of a layer, for all experts or one. Families name it differently: its module's name is one of parents, and its own is
// one of leaves, which include fused products.
type matrix struct {
	kind       kind
	parents    []string
	leaves     []string
	parameters int64
}

// parents are the module names of a layer's networks in different families.
type parents struct{ dense, experts, shared []string }

var (
	usualParents = parents{
		dense:   []string{"mlp", "feed_forward"},
		experts: []string{"mlp.experts", "block_sparse_moe.experts", "feed_forward.experts", "moe.experts"},
		shared:  []string{"mlp.shared_experts", "mlp.shared_expert", "mlp.shared_mlp", "feed_forward.shared_expert", "share_expert"},
	}
	// besideParents are Gemma 4's: the dense network beside the experts is called mlp.
	besideParents = parents{experts: []string{"experts", "moe.experts"}, shared: []string{"mlp"}}
)

// naming says how a list names the matrices of experts: the modules they are in, and whether each expert is listed by itself or all are
// listed as one.
type naming struct {
	parents
	eachExpert bool
}

// matrices returns the matrices of a layer of a kind with a network.
func (m *Model) matrices(n *Network, layer byte, by *naming) (all []matrix) {
	attention := []string{"self_attn", "attention", "attn"}
	add := func(list []latentMatrix) {
		for _, x := range list {
			all = append(all, matrix{attentionMatrices, attention, x.leaves, x.parameters})
		}
	}
	if m.LatentDim > 0 {
		add(m.latentMatrices(m.Heads))
		if layer == Indexed {
			add(m.indexMatrices())
		}
		return m.addNetworks(all, n, by)
	}
	h, hidden := m.HeadsOf(layer == Local || layer == Chunk), int64(m.Hidden)
	all = []matrix{
		{attentionMatrices, attention, []string{"q_proj", "qkv_proj"}, hidden * int64(m.Heads*h.Dim)}, {attentionMatrices, attention, []string{"k_proj", "qkv_proj"}, hidden * int64(h.KV*h.Dim)},
		{attentionMatrices, attention, []string{"v_proj", "qkv_proj"}, hidden * int64(h.KV*h.Value)}, {attentionMatrices, attention, []string{"o_proj", "out_proj", "dense"}, hidden * int64(m.Heads*h.Value)},
	}
	return m.addNetworks(all, n, by)
}

// addNetworks adds the matrices of a layer's networks.
func (m *Model) addNetworks(all []matrix, n *Network, by *naming) []matrix {
	leaves := [][]string{{"up_proj", "gate_up_proj", "w3", "fc1"}, {"down_proj", "w2", "fc2"}}
	if m.GatedFFN {
		leaves = append(leaves, []string{"gate_proj", "gate_up_proj", "w1"})
	}
	add := func(width int, parents ...string) {
		for _, l := range leaves {
			all = append(all, matrix{networkMatrices, parents, l, int64(m.Hidden) * int64(width)})
		}
	}
	if n.Experts == 0 {
		add(n.Width, by.dense...)
		return all
	}
	experts, width := n.Experts, n.Width
	if !by.eachExpert {
		experts, width = 1, width*experts
	}
	for e := range experts {
		var of []string
		for _, parent := range by.experts {
			of = append(of, fmt.Sprint(parent, ".", e))
		}
		add(width, of...)
	}
	if n.Shared > 0 {
		add(n.Shared, by.shared...)
	}
	return all
}

// modules is a checkpoint's list of modules that it does not quantise: names or parts of them ("self_attn", "layers.0"), shell patterns
// (ModelOpt's "model.layers.0*") and regular expressions (compressed-tensors' "re:.*self_attn.*").
type modules struct {
	names    map[string]bool
	patterns map[string]*regexp.Regexp
	used     map[string]bool // entries that name a matrix of the model
}

var (
	expertOf = regexp.MustCompile(`experts\.\d`)
	layerOf  = regexp.MustCompile(`layers\.(\d+)`)
	// unquantised are modules that always have 16 bits, or that a text model lacks: encoders, and layers that predict further tokens.
	unquantised = regexp.MustCompile(`lm_head|embed|norm|router|gate\b|bias|vision|visual|audio|multi_modal|projector|mtp|eh_proj|shared_head`)
)

// newModules compiles a list, and returns nil for an invalid pattern.
func newModules(list []string) *modules {
	s := &modules{map[string]bool{}, map[string]*regexp.Regexp{}, map[string]bool{}}
	for _, name := range list {
		text, isRegexp := strings.CutPrefix(name, "re:")
		if i := strings.Index(text, "layers."); i > 0 && !isRegexp && !unquantised.MatchString(text[:i]) {
			text = text[i:] // drop the model's prefix before its layers; layers of encoders keep their name
		}
		switch {
		case isRegexp:
			text = "^(?:" + text + ")" // anchored at the beginning, like Python's re.match
		case strings.ContainsAny(text, "*?"):
			text = "^" + strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(text)) + "$"
		default:
			s.names[strings.TrimSuffix(text, ".weight")] = true
			continue
		}
		pattern, err := regexp.Compile(text)
		if err != nil {
			return nil
		}
		s.patterns[name] = pattern
	}
	return s
}

// has reports whether a list contains a layer's matrix under any of its names.
func (s *modules) has(layer int, x *matrix) (has bool) {
	for _, parent := range x.parents {
		for _, leaf := range x.leaves {
			has = s.hasName(fmt.Sprintf("layers.%d.%s.%s", layer, parent, leaf)) || has
		}
	}
	if x.kind == networkMatrices { // OPT's matrices are directly in the layer
		has = s.hasName(fmt.Sprintf("layers.%d.%s", layer, x.leaves[len(x.leaves)-1])) || has
	}
	return has
}

// hasName reports whether a list contains a module's name, the name of an enclosing module, or a run of its components.
func (s *modules) hasName(name string) (has bool) {
	parts := strings.Split(name, ".")
	for from := range parts {
		for to := from + 1; to <= len(parts); to++ {
			if run := strings.Join(parts[from:to], "."); s.names[run] && run != "layers" {
				s.used[run], has = true, true
			}
		}
	}
	for to := 2; to <= len(parts) && len(s.patterns) > 0; to++ { // prefixes: the layer, its module, the matrix
		module := strings.Join(parts[:to], ".")
		for key, pattern := range s.patterns {
			if pattern.MatchString(module) || pattern.MatchString("model."+module) {
				s.used[key], has = true, true
			}
		}
	}
	return has
}

// strange reports whether a list names an unknown module: neither a matrix of the model nor always in 16 bits, or in a layer beyond the
// model's last.
func (s *modules) strange(layers int) bool {
	other := func(name string) bool {
		if at := layerOf.FindStringSubmatch(name); at != nil {
			if n, err := strconv.Atoi(at[1]); err == nil && n >= layers {
				return false
			}
		}
		return !s.used[name] && !unquantised.MatchString(name)
	}
	for name := range s.names {
		if other(name) {
			return true
		}
	}
	for name := range s.patterns {
		if other(name) {
			return true
		}
	}
	return false
}

// mostLayers and mostMatrices bound what a file can ask for: larger values would take minutes.
const (
	mostLayers   = 10_000
	mostMatrices = 300_000
)

// keep leaves in 16 bits the weights that the file does not quantise, and describes them. It returns false if the list cannot be read or
// leaves nothing to quantise. dense reports the layers with a dense network.
func (c *checkpoint) keep(m *Model, of parents, dense func(layer int) bool) (wide []string, ok bool) {
	list, only := slices.Concat(c.NotConvert, c.Exclude, c.Ignore), slices.Concat(c.Only...)
	for rule := range c.Dynamic { // GPTQModel: "-:" and the unquantised modules, else another width
		name, skips := strings.CutPrefix(rule, "-:")
		if !skips {
			return nil, false
		}
		list = append(list, "re:"+name)
	}
	wide = []string{"embeddings", "LM head"}
	if len(list) == 0 && len(only) == 0 {
		return wide, true
	}
	skipped, quantised := newModules(list), newModules(only)
	by := naming{of, slices.ContainsFunc(list, expertOf.MatchString)}
	if number := m.Layers * (7 + 3*max(1, m.Experts)); skipped == nil || quantised == nil || by.eachExpert && number > mostMatrices {
		return nil, false
	}
	counts := m.count(&by, dense, func(layer int, x *matrix) bool {
		has := skipped.has(layer, x)
		return len(only) > 0 && !quantised.has(layer, x) || has
	})
	a, n := &counts[attentionMatrices], &counts[networkMatrices]
	if skipped.strange(m.Layers) || quantised.strange(m.Layers) || a.all() && n.all() {
		return nil, false
	}
	switch bits := m.WeightBits; {
	case a.all():
		m.AttentionBits, m.KeptNetwork = 16, n.share()
	case n.all():
		m.WeightBits, m.AttentionBits, m.KeptAttention = 16, bits, a.share()
	default:
		m.KeptAttention, m.KeptNetwork = a.share(), n.share()
	}
	return append(append(wide, a.words("attention")...), n.words("feed-forward networks")...), true
}

// keptCount counts a kind's parameters that a file keeps in 16 bits, and the layers kept whole or in part.
type keptCount struct {
	kept, total int64
	whole, part []int
}

func (k *keptCount) all() bool { return k.kept == k.total }

func (k *keptCount) share() float64 { return float64(k.kept) / float64(k.total) }

// words describes which layers are kept; nothing if none are.
func (k *keptCount) words(what string) (words []string) {
	if k.all() {
		return []string{what}
	}
	if len(k.whole) > 0 {
		words = append(words, what+" of "+layerList(k.whole))
	}
	if len(k.part) > 0 {
		words = append(words, "parts of "+what+" of "+layerList(k.part))
	}
	return words
}

// count counts, by kind, the matrices of all layers that are kept.
func (m *Model) count(by *naming, dense func(layer int) bool, kept func(layer int, x *matrix) bool) (counts [2]keptCount) {
	type like struct { // layers with an equal value are counted once
		kind    byte
		network int
	}
	networks, sets := m.Networks(), map[like][]matrix{}
	for layer := range m.Layers {
		l := like{m.Kind(layer), len(networks) - 1}
		if m.DenseLayers > 0 && dense(layer) {
			l.network = 0
		}
		if sets[l] == nil {
			sets[l] = m.matrices(&networks[l.network], l.kind, by)
		}
		for k, c := range countLayer(sets[l], func(x *matrix) bool { return kept(layer, x) }) {
			counts[k].add(layer, c.kept, c.total)
		}
	}
	return counts
}

// countLayer counts, by kind, the matrices of a layer that are kept.
func countLayer(all []matrix, kept func(x *matrix) bool) (counts [2]keptCount) {
	for i := range all {
		x := &all[i]
		counts[x.kind].total += x.parameters
		if kept(x) {
			counts[x.kind].kept += x.parameters
		}
	}
	return counts
}

// add adds a layer that keeps some of its total parameters.
func (k *keptCount) add(layer int, kept, total int64) {
	k.kept, k.total = k.kept+kept, k.total+total
	if kept == total {
		k.whole = append(k.whole, layer)
	} else if kept > 0 {
		k.part = append(k.part, layer)
	}
}

// layerList lists layers; a few are named one by one.
func layerList(layers []int) string {
	const few = 6
	switch {
	case len(layers) == 1:
		return fmt.Sprint("layer ", layers[0])
	case len(layers) > few:
		return fmt.Sprintf("%d layers", len(layers))
	}
	text := make([]string, len(layers))
	for i, l := range layers {
		text[i] = strconv.Itoa(l)
	}
	return "layers " + strings.Join(text[:len(text)-1], ", ") + " and " + text[len(text)-1]
}
