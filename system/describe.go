package system

import (
	"fmt"
	"io"
	"strings"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/gpus"
	"github.com/l3sim/l3sim/system/kinds"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
)

// Hardware summarises the hardware of a configuration, to be checked before a long run. Bandwidths
// are peaks of the whole node, 0 for what the system does not have.
type Hardware struct {
	Schema   string `json:"schema"` // HardwareSchema
	System   string `json:"system"`
	Model    string `json:"model"`
	GPU      string `json:"gpu"`
	Replicas int    `json:"replicas"`
	// GPUs and channels are those of one replica.
	GPUs         int             `json:"gpus"`
	Channels     int             `json:"channels"`
	Ranksets     int             `json:"ranksets"`
	Weights      units.Bytes     `json:"weights"`                 // of one replica
	Widths       string          `json:"weight_widths,omitempty"` // see llm.Model.WeightWidths
	FreeGPU      units.Bytes     `json:"free_gpu"`                // left by weights and reserve on the replica's GPUs
	KV           units.Bytes     `json:"kv"`
	KVTokens     int64           `json:"kv_tokens"`     // capacity of the KV memory, with all units filled
	MeanRequests float64         `json:"mean_requests"` // that fit at the trace's mean final length
	HBM          units.Bandwidth `json:"hbm"`
	Attention    units.Bandwidth `json:"decode_attention"`
	Channel      units.Bandwidth `json:"dram_channels"`
	PCIe         units.Bandwidth `json:"pcie"`
	Notes        []string        `json:"notes,omitempty"` // see Notes
}

// HardwareSchema names the version of Hardware's JSON, whose quantities carry units.
const HardwareSchema = "l3sim/hardware/1"

// Hardware returns the hardware in effect for a trace with these moments.
func (n *Node) Hardware(m traces.Moments) Hardware {
	if n.empty() {
		return Hardware{Schema: HardwareSchema}
	}
	cfg := n.cfg
	kv := units.Bytes(n.kvBytes(0).Capacity)
	h := Hardware{
		Schema: HardwareSchema, System: cfg.Run.System, Model: cfg.ModelTitle(), GPU: cfg.GPUTitle(),
		Replicas: n.Replicas(), GPUs: cfg.Model.TensorParallel,
		Weights: cfg.Model.WeightBytes(), Widths: cfg.Model.WeightWidths(), FreeGPU: n.FreeGPUMemory(),
		KV: kv, KVTokens: n.memory.Tokens(kv, n.hw.KVBytesPerToken()),
		HBM: units.Bandwidth(cfg.Node.GPUs) * cfg.GPU.MemoryBandwidth, Notes: inFull(cfg),
	}
	h.Attention = units.Bandwidth(h.Replicas) * n.assemble(0, nil, false, nil).Engine.Peak()
	if n.system.Host {
		h.Channels, h.Ranksets = cfg.ReplicaChannels(), cfg.Node.Ranksets
		h.Channel = units.Bandwidth(cfg.Node.Channels) * cfg.DRAM.Spec.Bandwidth()
		h.PCIe = units.Bandwidth(cfg.Node.GPUs) * n.hw.LinkShare()
	}
	if mean := m.InputMean + m.OutputMean - 1; mean > 0 {
		if tokens := int(mean); cfg.Model.Window > 0 && tokens > 0 { // each request keeps less than all its tokens
			h.KVTokens = int64(float64(kv) / float64(1+n.memory.More) / float64(cfg.Model.KVBytes(tokens)) * float64(tokens))
		}
		h.MeanRequests = float64(h.KVTokens) / mean
	}
	return h
}

