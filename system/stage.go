package system

import (
	"github.com/l3sim/l3sim/system/dataflow"
	"github.com/l3sim/l3sim/units"
)

// stage is what a sub-batch costs where the GPUs have one device for decode attention
// beside them.
type stage struct {
	active bool
	entry  units.Duration // embedding, QKV generation of layer 0
	block  units.Duration // projection to the next layer's QKV generation
	exit   units.Duration // projection of the last layer to the LM head
	layers []layerCost    // of successive runs of layers
	gpuUse
}

// layerCost is attention of one layer of a run of layers that attend alike.
type layerCost struct {
	count     int32
	attention units.Duration // on the GPUs: of prompts, or of requests that decode there
	prompts   units.Duration // part of attention that prompts take
	device    units.Duration // decode attention on the device
	bus       units.Duration // for which the memory channels carry data for the device
	// deviceFirst says that the GPUs attend over what the device has found: one after the
	// other, else side by side.
	deviceFirst bool
	merge       units.Duration // on the GPUs, after both
	chooses     units.Duration // on the GPUs, before anything of the layer
}

// attention returns what the GPUs take for attention in all layers.
func (g *stage) attention() (t units.Duration) {
	for i := range g.layers {
		t += units.Duration(g.layers[i].count) * (g.layers[i].attention + g.layers[i].merge + g.layers[i].chooses)
	}
	return t
}

// beside has a device attend in every layer.
func (g *stage) beside(device, bus units.Duration) {
	for i := range g.layers {
		g.layers[i].device, g.layers[i].bus = device, bus
	}
}

// Resources of a system whose GPUs have at most one device beside them.
const (
	onGPU = iota
	onDevice
	onDown // links and channels, of transfers that hide behind the layers
	onUp
	onChannels
)

// besideGPU returns the resources of a system of GPUs and one device beside them.
func besideGPU(device string) []resource {
	return []resource{
		onGPU:      {dataflow.Resource{Name: "GPU"}, trackGPU},
		onDevice:   {dataflow.Resource{Name: device}, trackRank},
		onDown:     {dataflow.Resource{Name: "PCIe down"}, noTrack},
		onUp:       {dataflow.Resource{Name: "PCIe up"}, noTrack},
		onChannels: {dataflow.Resource{Name: "channels"}, noTrack},
	}
}

// lay adds the layers of sub-batch s to the iteration of a flow: attention, on both where there is any, then the
// block. The device's operations are of the given kind.
func (g *stage) lay(f *flow, s int, kind uint8) {
	if !g.active {
		return
	}
	it, sub := &f.it, &f.it.Sub[s]
	entry := f.enter(s, onGPU, g.entry, &g.gpuUse)
	sub.Layers = append(sub.Layers, dataflow.Layers{Range: dataflow.Range{From: entry, To: int32(len(it.Ops))}, Count: 1})
	for i := range g.layers {
		first := int32(len(it.Ops))
		g.layer(f, s, &g.layers[i], kind)
		sub.Layers = append(sub.Layers, dataflow.Layers{Range: dataflow.Range{From: first, To: int32(len(it.Ops))}, Count: g.layers[i].count})
	}
	sub.Exit = g.exit
}

// layer adds the operations of a layer.
func (g *stage) layer(f *flow, s int, l *layerCost, kind uint8) {
	f.waits = f.waits[:0]
	var chosen dataflow.Range
	if l.chooses > 0 {
		f.wait(s, onGPU, opGPUAttention, l.chooses)
		chosen = f.it.Wait(f.waits...)
	}
	if l.attention > 0 && !l.deviceFirst {
		f.wait(s, onGPU, opGPUAttention, l.attention)
	}
	if l.device > 0 {
		o := f.wait(s, onDevice, kind, l.device)
		o.Bus, o.After = l.bus, chosen
	}
	last := l.merge
	if l.deviceFirst {
		last += l.attention
	}
	if last > 0 {
		before := f.it.Wait(f.waits...)
		f.waits = f.waits[:0]
		f.wait(s, onGPU, opGPUAttention, last).After = before
	}
	o, _ := f.it.Add(onGPU, g.block)
	o.Kind, o.Group, o.Flags, o.After = opBlock, int16(s), dataflow.NextLayer, f.it.Wait(f.waits...)
}
