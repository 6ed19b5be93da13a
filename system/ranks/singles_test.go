package ranks

import (
	"testing"

	"github.com/l3sim/l3sim/attention/policy"
	"github.com/l3sim/l3sim/internal/deep"
	"github.com/l3sim/l3sim/units"
)

// indexed is a model of latents with an indexer, on eight channels.
var indexed = []string{"run.model=llama-3-8b", "model.layers=4", "model.heads=16", "model.kv_heads=1", "model.head_dim=576", "model.latent_dim=512", "model.nope_dim=128", "model.value_dim=128",
	"model.index_heads=32", "model.index_dim=128", "model.index_top_k=2048", "policy.name=dsa", "node.gpus=1", "node.channels=8"}

func indexedDevices(t *testing.T, sets ...string) *Devices {
	return devicesOf(benchOf(t, append(indexed[:len(indexed):len(indexed)], sets...)...))
}

// step returns a step of requests with these contexts in the first layer.
func (d *Devices) stepAt(contexts ...int) *policy.Step {
	d.Attends.Requests = d.Attends.Requests[:0]
	for _, n := range contexts {
		d.Attends.Requests = append(d.Attends.Requests, policy.Request{Prompt: n - 1, Context: n})
	}
	return d.Attends.Policy.Decode(d.Attends.Requests, 0)
}

// TestSinglesByHand: 2,048 of 100,000 tokens are in 1,762 of 6,250 chunks of 16 (1 - 0.97953^16 = 0.2817 of them) and in nearly all of 893
// rows of 112 (0.9013). These chunks are read and these rows opened; a context of 2,048 is read in order.
func TestSinglesByHand(t *testing.T) {
	deep.Heavy(t)
	d := indexedDevices(t)
	if d.Table.RowTokens() != 112 || d.Table.ChunkTokens() != 16 {
		t.Fatalf("rows of %d tokens, chunks of %d", d.Table.RowTokens(), d.Table.ChunkTokens())
	}
	for _, c := range []struct{ context, tokens, rows, last int }{
		{100_000, 16 * 1762, 806, 16}, {112*80 + 1, 16*552 + 1, 81, 1}, {2049, 2049, 19, 33}, {2048, 2048, 19, 32}, {100, 100, 1, 100},
	} {
		x := d.stepAt(c.context)
		tokens, rows, last := d.list(&x.Attend[0], 0, c.context)
		if tokens != c.tokens || rows != c.rows || last != c.last {
			t.Errorf("%+v: %d tokens in %d rows, %d in the last", c, tokens, rows, last)
		}
	}
	x := d.stepAt(100_000)
	tokens, rows, last := d.list(&x.Attend[0], 0, 100_000)
	clocks := d.headClocks(&x.Attend[0], 0)
	alone := clocks + d.drain(&x.Attend[0], 0)
	further := int64(rows - (tokens+111)/112)
	if want := d.Table.Scattered(tokens, rows); clocks < d.Table.InSequence(tokens)+want/2 || alone != d.Table.Alone(tokens)+want || want < further*d.Table.Scattered(112, 2)/4 {
		t.Errorf("%d and %d clocks, %d in order, %d for %d further rows, last %d", clocks, alone, d.Table.InSequence(tokens), want, further, last)
	}
	if all, some := d.Table.InSequence(100_000), clocks; some > all*45/100 {
		t.Errorf("%d clocks of %d", some, all)
	}
}

// TestFewerRowsAreNeverSlower: the more tokens are chosen, the longer a unit takes, up to all of them, which take as long as dense
// attention.
func TestFewerRowsAreNeverSlower(t *testing.T) {
	deep.Heavy(t)
	d := indexedDevices(t)
	for _, context := range []int{2500, 9000, 50_001, 200_000} {
		before := int64(0)
		for chosen := 16; ; chosen = min(context, chosen*9/8+1) {
			class := policy.Class{Heads: 1, Tokens: []int{chosen}, Paged: policy.Paged{Page: 1, Chosen: chosen}}
			d.Attends.Requests = []policy.Request{{Prompt: context - 1, Context: context}}
			clocks := d.headClocks(&class, 0)
			if clocks < before {
				t.Errorf("%d of %d tokens: %d clocks, fewer took %d", chosen, context, clocks, before)
			}
			if before = clocks; chosen == context {
				break
			}
		}
		if want := d.Sequence.At(context); before != want {
			t.Errorf("all %d tokens: %d clocks, in order %d", context, before, want)
		}
	}
}

