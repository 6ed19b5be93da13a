package claims

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// ids are the claims that the evaluation promises, in order.
const ids = `fig8.max_over_hbm_pim fig8.max_over_gpu_only fig8.max_over_rank_pim fig8.max_batch_ratio fig8.opt66b_dolphin_hbm_below_gpu fig8.highest
fig9.capacity_only fig9.ranksets_only fig9.both fig10.scheduling fig10.overlap fig11.low fig11.high fig11.fewest
text.prefill_transfer_share text.compute_kept text.rank_pu_ratio text.bank_pu_ratio text.rank_pu_of_gpus text.cpu_transposition
text.gpt175b_requests_80gib text.llama7b_requests_80gb text.prompt_cuts text.mha_share_16k`

// claims returns those of a target.
func claims(t *testing.T, target Target) []*claim {
	t.Helper()
	all, err := claimsOf(target)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestClaims(t *testing.T) {
	var got []string
	for _, c := range claims(t, AllTargets) {
		got = append(got, c.ID)
		if c.Says == "" || c.Paper <= 0 || c.find == nil {
			t.Errorf("%s is not complete", c.ID)
		}
		if !slices.Contains([]kind{exactly, atLeast, atMost, rangeEnd}, c.Kind) {
			t.Errorf("%s: kind %q", c.ID, c.Kind)
		}
		if (c.Readings[0].Name == "") != (len(c.Readings) == 1) {
			t.Errorf("%s is judged as %q beside %d other readings", c.ID, c.Readings[0].Name, len(c.Readings)-1)
		}
		names := map[string]bool{}
		for n, r := range c.Readings {
			if names[r.Name] || n > 0 && r.Name == "" {
				t.Errorf("%s: the reading %q is there twice or has no name", c.ID, r.Name)
			}
			names[r.Name] = true
		}
		if (c.Kind == rangeEnd) != (c.Range != "") {
			t.Errorf("%s: kind %q with range %q", c.ID, c.Kind, c.Range)
		}
	}
	if want := strings.Fields(ids); !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// TestClaimsOfTargets: every claim belongs to one figure's target or to none, and to the targets
// all and claims.
func TestClaimsOfTargets(t *testing.T) {
	counts := map[string]int{}
	for _, target := range []Target{Fig2, Fig8, Fig9, Fig10, Fig11} {
		for _, c := range claims(t, target) {
			counts[c.ID]++
		}
	}
	for _, c := range claims(t, AllTargets) {
		want := 1
		if strings.HasPrefix(c.ID, "text.") && c.ID != "text.mha_share_16k" {
			want = 0
		}
		if counts[c.ID] != want {
			t.Errorf("%s belongs to %d figures, want %d", c.ID, counts[c.ID], want)
		}
	}
	e, err := readEvaluation()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(e.Claim); len(claims(t, AllTargets)) != n || len(claims(t, ClaimsOnly)) != n || len(claims(t, Sensitivity)) != 0 {
		t.Error("all and claims judge every claim, sensitivity none")
	}
}

// TestVerdict tries both sides of every rule's limit.
func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		kind        kind
		paper, ours float64
		ratio       bool
		want        string
	}{
		{exactly, 2, 2, true, reproduced},
		{exactly, 2, 2.299, true, reproduced},
		{exactly, 2, 1.701, true, reproduced},
		{exactly, 2, 2.31, true, direction},
		{exactly, 2, 1.69, true, direction},
		{exactly, 2, 3, true, direction},
		{exactly, 2, 3.01, true, sameSide},
		{exactly, 2, 1.33, true, sameSide},
		{exactly, 30, 7.57, true, sameSide},
		{exactly, 0.9, 0.59, true, sameSide},
		{exactly, 2, 1, true, notReproduced},
		{exactly, 2, 0.9, true, notReproduced},
		{exactly, 0.5, 0.7, true, direction},
		{exactly, 0.5, 1.1, true, notReproduced},
		{exactly, 0.75, 0.5, false, notReproduced}, // a share has no side of 1
		{atLeast, 30, 30.1, true, reproduced},
		{atLeast, 30, 1000, true, reproduced},
		{atLeast, 30, 30, true, direction},
		{atLeast, 30, 0.9, true, notReproduced},
		{atLeast, 0.6, 0.59, false, notReproduced},
		{atMost, 0.16, 0.1599, false, reproduced},
		{atMost, 0.16, 0.16, false, notReproduced},
		{atMost, 1, 0.999, false, reproduced}, // an ordering
		{atMost, 1, 1, false, notReproduced},
	} {
		all := []judgement{{Outcome: Outcome{Number: &Number{Ours: c.ours}}, claim: &claim{Paper: c.paper, Kind: c.kind, Ratio: c.ratio}}}
		if got := verdict(all, 0, judged); got != c.want {
			t.Errorf("%s of %v, ours %v: %s, want %s", c.kind, c.paper, c.ours, got, c.want)
		}
	}
}

// judged is the Outcome that judges a claim.
func judged(j *judgement) *Outcome { return &j.Outcome }

