package policy

// Shape is the attention of one layer of a model.
type Shape struct {
	Layers, QueryHeads, KVHeads, Dim int
	ElementBits                      int // of queries, keys, values and outputs
}

// elements returns the bytes of n elements.
func (s *Shape) elements(n int) int64 { return (int64(n)*int64(s.ElementBits) + 7) / 8 }

// Device is where heads attend.
type Device uint8

// The devices.
const (
	Home Device = iota // that of the request's keys and values: GPUs, units in HBM or DIMMs, the host's CPUs
	GPU                // the GPUs, where they are not the home
)

// Class is KV heads that attend alike.
type Class struct {
	Device Device
	Heads  int // KV heads of a layer
	// Tokens is what each request attends over, in the order in which it was asked for, at
	// most its context. What a device reads beyond that (pages, columns) belongs to the
	// model of its kernel.
	Tokens []int
}

// Policy decides what attention attends over. Its methods are pure but for the memory of
// Decode's result.
type Policy interface {
	// Name is how users know the policy.
	Name() string
	// Decode returns the classes of heads of a layer in a decode step, for requests whose
	// contexts have these numbers of tokens, each one's new token included. The heads of all
	// classes add up to the layer's KV heads. It is asked once a sub-batch and iteration;
	// the result is valid until the next call and may share memory with contexts.
	Decode(contexts []int, layer int, step int64) []Class
	// Behind returns over how many of the finished tokens before a chunk of a prompt the
	// chunk attends, besides over itself.
	Behind(finished int) int
	// KV returns the bytes of the keys and values of so many tokens in one layer, all heads.
	KV(tokens int) int64
	// Vectors returns the bytes that a decoding request moves in one layer between GPUs
	// and its home, where these differ: queries, new keys and new values; results.
	Vectors() (down, up int64)
}