// TestChoiceGoesDown: the indices of chosen tokens go to the rank of a request's latents, or to the parts of a striped one in proportion.
func TestChoiceGoesDown(t *testing.T) {
	deep.Heavy(t)
	for stripe, bursts := range map[string]int64{"none": 128, "channels": 16} { // of 8,192 B on the busiest channel
		d := indexedDevices(t, "comm.stripe="+stripe)
		x := d.stepAt(100_000, 2000)
		var moved vectors
		for request := range 2 {
			if d.Stripe.Parts == 0 {
				var g GroupCost
				d.place(&g, x, request, 0, 0)
				moved.add(&g.Vectors)
				continue
			}
			for part := range d.Stripe.Parts {
				var g GroupCost
				v, _ := d.placePart(&g, x, request, part, 0, 0)
				moved.add(&v)
			}
		}
		if moved.Down != 8192 || moved.bursts < bursts || moved.bursts > bursts+1 {
			t.Errorf("%s: %d bytes down, %d bursts on a channel, want 8192 and %d", stripe, moved.Down, moved.bursts, bursts)
		}
	}
	// Heads of two classes have a list each, on channels of their own.
	d := indexedDevices(t)
	x := d.stepAt(100_000, 2000)
	two := policy.Step{Attend: []policy.Class{x.Attend[0], x.Attend[0]}}
	var g GroupCost
	if d.place(&g, &two, 0, 0, 0); g.Vectors.Down != 2*8192 || g.Vectors.bursts < 128 || g.Vectors.bursts > 128+1 {
		t.Errorf("two classes: %d bytes down, %d bursts on a channel", g.Vectors.Down, g.Vectors.bursts)
	}
	h := &Homes{Attends: d.Attends, channels: 8, group: 16, verified: 3}
	h.Attends.Requests = []policy.Request{{Prompt: 1, Context: 5000}}
	if got := h.lists(&policy.Step{Attend: []policy.Class{{Heads: 1, Paged: policy.Paged{Page: 1, Chosen: 2048}}}}); got != units.Bytes(3*8192) {
		t.Errorf("three tokens choose %d bytes", got)
	}
}

// TestPartsOfChoices: each of eight parts takes as long as an eighth of the choice from an eighth of the context. Together they read
// about as much as one head, and open as many rows, each part rounded up to a row.
func TestPartsOfChoices(t *testing.T) {
	deep.Heavy(t)
	const context = 8 * 112 * 20
	d, whole := indexedDevices(t, "comm.stripe=channels", "model.index_top_k=80"), indexedDevices(t, "model.index_top_k=80")
	x := d.stepAt(context)
	read, rows, last := d.singles(80/8, context/8, context)
	for part := range 8 {
		clocks, drain, attends, fresh := d.partClocks(&x.Attend[0], 0, part)
		table := d.Stored.Table
		if fresh {
			table = d.Table
		}
		if !attends || fresh != (part == 7) || clocks != table.ListInSequence(read, rows, last) || clocks+drain != table.ListAlone(read, rows) {
			t.Errorf("part %d takes %d clocks and %d, with the newest token: %v", part, clocks, drain, fresh)
		}
	}
	d.TallyStep(x, 1)
	whole.TallyStep(whole.stepAt(context), 1)
	a, b := d.attended.chosen, whole.attended.chosen
	if r := a.UnitReads / b.UnitReads; r < 0.95 || r > 1.05 {
		t.Errorf("parts read %v, one head %v", a.UnitReads, b.UnitReads)
	}
	if r := a.Activates / b.Activates; r < 0.95 || r > 1.15 {
		t.Errorf("parts open %v, one head %v", a.Activates, b.Activates)
	}
}
