package ranks

import (
	"fmt"
	"testing"

	"github.com/l3sim/l3sim/attention/policies"
	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/system/flow"
	"github.com/l3sim/l3sim/units"
	"pgregory.net/rapid"
)

// sentOf returns the cost of sending a layer's keys and values of tokens, whose writes take clocks
// on a channel.
func sentOf(d *Devices, tokens int, clocks int64) Shipment {
	heads := int64(d.perChannel * tokens)
	c := Cargo{Tokens: heads, Bytes: units.Bytes(tokens) * d.Attends.KV(1), bursts: heads * int64(d.transfers.KVBursts()), clocks: clocks}
	d.pack(&c)
	return c.Shipment
}

// promptClocksOf returns the clocks in which a channel writes keys and values of a layer's tokens,
// beginning with token first.
func promptClocksOf(d *Devices, first, tokens int) int64 {
	return int64(d.perChannel) * d.transfers.Write(first, tokens)
}

// fastLinks are PCIe links that carry more than the channels.
const fastLinks = "pcie.generation=6"

// refreshedTime returns the time of clocks on a rank that refreshes at DDR4-3200's long-run rate.
func refreshedTime(clocks int64) units.Duration {
	return units.Duration((clocks*12480+12480-560-1)/(12480-560)) * 625
}

// TestPromptsByHand compares the time for which a rankset receives a prompt's keys and values, with
// the channels as the bottleneck, with the commands: for each of GPT-175B's 6 heads on a channel
// and each row of 512 tokens, separately for keys and values, 16 banks open (114 clocks, tRCD 22),
// the bursts after the first 16 follow at 4 clocks, and the row closes (CWL + 4 + tWR + tRP = 66).
func TestPromptsByHand(t *testing.T) {
	d := devicesOf(benchOf(t, fastLinks))
	row := func(tokens int) int64 { return 114 + 22 + int64(4*tokens-16)*4 + 66 }
	for _, c := range []struct {
		tokens int
		rows   int64
	}{
		{16, row(16)}, {512, row(512)}, {528, row(512) + row(16)}, {8192, 16 * row(512)}, {32_768, 64 * row(512)},
	} {
		s := sentOf(d, c.tokens, promptClocksOf(d, 0, c.tokens))
		if got, want := s.Open+s.End+s.Close, refreshedTime(6*2*c.rows); got != want {
			t.Errorf("%d tokens hold their rankset for %v, their commands for %v", c.tokens, got, want)
		}
		if data := units.Duration(6*2*4*4*c.tokens) * 625; s.Data != data || s.Last != s.End {
			t.Errorf("%d tokens: data for %v, want %v; links held for %v of %v", c.tokens, s.Data, data, s.Last, s.End)
		}
	}
	// The default links take longer than the commands, unless rows are short.
	slow := devicesOf(benchOf(t))
	for _, tokens := range []int{1, 16, 8192} {
		s := sentOf(slow, tokens, promptClocksOf(slow, 0, tokens))
		link := slow.link.TransferTime(units.Bytes(tokens) * slow.Attends.KV(1))
		if s.Last != max(link, s.End) || (s.Last == link) != (tokens > 1) {
			t.Errorf("%d tokens hold the links for %v, their bytes take %v, their commands %v", tokens, s.Last, link, s.End)
		}
	}
}

// TestVectorsByHand checks the channels' time for the vectors of 3 requests: a burst every 4
// clocks, down for q of each query head, and k, v and the descriptor of each KV head on a channel;
// up for each query head's result and a poll. A buffer cuts it into pieces; the descriptors follow
// the last.
func TestVectorsByHand(t *testing.T) {
	for _, c := range []struct {
		sets           []string
		heads, queries int
		poll           units.Duration
	}{
		{nil, 6, 1, 1}, {[]string{"run.model=llama-3-70b"}, 1, 8, 1}, {[]string{"run.model=opt-66b"}, 18, 1, 1},
		{[]string{`pim.mc_buffer="4KiB"`}, 6, 1, 1}, {[]string{`pim.host_access="0s"`}, 6, 1, 0}, // with zero access time the host does not poll
	} {
		down, up := units.Duration(3*c.heads*((c.queries+2)*4+1)), units.Duration(3*c.heads*c.queries*4)
		d := devicesOf(benchOf(t, append(c.sets, fastLinks)...))
		g := d.Traffic(3)
		if g.Down.Data != down*4*625 || g.UpBus != (up+c.poll)*4*625 || d.Traffic(0).UpBus != 0 {
			t.Errorf("%v: the channels are busy for %v down, %v up; want %d and %d bursts", c.sets, g.Down.Data, g.UpBus, down, up+c.poll)
		}
		bus, want := units.Duration(g.Down.Pieces-1)*g.Down.Bus+g.Down.End, refreshedTime(int64(down)*4)
		if slack := units.Duration(1+g.Down.Pieces) * 625; bus < want-slack || bus > want+slack || g.Down.Open != 16*625 || g.Down.Close != 0 {
			t.Errorf("%v: %d pieces hold the rank for %v, want %v", c.sets, g.Down.Pieces, bus, want)
		}
	}
}

