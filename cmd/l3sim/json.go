package main

import "encoding/json"

// printJSON prints a value as one indented JSON object.
func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// jsonUsage is the help of --json.
const jsonUsage = "print one JSON object"
