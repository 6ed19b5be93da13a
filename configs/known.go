package configs

import (
	"slices"
	"strings"
	"sync"

	"github.com/l3sim/l3sim/input"
)

// Grade says how well the kernels of a kind are known.
type Grade string

// The grades.
const (
	Measured  Grade = "measured"       // on this GPU, with the fit's framework
	Borrowed  Grade = "borrowed"       // measured on another GPU and scaled by the data sheets
	DataSheet Grade = "data sheet"     // measured on another GPU, in proportion to the data sheets
	Never     Grade = "never measured" // parameters of other kernels, or of none
)

// Grades are all grades, from best to least known.
var Grades = []Grade{Measured, Borrowed, DataSheet, Never}

// Known is the grade and origin of a kind of kernels.
type Known struct {
	Grade Grade
	Fit   string // fit with the measured rows; "" for none
	FitKind
}

// KernelsKnown returns how well the GPU's kernels of a kind are known. Kinds are named as in the section [fit.kinds] of a fit.
func (c *Config) KernelsKnown(kind string) (Known, error) {
	k, err := known(c.GPU.Fit, kind)
	if err != nil || k.Grade == Never {
		return k, err
	}
	if k.Grade == Measured && !ofGPU(c.GPU.Fit, c.GPU.Preset) {
		k.Grade = Borrowed
	}
	_, changed := c.GPUBase()
	if slices.ContainsFunc(changed, func(key string) bool { return key != "fit" }) {
		k.Grade = DataSheet
	}
	return k, nil
}

// ofGPU reports whether a fit is of a preset's GPU: it has the preset's name, with or without a framework after it.
func ofGPU(fit, preset string) bool {
	return isFile(fit) || fit == preset || strings.HasPrefix(fit, preset+".")
}

// known follows a kind from a fit to the fits that it borrows from.
func known(name, kind string) (Known, error) {
	grade := Measured
	const longest = 8 // length of a chain of fits, which ends at one without a base
	for range longest {
		if name == "" {
			break
		}
		f, err := describedFit(name)
		if err != nil {
			return Known{}, err
		}
		k, has := f.Kinds[kind]
		switch {
		case has && k.From == "":
			return Known{Grade: grade, Fit: name, FitKind: k}, nil
		case has:
			name = k.From
		default:
			name = f.Base
		}
		if grade == Measured {
			grade = Borrowed
		}
		if !has && f.Scaled {
			grade = DataSheet
		}
	}
	return Known{Grade: Never}, nil
}

// described caches the embedded fits that were read.
var described sync.Map

// describedFit returns the origin of a fit, embedded or from a file.
func describedFit(name string) (*Fit, error) {
	if f, ok := described.Load(name); ok {
		return f.(*Fit), nil
	}
	if isFile(name) {
		text, err := input.ReadFile(name)
		if err != nil {
			return nil, err
		}
		return fitOf(input.Name(name), string(text))
	}
	f, err := FitOf(name)
	if err == nil {
		described.Store(name, f)
	}
	return f, err
}
