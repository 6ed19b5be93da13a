package a

func used() {}

func unused() {} // want "func unused is unused"

// Exported may be used elsewhere.
func Exported() { used() }
