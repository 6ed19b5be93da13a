package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"

	"github.com/l3sim/l3sim/input"
)

// file is a file that a section names, as ReadFiles read it. Copies of the section share it; it must not be changed.
type file[T any] struct {
	path  string // as the section names it
	sum   string // SHA-256 of the text, in hexadecimal
	holds T
}

// readFile reads the file of the given kind that a key names; "" names none. A faulty file is an *input.Error about the key.
func readFile[T any](key, path, kind string, parse func(name, text string) (T, error)) (*file[T], error) {
	if path == "" {
		return nil, nil
	}
	text, err := input.ReadFile(path)
	f := &file[T]{path: path}
	if err == nil {
		sum := sha256.Sum256(text)
		f.sum = hex.EncodeToString(sum[:])
		f.holds, err = parse(input.Name(path), string(text))
	}
	if err != nil {
		if said := new(input.Error); errors.As(err, &said) && said.Expected != "" {
			kind = "" // err has the details
		}
		return nil, &input.Error{Key: key, Value: strconv.Quote(path), Err: err, Expected: kind}
	}
	return f, nil
}

// ReadFiles reads the files that the section names under its policy's keys. Their contents then belong to the section: Costs and NewValues
// read no files. Errors are of type *input.Error.
func (s *Spec) ReadFiles() (err error) {
	own := *s
	if s.Heads() == nil { // Check refuses the key
		own.Gates = ""
	}
	if s.Dense() {
		own.Profile = ""
	}
	if s.gates, err = readFile("policy.gates", own.Gates, "a line of numbers for each layer", parseGates); err == nil {
		s.profile, err = readFile("policy.profile", own.Profile, "a profile of 'l3lab eval --profile'", s.List().ParseProfile)
	}
	return err
}

// Sums returns the SHA-256, in hexadecimal, of the files that ReadFiles has read: "" for none.
func (s *Spec) Sums() (gates, profile string) {
	if s.gates != nil {
		gates = s.gates.sum
	}
	if s.profile != nil {
		profile = s.profile.sum
	}
	return gates, profile
}

// Fits checks that the section's files match a model, and were read after the section named them. The error is an *input.Error.
func (s *Spec) Fits(shape Shape) error {
	if s.policy() == nil {
		return input.UnknownName("policy.name", s.Name, s.List().Names())
	}
	if err := s.gatesFit(shape); err != nil {
		return err
	}
	if !s.Dense() && s.Profile != "" {
		if s.profile == nil || s.profile.path != s.Profile {
			return unread("policy.profile", s.Profile)
		}
		return s.profile.holds.check(shape.Model, shape, s)
	}
	return nil
}

func (s *Spec) gatesFit(shape Shape) error {
	if s.Heads() == nil || s.Gates == "" {
		return nil
	}
	if s.gates == nil || s.gates.path != s.Gates {
		return unread("policy.gates", s.Gates)
	}
	return input.Edit(s.gates.holds.fit(shape), func(e *input.Error) {
		place := *e
		place.File = input.Name(s.Gates)
		*e = input.Error{Key: "policy.gates", Value: strconv.Quote(s.Gates), Err: &place}
	})
}

// unread is the error for a file that was named after ReadFiles.
func unread(key, path string) error {
	return &input.Error{Key: key, Value: strconv.Quote(path), Expected: "a file that was read: Spec.ReadFiles, or a loaded configuration"}
}
