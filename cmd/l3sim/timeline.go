package main

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/system"
)

// timelineWindow returns the window of --timeline-window, nil without
// --timeline.
func (f *runFlags) timelineWindow() (*system.Window, error) {
	if f.timeline == "" {
		return nil, nil
	}
	return parseWindow("--timeline-window", f.window, "0ms:50ms")
}

// inWindow reports a window that a run of end seconds does not reach: its timeline
// holds nothing.
func (f *runFlags) inWindow(w *system.Window, end float64) error {
	if w == nil || w.From.Seconds() < end {
		return nil
	}
	return &input.Error{Key: "--timeline-window", Value: f.window, Expected: fmt.Sprintf("a part of the run, which ends at %gms", 1e3*end)}
}

// writeTimeline writes recordings to path, compressed where its name ends in .gz.
func writeTimeline(path string, recordings []*system.Recording) error {
	return results.WriteFileAtomic(path, func(w io.Writer) error {
		if !strings.HasSuffix(path, ".gz") {
			return system.WriteTimeline(w, recordings)
		}
		z := gzip.NewWriter(w)
		return errors.Join(system.WriteTimeline(z, recordings), z.Close())
	})
}
