package energy

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/input"
)

// list is a price list in which no two prices are alike.
func list() *Prices {
	return &Prices{
		Name: "list", Date: "2026-01-02", Server: "1000 [900, 1200] press", Years: "4 [2, 5] assumption", Utilization: "0.5 [0.25, 0.8] assumption",
		Electricity: "0.1 [0.05, 0.2] press", Carbon: "0.4 [0.1, 0.7] press",
		GPU: GPUPrices{A100Small: "10 [5, 20] press", A100: "11 [6, 21] press", H100: "12 [7, 22] press", H200: "13 [8, 23] press", A6000: "14 [9, 24] press", B200: "16 [11, 26] press",
			RTX4090: "17 [12, 27] press", PRO6000: "18 [13, 28] press", Other: "15 [10, 25] assumption", HBMPIM: "1.5 [1.1, 2] assumption", HBM: "0.5 [0.25, 1] assumption"},
		DIMM: DIMMPrice{"2 [1, 3] press", "3 [2, 4] press", "4 [3, 5] press", "5 [4, 6] press", "6 [5, 7] press", "1.6 [1.2, 3] assumption", "1.3 [1.1, 2] assumption"},
	}
}

// TestCost: what nodes cost by hand, each kind of equipment by its own price.
func TestCost(t *testing.T) {
	for _, c := range []struct {
		e     Equipment
		place Place
		want  float64 // capital
	}{
		{Equipment{Servers: 1, GPU: "a100-sxm-40gb", GPUs: 2, Memory: "ddr4-3200-8gb-x8", DIMMs: 3, DIMMGiB: 64}, Mid, 1000 + 2*10 + 3*64*2},
		{Equipment{Servers: 1, GPU: "a100-sxm-80gb", GPUs: 2, Memory: "ddr4-3200-8gb-x8", DIMMs: 3, DIMMGiB: 128}, Mid, 1000 + 2*11 + 3*128*3},
		{Equipment{Servers: 1, GPU: "a100-paper", GPUs: 1, Memory: "ddr5-4800", DIMMs: 3, DIMMGiB: 32, BankPIM: true}, Mid, 1000 + 11 + 3*32*4*1.6},
		{Equipment{Servers: 1, GPU: "h100-sxm", GPUs: 1, Memory: "ddr5-4800", DIMMs: 3, DIMMGiB: 65, RankPIM: true}, Mid, 1000 + 12 + 3*65*5*1.3},
		{Equipment{Servers: 1, GPU: "h200-sxm", GPUs: 4, HBMPIM: true, Memory: "lpddr5-6400", DIMMs: 1, DIMMGiB: 10}, Mid, 1000 + 4*13*1.5 + 60},
		{Equipment{Servers: 1, GPU: "h200-sxm", GPUs: 4, HBMPIM: true, Memory: "lpddr5-6400", DIMMs: 1, DIMMGiB: 100}, Mid, 1000 + 4*13*1.5 + 600}, // one price whatever their size
		{Equipment{Servers: 1, GPU: "h200-sxm", GPUs: 1, Memory: "ddr4", DIMMs: 2, DIMMGiB: 64.5}, Low, 900 + 8 + 2*64.5*2},
		{Equipment{Servers: 1, GPU: "h200-sxm", GPUs: 1, Memory: "ddr5", DIMMs: 2, DIMMGiB: 64}, High, 1200 + 23 + 2*64*5},
		{Equipment{Servers: 1, GPU: "h200-sxm", GPUs: 4, HBMPIM: true, HBMGiB: 80}, Mid, 1000 + 4*(13+80*0.5*1.5)},
		{Equipment{Servers: 1, GPU: "rtx-a6000", GPUs: 4}, Low, 900 + 4*9},
		{Equipment{Servers: 1, GPU: "mine", GPUBase: "h200-sxm", GPUs: 1}, Mid, 1000 + 13},
		{Equipment{Servers: 1, GPU: "b200", GPUBase: "h200-sxm", GPUs: 1}, Mid, 1000 + 16},
		{Equipment{Servers: 1, GPU: "rtx-4090-vllm-0.19", GPUs: 2}, Mid, 1000 + 2*17},
		{Equipment{Servers: 1, GPU: "rtx-pro-6000-server-vllm-0.19", GPUs: 2}, Mid, 1000 + 2*18},
		{Equipment{Servers: 0.125, GPU: "h100-sxm", GPUs: 1}, Mid, 125 + 12},
		{Equipment{Servers: 1.5, GPU: "h100-sxm", GPUs: 12}, High, 1800 + 12*22},
		{Equipment{Servers: 1, GPU: "h100-sxm", GPUBase: "h200-sxm", GPUs: 1}, Mid, 1000 + 12},
		{Equipment{Servers: 1, GPU: "mine", GPUBase: "theirs", GPUs: 1}, High, 1200 + 25},
		{Equipment{Servers: 1, GPU: "mine", GPUBase: "h200-sxm", GPUs: 2, GPUPrice: 40}, High, 1200 + 80},
		{Equipment{Servers: 1, GPU: "mine", GPUs: 4, HBMPIM: true, Memory: "ddr4-2400", DIMMs: 2, DIMMGiB: 16, BankPIM: true}, High, 1200 + 4*25*2 + 2*16*3*3},
	} {
		p := list()
		got := p.Cost(&c.e, 2000, c.place)
		years, utilisation, price := [...]float64{5, 4, 2}[c.place], [...]float64{0.8, 0.5, 0.25}[c.place], [...]float64{0.05, 0.1, 0.2}[c.place]
		hour := c.want/(years*8766*utilisation) + 2*price
		if math.Abs(got.Capital-c.want) > 1e-9*c.want || math.Abs(got.PerHour-hour) > 1e-9*hour || got.Energy != 2*price || math.Abs(got.CO2-2*[...]float64{0.1, 0.4, 0.7}[c.place]) > 1e-12 || got.Grade != Assumption {
			t.Errorf("%+v: %+v, want %v USD, %v an hour", c.e, got, c.want, hour)
		}
	}
}

