package ranks

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/scheduler"
)

// TestPartsHaveEverything: together the parts have all tokens, each in its unit, as in dealing unit by unit;
// if parts are channels, heads of parts are all heads.
func TestPartsHaveEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := stripe{Parts: rapid.IntRange(1, 20).Draw(t, "parts"), tokens: 1 << rapid.IntRange(0, 9).Draw(t, "log unit")}
		tokens := rapid.IntRange(0, 20_000).Draw(t, "tokens")
		want := make([]int, s.Parts)
		for token := range tokens {
			want[token/s.tokens%s.Parts]++
		}
		used := 0
		for part, n := range want {
			if got := s.part(tokens, part); got != n {
				t.Fatalf("%d of %d tokens in part %d of %d, want %d", got, tokens, part, s.Parts, n)
			}
			used += min(n, 1)
		}
		if s.used(tokens) != used {
			t.Fatalf("%d of %d parts are used, want %d", s.used(tokens), s.Parts, used)
		}
		d := Devices{headMap: headMap{channels: s.Parts, Stripe: s}}
		heads := rapid.IntRange(1, 40).Draw(t, "heads")
		on, fullest := make([]int, s.Parts), make([]int, s.Parts)
		for part, n := range want {
			for channel := range fullest {
				fullest[channel] += d.headsOf(heads, part, 0, channel) * n
			}
			for head := range heads {
				on[(head+part)%s.Parts] += n
			}
		}
		if !slices.Equal(fullest, on) {
			t.Fatalf("%d tokens of heads by channel, counted %v", fullest, on)
		}
		first, channel, some := rapid.IntRange(0, s.Parts-1).Draw(t, "first"), rapid.IntRange(0, s.Parts-1).Draw(t, "channel"), 0
		part := rapid.IntRange(0, s.Parts-1).Draw(t, "part")
		for head := range heads {
			if (first+head+part)%s.Parts == channel {
				some++
			}
		}
		if got := d.headsOf(heads, part, first, channel); got != some {
			t.Fatalf("part %d of %d of %d heads is on channel %d, want %d", part, got, heads, channel, some)
		}
	})
}

// TestHeadsBeginWhereLeastIs: requests with half of the heads at home alternate between the halves of the
// channels, one with a longer context weighs as much as two shorter ones, and a request stays where it began.
func TestHeadsBeginWhereLeastIs(t *testing.T) {
	n := benchOf(t, "run.model=llama-3-70b", "policy.name=duo")
	d := devicesOf(n)
	if d.Rest != 4 || d.channels != 8 {
		t.Fatalf("%d heads beyond an even share of %d channels", d.Rest, d.channels)
	}
	b := &scheduler.Batch{Sub: make([]scheduler.SubBatch, 2)}
	for i, c := range []struct{ offset, context, begins int }{
		{0, 9000, 0}, {0, 4000, 4}, {1, 500, 0}, {0, 4000, 4}, {0, 1900, 4}, {0, 300, 0}, {1, 1, 4},
	} {
		sub := &b.Sub[i%2]
		sub.Prefill = []scheduler.Chunk{{Request: int32(i), Offset: int32(c.offset), Tokens: c.context}}
		d.Rotate(b)
		sub.Prefill = nil
		sub.Decode = append(sub.Decode, scheduler.Decoding{Request: int32(i), Offset: int32(c.offset), Base: int64(c.context), Prompt: int32(c.context)})
		d.Rotate(b)
		if got := d.Begins(int32(i)); got != c.begins {
			t.Errorf("request %d begins on channel %d, want %d", i, got, c.begins)
		}
	}
	d.Fixed = true
	if d.Begins(1) != 0 {
		t.Error("heads rotate where they do not")
	}
}

// TestHeadsEach: transfers interrupt between the heads of a request on a channel. Parts of striped requests, and heads that
// differ in themselves or in their number by channel, count as one each.
func TestHeadsEach(t *testing.T) {
	for _, c := range []struct {
		sets []string
		want int
	}{
		{nil, 6},
		{[]string{"comm.stripe=ranksets", "node.ranksets=8"}, 1},
		{[]string{"run.model=opt-66b"}, 18},
		{[]string{"run.model=opt-66b", "node.channels=20"}, 1}, // 14 and 15 heads
	} {
		if got := devicesOf(benchOf(t, c.sets...)).HeadsEach(); got != c.want {
			t.Errorf("%v: %d heads, want %d", c.sets, got, c.want)
		}
	}
}

