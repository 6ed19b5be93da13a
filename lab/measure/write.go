package measure

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/BurntSushi/toml"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/pcie"
)

// WriteGPU writes a GPU, and its link unless nil, as TOML after a comment.
func WriteGPU(w io.Writer, g *gpu.Spec, link *pcie.Spec, comment []string) error {
	return write(w, comment, struct {
		GPU  *gpu.Spec  `toml:"gpu"`
		PCIe *pcie.Spec `toml:"pcie,omitempty"`
	}{g, link})
}

// WriteFit writes the parameters of a GPU's kernels as a file that gpu.fit names, with their origin, after a comment. It leaves out
// [gpu] itself, with peaks and memory, which comes from the data sheet. A comment on each value says whether a fit of kinds moved it
// or it is base's.
func WriteFit(w io.Writer, g *gpu.Spec, about configs.Fit, comment []string, kinds []Fitted, base string) error {
	of := about.Kinds
	about.Kinds = nil
	if err := write(w, comment, struct {
		Fit configs.Fit `toml:"fit"`
	}{about}); err != nil {
		return err
	}
	if len(of) > 0 {
		fmt.Fprintln(w, "\n[fit.kinds] # errors in percent, on shapes that the fit has not seen")
	}
	for _, kind := range slices.Sorted(maps.Keys(of)) {
		fmt.Fprintf(w, "%s = %s\n", kind, of[kind])
	}
	var whole bytes.Buffer
	if err := write(&whole, nil, struct {
		GPU *gpu.Spec `toml:"gpu"`
	}{g}); err != nil {
		return err
	}
	_, sections, _ := bytes.Cut(whole.Bytes(), []byte("\n[gpu.")) // after all values of [gpu]
	text, err := commented("[gpu."+string(sections), moved(kinds), base)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "\n%s", text)
	return err
}

func write(w io.Writer, comment []string, values any) error {
	for _, line := range comment {
		if _, err := fmt.Fprintln(w, "#", line); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	e := toml.NewEncoder(w)
	e.Indent = ""
	return e.Encode(values)
}
