package policy

// Index is the output of a model's indexer for a token in one layer, after rotation and rounding. Slices may change after a call.
type Index struct {
	Key     []float64 // [IndexDim]
	Queries []float64 // [IndexHeads, IndexDim]
	Weights []float64 // [IndexHeads], of the heads' scores, including all constant factors
}

// IndexedState is a state that chooses by the model's own indexer, in prompts as well as in steps. It must be given every token of the
// sequence in turn, including the prompt's, before it is asked about that token.
type IndexedState interface {
	State
	// Index appends the indexer's output for the next token. Select then returns the tokens that this token attends to. It does not use the
	// heads' queries, and includes the token itself only if its score is high enough.
	Index(x *Index)
}

// FollowingState is the state of a layer that shares another layer's choice, that of the latest layer before it with an IndexedState. It
// must be given the choice for every token of the sequence in turn, including the prompt's, before it is asked about that token.
type FollowingState interface {
	State
	// Follow sets the other layer's selection for the next token. Select then returns the same.
	Follow(choice Selection)
}
