package list

// Map returns what a function gives for each element, nil for none.
func Map[E, T any](all []E, of func(E) T) []T {
	if len(all) == 0 {
		return nil
	}
	mapped := make([]T, len(all))
	for i, e := range all {
		mapped[i] = of(e)
	}
	return mapped
}
