package llm

import (
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// Beside is what a mixture of experts has besides the experts that its router picks. The zero value has nothing.
type Beside struct {
	// SharedFFN is the inner width of the network that every token takes besides the experts that the router picks: that of
	// all shared experts together. 0: none.
	SharedFFN int `toml:"shared_ffn_hidden,optional"`
	// DenseLayers is the number of layers that have a dense network in place of experts: the first ones in DeepSeek V3 and
	// GLM-4.5, every second one in Llama 4 Maverick. Their place does not matter: every layer takes the mean time.
	DenseLayers int `toml:"dense_layers,optional"`
	// DenseFFN is the inner width of the networks of dense_layers.
	DenseFFN int `toml:"dense_ffn_hidden,optional"`
}

func (b *Beside) check(c *input.Check, m *Model) {
	const most = 1 << 24
	input.Within(c, "shared_ffn_hidden", b.SharedFFN, 0, most)
	input.Within(c, "dense_layers", b.DenseLayers, 0, most)
	input.Within(c, "dense_ffn_hidden", b.DenseFFN, 0, most)
	if m.Experts == 0 {
		c.That(b.SharedFFN == 0, "shared_ffn_hidden", b.SharedFFN, "0 without %s", input.Key("model.experts"))
		c.That(b.DenseLayers == 0, "dense_layers", b.DenseLayers, "0 without %s: all layers are dense", input.Key("model.experts"))
	}
	c.That(b.DenseLayers < max(m.Layers, 1), "dense_layers", b.DenseLayers, "fewer than %s = %d: others have the experts", input.Key("layers"), m.Layers)
	c.That((b.DenseLayers > 0) == (b.DenseFFN > 0), "dense_ffn_hidden", b.DenseFFN, "a width with %s, 0 without: it is %d", input.Key("model.dense_layers"), b.DenseLayers)
}

// Network is the feed-forward part of some layers of a model.
type Network struct {
	Layers  int // that have it
	Width   int // inner width of a dense network, or of each expert
	Experts int // 0 for a dense network
	Active  int // experts that the router picks for a token
	Shared  int // inner width of the network that every token takes besides; 0: none
}

// Networks returns the feed-forward parts of a model, which differ between layers: one, or a dense one and then the mixture.
func (m *Model) Networks() []Network {
	last := Network{Layers: m.Layers - m.DenseLayers, Width: m.FFNHidden, Experts: m.Experts, Active: m.ActiveExperts, Shared: m.SharedFFN}
	if m.DenseLayers == 0 {
		return []Network{last}
	}
	return []Network{{Layers: m.DenseLayers, Width: m.DenseFFN}, last}
}

// mixture returns the feed-forward part of the layers with experts, of all layers in a dense model.
func (m *Model) mixture() Network {
	all := m.Networks()
	return all[len(all)-1]
}

// parameters returns those of a layer's network: all, or those that a token takes.
func (n *Network) parameters(m *Model, active bool) int64 {
	one := int64(m.FFNMatrices()) * int64(m.Hidden)
	if n.Experts == 0 {
		return one * int64(n.Width)
	}
	return one*(int64(n.Width)*int64(n.taken(active))+int64(n.Shared)) + m.RouterParameters()
}

// taken returns how many experts there are, or how many a token takes.
func (n *Network) taken(active bool) int {
	if active {
		return n.Active
	}
	return n.Experts
}

// RouterParameters returns the parameters of a router, a matrix hidden × experts.
// Each GPU of a replica has a copy, of which one is counted: it is below 0.1% of a layer.
func (m *Model) RouterParameters() int64 { return int64(m.Hidden) * int64(m.Experts) }

// bytes returns the bytes of the weights of a layer's network, as they are loaded on the GPUs of a replica: all, or those that a
// token takes. Dense networks and shared experts have weight_bits, experts expert_bits.
func (n *Network) bytes(m *Model, active bool) units.Bytes {
	matrices, hidden, whole := int64(m.FFNMatrices()), int64(m.Hidden), int64(1)
	if m.WholeNetworks() && !active {
		whole = int64(m.TensorParallel)
	}
	if n.Experts == 0 {
		return m.denseBytes(whole * matrices * hidden * int64(n.Width))
	}
	one := hidden * int64(n.Width)
	if m.padded() {
		loadedHidden, loadedFFN := m.LoadedExpert()
		one = int64(loadedHidden) * int64(loadedFFN) * int64(m.expertShards())
	}
	return m.weightBytes(m.RouterParameters()) + m.expertBytes(int64(n.taken(active))*matrices*one) + m.denseBytes(whole*matrices*hidden*int64(n.Shared))
}

// activations returns the elements that a token has in a layer's network at once, over the GPUs of a replica: the widest intermediate
// of a dense network; with experts that of each one it takes, and its output, which is as wide as stream on all GPUs.
func (n *Network) activations(m *Model, stream int64) int64 {
	wide := int64(m.FFNMatrices() - 1)
	if n.Experts == 0 {
		return wide * int64(n.Width)
	}
	return int64(n.Active)*(wide*int64(n.Width)+stream) + wide*int64(n.Shared)
}
