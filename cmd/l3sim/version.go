package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit it was built from and the Go version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			info, _ := debug.ReadBuildInfo()
			_, err := fmt.Fprintln(a.stdout, versionLine(info))
			return err
		},
	}
}

// versionLine describes a build on one line. Info may be nil, and a build
// outside a checkout (go test, go install of a module) has no commit.
func versionLine(info *debug.BuildInfo) string {
	version, commit := "(devel)", "unknown commit"
	if info != nil {
		if info.Main.Version != "" {
			version = info.Main.Version
		}
		modified := ""
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				commit = "commit " + s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				modified = " (modified)"
			}
		}
		commit += modified
	}
	return fmt.Sprintf("l3sim %s, %s, %s %s/%s", version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