// TestVerdictOfRange: one end of a range is reproduced only together with the other; claims outside
// the range do not matter.
func TestVerdictOfRange(t *testing.T) {
	for _, c := range []struct {
		low, high         float64
		wantLow, wantHigh string
	}{
		{0.3, 0.5, reproduced, reproduced},
		{0.3, 0.7, direction, direction},
		{0.4, 0.5, direction, direction},
		{0.3, 1.2, direction, notReproduced},
		{1.1, 1.2, notReproduced, notReproduced},
	} {
		end := func(paper float64) *claim { return &claim{Paper: paper, Kind: rangeEnd, Range: "r", Ratio: true} }
		all := []judgement{
			{Outcome: Outcome{Number: &Number{Ours: c.low}}, claim: end(0.29)}, {Outcome: Outcome{Number: &Number{Ours: 0.1}}, claim: &claim{Paper: 2, Kind: exactly, Ratio: true}},
			{Outcome: Outcome{Number: &Number{Ours: c.high}}, claim: end(0.53)},
		}
		if low, high := verdict(all, 0, judged), verdict(all, 2, judged); low != c.wantLow || high != c.wantHigh {
			t.Errorf("%v to %v: %s and %s, want %s and %s", c.low, c.high, low, high, c.wantLow, c.wantHigh)
		}
	}
}

// TestJudgeSeeds: our number is the mean over the seeds, low and high are their range, the reason
// is the first seed's.
func TestJudgeSeeds(t *testing.T) {
	c := &claim{ID: "x", Paper: 3, Kind: exactly, Ratio: true, Readings: []reading{{}}, find: func(_ *evidence, seed uint64, _ *reading) (finding, error) {
		return finding{value: float64(seed), reason: fmt.Sprintf("seed %d", seed)}, nil
	}}
	got, err := judge([]*claim{c}, &evidence{seeds: []uint64{2, 6, 1}})
	if err != nil {
		t.Fatal(err)
	}
	if j := got[0]; j.Ours != 3 || j.Low != 1 || j.High != 6 || j.Reason != "seed 2" || j.Verdict != reproduced {
		t.Errorf("%+v", j)
	}
	c.find = func(*evidence, uint64, *reading) (finding, error) { return finding{}, fmt.Errorf("no points") }
	if _, err := judge([]*claim{c}, &evidence{seeds: []uint64{1}}); err == nil || err.Error() != "x: no points" {
		t.Errorf("error %v", err)
	}
}

// TestReadings: a claim is judged by its own reading; the others are listed with their own numbers
// and verdicts; ends of a range are compared under the same reading.
func TestReadings(t *testing.T) {
	end := func(paper, own, other float64) *claim {
		return &claim{Paper: paper, Kind: rangeEnd, Range: "r", Ratio: true, Readings: []reading{{Name: "own"}, {Name: "other"}},
			find: func(_ *evidence, _ uint64, r *reading) (finding, error) {
				return finding{value: map[string]float64{"own": own, "other": other}[r.Name], reason: "planted"}, nil
			}}
	}
	claims := []*claim{end(0.3, 0.3, 0.3), end(0.5, 0.5, 0.9)}
	got, err := judge(claims, &evidence{seeds: []uint64{1}, readings: true})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][3]string{{"own", reproduced, direction}, {"own", reproduced, sameSide}} {
		if j := got[i]; len(j.Others) != 1 || [3]string{j.Reading, j.Verdict, j.Others[0].Verdict} != want || j.Others[0].Reading != "other" {
			t.Errorf("%d: %+v", i, j)
		}
	}
	if got[1].Others[0].Ours != 0.9 || got[1].Ours != 0.5 {
		t.Errorf("%+v", got[1])
	}
	// Evidence without readings names none.
	if got, err = judge(claims, &evidence{seeds: []uint64{1}}); err != nil || got[0].Reading != "" || got[0].Others != nil {
		t.Errorf("%v, %+v", err, got[0])
	}
}

// TestEdge: a verdict is on the edge if it changes within the seeds' range; for one seed, within the usual spread
// at so many requests; for times of kernels, within the model's error.
func TestEdge(t *testing.T) {
	for _, c := range []struct {
		values   []float64 // by seed
		requests int
		drawn    bool
		want     string
	}{
		{[]float64{5.7, 5.8, 5.6}, 1000, true, "reproduced, on the edge"}, // of 5: up to 5.75
		{[]float64{5.6, 5.7, 5.6}, 1000, true, "reproduced"},
		{[]float64{5.9, 5.7, 5.9}, 1000, true, "direction, on the edge"},
		{[]float64{5.65}, 1000, true, "reproduced, on the edge"}, // 2%: 5.76
		{[]float64{5.6}, 1000, true, "reproduced"},
		{[]float64{5.6}, 250, true, "reproduced, on the edge"},   // 4%: 5.82
		{[]float64{5.63}, 250, false, "reproduced"},              // 2%, whatever the requests: 5.743
		{[]float64{5.64}, 250, false, "reproduced, on the edge"}, // 5.753
		{[]float64{5.64, 5.64}, 250, false, "reproduced, on the edge"},
		{[]float64{6.1}, 10, true, "direction, on the edge"},
		{[]float64{1.01}, 1000, true, "same side, on the edge"}, // near 1, below which another system wins
	} {
		var seeds []uint64
		for n := range c.values {
			seeds = append(seeds, uint64(n))
		}
		one := &claim{ID: "x", Paper: 5, Kind: exactly, Ratio: true, Readings: []reading{{}}, find: func(_ *evidence, seed uint64, _ *reading) (finding, error) {
			return finding{value: c.values[seed], drawn: c.drawn, timed: !c.drawn}, nil
		}}
		got, err := judge([]*claim{one}, &evidence{seeds: seeds, requests: c.requests})
		if err != nil || got[0].judged() != c.want {
			t.Errorf("%v with %d requests: %s, want %s, %v", c.values, c.requests, got[0].judged(), c.want, err)
		}
	}
}
