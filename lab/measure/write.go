package measure

import (
	"fmt"
	"io"

	"github.com/BurntSushi/toml"

	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/pcie"
)

// WriteFit writes a GPU, and its link unless nil, as TOML with a comment on top.
func WriteFit(w io.Writer, g *gpu.Spec, link *pcie.Spec, comment []string) error {
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
	return e.Encode(struct {
		GPU  *gpu.Spec  `toml:"gpu"`
		PCIe *pcie.Spec `toml:"pcie,omitempty"`
	}{g, link})
}
