//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package sweep

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock takes the file for this process alone, and says whether it was free. The
// kernel lets go of it when the process ends, however it does.
func lock(f *os.File) (free bool, err error) {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		default:
			return false, &os.PathError{Op: "flock", Path: f.Name(), Err: err}
		}
	}
}
