package gpus

import (
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/system/flow"
)

// extrapolating records the time of kernels beyond the range to which their parameters were fitted.
type extrapolating struct {
	measured  gpu.MeasuredSpec
	attention *gpu.Extrapolated // of the present sub-batch, in all layers; nil: none
	sum       gpu.Extrapolated  // to which attention points
	farther   [][]farther       // kernels of the present sub-batch, by run of layers
	// Stages point to times. The values of both sub-batches of an iteration are in use at once.
	times [2]flow.Extrapolated
	next  int
}

// beyond records an attention kernel of each layer of a run.
func (d *GPUs) beyond(k gpu.Kind, seconds float64, run int) {
	d.farther[run] = append(d.farther[run], farther{k, seconds})
}

// farther is an attention kernel of a layer beyond the measured range.
type farther struct {
	kind    gpu.Kind
	seconds float64
}

// addFarther adds up the kernels of all layers, in their order.
func (d *GPUs) addFarther() {
	d.attention = nil
	for _, run := range d.Attends.Kinds {
		if len(d.farther[run]) > 0 {
			d.sum, d.attention = gpu.Extrapolated{}, &d.sum
		}
	}
	if d.attention == nil {
		return
	}
	for _, r := range d.Attends.Order[1:] {
		for _, k := range d.farther[d.Attends.Kinds[r.Kind-1]] {
			d.sum[k.kind] += float64(float64(r.Count) * k.seconds)
		}
	}
}

// extrapolated returns the times of the present sub-batch, nil for none; layers and head are its parts beside
// attention. The result is valid until the call after the next.
func (x *extrapolating) extrapolated(layers, head *gpu.Extrapolated, slow float64) *flow.Extrapolated {
	if x.attention == nil && layers == nil && head == nil {
		return nil
	}
	x.next = 1 - x.next
	to := &x.times[x.next]
	for k := range to {
		seconds := 0.0
		for _, part := range [...]*gpu.Extrapolated{layers, head, x.attention} {
			if part != nil {
				seconds += part[k]
			}
		}
		to[k] = flow.TaskTime(float64(seconds * slow))
	}
	return to
}
