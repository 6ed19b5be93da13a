package system

import (
	"context"
	"fmt"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/pim"
	"github.com/l3sim/l3sim/pim/machine"
	"github.com/l3sim/l3sim/scheduler"
	"github.com/l3sim/l3sim/traces"
	"github.com/l3sim/l3sim/units"
	"pgregory.net/rapid"
)

// nodeOf returns the node of the default configuration with some keys set.
func nodeOf(t interface{ Fatal(...any) }, sets ...string) *Node {
	cfg, err := Load(configs.Options{Sets: sets})
	if err != nil {
		t.Fatal(err)
	}
	return mustNode(t, cfg)
}

// prompt returns what it costs to send a layer's keys and values of tokens, whose writes take
// clocks on a channel.
func sentOf(d *devices, tokens int, clocks int64) shipment {
	heads := int64(d.perChannel * tokens)
	c := cargo{tokens: heads, bytes: units.Bytes(tokens) * d.kv(1), bursts: 2 * heads * int64(d.transfers.TokenBursts()), clocks: clocks}
	d.pack(&c)
	return c.shipment
}

// promptClocks returns the clocks in which a channel writes keys and values of a layer's tokens
// from token first on.
func promptClocksOf(d *devices, first, tokens int) int64 {
	return int64(d.perChannel) * d.transfers.Write(first, tokens)
}

// fastLinks are PCIe links that carry more than the channels.
const fastLinks = "pcie.generation=6"

// refreshedTime returns the time of clocks in which a rank refreshes at DDR4-3200's
// long-run rate.
func refreshedTime(clocks int64) units.Duration {
	return units.Duration((clocks*12480+12480-560-1)/(12480-560)) * 625
}

// TestPromptsByHand checks the time for which a rankset receives a prompt's keys and
// values, where the channels are the bottleneck, against what the commands take: for
// each of GPT-175B's 6 heads on a channel and each row of 512 tokens, keys and values
// apart, 16 banks are opened (114 clocks, tRCD 22), the bursts follow each other at
// 4 clocks but for the first 16, and the row is closed (CWL + 4 + tWR + tRP = 66).
func TestPromptsByHand(t *testing.T) {
	d := devicesOf(nodeOf(t, fastLinks))
	row := func(tokens int) int64 { return 114 + 22 + int64(4*tokens-16)*4 + 66 }
	for _, c := range []struct {
		tokens int
		rows   int64
	}{
		{16, row(16)}, {512, row(512)}, {528, row(512) + row(16)}, {8192, 16 * row(512)}, {32_768, 64 * row(512)},
	} {
		s := sentOf(d, c.tokens, promptClocksOf(d, 0, c.tokens))
		if got, want := s.open+s.end+s.close, refreshedTime(6*2*c.rows); got != want {
			t.Errorf("%d tokens hold their rankset for %v, their commands for %v", c.tokens, got, want)
		}
		if data := units.Duration(6*2*4*4*c.tokens) * 625; s.data != data || s.last != s.end {
			t.Errorf("%d tokens: data for %v, want %v; links held for %v of %v", c.tokens, s.data, data, s.last, s.end)
		}
	}
	// The default links take longer than the commands, unless rows are short.
	slow := devicesOf(nodeOf(t))
	for _, tokens := range []int{1, 16, 8192} {
		s := sentOf(slow, tokens, promptClocksOf(slow, 0, tokens))
		link := slow.link.TransferTime(units.Bytes(tokens) * slow.kv(1))
		if s.last != max(link, s.end) || (s.last == link) != (tokens > 1) {
			t.Errorf("%d tokens hold the links for %v, their bytes take %v, their commands %v", tokens, s.last, link, s.end)
		}
	}
}