// TestGroupsSendTheirChunks: a group's transfer is that of its prompts' chunks, each from the end
// of the chunk before it, and of each head separately: the sum of their commands on a rank
// (machine.MeasureTransfer). Measured at the end of a head, each also waits for that head's
// precharge (tRP) and results.
func TestGroupsSendTheirChunks(t *testing.T) {
	node := benchOf(t, fastLinks, "node.ranksets=2")
	d := devicesOf(node)
	groups := make([]GroupCost, 2)
	cfg := node.cfg
	spec := cfg.PIM
	spec.TransferBoundary = pim.BoundaryHead // the rank's banks are closed
	rapid.Check(t, func(t *rapid.T) {
		sub := &scheduler.SubBatch{}
		var want [2]int64
		var tokens [2]int
		for i := range rapid.IntRange(1, 3).Draw(t, "prompts") {
			c := scheduler.Chunk{Request: int32(i), Offset: int32(rapid.IntRange(0, 1).Draw(t, "offset")),
				Tokens: rapid.IntRange(1, 600).Draw(t, "tokens"), Finished: 512 * rapid.IntRange(0, 3).Draw(t, "rows finished")}
			sub.Prefill = append(sub.Prefill, c)
			m, err := machine.MeasureTransfer(&spec, &cfg.DRAM.Spec, cfg.HeadShape(), 2, 16, c.Tokens, 1)
			if err != nil {
				t.Fatal(err)
			}
			want[c.Offset] += int64(d.perChannel) * m.WriteClocks
			tokens[c.Offset] += c.Tokens
		}
		d.FillGroups(groups, sub, d.Attends.Decode(nil, 0, 0), 0)
		for offset, g := range groups {
			most := int64(d.perChannel*len(sub.Prefill)) * 24
			if waits := want[offset] - g.Prompt.clocks; g.Prompt.Tokens != int64(d.perChannel*tokens[offset]) || waits < 0 || waits > most {
				t.Fatalf("offset %d: %d tokens of heads in %d clocks, want %d of each head in %d", offset, g.Prompt.Tokens, g.Prompt.clocks, tokens[offset], want[offset])
			}
			if g.Prompt.Tokens > 0 && g.Prompt.Shipment != sentOf(d, tokens[offset], g.Prompt.clocks) {
				t.Fatalf("offset %d: %+v", offset, g.Prompt)
			}
		}
	})
	// A chunk that begins within a row opens it again; one across a row's end opens two rows for one
	// token each: tRCD 22, three more bursts at 8 and at 4 clocks, 66.
	whole, parts := promptClocksOf(d, 0, 512), promptClocksOf(d, 0, 200)+promptClocksOf(d, 200, 312)
	sub := scheduler.SubBatch{Prefill: []scheduler.Chunk{{Tokens: 2, Finished: 511}}}
	d.FillGroups(groups, &sub, d.Attends.Decode(nil, 0, 0), 0)
	if over := groups[0].Prompt.clocks; parts <= whole || over != 6*2*(22+3*8+66+22+3*4+66) {
		t.Errorf("a row in two parts takes %d clocks, whole %d; two tokens over its end %d", parts, whole, over)
	}
}

// TestPiecesHoldTheRankAsLong: a buffer cuts a transfer into pieces; each opens and closes its
// rows, and together they share its time.
func TestPiecesHoldTheRankAsLong(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := devicesOf(benchOf(t, fmt.Sprintf("pim.mc_buffer=%q", rapid.SampledFrom([]string{"4KiB", "64KiB", "1MiB"}).Draw(t, "buffer"))))
		tokens := rapid.IntRange(1, 5000).Draw(t, "tokens")
		clocks := promptClocksOf(d, 0, tokens)
		s := sentOf(d, tokens, clocks)
		buffer := d.Buffer
		d.Buffer = 0
		whole := sentOf(d, tokens, clocks)
		rounding := units.Duration(s.Pieces)
		if bus := units.Duration(s.Pieces-1)*s.Bus + s.End; bus < whole.End || bus > whole.End+rounding || s.Data != whole.Data {
			t.Fatalf("%d pieces of %v hold the rank for %v, the whole for %v", s.Pieces, buffer, bus, whole.End)
		}
		if s.Held() < whole.Held() || s.Held() > whole.Held()+rounding {
			t.Fatalf("%d pieces hold the links for %v, the whole for %v", s.Pieces, s.Held(), whole.Held())
		}
	})
}

