package claims

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/results/tables"
)

// outcomeOf returns an outcome with a number and its range.
func outcomeOf(verdict string, ours, low, high float64) Outcome {
	return Outcome{Number: &Number{Ours: ours, Low: low, High: high}, Verdict: verdict}
}

// handReport returns five claims: a value with a range and another reading, a lower and an upper bound (one on the edge), a statement, and a
// value that would also hold for 1.
func handReport(target Target) *Report {
	judged := func(c *claim, o Outcome) judgement {
		return judgement{ID: c.ID, Paper: c.Paper, Outcome: o, Reason: "reason of " + c.ID, claim: c}
	}
	all := []judgement{
		judged(&claim{ID: "a", Says: "says a", Paper: 2.5, Kind: exactly}, outcomeOf(notReproduced, 1.5, 1.25, 1.75)),
		judged(&claim{ID: "b", Says: "says b", Paper: 3, Kind: atLeast}, outcomeOf(reproduced, 4, 4, 4)),
		judged(&claim{ID: "c", Says: "says c", Paper: 5, Kind: atMost}, outcomeOf(direction, 6, 6, 6)),
		judged(&claim{ID: "d", Says: "says d", Kind: statement}, Outcome{Verdict: notJudged}),
		judged(&claim{ID: "e", Says: "says e", Paper: 1.1, Kind: exactly, Ratio: true}, outcomeOf(shapeOnly, 1.2, 1.2, 1.2)),
	}
	all[0].Why, all[0].Reading = "of a", "first way"
	all[0].Others = []Outcome{{Reading: "second way", Number: &Number{Ours: 7, Low: 6, High: 8}, Verdict: sameSide, Edge: true}}
	all[2].Edge = true
	return &Report{Target: target, Judgements: all, Seeds: []uint64{3}}
}

// TestClaimTexts: the table, the reasons and the counts of a terminal, and the numbers of claims.csv.
func TestClaimTexts(t *testing.T) {
	const reasons = "- `a`: reason of a\n  - judged as: first way\n  - why: of a\n  - second way: 7 (6 to 8), same side, on the edge\n" +
		"- `b`: reason of b\n- `c`: reason of c\n- `d`: reason of d\n- `e`: reason of e; 1, no difference at all, is within 15% of 1.1, too\n"
	const counts = "5 claims: 1 reproduced, 1 direction, 0 same side, 1 not reproduced, 0 contradicts arithmetic, 1 shape only, 1 not judged.\n\n"
	const claims = `claim paper ours verdict
a 2.5 1.5 (1.25 to 1.75) not reproduced
b > 3 4 reproduced
c < 5 6 direction, on the edge
d - - not judged
e 1.1 1.2 shape only

`
	spaced := func(text string) string {
		lines := strings.Split(text, "\n")
		for i, line := range lines {
			if !strings.HasPrefix(line, "  - ") {
				lines[i] = strings.Join(strings.Fields(line), " ")
			}
		}
		return strings.Join(lines, "\n")
	}
	write := func(r *Report) string {
		t.Helper()
		var text strings.Builder
		if err := r.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		return spaced(text.String())
	}
	if got := write(handReport(ClaimsOnly)); got != claims+reasons {
		t.Errorf("claims: got\n%s\nwant\n%s", got, claims+reasons)
	}
	if got := write(handReport(Sparse)); got != claims+counts+reasons {
		t.Errorf("sparse: got\n%s\nwant\n%s", got, claims+counts+reasons)
	}
	// The fair comparison judges nothing, and shows two of its tables. With fewer than 1,000 requests it says what
	// that means.
	table := func(cell string) *tables.Table {
		x := &tables.Table{Columns: []string{"system"}}
		x.Add(cell)
		return x
	}
	r := handReport(Fair)
	r.sections = []section{{answerTitle, "the answer.", table("x")}, {shortTitle, "", table("y")}, {bestTitle, "long", table("z")}}
	rest := "\n" + answerTitle + ": the answer.\n\nsystem\nx\n\n" + bestTitle + "\n\nsystem\nz\n"
	unjudged := strings.NewReplacer(" verdict", "", " not reproduced", "", " reproduced", "", " direction, on the edge", "", " not judged", "", " shape only", "").Replace(claims)
	for requests, more := range map[int]string{1000: "", 999: "\n999 requests of each trace: the end of a run, where large batches drain, counts much; --requests 1000 shows less of it.\n"} {
		r.Requests = requests
		if got := write(r); got != unjudged+reasons+rest+more {
			t.Errorf("fair: got\n%s\nwant\n%s", got, unjudged+reasons+rest+more)
		}
	}
	var text strings.Builder
	if err := handReport(Fair).claimNumbers().WriteCSV(&text); err != nil {
		t.Fatal(err)
	}
	want := "claim,paper,ours,ours_low,ours_high,verdict,on_the_edge,reading,reason\na,2.5,1.5,1.25,1.75,not reproduced,false,first way,reason of a\n" +
		"b,3,4,4,4,reproduced,false,,reason of b\nc,5,6,6,6,direction,true,,reason of c\nd,0,,,,not judged,false,,reason of d\ne,1.1,1.2,1.2,1.2,shape only,false,,reason of e\n"
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", text.String(), want)
	}
}