// WriteText writes the hardware for a person to read.
func (h Hardware) WriteText(w io.Writer) error {
	gib := func(b units.Bytes) float64 { return float64(b) / float64(units.GiB) }
	gb := func(b units.Bandwidth) float64 { return float64(b) / 1e9 }
	host, widths := "", ""
	if h.Widths != "" {
		widths = "\nweights           " + h.Widths
	}
	if h.Channels > 0 {
		host = fmt.Sprintf(", %d channels and %d ranksets", h.Channels, h.Ranksets)
	}
	_, err := fmt.Fprintf(w, `system            %s
model             %s
GPU               %s
replicas          %d of %d GPUs%s
GPU memory        %.1f GiB of weights a replica, %.1f GiB left%s
KV memory         %.1f GiB, %d tokens, %.1f requests of the trace's mean final length
HBM               %.1f GB/s
decode attention  %.1f GB/s
`, h.System, h.Model, h.GPU, h.Replicas, h.GPUs, host, gib(h.Weights), gib(h.FreeGPU), widths,
		gib(h.KV), h.KVTokens, h.MeanRequests, gb(h.HBM), gb(h.Attention))
	if err == nil && h.Channels > 0 {
		_, err = fmt.Fprintf(w, "DRAM channels     %.1f GB/s\nPCIe              %.1f GB/s in each direction\n", gb(h.Channel), gb(h.PCIe))
	}
	for _, note := range h.Notes {
		if err == nil {
			_, err = fmt.Fprintf(w, "note              %s\n", note)
		}
	}
	return err
}

// mostDIMMs is the largest number of DIMMs on a channel of server boards: three with DDR4 at lower rates
// (Dell DL4000, owner's manual, slots A4, A8 and A12 of a channel), fastDIMMs with DDR4-3200 and with DDR5
// (Dell XC750xa, installation manual, table 19). More ranks are a what-if, as are L3's own 8 and 16
// ranksets.
const (
	mostDIMMs = 3
	fastDIMMs = 2
	fastTCK   = 640 * units.Picosecond // between the clock periods of DDR4-3200 and DDR4-2933
)

// DIMMsPerChannel returns how many DIMMs a memory channel of a configuration has.
func DIMMsPerChannel(cfg *configs.Config) int {
	return (cfg.Node.Ranksets + cfg.Energy.RanksPerDIMM - 1) / cfg.Energy.RanksPerDIMM
}

// BeyondBoards says that a configuration has more DIMMs on a channel than server boards at that rate.
func BeyondBoards(cfg *configs.Config) bool {
	most := mostDIMMs
	if cfg.DRAM.TCK < fastTCK {
		most = fastDIMMs
	}
	return strings.HasPrefix(cfg.DRAM.Rules().Family, "ddr") && DIMMsPerChannel(cfg) > most
}

// remarks are sentences on assumptions behind a run's numbers.
type remarks struct {
	doubts []string // assumptions that make a number doubtful
	notes  []string // all others
}

func (r *remarks) doubt(format string, args ...any) {
	r.doubts = append(r.doubts, fmt.Sprintf(format, args...))
}
func (r *remarks) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// Notes returns the assumptions behind the numbers of a configuration's runs, those that make numbers doubtful first.
func Notes(cfg *configs.Config) []string {
	r := remarksOn(cfg)
	return append(r.doubts, r.notes...)
}

// fewChanges is the number of changed GPU keys that a sentence names; a dry run names all.
const fewChanges = 4

