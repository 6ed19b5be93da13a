package system

import (
	"slices"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/system/kinds"
)

// Systems returns all systems.
func Systems() []kinds.System { return slices.Clone(kinds.All) }

// Names returns the names of all systems, values of run.system.
func Names() []string { return Configs().Systems() }

// Configs returns the loader of configurations of all systems.
func Configs() *configs.Loader { return kinds.Loader() }

// Load returns the configuration that the options amount to: see configs.Loader.
func Load(o configs.Options) (*configs.Config, error) { return Configs().Load(o) }

// Keys returns the keys of all configurations.
func Keys() *configs.Schema { return Configs().Keys() }
