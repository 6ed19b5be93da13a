package configs

import (
	"fmt"
	"reflect"

	"github.com/l3sim/l3sim/units"
)

// layoutKey is the key of the GPUs that share a replica. It is derived if no layer sets it, or if a layer sets it to "fit".
const (
	layoutKey = "model.tensor_parallel"
	fit       = "fit"
)

// fits reports whether a value of a key asks for the fewest GPUs that hold the weights.
func fits(key string, value any) bool {
	return key == layoutKey && (value == fit || value == `"`+fit+`"`)
}

// fitEntry is a layer's entry with the value "fit".
func fitEntry(e entry) entry {
	e.value, e.fit = reflect.ValueOf(0), true
	return e
}

// weightShare is the share of the GPUs' memory that weights may take when model.tensor_parallel is derived. At this value all model presets
// get the GPUs that they name, with 80 GiB each.
const weightShare = 0.8

// DeriveTensorParallel gives a replica the fewest GPUs that can share the heads, divide the node's number of GPUs, and hold the weights.
func (c *Config) DeriveTensorParallel() {
	c.Model.TensorParallel = 1
	room := units.Bytes(weightShare * float64(c.GPU.MemoryCapacity))
	for tp := 1; tp <= c.Node.GPUs; tp++ {
		if c.Model.SplitsOver(tp) && c.Node.GPUs%tp == 0 {
			c.Model.TensorParallel = tp
			if c.Model.WeightBytes() <= units.Bytes(tp)*room {
				return
			}
		}
	}
}

// deriveLayout derives the number of GPUs that share a replica, if the user leaves it open. named is the entry that names the model.
func (r *resolution) deriveLayout(named *entry) {
	o, given := r.origin[layoutKey]
	if given && !o.fit {
		return
	}
	r.config.DeriveTensorParallel()
	if !given {
		o.entry, o.open = *named, true
	}
	o.comment = fmt.Sprintf("derived: the fewest GPUs whose memory holds the weights in %v of it", weightShare)
	o.fit = true
	r.origin[layoutKey] = o
}

// DerivesLayout reports whether model.tensor_parallel is the fewest GPUs that hold the weights. open reports that nobody asked for that:
// the model's file leaves the number open.
func (o *Origins) DerivesLayout() (derived, open bool) {
	of := o.r.origin[layoutKey]
	return of.fit, of.open
}

// derivePolicy selects the indexer's policy for a model with an indexer, if nobody names a policy. named is the entry that names the model.
func (r *resolution) derivePolicy(named *entry) {
	const key = "policy.name"
	o, own := r.origin[key], r.config.Policy.List().Own()
	if r.config.Model.IndexTopK == 0 || own == "" || !o.preset || !r.config.Policy.Dense() {
		return
	}
	r.config.Policy.Name = own
	r.origin[key] = origin{entry: *named, open: true}
	o = r.origin[key]
	o.comment = "derived: the model has an indexer of its own, which chooses what layers attend to"
	r.origin[key] = o
}
