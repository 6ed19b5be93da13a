package controller

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"testing"

	"github.com/l3sim/l3sim/dram"
	"github.com/l3sim/l3sim/dram/check"
)

// helper is the common part of testing.TB and rapid.T.
type helper interface {
	Helper()
	Fatal(...any)
}

const ddr43200 = "ddr4-3200-8gb-x8"

// part returns the named spec.
func part(tb helper, name string) *dram.Spec {
	tb.Helper()
	s, err := dram.LookupSpec(name)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// checkRecords returns the violations of records.
func checkRecords(spec *dram.Spec, ranks int, records []check.Record) []check.Violation {
	c := check.NewChecker(spec, ranks, false)
	for _, r := range records {
		c.Check(r)
	}
	return c.Violations()
}

// readLog returns the records of a command log.
func readLog(r io.Reader) ([]check.Record, error) {
	l, err := check.NewLogReader("log", r)
	if err != nil {
		return nil, err
	}
	var records []check.Record
	for {
		record, err := l.Next()
		if errors.Is(err, io.EOF) {
			return records, nil
		}
		if err != nil {
			return nil, err
		}
		records = append(records, record)
	}
}

// zipped returns compressed text.
func zipped(tb testing.TB, text string) []byte {
	tb.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		tb.Fatal(err)
	}
	if err := z.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}