// TestVectorsByHand checks what the vectors of 3 requests keep the channels busy with:
// a burst each 4 clocks, down for q of each query head, k, v and the descriptor of each
// KV head on a channel, up for each query head's result and a poll. A buffer cuts it
// into pieces; the descriptors follow the last.
func TestVectorsByHand(t *testing.T) {
	for _, c := range []struct {
		sets           []string
		heads, queries int
	}{
		{nil, 6, 1}, {[]string{"run.model=llama-3-70b"}, 1, 8}, {[]string{"run.model=opt-66b"}, 18, 1},
		{[]string{`pim.mc_buffer="4KiB"`}, 6, 1},
	} {
		down, up := units.Duration(3*c.heads*((c.queries+2)*4+1)), units.Duration(3*c.heads*c.queries*4)
		d := devicesOf(nodeOf(t, append(c.sets, fastLinks)...))
		g := d.traffic(3)
		if g.down.data != down*4*625 || g.upBus != (up+1)*4*625 {
			t.Errorf("%v: the channels are busy for %v down, %v up; want %d and %d bursts", c.sets, g.down.data, g.upBus, down, up+1)
		}
		bus, want := units.Duration(g.down.pieces-1)*g.down.bus+g.down.end, refreshedTime(int64(down)*4)
		if slack := units.Duration(1+g.down.pieces) * 625; bus < want-slack || bus > want+slack || g.down.open != 16*625 || g.down.close != 0 {
			t.Errorf("%v: %d pieces hold the rank for %v, want %v", c.sets, g.down.pieces, bus, want)
		}
	}
}

// TestGroupsSendTheirChunks: a group's transfer is that of its prompts' chunks, each
// from where the chunk before it ended, and of each head by itself: what a rank
// takes by commands for each of them (pim.MeasureTransfer), added up. Measured at the
// end of a head, each also waits for that one's precharge (tRP) and results.
func TestGroupsSendTheirChunks(t *testing.T) {
	node := nodeOf(t, fastLinks, "node.ranksets=2")
	d := devicesOf(node)
	groups := make([]groupCost, 2)
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
		d.fillGroups(groups, sub, d.decode(nil, 0, 0), 0)
		for offset, g := range groups {
			most := int64(d.perChannel*len(sub.Prefill)) * 24
			if waits := want[offset] - g.prompt.clocks; g.prompt.tokens != int64(d.perChannel*tokens[offset]) || waits < 0 || waits > most {
				t.Fatalf("offset %d: %d tokens of heads in %d clocks, want %d of each head in %d", offset, g.prompt.tokens, g.prompt.clocks, tokens[offset], want[offset])
			}
			if g.prompt.tokens > 0 && g.prompt.shipment != sentOf(d, tokens[offset], g.prompt.clocks) {
				t.Fatalf("offset %d: %+v", offset, g.prompt)
			}
		}
	})
	// A chunk that begins within a row opens it again; one over a row's end opens two,
	// for one token each: tRCD 22, three bursts more at 8 and at 4 clocks, 66.
	whole, parts := promptClocksOf(d, 0, 512), promptClocksOf(d, 0, 200)+promptClocksOf(d, 200, 312)
	sub := scheduler.SubBatch{Prefill: []scheduler.Chunk{{Tokens: 2, Finished: 511}}}
	d.fillGroups(groups, &sub, d.decode(nil, 0, 0), 0)
	if over := groups[0].prompt.clocks; parts <= whole || over != 6*2*(22+3*8+66+22+3*4+66) {
		t.Errorf("a row in two parts takes %d clocks, whole %d; two tokens over its end %d", parts, whole, over)
	}
}

