package llm

import "github.com/l3sim/l3sim/units"

// Vector is a kind of vectors that a layer stores of each token.
type Vector struct {
	Name       string // "key", "value", "latent" (which is both) or "index"
	Heads      int    // vectors of a token; the GPUs of a replica share them as KV heads: each holds some, or all hold the only one
	Width      int    // elements of each
	Bits       int    // of an element
	ScaleBytes int    // beside each
}

// Bytes returns those of a token.
func (v *Vector) Bytes() units.Bytes {
	return units.Bytes(v.Heads) * units.Bytes((v.Width*v.Bits+7)/8+v.ScaleBytes)
}

// Stored returns what a layer of a kind stores of each token: keys and values of the KV heads, or one latent that is both, and the
// key of its indexer if it has one.
func (m *Model) Stored(kind byte) []Vector {
	all, n := m.stored(kind)
	return all[:n]
}

// stored is Stored without an allocation: the first n.
func (m *Model) stored(kind byte) (all [3]Vector, n int) {
	h := m.HeadsOf(kind == Local || kind == Chunk)
	all[0] = Vector{"key", h.KV, h.Dim, m.KVElementBits(), m.KVScaleBytes()}
	if n = 1; m.LatentDim > 0 {
		all[0].Name = "latent"
	} else {
		all[1], n = all[0], 2
		all[1].Name, all[1].Width = "value", h.Value
	}
	if kind == Indexed {
		all[n] = m.Indexer.key()
		n++
	}
	return all, n
}

// storedBytes returns the bytes that a layer of a kind stores of a token, and those of its keys and values alone.
func (m *Model) storedBytes(kind byte) (all, keysAndValues units.Bytes) {
	vectors, n := m.stored(kind)
	for i := range n {
		v := &vectors[i]
		all += v.Bytes()
		if v.Name != "index" {
			keysAndValues += v.Bytes()
		}
	}
	return all, keysAndValues
}

// KVBytesPerTokenLayer returns the keys and values of one token in one layer, in one without a window where heads differ, with their
// scales: 2 · KVHeads · HeadDim elements where values are as wide as keys, half of them where one vector is both. Keys of indexers are not among them.
func (m *Model) KVBytesPerTokenLayer() units.Bytes {
	_, kv := m.storedBytes(Global)
	return kv
}

// KVBytesPerToken returns what all layers store of one token: 2 · layers · D_e · 2 bytes for
// FP16 multi-head attention (L3, Table 3: 4,718,592 for GPT-175B). Keys of indexers are among it.
func (m *Model) KVBytesPerToken() units.Bytes { return m.KVBytes(1) }

// KVBytes returns what all layers store of a request of that many tokens, of which layers with a window keep the window.
func (m *Model) KVBytes(tokens int) (sum units.Bytes) {
	group := max(1, min(len(m.LayerPattern), m.Layers))
	for i := range group { // layers i, i + group and so on are alike
		kind := m.Kind(i)
		all, _ := m.storedBytes(kind)
		kept := tokens
		if kind == Local || kind == Chunk {
			kept = min(tokens, m.Window)
		}
		sum += units.Bytes((m.Layers-i+group-1)/group) * units.Bytes(kept) * all
	}
	return sum
}

// ValueCopyBytes returns the bytes of a token's latent in a layer that units store again as a value, whose program reads keys and values each
// in an order of their own: the latent without the rotated key, with its scales. 0 without latents.
func (m *Model) ValueCopyBytes() units.Bytes {
	if m.LatentDim == 0 {
		return 0
	}
	v := Vector{"value", 1, m.LatentDim, m.KVElementBits(), m.KVScaleBytes()}
	if m.KVFormat == FP8Latent {
		v.ScaleBytes -= m.RopeDim() // the second byte of each element of the rotated key
	}
	return v.Bytes()
}
