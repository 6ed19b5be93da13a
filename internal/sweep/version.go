package sweep

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime/debug"
)

// CodeVersion identifies the code of the running program: the commit it was
// built from, or, where it was built from a modified checkout or outside of one,
// the hash of the executable.
func CodeVersion() (string, error) {
	if info, ok := debug.ReadBuildInfo(); ok {
		if revision := cleanRevision(info); revision != "" {
			return revision, nil
		}
	}
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("neither a commit nor the executable identifies the code: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("the executable identifies the code: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("the executable identifies the code: %w", err)
	}
	return "executable-" + hex.EncodeToString(h.Sum(nil)), nil
}

// cleanRevision returns the commit of a build from an unmodified checkout, "" for other
// builds.
func cleanRevision(info *debug.BuildInfo) string {
	revision, modified := "", "true"
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value
		case "vcs.modified":
			modified = s.Value
		}
	}
	if modified != "false" {
		return ""
	}
	return revision
}
