package traces

import (
	"bufio"
	"bytes"
	"compress/gzip"

	"github.com/klauspost/compress/zstd"
)

// The first bytes of packed files: RFC 1952 and RFC 8878.
var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// zstdWindow is the most memory in bytes that a frame may ask for: what the zstd program
// takes without --long.
const zstdWindow = 1 << 27

// unpacked is the text of a file.
type unpacked struct {
	*bufio.Reader
	close func()
}

// unzip returns the text of r: decompressed where it begins as a gzip or zstd file does,
// and without a byte-order mark.
func unzip(r *bufio.Reader) (*unpacked, error) {
	u := &unpacked{r, func() {}}
	magic, _ := r.Peek(4)
	switch {
	case bytes.HasPrefix(magic, gzipMagic):
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, err
		}
		u.Reader = bufio.NewReaderSize(z, 1<<16)
	case bytes.Equal(magic, zstdMagic):
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindow))
		if err != nil {
			return nil, err
		}
		u.Reader, u.close = bufio.NewReaderSize(z, 1<<16), z.Close
	}
	if mark, _ := u.Peek(3); string(mark) == "\ufeff" {
		if _, err := u.Discard(3); err != nil {
			return nil, err
		}
	}
	return u, nil
}