// TestPiecesHoldTheRankAsLong: a buffer cuts a transfer into pieces that open and
// close their rows, and otherwise share its time.
func TestPiecesHoldTheRankAsLong(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := devicesOf(nodeOf(t, fmt.Sprintf("pim.mc_buffer=%q", rapid.SampledFrom([]string{"4KiB", "64KiB", "1MiB"}).Draw(t, "buffer"))))
		tokens := rapid.IntRange(1, 5000).Draw(t, "tokens")
		clocks := promptClocksOf(d, 0, tokens)
		s := sentOf(d, tokens, clocks)
		buffer := d.buffer
		d.buffer = 0
		whole := sentOf(d, tokens, clocks)
		rounding := units.Duration(s.pieces)
		if bus := units.Duration(s.pieces-1)*s.bus + s.end; bus < whole.end || bus > whole.end+rounding || s.data != whole.data {
			t.Fatalf("%d pieces of %v hold the rank for %v, the whole for %v", s.pieces, buffer, bus, whole.end)
		}
		if s.held() < whole.held() || s.held() > whole.held()+rounding {
			t.Fatalf("%d pieces hold the links for %v, the whole for %v", s.pieces, s.held(), whole.held())
		}
	})
}

// TestHostsPartOfAttention: the host writes a descriptor for each head behind the
// vectors, and notices the end by polling. Without GPUs' work to hide it an iteration
// takes just as much longer, in every layer; knobs of 0 charge nothing.
func TestHostsPartOfAttention(t *testing.T) {
	took := func(sets ...string) units.Duration {
		var last units.Duration
		drive(t, append(sets, oneBatch, allAtOnce), equal(1, 300, 3), keep, func(_ *replica, d driven) { last = d.took })
		return last
	}
	const off, heads, layers = "pim.descriptor=\"0B\"", 6, 96
	free := took(off, `pim.host_access="0ns"`)
	for _, c := range []struct {
		sets []string
		want units.Duration // a layer
	}{
		{nil, 2*122*units.Nanosecond + refreshedTime(heads*4)},
		{[]string{`pim.descriptor="65B"`, `pim.host_access="0ps"`}, refreshedTime(heads * 2 * 4)},
		{[]string{off, `pim.host_access="3us"`}, 6 * units.Microsecond},
	} {
		if got := took(c.sets...) - free; got != layers*c.want {
			t.Errorf("%v: the host takes %v, want %d times %v", c.sets, got, layers, c.want)
		}
	}
	rank := func(sets ...string) units.Duration {
		trace := &traces.Trace{Requests: equal(1, 300, 3)}
		return mustRun(t, nodeOf(t, append(sets, "run.system=rank-pim")...), trace, false).end
	}
	if got := rank() - rank(`pim.host_access="0ps"`); got != 2*layers*2*122*units.Nanosecond {
		t.Errorf("rank-pim: the host takes %v of two decode steps", got)
	}
}

