package energy

import (
	"strings"
	"time"

	"github.com/l3sim/l3sim/input"
)

// Prices is a dated price list, in US dollars.
type Prices struct {
	Name string    `toml:"name"` // name of the list
	Date string    `toml:"date"` // date of the prices, YYYY-MM-DD
	GPU  GPUPrices `toml:"gpu"`
	DIMM DIMMPrice `toml:"dimm"`
	// Server is the price of a server with energy.server_slots GPU slots, without GPUs and DIMMs: chassis, CPUs, switches,
	// network, disks.
	Server      Constant `toml:"server"`
	Years       Constant `toml:"years"`       // lifetime, after which a node is worth nothing
	Utilization Constant `toml:"utilization"` // share of the lifetime in which the node serves as in the run
	Electricity Constant `toml:"electricity"` // USD for each kWh
	Carbon      Constant `toml:"carbon"`      // kg of CO2 for each kWh
}

// GPUPrices are USD for each GPU. The key of a GPU's price is its name with "_" for "-". A longer name that begins with the key
// has the same price: rtx-4090-vllm-0.19 has that of rtx_4090.
type GPUPrices struct {
	A100Small Constant `toml:"a100_sxm_40gb"`  // USD for a GPU of this name
	A100      Constant `toml:"a100_sxm_80gb"`  // USD for a GPU of this name, and for a100-paper
	H100      Constant `toml:"h100_sxm"`       // USD for a GPU of this name
	H200      Constant `toml:"h200_sxm"`       // USD for a GPU of this name
	B200      Constant `toml:"b200"`           // USD for a GPU of this name
	RTX4090   Constant `toml:"rtx_4090"`       // USD for a GPU of this name
	A6000     Constant `toml:"rtx_a6000"`      // USD for a GPU of this name
	PRO6000   Constant `toml:"rtx_pro_6000"`   // USD for a GPU of this name
	Other     Constant `toml:"other"`          // USD for any other GPU
	HBMPIM    Constant `toml:"hbm_pim_factor"` // factor on the price of a GPU with processing units in its memory, or of PIM stacks beside it
	HBM       Constant `toml:"hbm_gib"`        // USD for each GiB of stacks beside a GPU
}

// DIMMPrice is USD for each GiB of DIMMs.
type DIMMPrice struct {
	DDR4      Constant `toml:"ddr4"`            // USD a GiB, modules up to 64 GiB
	DDR4Large Constant `toml:"ddr4_large"`      // USD a GiB, larger modules
	DDR5      Constant `toml:"ddr5"`            // USD a GiB, modules up to 64 GiB
	DDR5Large Constant `toml:"ddr5_large"`      // USD a GiB, larger modules
	Other     Constant `toml:"other"`           // USD a GiB of any other memory
	BankPIM   Constant `toml:"bank_pim_factor"` // factor for DIMMs with units in banks
	RankPIM   Constant `toml:"rank_pim_factor"` // factor for DIMMs with units on the buffer chip
}

// Stale reports whether the prices are more than half a year (183 days) older than the date newest, YYYY-MM-DD.
func (p *Prices) Stale(newest string) bool {
	own, err := time.Parse(time.DateOnly, p.Date)
	other, bad := time.Parse(time.DateOnly, newest)
	return err == nil && bad == nil && other.Sub(own) > 183*24*time.Hour
}

// Check has the rules of the section [prices].
func (p *Prices) Check(c *input.Check) {
	c.That(p.Name != "", "name", p.Name, "the name of the list")
	_, err := time.Parse(time.DateOnly, p.Date)
	c.That(err == nil, "date", p.Date, "the date of the prices, YYYY-MM-DD")
	constants(p, func(key string, v Constant) {
		low, high := 0.0, 1e9
		switch {
		case key == "utilization":
			low, high = 0.001, 1
		case key == "years":
			low, high = 0.1, 100
		case strings.HasSuffix(key, "_factor"):
			low = 0.1
		}
		within(c, key, v, low, high)
	})
}

