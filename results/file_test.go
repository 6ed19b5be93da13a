package results

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

var errFull = errors.New("no space left on device")

// failing is a disk that is full.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFull }

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

// fail writes a part and then fails.
func fail(w io.Writer) error {
	return errors.Join(text("half")(w), errFull)
}

// contents returns the files of a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(b)
	}
	return files
}

func TestWriteFileAtomic(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.json")
	if err := WriteFileAtomic(path, fail); !errors.Is(err, errFull) || len(contents(t, dir)) != 0 {
		t.Fatalf("a new file: got %v, left %v", err, contents(t, dir))
	}
	if err := WriteFileAtomic(path, text("one")); err != nil {
		t.Fatal(err)
	}
	if err := WriteFileAtomic(path, fail); !errors.Is(err, errFull) {
		t.Fatalf("got %v", err)
	}
	if files := contents(t, dir); len(files) != 1 || files["a.json"] != "one" {
		t.Fatalf("after an error the folder holds %v", files)
	}
	if err := WriteFileAtomic(path, text("two")); err != nil {
		t.Fatal(err)
	}
	if files := contents(t, dir); len(files) != 1 || files["a.json"] != "two" {
		t.Fatalf("the folder holds %v", files)
	}
	if err := WriteFileAtomic(dir, text("x")); err == nil {
		t.Error("a folder was replaced")
	}
}

func TestWriteFileAtomicPermissions(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "plain"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := WriteFileAtomic(filepath.Join(dir, "atomic"), text("x")); err != nil {
		t.Fatal(err)
	}
	plain, err1 := os.Stat(filepath.Join(dir, "plain"))
	atomic, err2 := os.Stat(filepath.Join(dir, "atomic"))
	if err := errors.Join(err1, err2); err != nil || plain.Mode() != atomic.Mode() {
		t.Errorf("%v, an ordinary file has %v, ours %v", err, plain.Mode(), atomic.Mode())
	}
}

func TestWriteFileAtomicLinksAndDevices(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need privileges")
	}
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(target, []byte("old"), 0o644), os.Symlink("target", link)); err != nil {
		t.Fatal(err)
	}
	if err := WriteFileAtomic(link, text("new")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(link)
	if err != nil || info.Mode()&os.ModeSymlink == 0 || contents(t, dir)["target"] != "new" {
		t.Errorf("%v, the link is now %v, its target %q", err, info.Mode(), contents(t, dir)["target"])
	}
	// Replacing the device by a file would remove the device.
	if err := WriteFileAtomic(os.DevNull, text("x")); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode()&os.ModeDevice == 0 {
		t.Errorf("%s is now %v, %v", os.DevNull, info.Mode(), err)
	}
}

func TestWriteFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs", "1")
	if err := WriteFiles(dir, []File{{"a", text("1")}, {"b", text("2")}}); err != nil {
		t.Fatal(err)
	}
	// The second file fails: the first keeps its content, too.
	if err := WriteFiles(dir, []File{{"a", text("3")}, {"b", fail}}); !errors.Is(err, errFull) {
		t.Fatalf("got %v", err)
	}
	if files := contents(t, dir); len(files) != 2 || files["a"] != "1" || files["b"] != "2" {
		t.Errorf("the folder holds %v", files)
	}
	if err := WriteFiles(filepath.Join(dir, "a"), nil); err == nil {
		t.Error("a file was taken for a folder")
	}
}

func TestSyncFolder(t *testing.T) {
	dir := t.TempDir()
	if err := SyncFolder(dir); err != nil {
		t.Error(err)
	}
	if err := SyncFolder(filepath.Join(dir, "nowhere")); err == nil && runtime.GOOS != "windows" {
		t.Error("a folder that is not there was synced")
	}
}

// TestIsTemporary: names of temporary files begin and end as l3sim's do.
func TestIsTemporary(t *testing.T) {
	for name, want := range map[string]bool{".l3sim-a.csv.7-0.tmp": true, ".l3sim-a.csv": false, "a.tmp": false, ".tmp": false, "": false} {
		if got := IsTemporary(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
	dir := t.TempDir()
	if err := WriteFileAtomic(dir, text("x")); err == nil || err.Error() != dir+" is a folder" {
		t.Errorf("got %v", err)
	}
}
