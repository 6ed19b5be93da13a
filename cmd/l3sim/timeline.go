package main

import (
	"errors"
	"io"
	"os"
	"strings"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/internal/cli"
	"github.com/l3sim/l3sim/results"
	"github.com/l3sim/l3sim/results/timeline"
)

const timelineUsage = "write a timeline for https://ui.perfetto.dev to `file` (.json or .json.gz)"

// commandTimelineUsage is the help of a timeline of DRAM commands.
const commandTimelineUsage = timelineUsage + ", 1 ns shown for each ps"

// timelineFile refuses, before a long run, a --timeline file that cannot be written or that equals --commands.
func timelineFile(path, commands string) error {
	if path != "" && path == commands {
		return &input.Error{Key: "--timeline", Value: path, Expected: "another file than that of --commands"}
	}
	if path != "" && !strings.HasSuffix(path, ".json") && !strings.HasSuffix(path, ".json.gz") {
		if info, err := os.Stat(path); err != nil || info.Mode().IsRegular() { // otherwise a folder, a device or a pipe
			return &input.Error{Key: "--timeline", Value: path, Expected: "a file that ends with .json or .json.gz"}
		}
	}
	return cli.WritableFile("--timeline", path)
}

// withTimeline calls run with the writer of a timeline, or with nil if path is "". The file appears only on success,
// compressed if its name ends in .gz.
func withTimeline(path string, run func(*timeline.Writer) error) error {
	if path == "" {
		return run(nil)
	}
	return results.WriteFileAtomic(path, func(w io.Writer) error {
		z, err := packer(path, w)
		if err != nil {
			return err
		}
		t := timeline.NewWriter(z)
		return errors.Join(run(t), t.Close(), z.Close())
	})
}