// Equipment is what a node consists of.
type Equipment struct {
	GPU     string // its name
	GPUBase string // name of the GPU that it is made from, by whose price it goes without one of its own; "" for none
	GPUs    int
	Servers float64 // number of servers that the GPUs take up, by their slots
	// GPUPrice is the user's price of a GPU, USD; 0 takes the list's.
	GPUPrice float64
	HBMPIM   bool
	HBMGiB   float64 // capacity of PIM stacks beside each GPU; 0 if the units are in the GPUs' own memory
	Memory   string  // the DRAM standard that ships, "ddr5", or a part's name that begins with it
	DIMMs    int
	DIMMGiB  float64 // capacity of each
	BankPIM  bool    // units beside banks
	RankPIM  bool    // units on the buffer chip
}

// Cost is the cost of a node with all constants at one place of their bands, and the worst grade among them.
type Cost struct {
	Capital float64 // USD for the node
	PerHour float64 // USD for each hour of serving, electricity included
	Energy  float64 // the part of PerHour for electricity
	CO2     float64 // kg of CO2 for each hour, from electricity
	Grade   Grade
}

// Cost returns the cost of equipment that draws watts while it serves. The low place of the bands has the longest lifetime and
// the highest utilization.
func (p *Prices) Cost(e *Equipment, watts float64, at Place) (c Cost) {
	of := func(k Constant, at Place) float64 {
		x := k.Estimate()
		c.Grade = Worse(c.Grade, x.Grade)
		return x.At(at)
	}
	opposite := High - at
	price, whose := p.GPU.Of(e.GPU, e.GPUBase)
	if e.GPUPrice > 0 {
		price = Constant(Estimate{e.GPUPrice, e.GPUPrice, e.GPUPrice, Given}.String())
	} else if whose != e.GPU {
		c.Grade = Assumption // the assumption: it costs as much as the listed GPU
	}
	gpu, dimm := of(price, at), of(p.DIMM.of(e.Memory, e.DIMMGiB), at)*e.DIMMGiB
	beside := 0.0
	if e.HBMGiB > 0 {
		beside = float64(e.HBMGiB * of(p.GPU.HBM, at) * of(p.GPU.HBMPIM, at))
	} else if e.HBMPIM {
		gpu *= of(p.GPU.HBMPIM, at)
	}
	if e.BankPIM {
		dimm *= of(p.DIMM.BankPIM, at)
	}
	if e.RankPIM {
		dimm *= of(p.DIMM.RankPIM, at)
	}
	c.Capital = float64(of(p.Server, at)*e.Servers) + float64(gpu*float64(e.GPUs)) + float64(beside*float64(e.GPUs)) + float64(dimm*float64(e.DIMMs))
	kW := watts / 1000
	c.Energy = float64(kW * of(p.Electricity, at))
	c.PerHour = c.Energy + c.Capital/(of(p.Years, opposite)*hoursPerYear*of(p.Utilization, opposite))
	c.CO2 = kW * p.Carbon.Estimate().At(at)
	return c
}

const hoursPerYear = 8766 // 365.25 days

// Of returns the price of a GPU and the GPU that it belongs to: its own name, the base that it was derived from, or "" for the
// price Other.
func (g *GPUPrices) Of(name, base string) (price Constant, whose string) {
	for _, whose := range []string{name, base} {
		if price, ok := g.listed(whose); ok {
			return price, whose
		}
	}
	return g.Other, ""
}

// listed returns the price whose key matches a GPU's name, whole or up to a "-".
func (g *GPUPrices) listed(name string) (price Constant, ok bool) {
	if name == "a100-paper" {
		return g.A100, true // the papers' A100 has 80 GB
	}
	longest := 0
	constants(g, func(key string, v Constant) {
		gpu := strings.ReplaceAll(key, "_", "-")
		if !notOfAGPU[key] && len(gpu) > longest && strings.HasPrefix(name+"-", gpu+"-") {
			price, longest = v, len(gpu)
		}
	})
	return price, longest > 0
}

// notOfAGPU are the keys of [prices.gpu] that do not name a GPU.
var notOfAGPU = map[string]bool{"other": true, "hbm_pim_factor": true, "hbm_gib": true}

// of returns the price of a GiB of a DRAM part in modules of gib GiB.
func (d *DIMMPrice) of(part string, gib float64) Constant {
	small, large := d.Other, d.Other
	switch {
	case strings.HasPrefix(part, "ddr4"):
		small, large = d.DDR4, d.DDR4Large
	case strings.HasPrefix(part, "ddr5"):
		small, large = d.DDR5, d.DDR5Large
	}
	if gib > 64 {
		return large
	}
	return small
}