// remarksOn returns the remarks on a configuration.
func remarksOn(cfg *configs.Config) (r remarks) {
	r.doubts = append(r.doubts, cfg.ReadingNotes()...)
	name, base := cfg.GPU.Name, ""
	if preset, changed := cfg.GPUBase(); preset != "" {
		base = preset
		what := strings.Join(changed, ", ")
		switch n := len(changed); {
		case n == 0:
			what = "nothing"
		case n > fewChanges:
			what = fmt.Sprintf("%d keys", n)
		}
		r.doubt("GPU %s was never measured: it is %s with %s changed ('l3sim run --dry-run' says more)", name, preset, what)
	}
	if m := &cfg.Model; m.LatentDim > 0 && cfg.GPU.Latent == (gpu.LatentTables{}) {
		r.note("kernels of latent attention take the parameters of grouped attention, which were not fitted to them")
	}
	if m := &cfg.Model; m.WeightBits == 8 && m.ActivationBits == 0 && m.ElementBits == 16 && cfg.GPU.FP8 != (gpu.TypedGEMMSpec{}) {
		r.note("model.weight_bits = 8 leaves inputs of products at 16 bits (W8A16); for FP8 products as in servers, also set model.activation_bits=8")
	}
	if s := &cfg.Serving; s.Prefill == scheduler.PrefillElsewhere {
		r.note("prompts are prefilled elsewhere: TTFT is from when a prompt is done there until its keys and values are here, over %v, without the time that it took there", s.PrefillBandwidth)
	}
	if s := kinds.Of(cfg); s != nil && s.Remark != nil {
		r.notes = append(r.notes, s.Remark(cfg))
	}
	if channels := cfg.ReplicaChannels(); kinds.Of(cfg).KV.InDIMM && 2*cfg.Model.KVHeads <= channels && cfg.Comm.Stripe == scheduler.StripeNone {
		r.note("%s has %d KV heads for the %d channels of a replica, so that a request has the units of %d: comm.stripe = %q spreads its tokens over all", cfg.Model.Name, cfg.Model.KVHeads, channels, cfg.Model.KVHeads, scheduler.StripeChannels)
	}
	prices := &cfg.Prices.Prices
	switch price, whose := prices.GPU.Of(name, base); {
	case whose == name || cfg.GPU.Price > 0:
	case whose == "":
		r.note("price list %s has no GPU %s: it costs prices.gpu.other, %s, in USD", prices.Name, name, price)
	default:
		r.note("price list %s has no GPU %s: it costs what %s does, %s, in USD", prices.Name, name, whose, price)
	}
	if newest, date := configs.NewestPrices(); prices.Stale(date) {
		r.note("price list %s is of %s; %s is of %s (--prices %s)", prices.Name, prices.Date, newest, date, newest)
	}
	if BeyondBoards(cfg) {
		r.note("node.ranksets = %d are %d DIMMs on a channel (energy.ranks_per_dimm = %d): boards of servers have %d at DDR4-3200 and DDR5, at most %d",
			cfg.Node.Ranksets, DIMMsPerChannel(cfg), cfg.Energy.RanksPerDIMM, fastDIMMs, mostDIMMs)
	}
	if text := tightMemory(cfg); text != "" {
		r.doubts = append(r.doubts, text)
	}
	if text := idleMultipliers(cfg); text != "" {
		r.notes = append(r.notes, text)
	}
	return r
}

// inFull returns the remarks on a configuration, with every changed key of its GPU.
func inFull(cfg *configs.Config) []string {
	notes := Notes(cfg)
	if preset, changed := cfg.GPUBase(); preset != "" && len(changed) > 0 {
		notes = append(notes, fmt.Sprintf("changed in GPU %s: %s; what is not changed (efficiencies of kernels, power and links among it) is that of %s", cfg.GPU.Name, strings.Join(changed, ", "), preset))
	}
	return notes
}

// tight is the share of usable GPU memory beyond which weights leave so little that a server's other allocations decide how many
// requests fit: at 0.75, a GiB on an 80 GiB GPU is a twentieth of the rest.
const tight = 0.75

// tightMemory says that weights take most of the GPUs' memory, if keys and values are there, too; otherwise "".
func tightMemory(cfg *configs.Config) string {
	s := kinds.Of(cfg)
	if s == nil || !s.KV.InGPUs {
		return ""
	}
	h := s.Derive(cfg)
	weights, free, of := cfg.Model.WeightBytes(), gpus.FreeMemory(h), gpus.Memory(h)
	left := units.Bytes(of.Capacity) * of.Unit
	if kv := s.Memory(h); !s.Host && units.Bytes(kv.Capacity)*kv.Unit > free { // keys and values have stacks of their own
		return ""
	}
	usable := weights + free
	if share := float64(weights) / float64(usable); share > tight {
		gib := func(b units.Bytes) float64 { return float64(b) / float64(units.GiB) }
		return fmt.Sprintf("weights take %.1f GiB, %.0f%% of the GPU memory that a replica may use, and leave %.1f GiB for keys and values: "+
			"CUDA graphs, the allocator and a server's own activations take an unknown part of it, so the throughput is uncertain", gib(weights), 100*share, gib(left))
	}
	return ""
}

