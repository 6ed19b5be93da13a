package values

import (
	"fmt"
	"slices"

	"github.com/l3sim/l3sim/attention"
	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
)

// Mistake is a hardware fault planted between the host's vectors and a head's result, to show its effect.
type Mistake string

// The mistakes.
const (
	NoMistake   Mistake = ""
	MistakeLane Mistake = "lane" // the re-layout unit swaps byte lanes 1 and 3
	MistakeBank Mistake = "bank" // writes to either of two banks, ordinals 4 and 5, go to both
	MistakeQuad Mistake = "quad" // the sum of the context omits the last quad
)

const wrongBanks = 4 // first of the two ordinals of MistakeBank

// HostRank is one rank as the host sees it, with the bytes in its banks. Its heads have separate rows, so they can be computed in parallel:
// each worker plays the rank's processing units in a program of one head. The results equal those of one program with all heads in
// sequence.
type HostRank struct {
	workers []*rankWorker
}

// rankWorker executes programs on the rank's cells.
type rankWorker struct {
	machine *valueMachine
	program *machine.Program
	execute runner
	heads   []machine.Head
	data    []headData
	list    []pim.Extent
	scores  [][]float32
}

// DecodeHead is one KV head of a decode step. Vectors have HeadDim elements, values ValueWidth. Elements are FP16 bits; keys and values of
// 8 or 4 bits are in two's complement (Scales.Encode) or FP8 (Scales.EncodeFP8).
type DecodeHead struct {
	FirstRow int32 // first of the head's rows, which no other head may use
	Context  int   // tokens attended to, including the newest
	// Ranges are the tokens attended to, if they are not the first Context ones: ascending ranges, each from its first number up to,
	// excluding, its second, of whole chunks (Geometry.ChunkTokens) except at the last end. Context is then ignored.
	Ranges     [][2]int
	Query      [][]uint16
	Key, Value []uint16      // of the newest token, the last one attended to, which the program appends; nil if it is stored already
	Scales     [2]pim.Scales // of Key and Value, if they are narrow
	// Scale is the factor on scores before the softmax; 0: 1/√HeadDim. Latent attention needs it, since its keys are wider than the
	// dimension that its scale is based on.
	Scale float32
}

// NewHostRank returns a rank with the given number of rows in each bank, for heads of shape with FP16 elements, and with workers workers,
// at least 1. Its memory is NaN. With decode, elements are decoded when written instead of at every read, which does not change results. It
// returns an input.Error for specs and shapes that do not fit together.
func NewHostRank(spec *pim.Spec, d *dram.Spec, shape pim.HeadShape, rows, workers int, decode bool) (*HostRank, error) {
	r, err := newHostRank(spec, d, shape, StoreFP16, rows, workers)
	for i := 0; err == nil && !decode && i < workers; i++ {
		r.workers[i].machine.decoded = nil
	}
	return r, err
}

// newHostRank is NewHostRank for elements of a storage format.
func newHostRank(spec *pim.Spec, d *dram.Spec, shape pim.HeadShape, storage Storage, rows, workers int) (*HostRank, error) {
	r := &HostRank{}
	for w := range workers {
		m, err := newValueMachine(spec, d, shape, storage, rows*(1-min(1, w)))
		if err != nil {
			return nil, err
		}
		p, err := machine.NewProgram(spec, d, shape, nil)
		if err != nil {
			return nil, err
		}
		if w > 0 {
			m.share(r.workers[0].machine)
		}
		r.workers = append(r.workers, &rankWorker{machine: m, program: p, execute: (*valueMachine).run,
			heads: make([]machine.Head, 1), data: make([]headData, 1), scores: make([][]float32, shape.Queries)})
	}
	return r, nil
}

func (m *valueMachine) share(other *valueMachine) {
	m.rows, m.narrow, m.decoded = other.rows, other.narrow, other.decoded
	for c := range m.chips {
		m.chips[c].cells = other.chips[c].cells
	}
}

// Plant makes the rank's hardware faulty from now on.
func (r *HostRank) Plant(mistake Mistake) {
	for _, w := range r.workers {
		w.machine.mistake = mistake
	}
}

// Store writes the key and value of a token of the head that begins at firstRow, as a transfer from the host does; nil leaves either out.
// Tokens of different heads may be stored in parallel.
func (r *HostRank) Store(firstRow int32, token int, key, value []uint16) error {
	return r.workers[0].machine.store(firstRow, token, key, value)
}

// StoreNarrow is Store for elements of 8 or 4 bits, with the scales of the key and the value.
func (r *HostRank) StoreNarrow(firstRow int32, token int, key, value []uint16, scales [2]pim.Scales) error {
	if err := r.Store(firstRow, token, key, value); err != nil {
		return err
	}
	return r.workers[0].machine.storeScales(firstRow, token, scales)
}

// StoreGroup stores the scales, by element, of the keys in the group-th group of the head that begins at firstRow.
func (r *HostRank) StoreGroup(firstRow int32, group int, scales []pim.Scales) error {
	return r.workers[0].machine.storeGroup(firstRow, group, slices.Clone(scales))
}

// Attend computes the attention of one head with the program that KernelTable times. It returns the output by query head, and the natural
// logarithm of the sum of exponentials of the scaled scores. Both are valid until the worker's next call. Workers may run in parallel.
func (r *HostRank) Attend(worker int, h *DecodeHead) (out [][]float32, lse []float64, err error) {
	w := r.workers[worker]
	results, err := w.run(h, false)
	if err != nil {
		return nil, nil, err
	}
	return results[0].out, results[0].lse, nil
}

// Score computes only the scores of a head's keys, as the score buffer holds them: by query head and token, without the factor 1/√d, valid
// until the worker's next call. It returns an input.Error for more tokens than fit the score buffer.
func (r *HostRank) Score(worker int, h *DecodeHead) ([][]float32, error) {
	w := r.workers[worker]
	if n := w.program.SegmentTokens; h.Context > n {
		return nil, &input.Error{Key: "pim.score_buffer", Value: fmt.Sprintf("%d scores of a key for each of %d query heads", n, w.program.Shape.Queries),
			Expected: fmt.Sprintf("room for %d", h.Context)}
	}
	if _, err := w.run(h, true); err != nil {
		return nil, err
	}
	for q, scores := range w.machine.buffer.scores {
		w.scores[q] = scores[:h.Context]
	}
	return w.scores, nil
}

func (w *rankWorker) run(h *DecodeHead, scores bool) ([]headResult, error) {
	run := machine.Head{Context: h.Context, FirstRow: h.FirstRow, Appends: h.Key != nil, Scores: scores}
	if h.Ranges != nil {
		var err error
		if w.list, run.Context, err = pim.RangeList(&w.program.Geometry, w.list[:0], h.Ranges); err != nil {
			return nil, err
		}
		run.List = w.list
	}
	w.heads[0] = run
	w.data[0] = headData{query: h.Query, key: h.Key, value: h.Value, scale: h.Scale, scales: h.Scales}
	w.program.Restart(w.heads)
	return w.execute(w.machine, w.program, w.data)
}

// EncodeHalf appends x to dst as FP16 bits.
func EncodeHalf(dst []uint16, x []float32) []uint16 {
	dst = slices.Grow(dst, len(x))
	for _, v := range x {
		dst = append(dst, attention.Float32ToHalf(v))
	}
	return dst
}
