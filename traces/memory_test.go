package traces

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/l3sim/l3sim/internal/deep"
)

// weighed passes text on and samples the memory in use.
type weighed struct {
	r    io.Reader
	read int
	next int    // bytes until the next sample
	most uint64 // the most memory in use
}

func (w *weighed) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	w.read += n
	if w.next -= n; w.next <= 0 || err != nil {
		w.next = 4 << 20
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		w.most = max(w.most, m.HeapAlloc)
	}
	return n, err
}

// TestMemory reads 12 MB of text in each of several forms. Memory holds the requests of 72 bytes, their hashes of 8 bytes, and some text
// around the current position.
func TestMemory(t *testing.T) {
	deep.Heavy(t)
	repeat := func(text string, n int) string { return strings.TrimSuffix(strings.Repeat(text, n), ", ") }
	for name, c := range map[string]struct {
		first, text, last string
		held              int // bytes held for each text
	}{
		"requests":    {"arrived_at,num_prefill_tokens,num_decode_tokens\n", "1234567.890123456789,12345,12345\n", "", 72},
		"objects":     {"", `{"timestamp": 5, "input_length": 5, "output_length": 7, "text": "` + repeat("x", 99) + "\"}\n", "", 72},
		"token ids":   {"", fmt.Sprintf("{\"input_toks\": 5, \"output_toks\": 6, \"arrival_time_ns\": 7, \"input_tok_ids\": [%s]}\n", repeat("12345, ", 5000)), "", 72},
		"hashes":      {"", fmt.Sprintf("{\"timestamp\": 5, \"input_length\": 51200, \"output_length\": 7, \"hash_ids\": [%s]}\n", repeat("1234567890, ", 100)), "", 872},
		"other lists": {"{\"input_lens\": [5, 6], \"output_lens\": [7, 8], \"itls\": [1", ",[0.123456789,0.123456789]", "]}", 0},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "hashes" && name != "other lists" {
				deep.Only(t)
			}
			runtime.GC()
			var before runtime.MemStats
			runtime.ReadMemStats(&before)
			n := 12<<20/len(c.text) + 1
			w := &weighed{r: io.MultiReader(strings.NewReader(c.first), io.LimitReader(&cycle{text: c.text}, int64(n*len(c.text))), strings.NewReader(c.last))}
			trace, err := Options{SkipBad: true}.Read("f", w)
			if err != nil || len(trace.Requests) != n && c.held > 0 {
				t.Fatalf("%d texts: %v", n, err)
			}
			// Plus partly filled buffers and chunks.
			held, bound := int(w.most)-int(before.HeapAlloc), c.held*n+8<<20
			t.Logf("%d KiB of %d KiB in %d texts", held>>10, w.read>>10, n)
			if held > bound {
				t.Errorf("%d KiB held, want at most %d", held>>10, bound>>10)
			}
		})
	}
}

// TestMomentsWithoutRequests: the moments of a built-in trace equal those of its requests to the last bit, and take 8 bytes of memory a
// request.
func TestMomentsWithoutRequests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := SyntheticSpec{MaxTokens: rapid.IntRange(100_000, 200_000).Draw(t, "most"), Distribution: rapid.SampledFrom([]string{Auto, Gamma, LogNormal, Fixed}).Draw(t, "distribution")}
		if rapid.Bool().Draw(t, "prefixes") {
			spec.PrefixTokens, spec.Prefixes = rapid.IntRange(1, 3000).Draw(t, "tokens"), 2
		}
		name, n := rapid.SampledFrom([]string{"openr1", "longbench", "mooncake"}).Draw(t, "trace"), rapid.IntRange(1, 300).Draw(t, "requests")
		trace, err := Synthetic(name, n, 7, spec)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := SyntheticMoments(name, n, 7, spec); err != nil || got != trace.Moments() {
			t.Fatalf("%+v, %v; want %+v", got, err, trace.Moments())
		}
	})
	const n = 200_000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := SyntheticMoments("longbench", n, 1, SyntheticSpec{MaxTokens: 1 << 20, Distribution: Auto}); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if each := float64(after.TotalAlloc-before.TotalAlloc) / n; each > 10 {
		t.Errorf("%v bytes a request, at most 10: 10,000,000 are to fit 200 MB", each)
	}
	for _, c := range []struct {
		spec ArrivalSpec
		n    int
		want string
	}{
		{ArrivalSpec{Kind: ArrivalsAuto, Scale: 1}, 9, ""}, {ArrivalSpec{Kind: ArrivalsAuto, RatePerS: 1e-5, Scale: 1}, 50, ""},
		{ArrivalSpec{Kind: ArrivalsAuto, RatePerS: 1e-5, Scale: 1}, 500, "within 106 days"}, {ArrivalSpec{Kind: ArrivalsGamma, CV: 2, Scale: 1}, 9, "more than 0"},
		{ArrivalSpec{Kind: ArrivalsTrace, Scale: 1}, 9, "times of arrival"}, {ArrivalSpec{Kind: ArrivalsTrace, Scale: 1}, 1, ""},
	} {
		trace, err := Synthetic("longbench", c.n, 1, SyntheticSpec{MaxTokens: 1 << 20, Distribution: Auto})
		if err != nil {
			t.Fatal(err)
		}
		_, want := trace.Arrive(c.spec, 1)
		got := c.spec.CheckDrawn("longbench", c.n)
		if fmt.Sprint(got) != fmt.Sprint(want) || (got == nil) != (c.want == "") || got != nil && !strings.Contains(got.Error(), c.want) {
			t.Errorf("%+v of %d: %v, want %v", c.spec, c.n, got, want)
		}
	}
}