// TestCostIsMonotone: at a higher place of the bands, with more watts or more of any equipment a node costs no less.
func TestCostIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := func(name string, most int) int { return rapid.IntRange(0, most).Draw(t, name) }
		e := Equipment{GPU: rapid.SampledFrom([]string{"h100-sxm", "a100-sxm-80gb", "x"}).Draw(t, "GPU"), GPUs: n("GPUs", 16), HBMPIM: n("hbm", 1) == 1,
			Memory: rapid.SampledFrom([]string{"ddr4", "ddr5", "hbm3"}).Draw(t, "memory"), DIMMs: n("DIMMs", 32), DIMMGiB: float64(n("GiB", 64)), BankPIM: n("bank", 1) == 1, Servers: float64(n("eighths", 16)) / 8}
		p, watts := list(), float64(n("watts", 10000))
		a := p.Cost(&e, watts, Mid)
		if low, high := p.Cost(&e, watts, Low), p.Cost(&e, watts, High); low.PerHour > a.PerHour || a.PerHour > high.PerHour {
			t.Fatalf("%v, %v, %v USD an hour", low.PerHour, a.PerHour, high.PerHour)
		}
		more := e
		more.GPUs, more.DIMMs, more.Servers = e.GPUs+n("more GPUs", 3), e.DIMMs+n("more DIMMs", 3), e.Servers+float64(n("more eighths", 3))/8
		if b := p.Cost(&more, watts+float64(n("more watts", 100)), Mid); b.PerHour < a.PerHour || b.Capital < a.Capital {
			t.Fatalf("%+v costs %+v, %+v costs %+v", e, a, more, b)
		}
	})
}

