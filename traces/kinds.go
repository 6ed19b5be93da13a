package traces

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// beginning is the number of bytes that reveal a file's kind: a tar archive has its mark at byte 257.
const beginning = 512

// kinds are unsupported kinds of files: their first bytes (at an offset), and how to convert such a file.
var kinds = []struct {
	at                   int
	magic, name, instead string
}{
	{0, "\xff\xfe\x00\x00", "text in UTF-32", "iconv -f UTF-32 -t UTF-8 FILE writes it so"}, {0, "\x00\x00\xfe\xff", "text in UTF-32", "iconv -f UTF-32 -t UTF-8 FILE writes it so"},
	{0, "\xff\xfe", "text in UTF-16", utf16}, {0, "\xfe\xff", "text in UTF-16", utf16},
	{0, "PK\x03\x04", "a zip archive or an Excel file", "unzip -p FILE writes what a zip archive holds"},
	{0, "BZh", "a file packed by bzip2", "bzip2 -dc FILE unpacks it"}, {0, "\xfd7zX", "a file packed by xz", "xz -dc FILE unpacks it"}, {0, "\x04\x22\x4d\x18", "a file packed by lz4", "lz4 -dc FILE unpacks it"},
	{0, string(gzipMagic), "a file packed twice by gzip", "gzip -dc FILE unpacks it once"}, {0, string(zstdMagic), "a file packed twice", "zstd -dc FILE or gzip -dc unpacks it once"},
	{257, "ustar", "a tar archive", "tar -xOf FILE writes what it holds"},
	{0, "ARRO", "an Arrow or Feather file", ""}, {0, "SQLi", "an SQLite database", ""}, {0, "ORC", "an ORC file", ""}, {0, "\x89HDF", "an HDF5 file", ""}, {0, "Obj\x01", "an Avro file", ""}, {0, "\x80\x04", "a Python pickle", ""},
	{0, "version https://git-lfs", "a pointer of Git LFS", "git lfs pull fetches the file"},
	{0, "<", "HTML or XML, such as the page of a failed download", ""},
}

const utf16 = "iconv -f UTF-16 -t UTF-8 FILE writes it so"

// otherKind returns the unsupported kind of a file by its first bytes, and what to do instead; "" for a possible trace.
func otherKind(first []byte) (name, instead string) {
	for _, k := range kinds {
		if len(first) > k.at && bytes.HasPrefix(first[k.at:], []byte(k.magic)) {
			return k.name, k.instead
		}
	}
	zero := func(at int) bool { return len(first) > at && first[at] == 0 }
	switch {
	case !zero(0) && zero(1) && !zero(2) && zero(3):
		return "text in UTF-16 without a mark", "iconv -f UTF-16LE -t UTF-8 FILE writes it so"
	case zero(0) && !zero(1) && zero(2) && !zero(3):
		return "text in UTF-16 without a mark", "iconv -f UTF-16BE -t UTF-8 FILE writes it so"
	case bytes.IndexByte(first, 0) > 0:
		return "no text", ""
	}
	return "", ""
}

// expectedTokensOfTexts is the expected text of errors for files that hold texts.
const expectedTokensOfTexts = "lengths in tokens, as CSV, JSON lines, Parquet or one object of vLLM's benchmark; " +
	"texts of conversations (ShareGPT) must be counted by the model's own tokeniser first"

// hasTexts reports whether a file without lengths holds the texts of requests.
func (s *sample) hasTexts() bool {
	texts := strings.Fields("conversation conversations messages prompt prompts response completion instruction")
	return s.findName(inputNames) == "" && s.findName(outputNames) == "" && slices.ContainsFunc(s.names, func(name string) bool { return slices.Contains(texts, plainName(name)) })
}

// oneLength describes the missing length of a file that has one of the two, "" for other files.
func (s *sample) oneLength() string {
	in, out := s.findName(inputNames), s.findName(outputNames)
	switch {
	case in != "" && out == "":
		return fmt.Sprintf("a column of output tokens beside %s, or its name: --columns input=%[1]s,output=NAME", in)
	case out != "" && in == "":
		return fmt.Sprintf("a column of prompt tokens beside %s, or its name: --columns input=NAME,output=%[1]s", out)
	}
	return ""
}
