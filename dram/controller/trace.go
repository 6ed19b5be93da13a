package controller

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/internal/lines"
	"github.com/l3sim/l3sim/input"
)

// maxRequests bounds the requests of a trace, which are kept in memory: 32 bytes each, and 8 for the latency of a read, 0.6 GiB in all.
const maxRequests = 1 << 24

// ReadTrace reads a request trace, plain or gzip, of one of three formats, told apart by the first line:
//
//	0x1f40 READ 200     DRAMsim3: address, READ or WRITE, clock; also WRITE_PARTIAL, see Request
//	LD 0x1f40           Ramulator: LD or ST and the address; no clocks, all at clock 0
//	200: (32) read 0x40 DRAMSys: clock, size in bytes or nothing, read or write, hexadecimal address; data after it are ignored
//
// Addresses are hexadecimal with 0x. Others are decimal, except in DRAMSys. Empty lines and lines that begin with # are skipped. file names
// r in errors, which are of type *input.Error. A clock that is negative or goes backwards is an error, and so is a request beyond
// maxRequests.
func ReadTrace(file string, r io.Reader) ([]Request, error) {
	return readTrace(file, r, maxRequests)
}

// readTrace reads a trace of at most maxRequests. The first line determines the format.
func readTrace(file string, r io.Reader, maxRequests int) ([]Request, error) {
	reader, err := lines.NewReader(file, r)
	if err != nil {
		return nil, err
	}
	var full [][]Request // blocks: a list that grew would be copied and collected again and again
	block := make([]Request, 0, traceBlock)
	var parse func([]byte) (Request, error)
	last := int64(0)
	for {
		text, err := reader.Next()
		if err == io.EOF {
			return slices.Concat(append(full, block)...), nil
		}
		if err != nil {
			return nil, err
		}
		if len(text) == 0 || text[0] == '#' {
			continue
		}
		read := len(full)*traceBlock + len(block)
		if read == maxRequests {
			return nil, reader.At(&input.Error{Expected: fmt.Sprintf("at most %d requests: replay the trace in parts", maxRequests)})
		}
		if parse == nil {
			parse = parserOf(text)
		}
		q, bad := parse(text)
		if bad == nil && q.Clock < last {
			bad = &input.Error{Key: "clock", Value: strconv.FormatInt(q.Clock, 10),
				Expected: fmt.Sprintf("at least %d, the clock of the request before", last)}
		}
		if bad != nil && read == 0 { // which format may be meant?
			bad = input.Edit(bad, func(e *input.Error) {
				e.Expected += `, in a line such as "0x1f40 READ 200" (DRAMsim3's form: address, kind, clock) or "LD 0x1f40" (Ramulator's)`
			})
		}
		if bad != nil {
			return nil, reader.At(bad)
		}
		last = q.Clock
		if len(block) == traceBlock {
			full, block = append(full, block), make([]Request, 0, traceBlock)
		}
		block = append(block, q)
	}
}

// traceBlock is how many requests of a trace are read into one block of memory: 2 MiB of them.
const traceBlock = 1 << 16

// forms are the formats of a line, for errors.
const forms = `"0xADDRESS READ|WRITE CLOCK" (DRAMsim3), "LD|ST ADDRESS" (Ramulator) or "CLOCK: [(BYTES)] read|write ADDRESS" (DRAMSys)`

// parserOf returns the parser of a trace whose first line is text.
func parserOf(text []byte) func([]byte) (Request, error) {
	word, _ := cutWord(text)
	switch {
	case string(word) == "LD" || string(word) == "ST":
		return parseRamulator
	case bytes.HasSuffix(word, []byte{':'}):
		return parseDRAMSys
	}
	return parseDRAMsim3
}

// cutWord returns the first word of text and the rest.
func cutWord(text []byte) (word, rest []byte) {
	i := bytes.IndexAny(text, " \t")
	if i < 0 {
		return text, nil
	}
	return text[:i], bytes.TrimSpace(text[i:])
}

