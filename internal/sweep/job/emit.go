package job

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"
	"text/template"
	"unicode"
	"unicode/utf8"

	"github.com/l3sim/l3sim/input"
)

// Job is a sweep to be run in shards by a batch system, and merged.
type Job struct {
	File    string // the sweep file, relative to the job's working folder
	Out     string // folder of the results; shards get folders of their own in it
	Shards  int
	Workers int // points that a shard runs in parallel, and its cores; 0 means 1
	Points  int // number of points of the plan
}

// maxJobShards bounds the shards of a job: the default limit of a Slurm array (MaxArraySize).
const maxJobShards = 1000

//go:embed templates
var templates embed.FS

// jobTemplates are the forms of Emit.
var jobTemplates = map[string]string{"slurm": "slurm.sh", "k8s": "k8s.yaml"}

// JobForms returns the forms that Emit writes.
func JobForms() []string { return []string{"slurm", "k8s"} }

// Emit writes the job to w in the form that a batch system reads: "slurm", a
// shell script that submits it, or "k8s", manifests for Kubernetes 1.29 and later
// (backoffLimitPerIndex). Errors in the job are of type *input.Error.
func Emit(w io.Writer, form string, j *Job) error {
	file, known := jobTemplates[form]
	if !known {
		return input.UnknownName("--emit", form, JobForms())
	}
	if j.Shards < 1 || j.Shards > maxJobShards {
		return &input.Error{Key: "--shards", Value: fmt.Sprint(j.Shards), Expected: fmt.Sprintf("1 to %d", maxJobShards)}
	}
	for _, p := range []struct{ key, path string }{{"FILE", j.File}, {"--out", j.Out}} {
		if !utf8.ValidString(p.path) || strings.ContainsFunc(p.path, func(r rune) bool { return unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp) }) {
			return &input.Error{Key: p.key, Value: fmt.Sprintf("%q", p.path), Expected: "a path in UTF-8 without line ends and other control characters"}
		}
		if form == "slurm" && p.key == "--out" && strings.Contains(p.path, `\`) {
			return &input.Error{Key: p.key, Value: p.path, Expected: "a path without backslash, which keeps Slurm from naming logs by shard"}
		}
		if form == "k8s" && !filepath.IsLocal(p.path) {
			return &input.Error{Key: p.key, Value: p.path, Expected: "a path inside this folder, which stands for the volume /data of the job"}
		}
	}
	t, err := template.New(file).Funcs(template.FuncMap{
		"shell": ShellQuote, "pattern": func(s string) string { return strings.ReplaceAll(s, "%", "%%") },
		"yaml": yamlQuote, "expand": func(s string) string { return strings.ReplaceAll(s, "$", "$$") },
	}).ParseFS(templates, path.Join("templates", file))
	if err != nil {
		return err
	}
	data := struct {
		Job
		Name    string
		Last    int
		Folders []string
	}{Job: *j, Name: jobName(j), Last: j.Shards - 1}
	data.File, data.Out = argument(filepath.ToSlash(j.File)), argument(filepath.ToSlash(filepath.Clean(j.Out)))
	data.Workers = cmp.Or(j.Workers, 1)
	for i := range j.Shards {
		data.Folders = append(data.Folders, fmt.Sprintf("%s/shards/%d", data.Out, i))
	}
	return t.Execute(w, data)
}

// argument writes a path so that no command takes it for a flag.
func argument(path string) string {
	if strings.HasPrefix(path, "-") {
		return "./" + path
	}
	return path
}

// jobName makes a name that Kubernetes takes for any object (RFC 1123: lower case letters, digits
// and hyphens, 63 at most). It is the sweep file's name and a hash of its path and of the results'
// folder, so that different files and folders get different names.
func jobName(j *Job) string {
	base := strings.TrimSuffix(filepath.Base(j.File), filepath.Ext(j.File))
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(base))
	// The longest suffix, that of the merge's pod, must also fit.
	name = cmp.Or(strings.Trim(name[:min(len(name), 36)], "-"), "sweep")
	sum := sha256.Sum256([]byte(filepath.ToSlash(filepath.Clean(j.File)) + "\n" + filepath.ToSlash(filepath.Clean(j.Out))))
	return "l3sim-" + name + "-" + hex.EncodeToString(sum[:3])
}

// plain are the characters besides letters and digits that have no special meaning in a shell.
const plain = "_-./=,:@%+"

// ShellQuote writes a text as one word of a POSIX shell.
func ShellQuote(text string) string {
	special := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(plain, r))
	}
	if text != "" && !strings.ContainsFunc(text, special) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// yamlQuote writes a text as a YAML scalar: YAML accepts JSON's strings.
func yamlQuote(text string) string {
	quoted, _ := json.Marshal(text) // a string does not fail
	return string(quoted)
}
