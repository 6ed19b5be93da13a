package llm

import "github.com/l3sim/l3sim/input"

// Indexer chooses the tokens to which a layer attends (DeepSeek-V3.2, https://arxiv.org/abs/2512.02556, section 2.1; GLM-5). Its heads
// score every earlier token by a key that all of them share and that is stored beside the latent: Σ w_j · ReLU(q_j · k). Queries come
// from the vector of query_rank, keys and the weights w_j from the hidden state. The zero value is none.
type Indexer struct {
	IndexHeads int `toml:"index_heads,optional"` // heads of the indexer that scores tokens; every GPU of a replica has them all
	IndexDim   int `toml:"index_dim,optional"`   // elements of a query of the indexer's heads, and of the key that they share
	IndexTopK  int `toml:"index_top_k,optional"` // tokens that an indexer chooses for each token, those of the highest scores; 0: no layer has an indexer
}

// indexScaleBytes are of the FP32 scale of an index key, whose elements are FP8 (DeepSeek-V3.2's inference/model.py).
const (
	indexBits       = 8
	indexScaleBytes = 4
)

func (x *Indexer) check(c *input.Check, m *Model) {
	const most = 1 << 16
	input.Within(c, "index_heads", x.IndexHeads, 0, most)
	input.Within(c, "index_dim", x.IndexDim, 0, most)
	input.Within(c, "index_top_k", x.IndexTopK, 0, 1<<24)
	c.That((x.IndexHeads > 0) == (x.IndexTopK > 0), "index_heads", x.IndexHeads, "at least 1 with %s, 0 without: it is %d", input.Key("model.index_top_k"), x.IndexTopK)
	c.That((x.IndexDim > 0) == (x.IndexTopK > 0), "index_dim", x.IndexDim, "at least 1 with %s, 0 without: it is %d", input.Key("model.index_top_k"), x.IndexTopK)
	c.That(x.IndexTopK == 0 || m.LatentDim > 0, "index_top_k", x.IndexTopK, "0 without %s: indexers are modelled beside latents", input.Key("model.latent_dim"))
}

// key returns what a layer with an indexer stores of each token for it.
func (x *Indexer) key() Vector { return Vector{"index", 1, x.IndexDim, indexBits, indexScaleBytes} }

// IndexBytes returns the bytes of a token's index key in a layer that has an indexer.
func (x *Indexer) IndexBytes() int64 {
	k := x.key()
	return int64(k.Bytes())
}

// indexMatrices returns the matrices of a layer's indexer: of its queries, its key and its heads' weights. Every GPU has them whole.
func (m *Model) indexMatrices() []latentMatrix {
	from := int64(m.QueryRank)
	if from == 0 {
		from = int64(m.Hidden)
	}
	return []latentMatrix{
		{[]string{"indexer.wq_b"}, from * int64(m.IndexHeads) * int64(m.IndexDim), true},
		{[]string{"indexer.wk"}, int64(m.Hidden) * int64(m.IndexDim), true},
		{[]string{"indexer.weights_proj", "indexers_proj"}, int64(m.Hidden) * int64(m.IndexHeads), true},
	}
}

// indexersParameters returns those of the indexers of all layers that have one, with so many copies of each.
func (m *Model) indexersParameters(copies int) (sum int64) {
	for _, x := range m.indexMatrices() {
		sum += x.parameters
	}
	return sum * int64(copies) * int64(m.CountLayers("I"))
}

// Indexing is a choice of tokens by an indexer of the model in one layer, of all requests together: scores of index keys by the queries of
// an index, and the best of each row of scores. The zero value is none.
type Indexing struct {
	Requests int
	Queries  int   // rows of scores of a request
	Keys     int64 // index keys that are read
	Longest  int   // of a request
	Pairs    int64 // scores of all rows
	Keep     int   // that each row keeps
	Step     bool  // of decode steps, whose kernels share a request's keys among blocks that fill the GPU
}

// Chosen is attention of tokens of a prompt over rows that an indexer has chosen for each of them, Longest at most and Rows in all.
type Chosen struct {
	Tokens, Longest int
	Rows            int64
}

// Add adds the scores of a decode step of one request whose tokens are the last queries of a context. A context that has no more than
// index_top_k tokens is attended to whole without scores.
func (x *Indexer) Add(to *Indexing, context, queries int) {
	if context <= x.IndexTopK {
		return
	}
	to.Requests, to.Queries, to.Keep, to.Step = to.Requests+1, queries, x.IndexTopK, true
	to.Keys, to.Longest = to.Keys+int64(context), max(to.Longest, context)
	to.Pairs += int64(queries)*int64(context-queries) + int64(queries)*int64(queries+1)/2
}

// Prompt returns what an indexer chooses for a chunk of a prompt after finished tokens, and its scores. Nothing where the chunk ends
// within index_top_k tokens: all attend to everything, as servers have it.
func (x *Indexer) Prompt(chunk, finished int) (Chosen, Indexing) {
	if chunk <= 0 || finished+chunk <= x.IndexTopK {
		return Chosen{}, Indexing{}
	}
	few := max(0, x.IndexTopK-finished) // tokens that attend to all before them
	rows := int64(few)*int64(finished) + int64(few)*int64(few+1)/2 + int64(chunk-few)*int64(x.IndexTopK)
	var scores Indexing
	x.Add(&scores, finished+chunk, chunk)
	scores.Step = false
	return Chosen{Tokens: chunk, Longest: x.IndexTopK, Rows: rows}, scores
}
