package llm

import (
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// Model is the shape of a decoder-only transformer. Table 3 of the L3 paper gives the layers, heads and embedding widths of its models.
type Model struct {
	Name   string `toml:"name"`   // name in results
	Layers int    `toml:"layers"` // transformer layers
	Hidden int    `toml:"hidden"` // embedding dimension D_e
	Heads  int    `toml:"heads"`  // query heads
	// KVHeads is the number of key and value heads: Heads for multi-head
	// attention, fewer for grouped-query attention.
	KVHeads int `toml:"kv_heads"`
	HeadDim int `toml:"head_dim"` // d, elements of one head's q, k or v
	// FFNHidden is the inner width of the feed-forward network, or of each expert.
	FFNHidden int `toml:"ffn_hidden"`
	// GatedFFN selects three matrices for the network (gate, up, down; SwiGLU) instead of two.
	GatedFFN bool `toml:"gated_ffn"`
	// Experts is the number of feed-forward networks of a layer, from which a router picks some for each token; 0 is a single network
	// without a router.
	Experts       int `toml:"experts,optional"`
	ActiveExperts int `toml:"active_experts,optional"` // number of experts that each token takes
	// ExpertSkew is the exponent s of the experts' popularity, which falls with rank i as i^-s (Zipf's law). At 0 all are equally popular,
	// which is what training aims at.
	ExpertSkew float64 `toml:"expert_skew,optional"`
	Beside
	Vocab int `toml:"vocab"` // entries of the token embedding and of the LM head
	// TiedEmbedding makes input embedding and LM head share one matrix.
	TiedEmbedding bool `toml:"tied_embedding"`
	// MaxPositions is the number of learned position embeddings, 0 for rotary positions, which have no parameters.
	MaxPositions int `toml:"max_positions"`
	// Context is the maximum number of tokens of a request, prompt and answer, as servers derive it from config.json; 0: no limit.
	// serving.beyond_context decides about longer requests.
	Context     int `toml:"context,optional"`
	ElementBits int `toml:"element_bits"` // of weights, activations and KV cache, unless the next keys differ
	Latent
	Widths
	LayerKinds
	Parallel
	// TensorParallel is the number of GPUs that share one replica of the model (Table 3); the node's other GPUs hold further replicas. It
	// must divide the number of KV heads or be a multiple of it; with a multiple, several GPUs hold each KV head. "fit" means the fewest
	// GPUs that hold the weights.
	TensorParallel int `toml:"tensor_parallel"`
}

// Check has the rules of the section [model].
func (m *Model) Check(c *input.Check) {
	const most = 1 << 24
	input.Within(c, "layers", m.Layers, 1, most)
	input.Within(c, "hidden", m.Hidden, 1, most)
	input.Within(c, "heads", m.Heads, 1, most)
	input.Within(c, "kv_heads", m.KVHeads, 1, most)
	input.Within(c, "ffn_hidden", m.FFNHidden, 1, most)
	input.Within(c, "vocab", m.Vocab, 1, most)
	input.Within(c, "tensor_parallel", m.TensorParallel, 1, most)
	widest := 512
	if m.LatentDim > 0 {
		widest = 4096
	}
	input.Within(c, "head_dim", m.HeadDim, 8, widest)
	input.Within(c, "max_positions", m.MaxPositions, 0, 1<<30)
	input.Within(c, "context", m.Context, 0, 1<<30)
	c.That(m.Context != 1, "context", m.Context, "0 (no limit), or at least 2: a token of the prompt and one of the answer")
	c.That(m.ElementBits == 8 || m.ElementBits == 16, "element_bits", m.ElementBits, "8 or 16")
	m.checkExperts(c)
	m.Beside.check(c, m)
	m.Widths.check(c, m.ElementBits)
	m.LayerKinds.check(c, m)
	m.Latent.check(c, m)
	m.Parallel.check(c, m)
	c.That(m.Window == 0 || m.KVScales != ChannelScales, "kv_scales", m.KVScales, "\"token\" or \"tensor\" with %s = %d: what keeps a window has no groups of tokens", input.Key("model.window"), m.Window)
	if !c.OK() {
		return
	}
	if m.Heads%m.KVHeads != 0 {
		c.That(false, "kv_heads", m.KVHeads, "a divisor of %s = %d", input.Key("heads"), m.Heads)
	} else {
		expected, args := m.splits()
		c.That(m.SplitsOver(m.TensorParallel), "tensor_parallel", m.TensorParallel, expected, args...)
	}
	key, largest := m.largest()
	n := m.parameters()
	c.That(n <= mostParameters, key, largest, "a model of at most 2^56 parameters: with %s = %d, %s = %d, %s = %d, %s = %d, %s = %d, %s = %d, %s = %d it has %.3g",
		input.Key("layers"), m.Layers, input.Key("hidden"), m.Hidden, input.Key("heads"), m.Heads, input.Key("head_dim"), m.HeadDim,
		input.Key("ffn_hidden"), m.FFNHidden, input.Key("vocab"), m.Vocab, input.Key("experts"), m.Experts, n)
}

// mostParameters bounds a model, so that no number of bytes overflows an int64.
const mostParameters = 1 << 56

// parameters is Parameters in floating point, which cannot overflow.
func (m *Model) parameters() float64 {
	h, windowed := float64(m.Hidden), float64(m.WindowedLayers())
	sum := float64(float64(2*m.Vocab+m.MaxPositions)*h) + float64(m.indexersParameters(1))
	sum += float64(windowed*float64(m.attentionParameters(true, 1))) + float64((float64(m.Layers)-windowed)*float64(m.attentionParameters(false, 1)))
	for _, n := range m.Networks() {
		rows, columns := h, float64(n.Width)
		if n.Experts > 0 && m.padded() {
			hidden, ffn := m.LoadedExpert()
			rows, columns = float64(hidden), float64(ffn)*float64(m.expertShards())
		}
		network := float64(float64(max(1, n.Experts)*m.FFNMatrices())*rows*columns) + float64(float64(m.FFNMatrices()*n.Shared)*h)
		layer := network + float64(h*float64(n.Experts))
		sum += float64(float64(n.Layers) * layer)
	}
	return sum
}

// largest returns the size that is most out of proportion, for error messages.
func (m *Model) largest() (key string, value int) {
	for _, size := range []struct {
		key   string
		value int
	}{{"hidden", m.Hidden}, {"heads", m.Heads}, {"ffn_hidden", m.FFNHidden},
		{"dense_ffn_hidden", m.DenseFFN}, {"shared_ffn_hidden", m.SharedFFN}, {"vocab", m.Vocab}, {"layers", m.Layers}, {"max_positions", m.MaxPositions}} {
		if size.value > value {
			key, value = size.key, size.value
		}
	}
	return key, value
}

func (m *Model) elementBytes(n int64) units.Bytes { return units.Bytes(n * int64(m.ElementBits) / 8) }

// QueryGroup returns the number of query heads that share one KV head.
func (m *Model) QueryGroup() int { return m.Heads / max(1, m.KVHeads) }

// QKVWidth returns the output width of QKV generation: all heads of q, k and v.
func (m *Model) QKVWidth() int {
	h := m.HeadsOf(false)
	return (m.Heads+h.KV)*h.Dim + h.KV*h.Value
}

// FFNMatrices returns the number of weight matrices of a feed-forward network.
func (m *Model) FFNMatrices() int {
	if m.GatedFFN {
		return 3
	}
	return 2
}

// Parameters returns the number of parameters in all matrices: layers, embedding and LM head. Biases and norms (below 0.1%) are left out.
func (m *Model) Parameters() int64 { return m.allParameters(false) }

// ActiveParameters returns the number of parameters that a token uses, without the experts that its routers do not pick.
func (m *Model) ActiveParameters() int64 { return m.allParameters(true) }

func (m *Model) allParameters(active bool) int64 {
	windowed := int64(m.WindowedLayers())
	sum := m.embeddingParameters() + m.indexersParameters(1)
	sum += windowed*m.attentionParameters(true, 1) + (int64(m.Layers)-windowed)*m.attentionParameters(false, 1)
	for _, n := range m.Networks() {
		sum += int64(n.Layers) * n.parameters(m, active)
	}
	return sum
}

// LayerParameters returns the parameters of one layer's matrices: QKV generation, projection, router and all feed-forward networks. If
// layers differ, it is a layer with experts and without a window. Biases and norms (below 0.1%) are left out.
func (m *Model) LayerParameters() int64 {
	n := m.mixture()
	return m.attentionParameters(false, 1) + n.parameters(m, false)
}

// attentionParameters returns the parameters of a layer's QKV generation and projection, with or without a window, over the given number of
// GPUs of a replica. Each GPU counts as many heads as the GPU with the most.
func (m *Model) attentionParameters(windowed bool, gpus int) int64 {
	h := m.HeadsOf(windowed)
	query, kv := m.Heads, h.KV
	if gpus > 1 && m.DataParallel() {
		return int64(gpus) * m.attentionParameters(windowed, 1)
	}
	if gpus > 1 {
		query, kv = m.onGPUs(kv)
	}
	if m.LatentDim > 0 {
		return m.latentParameters(query, kv)
	}
	return int64(m.Hidden) * int64(query+kv) * int64(h.Dim+h.Value)
}

// embeddingParameters returns the parameters of token and position embeddings and of the LM head.
func (m *Model) embeddingParameters() int64 {
	tables := int64(2)
	if m.TiedEmbedding {
		tables = 1
	}
	return (tables*int64(m.Vocab) + int64(m.MaxPositions)) * int64(m.Hidden)
}

// WeightBytes returns the bytes of all weights on the GPUs of a replica, including unused copies that a server keeps.
func (m *Model) WeightBytes() units.Bytes {
	return m.layersBytes(false) + units.Bytes(m.Layers-m.DenseLayers)*m.spareScales() + m.elementBytes(m.embeddingParameters())
}

// ActiveLayersBytes returns the bytes of the weights that a token uses in all layers, without the experts that it does not take.
func (m *Model) ActiveLayersBytes() units.Bytes { return m.layersBytes(true) }

func (m *Model) layersBytes(active bool) (sum units.Bytes) {
	windowed := m.WindowedLayers()
	sum = m.attentionBytes(m.indexersParameters(m.TensorParallel)) + units.Bytes(windowed)*m.attentionBytes(m.attentionParameters(true, m.TensorParallel))
	sum += units.Bytes(m.Layers-windowed) * m.attentionBytes(m.attentionParameters(false, m.TensorParallel))
	for _, n := range m.Networks() {
		sum += units.Bytes(n.Layers) * n.bytes(m, active)
	}
	return sum
}

// LayerWeightBytes returns the bytes of the weights of one layer, with experts if layers differ.
func (m *Model) LayerWeightBytes() units.Bytes {
	n := m.mixture()
	return m.layerBytes(&n, false)
}

// ActiveLayerWeightBytes is LayerWeightBytes without the experts that a token does not take.
func (m *Model) ActiveLayerWeightBytes() units.Bytes {
	n := m.mixture()
	return m.layerBytes(&n, true)
}

func (m *Model) layerBytes(n *Network, active bool) units.Bytes {
	return m.attentionBytes(m.attentionParameters(false, m.TensorParallel)) + n.bytes(m, active)
}

// QKVBytesPerTokenLayer returns the bytes of one token's q, k and v in one layer, which a decode step sends to the host memory.
func (m *Model) QKVBytesPerTokenLayer() units.Bytes { return m.elementBytes(int64(m.QKVWidth())) }

// AttentionBytesPerTokenLayer returns the bytes of one token's attention output in one layer, which the host memory returns.
func (m *Model) AttentionBytesPerTokenLayer() units.Bytes {
	return m.elementBytes(int64(m.Heads) * int64(m.HeadsOf(false).Value))
}

// mostActivations is more than any GPUs hold, and far below an int64's limit.
const mostActivations = 1 << 60 // bytes

// ActivationBytes returns the bytes, over the GPUs of one replica, of the activations of a batch of tokens. Each GPU has the residual
// stream and its normalised copy. The GPUs split the larger of two parts: q, k, v and attention output; or the widest feed-forward
// intermediate. With experts, the latter is counted for each expert that a token takes, and its output is on each GPU. It saturates at 1
// EiB.
func (m *Model) ActivationBytes(tokens int) units.Bytes {
	stream := int64(m.Hidden) * int64(m.TensorParallel)
	if m.WholeNetworks() { // a token is only on its request's GPU, except for its experts
		stream = int64(m.Hidden)
	}
	attention := int64(0)
	for _, windowed := range []bool{false, true} {
		h := m.HeadsOf(windowed)
		query, kv := m.onGPUs(h.KV)
		if m.DataParallel() {
			query, kv = m.Heads, h.KV
		}
		attention = max(attention, int64(query+kv)*int64(h.Dim+h.Value))
		if m.LatentDim > 0 {
			attention = m.latentActivations(query)
		}
	}
	feedForward := int64(0)
	for _, n := range m.Networks() {
		feedForward = max(feedForward, n.activations(m, stream))
	}
	token := 2*stream + max(attention, feedForward)
	if float64(tokens)*float64(token)*float64(m.ElementBits)/8 >= mostActivations {
		return mostActivations
	}
	return m.elementBytes(int64(tokens) * token)
}