// parseDRAMsim3 reads "0xADDRESS READ|WRITE CLOCK".
func parseDRAMsim3(text []byte) (Request, error) {
	var q Request
	address, rest := cutWord(text)
	kind, rest := cutWord(rest)
	clock, rest := cutWord(rest)
	if len(clock) == 0 || len(rest) > 0 {
		return q, &input.Error{Value: strconv.Quote(lines.Clip(string(text))),
			Expected: forms}
	}
	var bad error
	if q.Address, bad = parseAddress(address); bad != nil {
		return q, bad
	}
	switch string(kind) {
	case "READ":
	case "WRITE":
		q.Write = true
	case "WRITE_PARTIAL":
		q.Write, q.Partial = true, true
	default:
		return q, &input.Error{Value: strconv.Quote(lines.Clip(string(kind))), Expected: "READ or WRITE (or WRITE_PARTIAL)"}
	}
	q.Clock, bad = parseClock(clock)
	return q, bad
}

// parseClock reads the clock of a request.
func parseClock(text []byte) (int64, error) {
	clock, ok := lines.ParseInt(text)
	if !ok || clock < 0 || clock > dram.MaxClock {
		return 0, &input.Error{Key: "clock", Value: lines.Clip(string(text)), Expected: fmt.Sprintf("0 to %d", int64(dram.MaxClock))}
	}
	return clock, nil
}

// parseDRAMSys reads "CLOCK: [(BYTES)] read|write ADDRESS [DATA]".
func parseDRAMSys(text []byte) (Request, error) {
	var q Request
	clock, rest := cutWord(text)
	kind, rest := cutWord(rest)
	var size []byte
	if bytes.HasPrefix(kind, []byte{'('}) {
		size = kind
		kind, rest = cutWord(rest)
	}
	address, _ := cutWord(rest)
	if !bytes.HasSuffix(clock, []byte{':'}) || len(address) == 0 {
		return q, &input.Error{Value: strconv.Quote(lines.Clip(string(text))), Expected: `"CLOCK: [(BYTES)] read|write ADDRESS"`}
	}
	switch string(kind) {
	case "read":
	case "write":
		q.Write = true
	default:
		return q, &input.Error{Value: strconv.Quote(lines.Clip(string(kind))), Expected: "read or write"}
	}
	var bad error
	if q.Clock, bad = parseClock(clock[:len(clock)-1]); bad != nil {
		return q, bad
	}
	digits := bytes.TrimPrefix(bytes.TrimPrefix(address, []byte("0x")), []byte("0X"))
	if q.Address, bad = parseAddress(append([]byte("0x"), digits...)); bad != nil {
		return q, bad
	}
	if size != nil {
		q.Bytes, bad = parseSize(size, q.Address)
	}
	return q, bad
}

// parseSize reads the "(BYTES)" of a request, whose address must be a multiple of them.
func parseSize(text []byte, address uint64) (int32, error) {
	n, ok := lines.ParseInt(bytes.TrimSuffix(text[1:], []byte{')'}))
	if !ok || !bytes.HasSuffix(text, []byte{')'}) || n < 1 || n > maxRowBytes || n&(n-1) != 0 {
		return 0, &input.Error{Key: "bytes", Value: lines.Clip(string(text)), Expected: fmt.Sprintf("(BYTES), a power of two, 1 to %d", maxRowBytes)}
	}
	if address%uint64(n) != 0 {
		return 0, &input.Error{Key: "address", Value: fmt.Sprintf("%#x", address), Expected: fmt.Sprintf("a multiple of %d, the bytes of the request", n)}
	}
	return int32(n), nil
}

// maxRowBytes bounds the bytes of a row of any part: 2^16 columns of 1024 bits.
const maxRowBytes = 1 << 23

// parseRamulator reads "LD|ST ADDRESS".
func parseRamulator(text []byte) (Request, error) {
	var q Request
	kind, rest := cutWord(text)
	address, rest := cutWord(rest)
	if string(kind) != "LD" && string(kind) != "ST" || len(address) == 0 || len(rest) > 0 {
		return q, &input.Error{Value: strconv.Quote(lines.Clip(string(text))), Expected: `"LD|ST ADDRESS"`}
	}
	q.Write = string(kind) == "ST"
	var bad error
	q.Address, bad = parseAddress(address)
	return q, bad
}

// parseAddress reads a hexadecimal (0x) or decimal address.
func parseAddress(text []byte) (uint64, error) {
	digits, base := string(text), 10
	if strings.HasPrefix(digits, "0x") || strings.HasPrefix(digits, "0X") {
		digits, base = digits[2:], 16
	}
	v, err := strconv.ParseUint(digits, base, 64)
	if err != nil {
		return 0, &input.Error{Key: "address", Value: lines.Clip(string(text)), Expected: "0x and hexadecimal digits, or a decimal number, of 64 bits"}
	}
	return v, nil
}