// TestStripedCargoByHand: further tokens go to the parts whose units they fill: of 8 ranksets with units of 512 tokens, 700 tokens after 1,000 fill part
// 1's unit with 24, then all of part 2's, and 164 of part 3's. Sending them in any pieces is the same as at once.
func TestStripedCargoByHand(t *testing.T) {
	n := benchOf(t, "run.model=llama-2-7b", "comm.stripe=ranksets", "node.ranksets=8")
	d := devicesOf(n)
	perChannel := int64(32 / n.hw.Config.ReplicaChannels())
	send := func(groups []GroupCost, from, tokens int) {
		d.send(groups, promptOf, 0, 0, &policy.Leaving{Heads: 32, From: []int{from}, Tokens: []int{tokens}}, 0)
	}
	first := int(Scattered(0) % 8) // lane of part 0
	groups := make([]GroupCost, 8)
	send(groups, 1000, 700)
	for part, want := range map[int]int64{0: 0, 1: 24, 2: 512, 3: 164, 4: 0, 7: 0} {
		if got := groups[(first+part)%8].Prompt.Tokens; got != perChannel*want {
			t.Errorf("part %d gets %d tokens of heads, by hand %d heads of %d", part, got, perChannel, want)
		}
	}
	if got, want := groups[(first+1)%8].Prompt.clocks, perChannel*d.transfers.Write(488, 24); got != want || want == perChannel*d.transfers.Write(0, 24) {
		t.Errorf("24 tokens behind 488 take %d clocks, by hand %d", got, want)
	}
	all, pieces := make([]GroupCost, 8), make([]GroupCost, 8)
	send(all, 0, 9000)
	for from, step := 0, 1; from < 9000; from, step = from+step, step*3 {
		send(pieces, from, min(step, 9000-from))
	}
	for i := range all {
		if a, b := &all[i].Prompt, &pieces[i].Prompt; a.Tokens != b.Tokens || a.Bytes != b.Bytes || a.bursts != b.bursts || a.clocks > b.clocks || a.Tokens == 0 {
			t.Errorf("rankset %d gets %+v at once, %+v in pieces", i, a, b)
		}
	}
}

// TestStripedPredictionByHand: predictions count the drain of a rankset's first part; those of others hide behind further parts.
func TestStripedPredictionByHand(t *testing.T) {
	n := benchOf(t, "run.model=llama-2-7b", "comm.stripe=ranksets", "node.ranksets=4")
	d := devicesOf(n)
	perChannel := int64(32 / n.hw.Config.ReplicaChannels())
	var sub scheduler.SubBatch
	clocks := make([]int64, 4)
	add := func(lane int, head, drain int64) {
		if clocks[lane] == 0 {
			clocks[lane] = drain
		}
		clocks[lane] += perChannel * head
	}
	for i := range 3 {
		request := scheduler.Decoding{Request: int32(i), Base: 1200, Prompt: 1}
		sub.Decode = append(sub.Decode, request)
		// parts of 512 tokens on successive ranksets; the third stores the step's token, the 1,201st
		first, newest := int(Scattered(int32(i))%4), request.Context(0)-1024
		for part := range 2 {
			add((first+part)%4, d.Stored.At(512), d.Stored.Table.Drain(512))
		}
		add((first+2)%4, d.Sequence.At(newest), d.Sequence.Table.Drain(newest))
		busiest, attend, _ := d.predict(&sub, d.Attends.Decode(sub.Decode, 0, 0))
		if want := slices.Max(clocks); busiest != want || attend != 3*(i+1) || d.Stored.Table.Drain(512) == 0 {
			t.Errorf("%d requests take %d clocks in %d parts, by hand %d", i+1, busiest, attend, want)
		}
	}
}
