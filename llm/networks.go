package llm

import (
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// Beside is the feed-forward networks of a mixture of experts other than the routed experts. The zero value has none.
type Beside struct {
	// SharedFFN is the inner width of the network that every token takes in addition to the routed experts: all shared experts together. 0:
	// none.
	SharedFFN int `toml:"shared_ffn_hidden,optional"`
	// DenseLayers is the number of layers with a dense network in place of experts: the first ones in DeepSeek V3 and GLM-4.5, every second
	// one in Llama 4 Maverick. Their position does not matter, since every layer takes the mean time.
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
	Layers  int // number of layers that have it
	Width   int // inner width of a dense network, or of each expert
	Experts int // 0 for a dense network
	Active  int // number of experts that the router picks for a token
	Shared  int // inner width of the shared network that every token takes; 0: none
}

// Networks returns the feed-forward parts of a model: one, or a dense one followed by the mixture if layers differ.
func (m *Model) Networks() []Network {
	last := Network{Layers: m.Layers - m.DenseLayers, Width: m.FFNHidden, Experts: m.Experts, Active: m.ActiveExperts, Shared: m.SharedFFN}
	if m.DenseLayers == 0 {
		return []Network{last}
	}
	return []Network{{Layers: m.DenseLayers, Width: m.DenseFFN}, last}
}

// mixture returns the feed-forward part of the layers with experts, or of all layers in a dense model.
func (m *Model) mixture() Network {
	all := m.Networks()
	return all[len(all)-1]
}

// parameters returns the parameters of a layer's network: all, or only those that a token uses.
func (n *Network) parameters(m *Model, active bool) int64 {
	one := int64(m.FFNMatrices()) * int64(m.Hidden)
	if n.Experts == 0 {
		return one * int64(n.Width)
	}
	return one*(int64(n.Width)*int64(n.taken(active))+int64(n.Shared)) + m.RouterParameters()
}

// taken returns the number of experts, or the number that a token takes.
func (n *Network) taken(active bool) int {
	if active {
		return n.Active
	}
	return n.Experts
}

// RouterParameters returns the parameters of a router, a matrix hidden × experts. Each GPU of a replica has a copy, but only one is
// counted: it is below 0.1% of a layer.
func (m *Model) RouterParameters() int64 { return int64(m.Hidden) * int64(m.Experts) }

// bytes returns the bytes of the weights of a layer's network, as loaded on the GPUs of a replica: all, or only those that a token uses.
// Dense networks and shared experts have weight_bits, experts expert_bits.
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

// activations returns the elements of one token in a layer's network, over the GPUs of a replica. For a dense network it is the widest
// intermediate. With experts it is that of each expert that the token takes, and each expert's output, which has stream elements over all
// GPUs.
func (n *Network) activations(m *Model, stream int64) int64 {
	wide := int64(m.FFNMatrices() - 1)
	if n.Experts == 0 {
		return wide * int64(n.Width)
	}
	return int64(n.Active)*(wide*int64(n.Width)+stream) + wide*int64(n.Shared)
}