// idleMultipliers says that reads feed fewer multipliers than pim.multipliers, or than are built if that key is not set; "" if not,
// and without units in the DIMMs.
func idleMultipliers(cfg *configs.Config) string {
	if s := kinds.Of(cfg); s == nil || !s.KV.InDIMM || cfg.PIM.Multipliers == 0 {
		return ""
	}
	fewer, shape := cfg.PIM, cfg.HeadShape()
	passes := func(multipliers int) int {
		fewer.Multipliers = multipliers
		return fewer.MultiplierPasses(&cfg.DRAM.Spec, shape)
	}
	set := passes(cfg.PIM.Multipliers)
	idle := set == passes(0)
	enough := fewer.SetMultipliers(&cfg.DRAM.Spec, shape)
	if !idle { // more than are built, and perhaps more than a read has elements
		enough = cfg.PIM.Multipliers
	}
	for enough > 1 && passes(enough-1) == set {
		enough--
	}
	if !idle && enough == cfg.PIM.Multipliers {
		return ""
	}
	return fmt.Sprintf("pim.multipliers = %d changes nothing: a set of %d takes a read of %d-bit elements as fast; pim.macs_per_read is how many query heads a read serves",
		cfg.PIM.Multipliers, enough, shape.StoredBits())
}

// muchExtrapolated is the share of the GPUs' time in kernels beyond the measured range above which times are
// doubtful.
const muchExtrapolated = 0.1

// remarks adds remarks on the run with summary s to those on its configuration.
func (r *Result) remarks(cfg *configs.Config, s *results.Summary) remarks {
	all := remarksOn(cfg)
	for _, note := range r.trace.Notes {
		all.doubt("%s: %s", r.trace.Name, note)
	}
	if note := ContextNote(cfg, r.trace); note != "" {
		all.doubt("%s", note)
	}
	if never := s.GPUTime.Never; never >= muchExtrapolated {
		all.doubt("%.0f%% of the GPUs' time is of kernels that were never measured on any GPU here ('l3sim support' lists them)", 100*never)
	}
	if note, share := r.extrapolationNote(cfg.GPU.Name); share >= muchExtrapolated {
		all.doubt("%s", note)
	} else if note != "" {
		all.note("%s", note)
	}
	if r.wholePrompts > 0 {
		all.note("%d prompts of up to %d tokens ran whole, as the GPUs have no room for keys and values of a cut one: all that decodes waits for them, TBT p99 %.4g s, at most %.4g s",
			r.wholePrompts, r.longestWhole, s.TBT.P99/1e3, s.TBT.Max/1e3)
	}
	if text := promptsFirst(cfg, s); text != "" {
		all.notes = append(all.notes, text)
	}
	if cfg.Memory.UsesSpare() {
		all.note("the GPUs' spare memory decodes %.1f%% of the tokens (memory.spare = %q)", 100*float64(r.spareTokens)/float64(max(1, r.tokens)), cfg.Memory.Spare)
	}
	all.notes = append(all.notes, s.SLO.Missed(&s.TTFT, &s.TBT, &s.TPOT, &s.E2E)...)
	return all
}

// longGaps is the ratio of the longest gap between tokens to the median one above which a run notes the cause.
const longGaps = 10

// promptsFirst returns the note that long gaps between tokens are due to a policy under which decoding waits for prompts. It is "" if
// there are none, or if they have another cause.
func promptsFirst(cfg *configs.Config, s *results.Summary) string {
	key := Keys().Key(kinds.Of(cfg).Planning.Prefill)
	if key == nil || s.TBT.Max <= longGaps*s.TBT.P50 || s.Arrivals.Kind == traces.ArrivalsAtOnce || cfg.Serving.Prefill == scheduler.PrefillElsewhere {
		return ""
	}
	if policy := key.Get(cfg).String(); policy != kinds.PrefillFirst {
		return ""
	}
	return fmt.Sprintf("decoding waits for new prompts (%s = %q), up to %.3g s; servers of today cut prompts into chunks (%q)",
		key.Name, kinds.PrefillFirst, s.TBT.Max/1e3, kinds.ChunkedPrefill)
}

// extrapolationNote names the kinds of kernels that lie beyond the fitted range of a GPU's parameters and take at
// least 1% of the GPUs' time. all is the share of all such kernels.
func (r *Result) extrapolationNote(gpuName string) (note string, all float64) {
	var kinds []string
	for k, share := range r.extrapolated {
		all += share
		if text := fmt.Sprintf("%.1f%%", 100*share); text != "0.0%" {
			kinds = append(kinds, fmt.Sprintf("%s %s", gpu.Kind(k), text))
		}
	}
	if all < 0.01 {
		return "", all
	}
	return fmt.Sprintf("kernels beyond what %s was measured at take %.1f%% of the GPUs' time: %s ('l3sim gpu iteration' says how)", gpuName, 100*all, strings.Join(kinds, ", ")), all
}
