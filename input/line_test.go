package input

import (
	"bufio"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/l3sim/l3sim/internal/deep"
)

// repeated is a stream of one byte, repeated a given number of times.
type repeated struct {
	of   byte
	left int
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), r.left)
	for i := range p[:n] {
		p[i] = r.of
	}
	r.left -= n
	return n, nil
}

// grown returns the bytes that do allocates in total.
func grown(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestReadLine(t *testing.T) {
	long := strings.Repeat("x", 5000)
	r := bufio.NewReaderSize(io.MultiReader(strings.NewReader("a\n\n"+long+"\n"), &repeated{'y', MaxLine - 1}, strings.NewReader("\n"),
		&repeated{'z', MaxLine}, strings.NewReader("\nend")), 16)
	for i, want := range []struct {
		begins string
		length int
		err    error
	}{{"a\n", 2, nil}, {"\n", 1, nil}, {long + "\n", 5001, nil}, {"yyy", MaxLine, nil}, {"zzz", MaxLine + 1, ErrLongLine}, {"end", 3, io.EOF}, {"", 0, io.EOF}} {
		line, err := ReadLine(r)
		if err != want.err || len(line) != want.length || !strings.HasPrefix(string(line), want.begins) {
			t.Errorf("line %d: %d bytes, %v", i+1, len(line), err)
		}
	}
}

// TestReadLineHoldsNoLongLine: at most MaxLine of an endless line is held, and its parts add up to the line.
func TestReadLineHoldsNoLongLine(t *testing.T) {
	deep.Heavy(t)
	const length = 100 << 20
	r := bufio.NewReader(io.MultiReader(&repeated{'x', length}, strings.NewReader("\nend")))
	for read := 0; read <= length; {
		line, err := ReadLine(r)
		if read += len(line); err != nil && err != ErrLongLine || len(line) > MaxLine+4096 || len(line) == 0 || read <= length == (err == nil) {
			t.Fatalf("%d bytes at %d, %v", len(line), read, err)
		}
	}
	if line, err := ReadLine(r); string(line) != "end" || err != io.EOF {
		t.Errorf("got %q, %v", line, err)
	}
}

func TestCSV(t *testing.T) {
	r := NewCSV("a.csv", strings.NewReader("x,y\n1,\"2\n3\"\n\n4,5\n6\n"))
	for i, want := range []struct {
		record string
		line   int
	}{{"x|y", 1}, {"1|2\n3", 2}, {"4|5", 5}} {
		record, err := r.Read()
		if err != nil || strings.Join(record, "|") != want.record || r.Line() != want.line {
			t.Errorf("record %d: %q on line %d, %v", i, record, r.Line(), err)
		}
	}
	if _, err := r.Read(); err == nil || err.Error() != "a.csv:6: wrong number of fields: 1, not 2" {
		t.Errorf("got %v", err)
	}
	if _, err := r.Read(); err != io.EOF {
		t.Errorf("got %v", err)
	}
}

// TestCSVBoundsRecords: endless lines and quoted fields are not held, and any number of shorter records is read.
func TestCSVBoundsRecords(t *testing.T) {
	deep.Heavy(t)
	lines := strings.Repeat(strings.Repeat("x", 99)+"\n", 1000)
	for _, c := range []struct {
		what string
		text io.Reader
		want string
	}{
		{"one line", io.MultiReader(strings.NewReader("x,y\n1,2\n"), &repeated{'x', 1 << 30}), "a.csv:3: longer than the 16 MiB that a line may have"},
		{"a quoted field", io.MultiReader(strings.NewReader("x\n\""), &repeated{'\n', 1 << 30}), "longer than the 16 MiB that a line may have"},
	} {
		used := grown(func() {
			r := NewCSV("a.csv", c.text)
			var err error
			for err == nil {
				_, err = r.Read()
			}
			if bad := new(Error); !errors.As(err, &bad) || bad.Line < 2 || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v", c.what, err)
			}
		})
		if used > 16*MaxLine {
			t.Errorf("%s: %d MiB for it", c.what, used>>20)
		}
	}
	all := make([]io.Reader, 2*MaxLine/len(lines))
	for i := range all {
		all[i] = strings.NewReader(lines)
	}
	r, n := NewCSV("a.csv", io.MultiReader(all...)), 0
	r.ReuseRecord = true
	for {
		if _, err := r.Read(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 1000*len(all) {
		t.Errorf("%d records", n)
	}
}
