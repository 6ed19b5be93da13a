package figure

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/l3sim/l3sim/results/tables"
)

// SourceOf returns the source of a table's numbers: the program, and the configurations by the hashes that run and sweep report
// (config_sha256). With one configuration it is its hash, with several a hash of the sorted hashes.
func SourceOf(t *tables.Table, program string) string {
	column := slices.Index(t.Columns, tables.ConfigColumn)
	if column < 0 {
		return program
	}
	var hashes []string
	for _, row := range t.Rows {
		if s := row[column].String(); s != "" && !slices.Contains(hashes, s) {
			hashes = append(hashes, s)
		}
	}
	switch slices.Sort(hashes); len(hashes) {
	case 0:
		return program
	case 1:
		return fmt.Sprintf("%s, configuration sha256:%s", program, hashes[0])
	}
	all := sha256.New()
	for _, s := range hashes {
		fmt.Fprintln(all, s)
	}
	return fmt.Sprintf("%s, %d configurations sha256:%s", program, len(hashes), hex.EncodeToString(all.Sum(nil)))
}

// withSource returns a figure's file with its source: in a PNG the text "Source" (chunk tEXt), in an SVG the description, in a PDF a
// comment at the end, as the library cannot set document properties.
func withSource(format string, file []byte, source string) []byte {
	if source == "" {
		return file
	}
	switch format {
	case "svg":
		at := bytes.Index(file, []byte("<svg"))
		end := at + 1 + bytes.IndexByte(file[at:], '>')
		var text bytes.Buffer
		xml.EscapeText(&text, []byte(source)) // a buffer accepts all writes
		return slices.Concat(file[:end], []byte("\n<desc>"), text.Bytes(), []byte("</desc>"), file[end:])
	case "pdf":
		return append(file, "%"+source+"\n"...)
	}
	const headed = 8 + 4 + 4 + 13 + 4 // the signature and the chunk IHDR, which is first
	text := []byte("tEXtSource\x00" + source)
	chunk := binary.BigEndian.AppendUint32(nil, uint32(len(text)-4))
	chunk = binary.BigEndian.AppendUint32(append(chunk, text...), crc32.ChecksumIEEE(text))
	return slices.Concat(file[:headed], chunk, file[headed:])
}