// TestPredictedPIMTimeByHand: equation 5 of L3 predicts, for every layer, a request's whole
// transfer down, its attention, the transfer up, and the other sub-batch's prompt, by the same
// commands as the node charges.
func TestPredictedPIMTimeByHand(t *testing.T) {
	node := benchOf(t, fastLinks)
	d := devicesOf(node)
	const context, layers = 700, 96
	sub := &scheduler.SubBatch{Decode: []scheduler.Decoding{{Base: context}}}
	down := units.Duration(16)*625 + refreshedTime(6*12*4) + refreshedTime(6*4)
	up := units.Duration(22)*625 + 2*122*units.Nanosecond + refreshedTime(6*4*4)
	want := layers * (2*node.cfg.PCIe.Latency + down + refreshedTime(6*node.kernels.Table.InSequence(context)) + up)
	alone := d.PIM(sub, 0, 0)
	if alone != want {
		t.Errorf("one request: %v, want %v", alone, want)
	}
	// Of several ranksets the busiest counts, with all its requests.
	for i, at := range []int32{1, 2, 2, 3} {
		sub.Decode = append(sub.Decode, scheduler.Decoding{Base: int64(100*(i+1) - 7), Offset: at})
	}
	longest := refreshedTime(6 * (node.kernels.Table.InSequence(200) + node.kernels.Table.InSequence(300)))
	if d := refreshedTime(6 * node.kernels.Table.InSequence(context)); longest > d {
		t.Fatal("the first request is not the busiest rankset's")
	}
	for _, c := range []struct {
		base int64
		want units.Duration
	}{{context, refreshedTime(6 * node.kernels.Table.InSequence(context))}, {50, longest}} {
		sub.Decode[0].Base = c.base - 7
		traffic := d.Traffic(5)
		want := layers * (d.Latency + traffic.Down.Took() + c.want + d.UpLatency + traffic.Up)
		if got := d.PIM(sub, 7, 0); got != want {
			t.Errorf("five requests, the first of %d tokens: %v, want %v", c.base, got, want)
		}
	}
	sub.Decode = []scheduler.Decoding{{Base: context}}
	const row = 114 + 22 + 2032*4 + 66
	if got := d.PIM(sub, 0, 512) - alone; got != layers*refreshedTime(6*2*row) {
		t.Errorf("a prompt of 512 tokens beside it: %v more, want %v", got, layers*refreshedTime(6*2*row))
	}
}

// TestPaddingCrossesTheChannels: keys and values of 80 elements take bursts for 128.
func TestPaddingCrossesTheChannels(t *testing.T) {
	d := devicesOf(benchOf(t, "model.hidden=5120", "model.heads=64", "model.kv_heads=64", "model.layers=2", "model.head_dim=80"))
	s := sentOf(d, 512, promptClocksOf(d, 0, 512))
	if want := units.Duration(4*2*512*4*4) * 625; s.Data != want { // 4 heads a channel
		t.Errorf("512 tokens: data for %v, want %v", s.Data, want)
	}
}

// devicesOf returns the devices of a replica of a node.
func devicesOf(n *bench) *Devices { return New(n.hw, flow.NewAttends(n.hw), n.kernels) }

