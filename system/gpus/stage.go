package gpus

import (
	"github.com/l3sim/l3sim/system/dataflow"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
)

// stage is the costs of a sub-batch on GPUs with at most one more device for decode attention.
type stage struct {
	active bool
	Entry  units.Duration // embedding, QKV generation of layer 0
	Block  units.Duration // projection to the next layer's QKV generation
	Exit   units.Duration // projection of the last layer to the LM head
	Shared sharedFFN      // part of Block and Exit, and the device's time beside it
	Layers []layerCost    // by kind of layers
	order  []dataflow.Run // kinds in the order of layers, as Attends.Order
	flow.Use
}

// layerCost is the cost of attention in a layer of a kind.
type layerCost struct {
	Count     int32          // how many layers the kind has
	Attention units.Duration // on the GPUs: of prompts, or of requests that decode there
	Prompts   units.Duration // the part of Attention for prompts
	Device    units.Duration // decode attention on the device
	Bus       units.Duration // time that the memory channels carry data for the device
	// DeviceFirst says that the GPUs attend over what the device has found, after it; otherwise both
	// run in parallel.
	DeviceFirst bool
	Merge       units.Duration // on the GPUs, after both
	Chooses     units.Duration // on the GPUs, before all else in the layer
	Next        units.Duration // on the GPUs, at the end of the block, for the next layer
}

// attention returns the GPUs' time of attention in all layers.
func (g *stage) attention() (t units.Duration) {
	for i := range g.Layers {
		t += units.Duration(g.Layers[i].Count) * (g.Layers[i].Attention + g.Layers[i].Merge + g.Layers[i].Chooses)
	}
	return t
}

// Beside makes a device attend in every layer, for the time device; bus is its time on the memory
// channels.
func (g *stage) Beside(device, bus units.Duration) {
	for i := range g.Layers {
		g.Layers[i].Device, g.Layers[i].Bus = device, bus
	}
}

// Scale multiplies the time of all kernels.
func (g *stage) Scale(by float64) {
	scale := func(all ...*units.Duration) {
		for _, t := range all {
			*t = units.FromSeconds(by * t.Seconds())
		}
	}
	scale(&g.Entry, &g.Block, &g.Exit)
	for i := range g.Layers {
		scale(&g.Layers[i].Attention, &g.Layers[i].Prompts, &g.Layers[i].Merge, &g.Layers[i].Chooses)
	}
}

// Resources of a system whose GPUs have at most one device beside them.
const (
	OnGPU = iota
	OnDevice
	OnDown // links and channels, for transfers that hide behind the layers
	OnUp
	onChannels
)

// BesideGPU returns the resources of a system of GPUs and one device beside them.
func BesideGPU(device string) []flow.Resource {
	return []flow.Resource{
		OnGPU:      {Resource: dataflow.Resource{Name: "GPU"}, Track: flow.TrackGPU},
		OnDevice:   {Resource: dataflow.Resource{Name: device, Reason: flow.ForHost}, Track: flow.TrackRank},
		OnDown:     {Resource: dataflow.Resource{Name: "PCIe down", Reason: flow.ForDown}, Track: flow.NoTrack},
		OnUp:       {Resource: dataflow.Resource{Name: "PCIe up", Reason: flow.ForUp}, Track: flow.NoTrack},
		onChannels: {Resource: dataflow.Resource{Name: "channels", Reason: flow.ForChannel}, Track: flow.NoTrack},
	}
}

// Lay adds the layers of sub-batch s to the iteration of a flow: attention, on GPUs and device, then the block.
// kind is the kind of the device's operations.
func (g *stage) Lay(f *flow.Flow, s int, kind uint8) {
	if !g.active {
		return
	}
	it, sub := &f.Iteration, &f.Iteration.Sub[s]
	entry := f.Enter(s, OnGPU, g.Entry, &g.Use)
	sub.Kinds = append(sub.Kinds, dataflow.Layers{Range: it.From(entry), Count: 1})
	for i := range g.Layers {
		first := int32(len(it.Ops))
		g.layer(f, s, &g.Layers[i], kind)
		sub.Kinds = append(sub.Kinds, dataflow.Layers{Range: it.From(first), Count: g.Layers[i].Count})
	}
	sub.Order = append(sub.Order, g.order...)
	sub.Exit = g.Exit - g.Shared.before()
}

func (g *stage) layer(f *flow.Flow, s int, l *layerCost, kind uint8) {
	f.Waits = f.Waits[:0]
	var chosen dataflow.Range
	if l.Chooses > 0 {
		f.Wait(s, OnGPU, flow.OpGPUAttention, l.Chooses)
		chosen = f.Iteration.Wait(f.Waits...)
	}
	if l.Attention > 0 && !l.DeviceFirst {
		f.Wait(s, OnGPU, flow.OpGPUAttention, l.Attention)
	}
	if l.Device > 0 {
		o := f.Wait(s, OnDevice, kind, l.Device)
		o.Bus, o.After = l.Bus, chosen
	}
	last := l.Merge
	if l.DeviceFirst {
		last += l.Attention
	}
	if last > 0 {
		before := f.Iteration.Wait(f.Waits...)
		f.Waits = f.Waits[:0]
		f.Wait(s, OnGPU, flow.OpGPUAttention, last).After = before
	}
	after := f.Iteration.Wait(f.Waits...)
	if g.Shared.Device > 0 {
		after = g.share(f, int16(s), after)
	}
	o, _ := f.Iteration.Add(OnGPU, g.Block-g.Shared.before()+l.Next)
	o.Kind, o.Group, o.Flags, o.After = flow.OpBlock, int16(s), dataflow.NextLayer, after
}

// share adds the projection and both parts of the feed-forward network, and returns the operations that the rest of the
// block waits for.
func (g *stage) share(f *flow.Flow, group int16, after dataflow.Range) dataflow.Range {
	it := &f.Iteration
	o, projection := it.Add(OnGPU, g.Shared.Projection)
	o.Kind, o.Group, o.After = flow.OpProjection, group, after
	projected := it.Wait(projection)
	o, device := it.Add(OnDevice, g.Shared.Device)
	o.Kind, o.Group, o.After = flow.OpUnitFeedForward, group, projected
	if g.Shared.GPUs == 0 { // the device has all columns
		return it.Wait(device)
	}
	o, own := it.Add(OnGPU, g.Shared.GPUs)
	o.Kind, o.Group, o.After = flow.OpFeedForward, group, projected
	return it.Wait(own, device)
}
