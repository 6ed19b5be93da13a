package figure

import (
	"bytes"
	"encoding/binary"
	"encoding/xml"
	"hash/crc32"
	"image/png"
	"testing"

	"github.com/l3sim/l3sim/results/tables"
)

// TestSourceOf: the hash of one configuration is named; the hash of several ignores order and repetition; a table without hashes names only
// the program.
func TestSourceOf(t *testing.T) {
	of := func(hashes ...any) string {
		x := &tables.Table{Columns: []string{"a", tables.ConfigColumn}}
		for _, h := range hashes {
			x.Add(1, h)
		}
		return SourceOf(x, "l3sim v1")
	}
	// printf 'ab\ncd\n' | sha256sum
	const both = "l3sim v1, 2 configurations sha256:5141648ccbe924f6462cfc7085ccd21779b89d8cee1438281bf1b4cd8d63ac2a"
	for want, got := range map[string]string{
		both:                                of("cd", "ab", "cd", nil),
		"l3sim v1, configuration sha256:ab": of("ab", "ab", nil), "l3sim v1": of(), "l3sim v2": SourceOf(&tables.Table{Columns: []string{"a"}}, "l3sim v2"),
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestSourceInFiles: each format keeps the source where readers of the format find it, and the figure does not change.
func TestSourceInFiles(t *testing.T) {
	const source = "l3sim v1 <a & b>, configuration sha256:ab"
	table := &tables.Table{Columns: []string{"x", "y"}}
	table.Add(1, 2)
	table.Add(2, 3)
	draw := func(format, source string) []byte {
		d, err := Select(table, Selection{Kind: "line", X: "x", Y: "y"})
		if err != nil {
			t.Fatal(err)
		}
		d.Source = source
		var b bytes.Buffer
		if err := d.Write(&b, format, "title"); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	with, without := draw("png", source), draw("png", "")
	if _, err := png.Decode(bytes.NewReader(with)); err != nil {
		t.Error(err)
	}
	chunk := with[33:] // after the signature and IHDR
	n := binary.BigEndian.Uint32(chunk)
	if text := chunk[4 : 8+n]; string(text) != "tEXtSource\x00"+source || binary.BigEndian.Uint32(chunk[8+n:]) != crc32.ChecksumIEEE(text) {
		t.Errorf("png has %q", text)
	}
	if string(with[:33])+string(chunk[12+n:]) != string(without) {
		t.Error("png has another picture")
	}

	with, without = draw("svg", source), draw("svg", "")
	var said struct {
		Desc string `xml:"desc"`
	}
	if err := xml.Unmarshal(with, &said); err != nil || said.Desc != source {
		t.Errorf("svg has %q, %v", said.Desc, err)
	}
	if bytes.Contains(without, []byte("<desc>")) || len(with) <= len(without) {
		t.Error("svg without a source has one")
	}

	with, without = draw("pdf", source), draw("pdf", "")
	if !bytes.HasPrefix(with, without) || string(with[len(without):]) != "%"+source+"\n" {
		t.Error("pdf does not end with its source")
	}
	if x := bytes.LastIndex(with, []byte("startxref")); x < 0 || len(with)-x > 1024 {
		t.Error("readers look for startxref in the last 1,024 bytes")
	}
}
