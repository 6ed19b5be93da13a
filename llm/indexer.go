package llm

import "github.com/l3sim/l3sim/input"

// Indexer chooses the tokens to which a layer attends (DeepSeek-V3.2, https://arxiv.org/abs/2512.02556, section 2.1; GLM-5). Its heads
// score every earlier token: Σ w_j · ReLU(q_j · k). They share one key for each token, stored beside the latent. Queries come from the
// vector of query_rank, keys and the weights w_j from the hidden state. The zero value is no indexer.
type Indexer struct {
	IndexHeads int `toml:"index_heads,optional"` // heads of the indexer that scores tokens; every GPU of a replica has them all
	IndexDim   int `toml:"index_dim,optional"`   // elements of an indexer head's query, and of the key that all heads share
	IndexTopK  int `toml:"index_top_k,optional"` // number of highest-scoring tokens that an indexer chooses for each token; 0: no layer has an indexer
}

// indexScaleBytes is the FP32 scale of an index key, whose elements are FP8 (DeepSeek-V3.2's inference/model.py).
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

// key returns the index key that a layer with an indexer stores of each token.
func (x *Indexer) key() Vector { return Vector{"index", 1, x.IndexDim, indexBits, indexScaleBytes} }

// IndexBytes returns the bytes of a token's index key in a layer that has an indexer.
func (x *Indexer) IndexBytes() int64 {
	k := x.key()
	return int64(k.Bytes())
}

// indexMatrices returns the matrices of a layer's indexer: for queries, key and the heads' weights. Every GPU holds them whole.
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

// indexersParameters returns the parameters of all indexers of a model, times the number of copies.
func (m *Model) indexersParameters(copies int) (sum int64) {
	for _, x := range m.indexMatrices() {
		sum += x.parameters
	}
	return sum * int64(copies) * int64(m.CountLayers("I"))
}

// Indexing is the work of an indexer in one layer, over all requests: scoring index keys with the indexer's queries, and selecting the best
// of each row of scores. The zero value is no work.
type Indexing struct {
	Requests int
	Queries  int   // rows of scores of a request
	Keys     int64 // index keys read
	Longest  int   // keys of the longest request
	Pairs    int64 // scores, over all rows
	Keep     int   // tokens selected from each row
	Step     bool  // decode steps, whose kernels spread a request's keys over blocks that fill the GPU
}

// Chosen is attention of prompt tokens over rows that an indexer has chosen for each. Longest is the most rows of a token, Rows the total.
type Chosen struct {
	Tokens, Longest int
	Rows            int64
}

// Add adds the scores of one request's decode step, whose tokens are the last queries of a context. It adds none for a context of at most
// index_top_k tokens, which is attended to whole.
func (x *Indexer) Add(to *Indexing, context, queries int) {
	if context <= x.IndexTopK {
		return
	}
	to.Requests, to.Queries, to.Keep, to.Step = to.Requests+1, queries, x.IndexTopK, true
	to.Keys, to.Longest = to.Keys+int64(context), max(to.Longest, context)
	to.Pairs += int64(queries)*int64(context-queries) + int64(queries)*int64(queries+1)/2
}

// Prompt returns the chosen rows and the scores for a chunk of a prompt after finished tokens. Both are empty if the chunk ends within
// index_top_k tokens: as in servers, all its tokens attend to everything.
func (x *Indexer) Prompt(chunk, finished int) (Chosen, Indexing) {
	if chunk <= 0 || finished+chunk <= x.IndexTopK {
		return Chosen{}, Indexing{}
	}
	few := max(0, x.IndexTopK-finished) // tokens that attend to all earlier tokens
	rows := int64(few)*int64(finished) + int64(few)*int64(few+1)/2 + int64(chunk-few)*int64(x.IndexTopK)
	var scores Indexing
	x.Add(&scores, finished+chunk, chunk)
	scores.Step = false
	return Chosen{Tokens: chunk, Longest: x.IndexTopK, Rows: rows}, scores
}
