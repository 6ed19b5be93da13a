package traces

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
)

// weighed passes on text and looks now and then at how much memory is in use.
type weighed struct {
	r    io.Reader
	read int
	next int    // bytes until it looks again
	most uint64 // in use at most
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

// TestMemory reads 12 MB of text in each of several forms: what is held are requests of
// 64 bytes and hashes of 8, and some text around the place that is read.
func TestMemory(t *testing.T) {
	repeat := func(text string, n int) string { return strings.TrimSuffix(strings.Repeat(text, n), ", ") }
	for name, c := range map[string]struct {
		first, text, last string
		held              int // bytes for each text
	}{
		"requests":    {"arrived_at,num_prefill_tokens,num_decode_tokens\n", "1234567.890123456789,12345,12345\n", "", 64},
		"objects":     {"", `{"timestamp": 5, "input_length": 5, "output_length": 7, "text": "` + repeat("x", 99) + "\"}\n", "", 64},
		"token ids":   {"", fmt.Sprintf("{\"input_toks\": 5, \"output_toks\": 6, \"arrival_time_ns\": 7, \"input_tok_ids\": [%s]}\n", repeat("12345, ", 5000)), "", 64},
		"hashes":      {"", fmt.Sprintf("{\"timestamp\": 5, \"input_length\": 51200, \"output_length\": 7, \"hash_ids\": [%s]}\n", repeat("1234567890, ", 100)), "", 864},
		"other lists": {"{\"input_lens\": [5, 6], \"output_lens\": [7, 8], \"itls\": [1", ",[0.123456789,0.123456789]", "]}", 0},
	} {
		t.Run(name, func(t *testing.T) {
			runtime.GC()
			var before runtime.MemStats
			runtime.ReadMemStats(&before)
			n := 12<<20/len(c.text) + 1
			w := &weighed{r: io.MultiReader(strings.NewReader(c.first), io.LimitReader(&cycle{text: c.text}, int64(n*len(c.text))), strings.NewReader(c.last))}
			trace, err := Options{SkipBad: true}.Read("f", w)
			if err != nil || len(trace.Requests) != n && c.held > 0 {
				t.Fatalf("%d texts: %v", n, err)
			}
			// Buffers and chunks that are not full.
			held, bound := int(w.most)-int(before.HeapAlloc), c.held*n+8<<20
			t.Logf("%d KiB of %d KiB in %d texts", held>>10, w.read>>10, n)
			if held > bound {
				t.Errorf("%d KiB held, want at most %d", held>>10, bound>>10)
			}
		})
	}
}
