package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/results"
)

// Present refuses missing paths before other errors are reported.
func Present(paths ...string) error {
	for _, path := range paths {
		if _, err := os.Stat(path); err != nil && path != input.Stdin {
			return input.FileError(path, err)
		}
	}
	return nil
}

// Exclusive refuses two flags that exclude each other.
func Exclusive(cmd *cobra.Command, a, b string) error {
	if cmd.Flags().Changed(a) && cmd.Flags().Changed(b) {
		return &input.Error{Key: "--" + a, Expected: "no --" + b + " with it"}
	}
	return nil
}

// NotEmpty refuses file and folder flags with an empty name, which a script gives if its variable
// is not set: the command would run as if the flags were missing.
func NotEmpty(cmd *cobra.Command, flags ...string) error {
	for _, name := range flags {
		if flag := cmd.Flags().Lookup(name); flag.Changed && slices.Contains(flagValues(flag), "") {
			return &input.Error{Key: "--" + name, Value: `""`, Expected: "a name"}
		}
	}
	return nil
}

// flagValues returns all values that a flag was given.
func flagValues(f *pflag.Flag) []string {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return list.GetSlice()
	}
	return []string{f.Value.String()}
}

// RequireFlag returns an error for a flag that must be given.
func RequireFlag(cmd *cobra.Command, name, expected string) error {
	if cmd.Flags().Changed(name) {
		return nil
	}
	return &input.Error{Key: "--" + name, Expected: expected}
}

// FlagName sets the flag's name in an input error.
func FlagName(err error, flag string) error {
	return input.Edit(err, func(e *input.Error) { e.Key = flag })
}

// CheckOutputs refuses output files that are folders or that would replace the input.
func CheckOutputs(flag string, names []string, in string) error {
	read, err := os.Stat(in)
	if in == input.Stdin {
		read, err = os.Stdin.Stat()
	}
	if err != nil {
		return input.FileError(in, err)
	}
	for _, name := range names {
		info, err := os.Stat(name)
		switch {
		case err != nil: // it does not exist yet, or writing it will report the error
		case info.IsDir():
			return &input.Error{Key: flag, Value: name, Expected: "a file, not a folder"}
		case os.SameFile(info, read):
			return &input.Error{Key: flag, Value: name, Expected: "another file than the one that is read"}
		}
	}
	return nil
}

// WritableFile reports a file that cannot be written; its folder must exist. "" is no file.
func WritableFile(flag, path string) error {
	info, err := os.Stat(path)
	switch {
	case path == "":
		return nil
	case err == nil && info.IsDir():
		return &input.Error{Key: flag, Value: path, Expected: "a file, not a folder"}
	case err == nil && !info.Mode().IsRegular():
		return nil // a device or a pipe
	}
	dir := filepath.Dir(path)
	if _, err := os.Stat(dir); err != nil {
		return FolderError(flag, dir, err)
	}
	return WritableFolder(flag, dir)
}

// Creatable makes the folder of --out, and reports one that cannot be made or written to.
func Creatable(dir string) error { return WritableFolder("--out", dir) }

// WritableFolder makes dir if it is missing, and tests it with a file. "" is no folder.
func WritableFolder(flag, dir string) error {
	if dir == "" {
		return nil
	}
	err := os.MkdirAll(dir, 0o777)
	var f *os.File
	if err == nil {
		f, err = os.CreateTemp(dir, ".l3sim-*.tmp")
	}
	if err == nil {
		err = f.Close()
		// A sweep that ends in the same folder may have removed it.
		if removed := os.Remove(f.Name()); !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}
	if err == nil {
		return nil
	}
	return FolderError(flag, dir, err)
}

// FolderError is the error for a folder that cannot be made or written to: an input error if
// another folder would do, else the system's.
func FolderError(flag, dir string, err error) error {
	if input.IsSystemFault(err) {
		return fmt.Errorf("%s %s: %w", flag, dir, err)
	}
	var cause *fs.PathError
	if errors.As(err, &cause) {
		err = cause.Err
	}
	return &input.Error{Key: flag, Value: dir, Expected: "a folder that can be written to", Err: err}
}

// WriteFiles writes files into the folder of a flag.
func WriteFiles(flag, dir string, files []results.File) error {
	if err := results.WriteFiles(dir, files); err != nil {
		return fmt.Errorf("%s %s: %w", flag, dir, err)
	}
	return nil
}

// Between refuses a value of a flag ("--workers") outside a range.
func Between(flag string, value, least, most int) error {
	if value < least || value > most {
		return &input.Error{Key: flag, Value: fmt.Sprint(value), Expected: fmt.Sprintf("%d to %d", least, most)}
	}
	return nil
}

// OutError adds the folder of --out to an error.
func OutError(dir string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("--out %s: %w", dir, err)
}