// TestClaimsOnPage: a table with the reasons of misses, or lists by verdict; claims of one family share a line.
func TestClaimsOnPage(t *testing.T) {
	write := func(r *Report) string {
		t.Helper()
		var text strings.Builder
		if err := r.writeClaims(&text); err != nil {
			t.Fatal(err)
		}
		// Columns without widths and alignment.
		return regexp.MustCompile(`-+:? \|`).ReplaceAllString(regexp.MustCompile(` +`).ReplaceAllString(text.String(), " "), "--- |")
	}
	want := "| claim | what is claimed | paper | ours | verdict |\n| --- | --- | --- | --- | --- |\n| `a` | says a | 2.5 | 1.5 (1.25 to 1.75) | not reproduced |\n| `b` | says b | > 3 | 4 | reproduced |\n" +
		"| `c` | says c | < 5 | 6 | direction, on the edge |\n| `e` | says e | 1.1 | 1.2 | shape only |\n\n- `a`: of a\n\nWithout a number here, for reasons in `evaluation.json`: `d`.\n"
	if got := write(handReport(AllTargets)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	want = "### Claims: reproduced\n\n| claim | the paper says | ours |\n| --- | --- | --- |\n| `b` | says b | 4 |\n\n### Claims: shape only\n\n| claim | the paper says | ours |\n| --- | --- | --- |\n| `e` | says e | 1.2 |\n\n" +
		"### Claims: missed\n\n- `a`: says a. Ours 1.5 (1.25 to 1.75), not reproduced: of a.\n- `c`: says c. Ours 6, direction, on the edge.\n\nWithout a number here, for reasons in `sparse.json`: `d`.\n"
	if got := write(handReport(Sparse)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	family := &claim{ID: "f.{context}", Says: "{paper} at {context} tokens", Contexts: []int{1024, 2000, 4096}}
	r := handReport(Sparse)
	for i, verdict := range []string{reproduced, reproduced, sameSide} {
		c := &claim{ID: fmt.Sprint("f.", i), Paper: float64(i + 1), Kind: exactly, family: family}
		r.Judgements = append(r.Judgements, judgement{ID: c.ID, Paper: c.Paper, Outcome: outcomeOf(verdict, float64(i)+0.5, float64(i)+0.5, float64(i)+0.5), claim: c})
	}
	lines := r.pageLines()
	if got, want := lines[len(lines)-1], (pageLine{name: "`f.0` to `2`", says: "1 to 3 at 1K to 4K tokens", paper: "1 to 3", ours: "0.5 to 2.5", verdict: "2 of 3 reproduced", missed: true}); got != want || len(lines) != 5 {
		t.Errorf("%d lines, the last %+v, want %+v", len(lines), got, want)
	}
	for verdict, missed := range map[string]bool{reproduced: false, direction: true, sameSide: true, notReproduced: true, contradicted: true, shapeOnly: false, notJudged: false} {
		r.Judgements[1].Verdict = verdict
		if got := r.pageLines()[1].missed; got != missed {
			t.Errorf("%s is missed: %v", verdict, got)
		}
	}
}

// TestEffectsByHand: one change alters a verdict and moves another number, the other moves nothing by more than
// 1%.
func TestEffectsByHand(t *testing.T) {
	var claims []*claim
	for i, paper := range []float64{2, 3, 4, 5, 6} {
		claims = append(claims, &claim{ID: fmt.Sprint("c", i), Paper: paper, Kind: exactly})
	}
	r := &Report{Target: Sensitivity, Sensitivity: []effect{
		{"paper", 2, 3, 4, 5, 8}, {"little", 2.01, 2.99, 4.004, 5.04, 8.04}, {"much", 2.2, 1.5, 4, 5, 6}, {"some", 2.1, 3, 4, 5, 8},
	}}
	s := r.effects(claims)
	var text strings.Builder
	if err := s.table.WriteCSV(&text); err != nil {
		t.Fatal(err)
	}
	want := "one change,over hbm-pim,over gpu-only,over rank-pim,batch over hbm-pim,\"OPT-66B, Dolphin: hbm-pim over gpu-only\"\npaper,2.00,3.00,4.00,5.00,8.00\n" +
		"much,2.20 (+10%),**1.50 (-50%)**,4.00,5.00,**6.00 (-25%)**\nsome,2.10 (+5%),3.00,4.00,5.00,8.00\n"
	if strings.ReplaceAll(text.String(), "'", "") != want { // the quotes mark texts that look like numbers
		t.Errorf("got\n%s\nwant\n%s", text.String(), want)
	}
	for _, says := range []string{"these claims are reproduced: `c0`, `c1`, `c2`, `c3`. Bold", "No number moves by more than 1% with: little."} {
		if !strings.Contains(s.text, says) {
			t.Errorf("without %q: %s", says, s.text)
		}
	}
	if s.title != "Sensitivity" || !s.onPage() || s.file() != "sensitivity" {
		t.Errorf("%s, %v, %s", s.title, s.onPage(), s.file())
	}
	r.sections = []section{s}
	text.Reset()
	if err := r.WriteText(&text); err != nil || strings.Count(text.String(), "\n") < 4 || !strings.HasPrefix(text.String(), "one change") {
		t.Errorf("%v, %s", err, text.String())
	}
	text.Reset()
	if err := r.WriteJSON(&text); err != nil || !strings.HasPrefix(strings.Join(strings.Fields(text.String()), ""), `{"sensitivity":[{"assumption":"paper","max_over_hbm_pim":2,"max_over_gpu_only":3,"max_over_rank_pim":4,"max_batch_ratio":5,"opt66b_dolphin_hbm_over_gpu":8},`) {
		t.Errorf("%v, %s", err, text.String())
	}
	text.Reset()
	if err := (&Report{Target: Fig2}).WriteJSON(&text); err != nil || strings.Join(strings.Fields(text.String()), "") != `{"claims":[]}` {
		t.Errorf("%v, %s", err, text.String())
	}
}

// TestTargets: the names, their parts of the page and how many requests they have.
func TestTargets(t *testing.T) {
	if got := strings.Join(Targets(), " "); got != "all fig2 fig8 fig9 fig10 fig11 claims sensitivity fair sparse" {
		t.Errorf("got %s", got)
	}
	for _, name := range Targets() {
		part, requests := "evaluation", 1000
		switch name {
		case "sensitivity", "fair":
			part, requests = name, 200
		case "sparse":
			part = name
		}
		if got := Target(name); got.part() != part || got.DefaultRequests() != requests {
			t.Errorf("%s: part %s, %d requests", name, got.part(), got.DefaultRequests())
		}
	}
	r := &Report{Seeds: []uint64{4}}
	if r.seedText() != "seed 4" {
		t.Errorf("got %s", r.seedText())
	}
	r.Seeds = []uint64{4, 5, 6}
	if r.seedText() != "means and ranges over seeds 4 to 6, reasons and tables of the first" {
		t.Errorf("got %s", r.seedText())
	}
	page := "x<!-- begin fair -->\none\n<!-- end fair -->\n<!-- begin sparse -->\ntwo\n"
	for name, want := range map[string]string{"fair": "one\n", "sparse": "", "sensitivity": ""} {
		if got := oldPart(page, name); got != want {
			t.Errorf("the part %s is %q, want %q", name, got, want)
		}
	}
	for title, file := range map[string]string{answerTitle: "the_realistic_answer", "Output tokens/s, each 2nd": "output_tokens_s_each_2nd"} {
		s := section{title: title}
		if s.file() != file || s.onPage() != (title == answerTitle) {
			t.Errorf("%s: %s, on the page %v", title, s.file(), s.onPage())
		}
	}
	if figure := (&Figure{Name: "fig2a"}); figure.file() != "reproduction_fig2a" {
		t.Errorf("got %s", figure.file())
	}
}

// TestPlacements: a claim without a placement has its own outcome under all; with one, that of the first reading with it.
func TestPlacements(t *testing.T) {
	j := judgement{Outcome: Outcome{Verdict: "own"}, Others: []Outcome{{Verdict: "other"}, {Verdict: "even"}, {Verdict: "again"}}, claim: &claim{Readings: []reading{{}, {}, {}, {}}}}
	for i, c := range []struct {
		placements [4]string
		turn, even string
	}{
		{[4]string{}, "own", "own"}, {[4]string{inTurn, inTurn, evenly, evenly}, "own", "even"}, {[4]string{evenly, "", evenly, inTurn}, "again", "own"}, {[4]string{evenly, "", "", ""}, "", "own"},
	} {
		for n, p := range c.placements {
			j.claim.Readings[n].Placement = p
		}
		for placement, want := range map[string]string{inTurn: c.turn, evenly: c.even} {
			got := ""
			if o := j.under(placement); o != nil {
				got = o.Verdict
			}
			if got != want {
				t.Errorf("case %d, %s: %q, want %q", i, placement, got, want)
			}
		}
	}
	of := func(id, verdict string, ours float64, other string, otherOurs float64) judgement {
		return judgement{ID: id, Outcome: outcomeOf(verdict, ours, ours, ours), Others: []Outcome{outcomeOf(other, otherOurs, otherOurs, otherOurs)}, claim: &claim{Readings: []reading{{Placement: inTurn}, {Placement: evenly}}}}
	}
	r := &Report{Judgements: []judgement{of("a", reproduced, 1.25, notReproduced, 2.5), of("b", reproduced, 3, reproduced, 4), of("c", direction, 5, reproduced, 6), of("d", sameSide, 7, sameSide, 8)}}
	want := "With one placement of requests for all claims these come out: 2 of 4 with `comm.balance = \"round-robin\"`, 2 of 4 with `comm.balance = \"split\"`. They differ in `a` (1.25 and 2.5), `c` (5 and 6)."
	if got := r.placementNote(); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	r.Judgements = slices.Concat(r.Judgements[1:2], r.Judgements[3:])
	if got := r.placementNote(); !strings.HasSuffix(got, "these come out: 1 of 2 with `comm.balance = \"round-robin\"`, 1 of 2 with `comm.balance = \"split\"`.") {
		t.Errorf("got %s", got)
	}
	if got := handReport(AllTargets); (&Report{Judgements: got.Judgements[:0]}).placementNote() != "" {
		t.Error("a note without claims")
	}
}
