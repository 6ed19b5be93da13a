// Package schema describes the keys of configuration sections, and of any other struct with keys in its tags. It has their names,
// types and fields (Walk, Of), their values as text and TOML (Parse, Convert, Text, Literal), the units of result columns
// (UnitOf), and the place and comment of each key in a TOML text (Scan).
//
// All text becomes values here: configuration files, --set, axes of sweeps and the headers of DRAM logs are read through Parse or
// Convert.
//
// Start at Of (schema.go), then value.go. Package configs builds the loader on it.
package schema
