package system

import (
	"context"
	"reflect"
	"testing"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/traces"
)

// TestProfile checks a profile's laws: a full profile prefills every prompt token once; a smaller
// one has some of its batches, from the first to the last of the run, in the run's order.
func TestProfile(t *testing.T) {
	cfg, err := everything().Load(configs.Options{Sets: []string{"run.model=gpt-89b"}})
	if err != nil {
		t.Fatal(err)
	}
	node := mustNode(t, cfg)
	trace, err := traces.Synthetic("longbench", 40, 1, cfg.Traces)
	if err != nil {
		t.Fatal(err)
	}
	take := func(n int) *Profile {
		p, err := node.Profile(context.Background(), trace, n)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	all := take(1 << 20)
	if all.Batches != all.Candidates || all.Batches < 50 {
		t.Fatalf("%d of %d batches", all.Batches, all.Candidates)
	}
	prefilled, moved, decodes := 0, 0, 0
	for i := range all.Samples {
		m := &all.Samples[i]
		prefilled += m.PrefillTokens
		moved += m.PrefillMoved
		decodes += m.Decoding
		if m.FC <= 0 || (m.Decoding+m.PrefillMoved > 0) != (m.PIM > 0) {
			t.Errorf("sample %+v", m)
		}
		for _, c := range m.Chunks {
			if c.Time <= 0 {
				t.Errorf("a chunk of %d tokens takes %v", c.Tokens, c.Time)
			}
		}
	}
	if want := int(trace.Moments().InputTokens); prefilled != want || moved > want || decodes == 0 {
		t.Errorf("%d tokens prefilled, %d of them beside another sub-batch, %d decoded; want %d prefilled", prefilled, moved, decodes, want)
	}
	some := take(10)
	if some.Batches != 10 || some.Candidates != all.Candidates || len(some.Samples) < 10 || len(some.Samples) > 20 {
		t.Fatalf("%d of %d batches, %d samples", some.Batches, some.Candidates, len(some.Samples))
	}
	at := 0
	for i := range some.Samples {
		for at < len(all.Samples) && !reflect.DeepEqual(some.Samples[i], all.Samples[at]) {
			at++
		}
		if at == len(all.Samples) {
			t.Fatalf("sample %d is none of the whole profile after its predecessor", i)
		}
		if i == 0 && at != 0 {
			t.Errorf("the first sample is number %d of the run", at)
		}
	}
	if at < len(all.Samples)*8/10 {
		t.Errorf("the last of %d samples is number %d", len(all.Samples), at)
	}
}
