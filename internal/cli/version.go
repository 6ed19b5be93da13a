package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Version is the latest release of both programs. CHANGELOG.md has its section after "Unreleased", and .ci/release names archives by it.
const Version = "v0.1.0"

// NewVersionCommand returns the command that prints the version.
func (a *App) NewVersionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit it was built from and the Go version",
		RunE: func(*cobra.Command, []string) error {
			info, _ := debug.ReadBuildInfo()
			b := describeBuild(info)
			return a.Print(b, func(w io.Writer) error {
				_, err := fmt.Fprintln(w, a.name, b)
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&a.JSON, "json", false, JSONUsage)
	return cmd
}

// build describes how the program was built. Between two releases the commit tells builds of one Version apart. A build
// outside a checkout (go test, go install of a module) has none.
type build struct {
	Schema   string `json:"schema"`
	Version  string `json:"version"`
	Commit   string `json:"commit"`   // "" if unknown
	Modified bool   `json:"modified"` // the checkout differed from the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// describeBuild returns the build of info, which may be nil.
func describeBuild(info *debug.BuildInfo) build {
	b := build{Schema: "l3sim/version/1", Version: Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info == nil {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (b build) String() string {
	commit := "unknown commit"
	if b.Commit != "" {
		commit = "commit " + b.Commit
	}
	if b.Modified {
		commit += " (modified)"
	}
	return fmt.Sprintf("%s, %s, %s %s", b.Version, commit, b.Go, b.Platform)
}
