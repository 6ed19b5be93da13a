//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package sweep

import "os"

// lock always succeeds: on this platform nothing keeps two sweeps out of one
// folder.
func lock(*os.File) (free bool, err error) { return true, nil }
