package policy

// csaEntryBytes is what an entry of CSAttention's tables takes: a token's index (int32) and a
// score (FP16).
const csaEntryBytes = 6

// CSATables is the sizes of CSAttention's tables of one KV head and of what a search in
// them does. The lists keep their length after the prompt: later tokens displace others.
type CSATables struct {
	Subspaces, Centroids int // centroids of a subspace
	Entries              int // of a list: there is one for each centroid
	Selected             int // tokens that a search finds, at most
	Recent               int // last tokens, which are attended over in any case
}

// NewCSATables returns the sizes after a prompt of prompt tokens, with group query heads
// a KV head. tableShare and selectShare are shares of the prompt. There are no more
// centroids than queries in the prompt; a list has an entry at least, a search finds a
// token at least, and the step's own token is recent.
func NewCSATables(subspaces, centroids int, tableShare, selectShare float64, recent, prompt, group int) CSATables {
	return CSATables{
		Subspaces: subspaces, Centroids: min(centroids, prompt*group),
		Entries:  max(1, int(tableShare*float64(prompt))),
		Selected: max(1, int(selectShare*float64(prompt))),
		Recent:   max(1, recent),
	}
}

// Attended returns the most tokens that a query head attends to in a step of that context.
// It is exact where a list has Selected + Recent entries: a search then never
// runs out of tokens.
func (t CSATables) Attended(context int) int { return min(context, t.Selected+t.Recent) }

// Bytes returns what the tables and the centroids (FP16) of a KV head take, for heads of dim
// elements.
func (t CSATables) Bytes(dim int) int64 {
	lists := int64(t.Subspaces) * int64(t.Centroids)
	return lists*int64(t.Entries)*csaEntryBytes + 2*int64(t.Centroids)*int64(dim)
}

// Gathered returns the entries that a query head's search reads and adds up by token.
func (t CSATables) Gathered() int64 { return int64(t.Subspaces) * int64(t.Entries) }

// CentroidFLOPs returns the operations of finding a query's nearest centroids; trying a new
// key against all lists takes as many, and Subspaces · Centroids comparisons.
func (t CSATables) CentroidFLOPs(dim int) int64 { return 2 * int64(t.Centroids) * int64(dim) }

// BuildFLOPs returns the operations of clustering the queries of a prompt, in that many
// iterations, and of scoring its keys against all centroids. The selection of the lists'
// entries comes on top: Subspaces · Centroids times over prompt scores.
func (t CSATables) BuildFLOPs(dim, iterations, prompt, group int) int64 {
	return t.CentroidFLOPs(dim) * int64(prompt) * (int64(iterations)*int64(group) + 1)
}