// TestNarrowVectors: queries and results keep their width on the links and channels; keys and values, of decoding
// requests and of prompts, have their own width, with scales.
func TestNarrowVectors(t *testing.T) {
	deep.Only(t)
	const heads = 96 // of GPT-175B
	for _, c := range []struct {
		sets   []string
		token  units.Bytes // of a token and KV head
		bursts int64       // of one key
		scale  int64       // of a new key and value
	}{
		{nil, 512, 4, 0}, {[]string{"model.kv_bits=8"}, 264, 2, 1}, {[]string{"model.kv_bits=4"}, 136, 1, 1}, {[]string{"model.kv_bits=8", "pim.scales=buffer"}, 264, 2, 0},
		{[]string{"model.kv_bits=8", "model.kv_scales=tensor"}, 256, 2, 0},
	} {
		d := devicesOf(benchOf(t, append(c.sets, fastLinks)...))
		down, up := d.Attends.Vectors(3)
		if wantDown, wantUp := 3*heads*(256+c.token), units.Bytes(3*heads*256); down != wantDown || up != wantUp {
			t.Errorf("%v: %v down, %v up, want %v, %v", c.sets, down, up, wantDown, wantUp)
		}
		const each = 3 * 6 // heads on a channel
		if got, want := d.Traffic(3).Down.Data, units.Duration(each*(4+2*c.bursts+c.scale+1)*4*625); got != want {
			t.Errorf("%v: vectors keep a channel busy for %v, want %v", c.sets, got, want)
		}
		if d.tokenBytes != c.token {
			t.Errorf("%v: a token of a prompt takes %v in a head", c.sets, d.tokenBytes)
		}
		// 600 tokens starting inside a chunk begin in one block of 256 and end in the fourth; the first has 6 of them.
		var prompt Cargo
		d.load(&prompt, &policy.Leaving{Heads: heads, From: []int{250}, Tokens: []int{600}}, 0)
		d.pack(&prompt)
		scales := 2 * (6 + 16 + 16 + 16) * c.scale
		if got, want := prompt.Data, units.Duration(6*(2*600*c.bursts+scales)*4*625); got != want {
			t.Errorf("%v: a prompt keeps a channel busy for %v, want %v", c.sets, got, want)
		}
	}
}

// bench is the ranks of an L3 replica that a test measures.
type bench struct {
	cfg     *configs.Config
	hw      *flow.Hardware
	kernels *Kernels
}

// benches loads configurations of L3.
var benches = configs.New(policies.Builtin(), configs.System{Name: "l3"})

// benchOf returns the ranks of the default configuration with some keys set.
func benchOf(t interface{ Fatal(...any) }, sets ...string) *bench {
	h := hardwareOf(t, sets...)
	k, err := KernelsOf(h)
	if err != nil {
		t.Fatal(err)
	}
	return &bench{h.Config, h, k}
}

// hardwareOf is the hardware of benchOf, before anything is measured.
func hardwareOf(t interface{ Fatal(...any) }, sets ...string) *flow.Hardware {
	cfg, err := benches.Load(configs.Options{Sets: sets})
	if err != nil {
		t.Fatal(err)
	}
	return &flow.Hardware{Config: cfg, KV: flow.Place{Name: "in the DIMMs", InDIMM: true, Keeps: true}, GPUShare: 1}
}

// TestPrefixesByHand: the bursts of a prefix's keys and values, 2·4 of 64 B for each token and head, occupy the channels for 2.5 ns each. If the
// CPU transposes, writing the same bursts again occupies rankset and channels, but not the links.
func TestPrefixesByHand(t *testing.T) {
	for _, relayout := range []string{"in-flight", "cpu"} {
		d := devicesOf(benchOf(t, "run.model=llama-2-7b", "pim.relayout="+relayout))
		heads := int64(d.perChannel)
		var f fetch
		d.fetch(&f, 1024)
		d.fetch(&f, 512)
		d.packPrefix(&f)
		bursts := heads * 1536 * 8
		again := d.transposition(bursts)
		if (again > 0) != (relayout == "cpu") || f.Tokens != heads*1536 || f.bursts != bursts || f.bytes != 1536*16384 {
			t.Errorf("%s: %+v, by hand %d bursts; %v again", relayout, f, bursts, again)
		}
		clocks := heads * (d.transfers.ReadBack(1024) + d.transfers.ReadBack(512))
		if want := d.Clock.Time(clocks) + again; f.Read != want || f.Read < f.Data {
			t.Errorf("%s: the rankset is read for %v, by hand %v", relayout, f.Read, want)
		}
		if want := units.Duration(bursts)*2500*units.Picosecond + again; f.Data != want {
			t.Errorf("%s: the channels carry data for %v, by hand %v", relayout, f.Data, want)
		}
		if want := flow.TransferTime(d.link, d.Attends.Copies*1536*16384); f.Up != want {
			t.Errorf("%s: the links take %v, by hand %v", relayout, f.Up, want)
		}
		var nothing fetch
		if d.packPrefix(&nothing); nothing != (fetch{}) {
			t.Errorf("%s: no prefix takes %+v", relayout, nothing)
		}
	}
	d, f := devicesOf(benchOf(t, "run.model=qwen2-7b", "model.tensor_parallel=8")), fetch{Tokens: 1, bytes: 1 << 20} // 4 KV heads on 8 GPUs
	if d.packPrefix(&f); f.Up != flow.TransferTime(d.link, 2<<20) {
		t.Errorf("the links take %v, by hand %v for two copies", f.Up, flow.TransferTime(d.link, 2<<20))
	}
}