// TestPredictedPIMTimeByHand: what equation 5 of L3 predicts is, in every layer, the
// whole way of a request down, its attention and the way up, and the other sub-batch's
// prompt, by the same commands as the node charges.
func TestPredictedPIMTimeByHand(t *testing.T) {
	node := nodeOf(t, fastLinks)
	d := devicesOf(node)
	const context, layers = 700, 96
	sub := &scheduler.SubBatch{Decode: []scheduler.Decoding{{Base: context}}}
	down := units.Duration(16)*625 + refreshedTime(6*12*4) + refreshedTime(6*4)
	up := units.Duration(22)*625 + 2*122*units.Nanosecond + refreshedTime(6*4*4)
	want := layers * (2*node.cfg.PCIe.Latency + down + refreshedTime(6*node.kernels.table.InSequence(context)) + up)
	alone := d.PIM(sub, 0, 0)
	if alone != want {
		t.Errorf("one request: %v, want %v", alone, want)
	}
	// Of several ranksets the busiest counts, with all requests that it has.
	for i, at := range []int32{1, 2, 2, 3} {
		sub.Decode = append(sub.Decode, scheduler.Decoding{Base: int64(100*(i+1) - 7), Offset: at})
	}
	longest := refreshedTime(6 * (node.kernels.table.InSequence(200) + node.kernels.table.InSequence(300)))
	if d := refreshedTime(6 * node.kernels.table.InSequence(context)); longest > d {
		t.Fatal("the first request is not the busiest rankset's")
	}
	for _, c := range []struct {
		base int64
		want units.Duration
	}{{context, refreshedTime(6 * node.kernels.table.InSequence(context))}, {50, longest}} {
		sub.Decode[0].Base = c.base - 7
		traffic := d.traffic(5)
		want := layers * (d.latency + traffic.down.took() + c.want + d.upLatency + traffic.up)
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

// TestHiddenTransfersTakeTime: rank-pim hides its transfers behind computation, no
// more of them than there is time for, and counts what links and channels carry:
// each prompt token's and each decoding request's vectors once a layer.
func TestHiddenTransfersTakeTime(t *testing.T) {
	const requests, input, output = 3, 4000, 5
	trace := &traces.Trace{Requests: equal(requests, input, output)}
	run := func(sets ...string) (*Node, *Result) {
		n := nodeOf(t, append(sets, "run.system=rank-pim")...)
		return n, mustRun(t, n, trace, false)
	}
	n, fast := run()
	m, layers := &n.cfg.Model, float64(n.cfg.Model.Layers)
	prompt, decode := float64(requests*input), float64(requests*(output-1))
	down := prompt*float64(m.KVBytesPerTokenLayer()) + decode*float64(m.QKVBytesPerTokenLayer())
	up := decode * float64(m.AttentionBytesPerTokenLayer())
	end, link, channel := fast.end.Seconds(), float64(devicesOf(n).link), float64(devicesOf(n).channel)
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"down", fast.busy.PCIeDown, layers * down / link / end},
		{"up", fast.busy.PCIeUp, layers * up / link / end},
		// Descriptors and polls beside the data: little.
		{"channel", fast.busy.Channel, layers * (down + up) / channel / end},
	} {
		if c.got < c.want*0.999 || c.got > c.want*1.002 {
			t.Errorf("%s is busy for %v of the time, want %v", c.name, c.got, c.want)
		}
	}
	n, slow := run("pcie.efficiency=0.001")
	if _, err := n.Run(context.Background(), trace, Options{Timeline: &Window{To: slow.end}}); err != nil {
		t.Error(err)
	}
	if slow.end <= fast.end || slow.busy.PCIeDown < 0.9 || slow.busy.PCIeDown > 1 {
		t.Errorf("links of a thousandth: %v instead of %v, busy for %v of it", slow.end, fast.end, slow.busy.PCIeDown)
	}
}

// TestPaddingCrossesTheChannels: keys and values of 80 elements take bursts for 128,
// and where the links could carry more both ways than the channels of that, these serve
// one direction at a time.
func TestPaddingCrossesTheChannels(t *testing.T) {
	narrow := []string{"model.hidden=5120", "model.heads=64", "model.kv_heads=64", "model.layers=2"}
	n := nodeOf(t, append(narrow, "model.head_dim=80")...)
	d := devicesOf(n)
	s := sentOf(d, 512, promptClocksOf(d, 0, 512))
	if want := units.Duration(4*2*512*4*4) * 625; s.data != want { // 4 heads a channel
		t.Errorf("512 tokens: data for %v, want %v", s.data, want)
	}
	if c := &l3Of(n).costs; !c.halfDuplex {
		t.Error("links of 199 GB/s down and up are 318 and 199 on channels of 410")
	}
	if n := nodeOf(t, narrow...); l3Of(n).costs.halfDuplex {
		t.Error("links of 199 GB/s each way are more than channels of 410 can carry")
	}
	for _, links := range []string{"pcie.efficiency=0.79", fastLinks} {
		mustRun(t, nodeOf(t, append(narrow, "model.head_dim=72", links)...), &traces.Trace{Requests: equal(20, 700, 40)}, false)
	}
}

// devicesOf returns the devices of a replica of a node.
func devicesOf(n *Node) *devices { return newDevices(n.hw, newAttends(n.hw), n.kernels) }

// l3Of returns a replica of a node of L3 without requests.
func l3Of(n *Node) *l3 { return n.assemble(0, nil, false, nil).engine.(*l3) }
