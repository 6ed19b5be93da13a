package list

// Map applies a function to each element and returns the results in order; nil for an empty slice.
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