// TestPricesCheck: a list without a valid date gives an error that says so.
func TestPricesCheck(t *testing.T) {
	if faults := input.Faults(list()); len(faults) > 0 {
		t.Fatal(faults[0])
	}
	for key, set := range map[string]func(*Prices){
		"date": func(p *Prices) { p.Date = "" }, "name": func(p *Prices) { p.Name = "" }, "years": func(p *Prices) { p.Years = "0" },
		"utilization": func(p *Prices) { p.Utilization = "1.5" }, "gpu.hbm_pim_factor": func(p *Prices) { p.GPU.HBMPIM = "0" }, "dimm.ddr4": func(p *Prices) { p.DIMM.DDR4 = "x" },
	} {
		p := list()
		set(p)
		if faults := input.Faults(p); len(faults) != 1 || faults[0].Key != key {
			t.Errorf("%s: %v", key, faults)
		}
	}
	for _, c := range []struct {
		at       func(p *Prices) *Constant
		low, top float64
		text     string
	}{
		{func(p *Prices) *Constant { return &p.Utilization }, 0.001, 1, "0.001 to 1"}, {func(p *Prices) *Constant { return &p.Years }, 0.1, 100, "0.1 to 100"},
		{func(p *Prices) *Constant { return &p.DIMM.BankPIM }, 0.1, 1e9, "0.1 to 1e+09"}, {func(p *Prices) *Constant { return &p.GPU.H200 }, 0, 1e9, "0 to 1e+09"},
	} {
		for i, e := range []Estimate{{c.low, c.low, c.top, Press}, {c.low, c.low - 0.0001, c.top, Press}, {c.top, c.low, c.top + 0.0001, Press}} {
			p := list()
			*c.at(p) = Constant(e.String())
			if faults := input.Faults(p); len(faults) != min(i, 1) || i > 0 && !strings.HasSuffix(faults[0].Error(), "a constant whose band lies in "+c.text) {
				t.Errorf("%s: %v", e, faults)
			}
		}
	}
	for _, date := range []string{"2025", "yesterday", "2025-13-01", "01.12.2025"} {
		p := list()
		p.Date = date
		if faults := input.Faults(p); len(faults) != 1 || !strings.Contains(faults[0].Error(), "YYYY-MM-DD") {
			t.Errorf("%s: %v", date, faults)
		}
	}
}

// TestGradeOfAnothersPrice: using another GPU's price is an assumption, however well that price is known.
func TestGradeOfAnothersPrice(t *testing.T) {
	p := list()
	for _, c := range []struct{ name, base, whose string }{{"h200-sxm", "a100-paper", "h200-sxm"}, {"mine", "h200-sxm", "h200-sxm"}, {"mine", "", ""}, {"mine", "theirs", ""},
		// A name of a price that continues, one that only begins alike, and keys that are no GPU's.
		{"h100-sxm-vllm-0.19", "", "h100-sxm-vllm-0.19"}, {"b2000", "", ""}, {"b200x", "h100-sxm", "h100-sxm"}, {"other", "", ""}, {"hbm-gib", "", ""}, {"hbm-pim-factor", "", ""}} {
		if _, whose := p.GPU.Of(c.name, c.base); whose != c.whose {
			t.Errorf("%s on %s costs what %q does, want %q", c.name, c.base, whose, c.whose)
		}
	}
	measured := Constant("7 [6, 8] measured")
	p.Server, p.Years, p.Utilization, p.Electricity, p.GPU.H200, p.DIMM.Other = measured, measured, Constant("0.5 [0.4, 0.6] measured"), measured, measured, measured
	p.GPU.Other = Constant("9 [8, 10] paper")
	if got := p.Cost(&Equipment{GPU: "mine", GPUs: 1, GPUPrice: 3}, 1, Mid).Grade; got != Given { // by the user's word, which is worse than a measurement and than a paper's
		t.Errorf("grade %s of a price that the user gives", got)
	}
	for name, want := range map[string]Grade{"h200-sxm": Measured, "mine": Assumption} {
		if got := p.Cost(&Equipment{GPU: name, GPUBase: "h200-sxm", GPUs: 1}, 1, Mid).Grade; got != want {
			t.Errorf("%s: grade %s, want %s", name, got, want)
		}
	}
}

// TestStale: half a year is 183 days, and a list is not stale compared with an older one or itself.
func TestStale(t *testing.T) {
	for own, newest := range map[string]string{"2025-12-29": "2026-06-30", "2026-06-30": "2026-06-30", "2027-01-01": "2026-06-30"} {
		if (&Prices{Date: own}).Stale(newest) {
			t.Errorf("prices of %s are stale beside those of %s", own, newest)
		}
	}
	for own, newest := range map[string]string{"2025-12-28": "2026-06-30", "2020-01-01": "2026-06-30"} {
		if !(&Prices{Date: own}).Stale(newest) {
			t.Errorf("prices of %s are not stale beside those of %s", own, newest)
		}
	}
}
