package policy

// Index is what a model's indexer makes of a token in one layer, after rotation and rounding. Slices may change after a call.
type Index struct {
	Key     []float64 // [IndexDim]
	Queries []float64 // [IndexHeads, IndexDim]
	Weights []float64 // [IndexHeads], of the heads' scores, with all constant factors
}

// IndexedState is a state that chooses by the model's own indexer, in prompts as in steps. It is given every token of the sequence in
// turn, the prompt's too, before it is asked anything about it.
type IndexedState interface {
	State
	// Index appends what the indexer makes of the next token. Select then returns what that token attends to. It needs no queries of
	// heads, and attends to the token itself only if its score is high enough.
	Index(x *Index)
}

// FollowingState is a state of a layer that shares the choice of another one, the latest below it with an IndexedState. It is given the
// choice of every token of the sequence in turn, the prompt's too, before it is asked anything about it.
type FollowingState interface {
	State
	// Follow gives what the other layer's state has selected for the next token. Select then returns the same.
	Follow(choice Selection)
}
