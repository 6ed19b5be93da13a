package llm

import "github.com/l3sim/l3sim/units"

// Vector is a kind of vector that a layer stores of each token.
type Vector struct {
	Name       string // "key", "value", "latent" (which is both) or "index"
	Heads      int    // vectors of a token; a replica's GPUs divide them like KV heads, or all hold the only one
	Width      int    // elements of each
	Bits       int    // of an element
	ScaleBytes int    // scale bytes beside each vector
}

// Bytes returns the bytes of a token's vectors of this kind.
func (v *Vector) Bytes() units.Bytes {
	return units.Bytes(v.Heads) * units.Bytes((v.Width*v.Bits+7)/8+v.ScaleBytes)
}

// Stored returns the vectors that a layer of a kind stores of each token: keys and values of the KV heads, or one latent that is both, and
// the index key if the layer has an indexer.
func (m *Model) Stored(kind byte) []Vector {
	all, n := m.stored(kind)
	return all[:n]
}

// stored is Stored without an allocation: the first n are valid.
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

// storedBytes returns the bytes that a layer of a kind stores of a token: in all, and of keys and values alone.
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

// KVBytesPerTokenLayer returns the bytes of one token's keys and values in one layer, with their scales; if heads differ, in a layer
// without a window. They have 2 · KVHeads · HeadDim elements if values are as wide as keys, and half of that if one vector is both. Index
// keys are excluded.
func (m *Model) KVBytesPerTokenLayer() units.Bytes {
	_, kv := m.storedBytes(Global)
	return kv
}

// KVBytesPerToken returns the bytes that all layers store of one token: 2 · layers · D_e · 2 bytes for FP16 multi-head attention (L3, Table
// 3: 4,718,592 for GPT-175B). Index keys are included.
func (m *Model) KVBytesPerToken() units.Bytes { return m.KVBytes(1) }

// KVBytes returns the bytes that all layers store of a request with that many tokens. Layers with a window keep only the window.
func (m *Model) KVBytes(tokens int) (sum units.Bytes) {
	group := max(1, min(len(m.LayerPattern), m.Layers))
	for i := range group { // layers i, i + group, ... are alike
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

// ValueCopyBytes returns the bytes of a second copy of a token's latent, which processing units need since they read keys and values in
// different orders: the latent without the rotated key, with its scales. 0 without latents.
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
