package claims

import (
	"strconv"
	"sync"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/gpu"
	"github.com/l3sim/l3sim/system"
)

// preset is the system preset of the evaluation: the paper's node with the
// assumptions that it leaves open.
const preset = "paper"

// models are the configurations that the claims of the text compute on, with no
// run.
type models struct {
	llama    *configs.Config   // Llama-2-7B on one GPU (sections 1 and 2)
	measured *gpu.Spec         // of the A100 fitted to measurements, as dgx-a100-l3 has it, beside the preset's
	served   []*configs.Config // the models of Table 3
	largest  *configs.Config   // of them
}

// loadModels loads the preset with each model, once.
var loadModels = sync.OnceValues(func() (*models, error) {
	load := func(sets ...string) (*configs.Config, error) {
		return system.Load(configs.Options{Sets: append([]string{"preset=" + strconv.Quote(preset)}, sets...)})
	}
	m := &models{}
	var err error
	if m.llama, err = load("run.model=llama-2-7b"); err != nil {
		return nil, err
	}
	fitted, err := load("run.model=llama-2-7b", `gpu.preset="a100-sxm-80gb"`, "gpu.decode_attention.split_min_group=1")
	if err != nil {
		return nil, err
	}
	m.measured = &fitted.GPU.Spec
	for _, name := range []string{"opt-66b", "gpt-89b", "gpt-175b"} {
		cfg, err := load("run.model=" + name)
		if err != nil {
			return nil, err
		}
		m.served, m.largest = append(m.served, cfg), cfg
	}
	return m, nil
})
