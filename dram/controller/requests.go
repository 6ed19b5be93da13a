package controller

import (
	"fmt"
	"strconv"

	"github.com/l3sim/l3sim/input"
)

// DefaultRequestBytes is the default size of a request: the cache line of the processors that traces come from.
const DefaultRequestBytes = 64

// OneBurst, as RequestBytes of a Setup, makes a request without its own size the burst around its address, whatever a burst's size.
// DRAMsim3 and Ramulator interpret traces this way.
const OneBurst = -1

// Request is one access to consecutive bytes within a row, available to the controller from Clock on. The controller splits it into the
// bursts that cover it, and it ends with the last of them.
type Request struct {
	Clock   int64
	Address uint64
	Write   bool
	// Partial means that a write changes only a part of each of its bursts: with ECC, the burst is read first.
	Partial bool
	// Bytes is the size, a power of two that divides Address. 0: RequestBytes of the Setup.
	Bytes int32
	// shared is the number, from 1, of a request with bursts in several channels; 0 for any other.
	shared int32
}

// requestBytes returns the size of a request without its own.
func (s *Setup) requestBytes() uint64 {
	switch s.RequestBytes {
	case 0:
		return DefaultRequestBytes
	case OneBurst:
		return uint64(s.Spec.BurstBytes())
	}
	return uint64(s.RequestBytes)
}

// SetRequestBytes sets RequestBytes from a number or "burst". The part must be valid.
func (s *Setup) SetRequestBytes(text string) error {
	if err := s.made(); err != nil {
		return err
	}
	if text == "burst" {
		s.RequestBytes = OneBurst
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || !s.fits(int64(n)) {
		return &input.Error{Key: "request_bytes", Value: text, Expected: "burst, or " + s.sizesText()}
	}
	s.RequestBytes = n
	return nil
}

// checkRequestBytes has the rule of RequestBytes.
func (s *Setup) checkRequestBytes(c *input.Check) {
	n := s.RequestBytes
	c.That(n == 0 || n == OneBurst || s.fits(int64(n)), "request_bytes", n, "%s", s.sizesText())
}

// sizesText describes the sizes that a request may have.
func (s *Setup) sizesText() string {
	return fmt.Sprintf("a power of two, 1 to %d: a row of %s", s.Spec.RowBytes(), s.Spec.Name)
}

// fits reports whether a request may have n bytes.
func (s *Setup) fits(n int64) bool {
	return n > 0 && n&(n-1) == 0 && n <= int64(s.Spec.RowBytes())
}

// checkRequests returns the first fault in the sizes of requests. If neither the request nor the set-up gives a size, the address may be
// any byte of its line or burst; otherwise it must be a multiple of the size.
func (s *Setup) checkRequests(requests []Request) error {
	for i := range requests {
		r := &requests[i]
		if r.Bytes != 0 && !s.fits(int64(r.Bytes)) {
			return &input.Error{Key: fmt.Sprintf("request %d", i+1), Value: fmt.Sprintf("%d bytes", r.Bytes), Expected: s.sizesText()}
		}
		size, other := uint64(max(0, s.RequestBytes)), "; without a size it may be any byte of a line, with \"burst\" of a burst"
		if r.Bytes != 0 {
			size, other = uint64(r.Bytes), ""
		}
		if size != 0 && r.Address%size != 0 {
			return &input.Error{Key: fmt.Sprintf("request %d", i+1), Value: fmt.Sprintf("%#x", r.Address),
				Expected: fmt.Sprintf("a multiple of %d, the bytes of the request%s", size, other)}
		}
	}
	return nil
}
