package gpu

import (
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/units"
)

// KernelModel names the cost model of a section's kernels.
type KernelModel string

// The models. The first four are the same model, fitted to measurements; each section names it by the form of its formula.
const (
	GEMMTiles           KernelModel = "tiles"    // the fastest of the tiles and splits of k in tensor-core libraries
	AttentionFlash      KernelModel = "flash"    // one fused kernel that keeps scores on chip
	ElementwiseRoofline KernelModel = "roofline" // bytes at a share of the bandwidth
	AllReduceMeasured   KernelModel = "measured" // a direct kernel for small sizes, NCCL beyond
	// AttAcc is the model of AttAcc's published simulator, on which the L3 paper builds: see attacc.go.
	AttAcc KernelModel = "attacc"
)

// check is the rule of a section's key model; fitted is the section's name for the fitted model.
func (m KernelModel) check(c *input.Check, fitted KernelModel) {
	input.OneOf(c, "model", m, fitted, AttAcc)
}

// kernels is a model of kernels' costs in a graph on one GPU. To add a model, write a type with these methods, a KernelModel and a line in
// Spec.by. Sizes are at least 1 unless a method says otherwise.
type kernels interface {
	// product completes base, which has the FLOPs and bytes of an m×k by a k×n product.
	product(base Cost, m, n, k, elementBits int) Cost
	// prefill is PrefillAttentionCost.
	prefill(batch, chunk, finished int, h Heads) Cost
	// prompt returns the addition of one more request's chunk, which may be empty, to the kernels of a batch's prompts, and the resulting
	// last wave of thread blocks.
	prompt(w wave, chunk, finished int, h Heads) (Cost, wave)
	// decode is DecodeAttentionCost.
	decode(b DecodeBatch, h Heads) Cost
	// decodeAhead sets the costs of a batch and of its next steps, and returns how many it has set.
	decodeAhead(costs *[aheadSteps]Cost, b *DecodeBatch, h Heads) int
	// shared is SharedAttentionCost for any groups.
	shared(groups []Shared, h Heads) Cost
	// norm costs a norm of m rows of width d, alone or as part of an iteration. activation costs an activation function that reads and
	// writes the given operands. Rows and widths may be 0.
	norm(alone bool, m, d, elementBits int) Cost
	activation(alone bool, operands, m, d, elementBits int) Cost
	// lookUp costs reading m tokens' rows from an embedding of width d.
	lookUp(m, d, elementBits int) Cost
	// copies costs kernels of equal size in an iteration that move bytes in total, which may be 0.
	copies(kernels int, bytes float64) Cost
	// choice costs finding the largest of d logits in each of m rows.
	choice(m, d, elementBits int) Cost
	// allReduce completes AllReduceCost of more than one GPU.
	allReduce(gpus int, n units.Bytes) Cost
}

// measured is the model fitted to measured kernels. Each kind of kernel has its own file.
type measured struct{ *Spec }

func (s *Spec) by(m KernelModel) kernels {
	if m == AttAcc {
		return attAcc{s}
	}
	return measured{s}
}

// small returns the model of kernels that pass over activations.
func (s *Spec) small() kernels { return s.by(s.Pointwise.Model) }
