package system

import (
	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input/list"
	"github.com/l3sim/l3sim/system/kinds"
)

// Systems returns the systems that configurations of a loader may name.
func Systems(ld *configs.Loader) []*kinds.System { return kinds.In(ld) }

// Names returns the names of all systems, values of run.system.
func Names() []string {
	return list.Map(Configs().Systems(), func(s configs.System) string { return s.Name })
}

// Configs returns the loader of configurations of all systems.
func Configs() *configs.Loader { return kinds.Loader() }

// Load returns the configuration given by the options: see configs.Loader.
func Load(o configs.Options) (*configs.Config, error) { return Configs().Load(o) }

// Keys returns the keys of all configurations.
func Keys() *configs.Schema { return Configs().Keys() }
